"""What can happen in an hour: processes are killed, disks fill up, servers die, methods fail."""

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
    CELLS,
    SEVERAL,
    STEPS,
    ended,
    everything_that_loads_is_whole,
    finish,
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
    """The results of a run that nothing has happened to."""

    def fill(project):
        return with_datasets(project, toy_datasets).run(datasets="One+Two", **STEPS)

    project, run = shared_project("unbroken", fill)
    assert run.returncode == 0, run.stderr
    return results(project)


def finished_cells(project):
    return list(project.folder.glob("data/07_model_output/*/*/recover_key.json/*/*.json"))


def killed_and_resumed(project, files, sent, unbroken):
    """Kill a run that has written so many files; resume it: nothing is done twice."""
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
    finished = len(finished_cells(project))
    code, output = finish(project, f"{SEVERAL},resume=true")
    assert code == 0, output
    assert output.count("Taken from the run of") == finished, output
    assert results(project) == unbroken
    assert set(statuses(project)) <= {"FINISHED", "KILLED", "FAILED"}
    nothing_is_half_written(project)
    return status, finished


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


@pytest.mark.slow
def test_twenty_random_moments(new_project, toy_datasets, unbroken):
    moments = random.Random(0)
    for _ in range(20):
        project = with_datasets(new_project(), toy_datasets)
        files = moments.randrange(100)
        status, finished = killed_and_resumed(project, files, signal.SIGKILL, unbroken)
        print(f"kill -9 after {files} files: status {status}, {finished} of {CELLS} cells")


def runs(project, *parameters):
    """Whole runs, one after the other: exit status and output of each."""
    return [finish(project, given) for given in parameters]


@pytest.mark.slow
def test_cells_of_other_parameters_data_or_threads_are_not_taken(several):
    changes = ["seed=1", "conle.steps=41", "threads=2", "folds=4"]
    first, *others = runs(
        several, SEVERAL, *(f"{SEVERAL},resume=true,{change}" for change in changes)
    )
    assert first[0] == 0, first[1]
    taken = [output.count("Taken from the run of") for _, output in others]
    # Steps are ConLE's alone: the references are taken.
    assert taken == [0, 6, 0, 0]
    generator = np.random.default_rng(6)
    several.write_raw("One", generator.normal(size=(60, 3)), generator.dirichlet(np.ones(4), 60))
    resumed, anew = runs(several, f"{SEVERAL},resume=true", SEVERAL)
    assert resumed[1].count("Taken from the run of") == 4
    assert anew[1].count("Taken from the run of") == 0


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
    assert "One conle: One conle: ConLE diverged" in broken.stderr
    assert "Traceback" not in broken.stdout + broken.stderr
    found = pd.read_parquet(several.newest("08_reporting/results.parquet"))
    assert set(found["method"]) == {"uniform", "softmax_labels", "label_posterior"}
    client = mlflow.MlflowClient(f"sqlite:///{several.folder}/mlflow.db")
    (experiment,) = client.search_experiments(filter_string="name = 'conle'")
    tracked = client.search_runs([experiment.experiment_id])
    failed = {run.info.run_name for run in tracked if run.info.status == "FAILED"}
    assert failed == {"conle", "One conle", "Two conle"}


@pytest.mark.slow
def test_what_has_failed_is_in_the_report_and_is_tried_again(several):
    assert finish(several, FAILING)[0] == 1
    code, output = finish(several, FAILING, pipeline="report")
    assert code == 0, output
    missing = pd.read_csv(several.newest("08_reporting/report/missing.csv"))
    reasons = missing.set_index(["dataset", "method"])["reason"]
    assert reasons["One", "conle"].startswith("failed: One conle: ConLE diverged")
    client = mlflow.MlflowClient(f"sqlite:///{several.folder}/mlflow.db")
    (experiment,) = client.search_experiments(filter_string="name = 'conle'")
    ((code, output),) = runs(several, f"{SEVERAL},resume=true")
    assert code == 0, output
    assert output.count("Taken from the run of") == 6
    # Which took no time now.
    taken = [
        run.info
        for run in client.search_runs([experiment.experiment_id])
        if "taken_from" in run.data.tags
    ]
    assert len(taken) == 6
    assert all(info.end_time == info.start_time for info in taken)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["convergence", "sensitivity"])
def test_every_training_that_fails_is_said(several, pipeline):
    """With nothing left to show, the run ends in that message."""
    given = (
        "repeats=1,folds=3,conle.learning_rate=1e30,convergence.epochs=2,sensitivity.steps=20,"
        "convergence.datasets=One+Two,sensitivity.datasets=One"
    )
    outcome = several.kedro("run", f"--pipelines={pipeline}", f"--params={given}")
    assert outcome.returncode == 1
    assert "nothing was recovered: every method has failed" in outcome.stderr
    assert outcome.stdout.count("ConLE diverged") == (2 if pipeline == "convergence" else 14)
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
    assert "posterior_chosen" in decoders
    assert set(found.loc[found["dataset"] == "Two", "method"]) == set(REFERENCES)
    assert report.returncode == 0, report.stderr
    examined = pd.read_csv(project.newest("08_reporting/report/examination.csv"))
    assert set(examined["dataset"]) == {"One"}


@pytest.mark.slow
def test_a_folder_that_cannot_be_written(several):
    """As on a full or read-only disk: the error of the system is shown, with no traceback."""
    blocked = several.folder / "data" / "07_model_output" / "One"
    blocked.mkdir(parents=True)
    (blocked / "uniform").write_text("in the way")
    ((code, output),) = runs(several, SEVERAL)
    assert code == 1
    assert "A file cannot be written or read" in output
    assert "--params resume=true goes on from there" in output
    assert "Traceback" not in output
    (blocked / "uniform").unlink()
    ((code, output),) = runs(several, f"{SEVERAL},resume=true")
    assert code == 0, output


@pytest.mark.slow
def test_an_mlflow_server_that_is_down(several):
    local = several.folder / "conf" / "local" / "mlflow.yml"
    local.write_text("server: {mlflow_tracking_uri: 'http://me:secret@127.0.0.1:9'}\n")
    code, output = finish(several, SEVERAL)
    assert code == 1
    assert "MLflow at http://127.0.0.1:9 does not answer" in output
    assert "secret" not in output
    assert "Traceback" not in output
    assert not (several.folder / "data" / "02_intermediate").exists()


@pytest.mark.slow
def test_a_database_that_is_locked_for_a_while(several, unbroken):
    """Longer than SQLite waits by itself: five seconds."""
    assert finish(several, f"{SEVERAL},seed=1")[0] == 0
    path = several.folder / "mlflow.db"
    database = sqlite3.connect(path, timeout=GENEROUS)
    database.execute("begin exclusive")
    command = start(several, SEVERAL)
    process = psutil.Process(command.pid)
    wait_until(lambda: str(path) in {file.path for file in process.open_files()}, command)
    time.sleep(7)
    database.rollback()
    # Once more in the middle.
    wait_until(lambda: statuses(several).count("FINISHED") > 1 + CELLS, command)
    database.execute("begin exclusive")
    time.sleep(7)
    database.rollback()
    code, output = ended(command)
    assert code == 0, output
    assert results(several) == unbroken
