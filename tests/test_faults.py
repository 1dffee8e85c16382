"""Faults in the middle of a run: killed processes, full disks, dead servers, failing methods."""

import os
import random
import signal
import sqlite3
import sys
import time

import mlflow
import numpy as np
import pandas as pd
import psutil
import pytest
from broken_runs import (
    ALL_CELLS,
    CELLS,
    SEVERAL,
    STEPS,
    cells_recovered,
    ended,
    everything_that_loads_is_whole,
    finish,
    finished_cells,
    nothing_is_half_written,
    results,
    start,
    statuses,
    wait_until,
    with_datasets,
)
from commands import GENEROUS

from conle.methods.registry import REFERENCES

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")


@pytest.fixture(scope="module")
def unbroken(shared_project, toy_datasets):
    """The results of a run without a fault."""

    def fill(project):
        return with_datasets(project, toy_datasets).run(datasets="One+Two", **STEPS)

    project, run = shared_project("unbroken", fill)
    assert run.returncode == 0, run.stderr
    return results(project)


def killed_and_resumed(project, files, sent, unbroken):
    """Kill a run after some number of files, and resume it; no finished cell is done again."""
    command = start(project, SEVERAL)
    data = project.folder / "data"
    wait_until(
        lambda: (
            command.poll() is not None or sum(path.is_file() for path in data.rglob("*")) >= files
        )
    )
    command.send_signal(sent)
    status = command.wait()
    everything_that_loads_is_whole(project)
    finished = finished_cells(project)
    complete = list(data.glob("08_reporting/outcome.json/*"))
    code, output = finish(project, SEVERAL, "--resume")
    assert code == 0, output
    # A complete run is not resumed: a new one begins.
    assert cells_recovered(output) == (ALL_CELLS if complete else ALL_CELLS - finished)
    assert results(project) == unbroken
    assert set(statuses(project)) <= {"FINISHED", "KILLED", "FAILED"}
    nothing_is_half_written(project)
    return status, len(finished)


@pytest.mark.parametrize(
    "sent",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_killed_can_be_resumed(several, unbroken, sent):
    status, finished = killed_and_resumed(several, 30, sent, unbroken)
    assert status != 0
    assert 0 < finished < CELLS
    # The resumed run keeps its version.
    assert len(list((several.folder / "data/08_reporting").glob("results.parquet/*"))) == 1
    assert len(statuses(several)) == 1 + CELLS


@pytest.mark.slow
def test_twenty_random_moments(new_project, toy_datasets, unbroken):
    moments = random.Random(0)
    for _ in range(20):
        project = with_datasets(new_project(), toy_datasets)
        files = moments.randrange(100)
        status, finished = killed_and_resumed(project, files, signal.SIGKILL, unbroken)
        print(f"kill -9 after {files} files: status {status}, {finished} of {CELLS} cells")


def broken_off(project):
    """Run with a device in the place of a folder, so that the run ends early."""
    blocked = project.folder / "data" / "07_model_output" / "Two"
    blocked.mkdir(parents=True)
    (blocked / "uniform").symlink_to(os.devnull)
    code, output = finish(project, SEVERAL)
    assert code == 1
    (blocked / "uniform").unlink()
    return output


def test_a_run_that_differs_is_not_resumed(several):
    output = broken_off(several)
    # The error of the system is shown without a traceback, as for a full or read-only disk.
    assert "A file cannot be written or read" in output
    assert "the same command with --resume goes on from there" in output
    assert "Traceback" not in output
    generator = np.random.default_rng(6)
    several.write_raw("One", generator.normal(size=(60, 3)), generator.dirichlet(np.ones(4), 60))
    code, output = finish(several, f"{SEVERAL},resume=true,seed=1,conle.steps=41")
    assert code == 1
    for difference in (
        "seed: 0, now 1",
        "conle.steps: 40, now 41",
        "One.raw has changed",
    ):
        assert difference in output
    assert "Two.raw" not in output
    assert "Traceback" not in output
    assert len(list((several.folder / "data/08_reporting").glob("run.json/*"))) == 1


@pytest.mark.slow
def test_a_run_of_other_pipelines_threads_or_nodes_is_not_resumed(several):
    broken_off(several)
    code, output = finish(several, SEVERAL, "--resume", "--tags=recovery")
    assert code == 1
    assert "other nodes are selected" in output
    code, output = finish(several, f"{SEVERAL},threads=2", "--resume")
    assert code == 1
    assert "threads: 1, now 2" in output
    code, output = finish(several, SEVERAL, "--resume", pipeline="ingestion")
    assert code == 0
    assert "No run of this pipeline is unfinished: a new one begins." in output
    code, output = finish(several, SEVERAL, "--resume")
    assert code == 0, output
    assert cells_recovered(output)


@pytest.mark.slow
def test_two_runs_at_once(several, unbroken):
    commands = [start(several, SEVERAL), start(several, f"{SEVERAL},seed=1")]
    outcomes = [ended(command) for command in commands]
    assert [code for code, _ in outcomes] == [0, 0], outcomes
    versions = sorted((several.folder / "data/08_reporting/results.parquet").glob("*/*"))
    assert len(versions) == 2
    assert sum(path.read_bytes() == unbroken for path in versions) == 1
    assert statuses(several).count("FINISHED") == 2 * 9
    everything_that_loads_is_whole(several)


FAILING = f"{SEVERAL},conle.learning_rate=1e30"


def test_a_failing_method_leaves_the_others(several):
    broken = several.kedro("run", "--pipelines=conle", f"--params={FAILING}")
    assert broken.returncode == 1
    assert "2 of 8 cells have failed, all others are done:" in broken.stderr
    assert "One conle: ConLE diverged" in broken.stderr
    assert "Traceback" not in broken.stdout + broken.stderr
    found = pd.read_parquet(several.newest("08_reporting/results.parquet"))
    assert set(found["method"]) == {"uniform", "softmax_labels", "label_posterior"}
    client = mlflow.MlflowClient(f"sqlite:///{several.folder}/mlflow.db")
    (experiment,) = client.search_experiments(filter_string="name = 'conle'")
    tracked = client.search_runs([experiment.experiment_id])
    failed = {run.info.run_name for run in tracked if run.info.status == "FAILED"}
    assert failed == {"conle, One+Two, 1 x 3 folds", "One conle", "Two conle"}


@pytest.mark.slow
def test_what_has_failed_is_in_the_report_and_is_tried_again(several):
    assert finish(several, FAILING)[0] == 1
    code, output = finish(several, FAILING, pipeline="report")
    assert code == 0, output
    missing = pd.read_csv(several.newest("08_reporting/report/missing.csv"))
    reasons = missing.set_index(["dataset", "method"])["reason"]
    assert reasons["One", "conle"].startswith("failed: ConLE diverged")
    # The same command fails again, and recovers no other cell.
    code, output = finish(several, FAILING, "--resume")
    assert code == 1
    assert cells_recovered(output) == {"One.conle", "Two.conle"}
    assert "2 of 8 cells have failed" in output
    assert statuses(several).count("FAILED") == 3


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["convergence", "sensitivity"])
def test_every_training_that_fails_is_said(several, pipeline):
    """If no training succeeds, the message of the run says so."""
    given = (
        "repeats=1,folds=3,conle.learning_rate=1e30,convergence.epochs=2,sensitivity.steps=20,"
        "convergence.datasets=One+Two,sensitivity.datasets=One"
    )
    outcome = several.kedro("run", f"--pipelines={pipeline}", f"--params={given}")
    assert outcome.returncode == 1
    assert "nothing was recovered: every method has failed" in outcome.stderr
    assert outcome.stderr.count("ConLE diverged") == (2 if pipeline == "convergence" else 14)
    assert "Traceback" not in outcome.stdout + outcome.stderr


@pytest.mark.slow
def test_decoders_that_cannot_take_the_labels_of_a_dataset_leave_the_others(project, toy_datasets):
    features, distributions = toy_datasets["One"]
    none_relevant = np.eye(4)[distributions.argmax(axis=1)]
    none_relevant[7] = 0
    project.write_raw("One", features, distributions)
    project.write_raw("Two", features, distributions, logicalLabel=none_relevant)
    few = ",".join(
        f"{name}.{setting}"
        for name in ("conle_posterior", "posterior_pca", "posterior_featureless")
        for setting in ("sweeps=8", "burn_in=3")
    )
    given = f"--params=repeats=1,folds=3,datasets=One+Two,conle_posterior.epochs=2,{few}"
    broken = project.kedro("run", "--pipelines=posterior", given)
    report = project.kedro("run", "--pipelines=report", given)
    assert broken.returncode == 1
    assert "Two posterior_pca: no distribution" in broken.stderr
    assert "Traceback" not in broken.stdout + broken.stderr
    found = pd.read_parquet(project.newest("08_reporting/results.parquet"))
    decoders = set(found.loc[found["dataset"] == "One", "method"])
    assert decoders >= {"conle_posterior", "posterior_pca", "posterior_featureless"}
    assert "posterior_stacked" in decoders
    assert set(found.loc[found["dataset"] == "Two", "method"]) == set(REFERENCES)
    assert report.returncode == 0, report.stderr
    examined = pd.read_csv(project.report_table("examination"))
    assert set(examined["dataset"]) == {"One"}


@pytest.mark.slow
@pytest.mark.parametrize("named_in", ["mlflow.yml", "the environment"])
def test_an_mlflow_server_that_is_down(several, named_in, monkeypatch):
    local, address = (
        several.folder / "conf" / "local" / "mlflow.yml",
        "http://me:secret@127.0.0.1:9",
    )
    if named_in == "the environment":
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        address = "http://not-asked"
    local.write_text(f"server: {{mlflow_tracking_uri: '{address}'}}\n")
    code, output = finish(several, SEVERAL)
    assert code == 1
    assert "MLflow at http://127.0.0.1:9 does not answer" in output
    assert "secret" not in output
    assert "Traceback" not in output
    assert not (several.folder / "data" / "02_intermediate").exists()


@pytest.mark.slow
def test_a_database_that_is_locked_for_a_while(several, unbroken):
    """The lock lasts longer than the five seconds that SQLite waits by default."""
    assert finish(several, f"{SEVERAL},seed=1")[0] == 0
    path = several.folder / "mlflow.db"
    database = sqlite3.connect(path, timeout=GENEROUS)
    database.execute("begin exclusive")
    command = start(several, SEVERAL)
    process = psutil.Process(command.pid)
    wait_until(lambda: str(path) in {file.path for file in process.open_files()}, command)
    time.sleep(7)
    database.rollback()
    # The database is locked once more in the middle of the run.
    wait_until(lambda: statuses(several).count("FINISHED") > 1 + CELLS, command)
    database.execute("begin exclusive")
    time.sleep(7)
    database.rollback()
    code, output = ended(command)
    assert code == 0, output
    assert results(several) == unbroken
