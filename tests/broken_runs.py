"""Runs that something happens to, and what is left of them."""

import sqlite3
import time

import pandas as pd
import psutil
from commands import GENEROUS

from conle.data.atomic import PARTIAL

STEPS = {"conle.steps": 40}
SEVERAL = "conle.steps=40,repeats=1,folds=3,datasets=One+Two"
# Of SEVERAL with the pipeline conle.
CELLS = 2 * 4


def with_datasets(project, datasets):
    for name, (features, labels) in datasets.items():
        project.write_raw(name, features, labels)
    return project


def start(project, parameters, *options, pipeline="conle", **environment):
    return project.start(
        "run", f"--pipelines={pipeline}", *options, f"--params={parameters}", **environment
    )


def ended(command):
    """Exit status and output of a command when it has ended."""
    status = command.wait()
    return status, "".join(command.output())


def finish(project, parameters, *options, **more):
    return ended(start(project, parameters, *options, **more))


def wait_until(true, command=None):
    """Wait for something to come true; a command that ends before is a failure."""
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


def left_behind(project):
    """Processes that run in the project."""
    return [
        process
        for process in psutil.process_iter(["cwd"])
        if process.info["cwd"] == str(project.folder)
    ]
