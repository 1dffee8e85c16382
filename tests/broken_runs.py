"""Runs that something happens to, and what is left of them."""

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pandas as pd
import psutil

from conle.data.atomic import PARTIAL

SHORT = "conle.steps=40,repeats=1,folds=3"
SEVERAL = f"{SHORT},datasets=One+Two"
# Of SEVERAL with the pipeline conle.
CELLS = 2 * 4


def with_datasets(project, datasets):
    for name, (features, labels) in datasets.items():
        project.write_raw(name, features, labels)
    return project


def undisturbed(project, datasets, parameters):
    """A project after a run that nothing has happened to."""
    code, output = finish(with_datasets(project, datasets), parameters)
    assert code == 0, output
    return project


def start(project, parameters, *options, pipeline="conle", **environment):
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "kedro", "run", f"--pipelines={pipeline}", *options),
            f"--params={parameters}",
        ],
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | environment,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def finish(project, parameters, *options, **more):
    process = start(project, parameters, *options, **more)
    output, _ = process.communicate(timeout=150)
    return process.returncode, output


def wait_until(true):
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.1)


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
