"""Helpers for tests that interrupt runs and check the files that are left."""

import re
import sqlite3
import time

import pandas as pd
import psutil
from commands import GENEROUS

from conle.data.atomic import PARTIAL

STEPS = {"conle.steps": 40}
SEVERAL = "conle.steps=40,repeats=1,folds=3,datasets=One+Two"
# The cells of the pipeline conle.
ALL_CELLS = {
    f"{dataset}.{method}"
    for dataset in ("One", "Two")
    for method in ("conle", "uniform", "softmax_labels", "label_posterior")
}
CELLS = len(ALL_CELLS)


def with_datasets(project, datasets):
    for name, (features, labels) in datasets.items():
        project.write_raw(name, features, labels)
    return project


def start(project, parameters, *options, pipeline="conle", **environment):
    return project.start(
        "run", f"--pipelines={pipeline}", *options, f"--params={parameters}", **environment
    )


def ended(command):
    """Wait for a command; return its exit status and its output."""
    status = command.wait()
    return status, "".join(command.output())


def finish(project, parameters, *options, **more):
    return ended(start(project, parameters, *options, **more))


def wait_until(true, command=None):
    """Wait until a condition is true; a command that ends earlier is a failure."""
    until = time.monotonic() + GENEROUS
    while not true():
        assert time.monotonic() < until
        assert command is None or command.poll() is None or true()
        time.sleep(0.05)


def statuses(project):
    """Statuses of all MLflow runs; none while the database is being made."""
    try:
        with sqlite3.connect(f"file:{project.folder}/mlflow.db?mode=ro", uri=True) as database:
            return [status for (status,) in database.execute("select status from runs")]
    except sqlite3.OperationalError:
        return []


def everything_that_loads_is_whole(project):
    for path in (project.folder / "data").rglob("*.parquet"):
        if path.is_file():
            pd.read_parquet(path)
    for path in (project.folder / "data").rglob("*.csv"):
        if path.is_file():
            assert path.read_text().endswith("\n")


def nothing_is_half_written(project):
    assert not list((project.folder / "data").rglob(PARTIAL))


def results(project):
    return project.newest("08_reporting/results.parquet").read_bytes()


def finished_cells(project):
    """Cells whose recovery has left all of its outputs, in any version."""
    data = project.folder / "data"
    finished = set()
    for cell in ALL_CELLS:
        folder = cell.replace(".", "/")
        names = [f"07_model_output/{folder}/{name}" for name in ("recovered.parquet", "cost.json")]
        if cell.endswith(".conle"):
            models = ("weights.safetensors", "curves.parquet")
            names += [f"06_models/{folder}/{name}" for name in models]
        # A file that is being written has another name beside its own.
        written = [data.glob(f"{name}/*/{name.rpartition('/')[2]}") for name in names]
        if all(map(list, written)):
            finished.add(cell)
    return finished


def cells_recovered(output):
    """Cells that a run has recovered, read from its output."""
    return set(re.findall(r"Completed (?:node: )?(\S+)\.recover\b", output))


def left_behind(project):
    """Processes that run in the project."""
    return [
        process
        for process in psutil.process_iter(["cwd"])
        if process.info["cwd"] == str(project.folder)
    ]
