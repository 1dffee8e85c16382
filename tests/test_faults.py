"""What can happen in an hour: processes are killed, disks fill up, servers die, methods fail."""

import random
import signal
import sqlite3
import sys
import time

import mlflow
import numpy as np
import pandas as pd
import pytest
from broken_runs import (
    SEVERAL,
    everything_that_loads_is_whole,
    finish,
    nothing_is_half_written,
    results,
    start,
    statuses,
    undisturbed,
    wait_until,
    with_datasets,
)

from conle.methods.registry import REFERENCES

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")


@pytest.fixture(scope="module")
def unbroken(make_project, toy_datasets):
    """The results of a run that nothing has happened to."""
    return results(undisturbed(make_project("unbroken"), toy_datasets, SEVERAL))


def killed_and_resumed(project, moment, sent, unbroken):
    """Kill a run after so many seconds, then resume it: what it had finished is not done again."""
    process = start(project, SEVERAL)
    time.sleep(moment)
    process.send_signal(sent)
    process.communicate(timeout=60)
    everything_that_loads_is_whole(project)
    finished = {
        path.parents[2].name + " " + path.parents[3].name
        for path in project.folder.glob("data/07_model_output/*/*/recover_key.json/*/*.json")
    }
    code, output = finish(project, f"{SEVERAL},resume=true")
    assert code == 0, output
    assert output.count("Taken from the run of") == len(finished), output
    assert results(project) == unbroken
    assert set(statuses(project)) <= {"FINISHED", "KILLED", "FAILED"}
    nothing_is_half_written(project)
    return process.returncode, len(finished)


@pytest.mark.parametrize(
    "sent",
    [signal.SIGKILL, signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)],
)
def test_a_run_that_is_killed_can_be_resumed(several, unbroken, sent):
    code, _ = killed_and_resumed(several, 7.0, sent, unbroken)
    assert code != 0


@pytest.mark.long
def test_twenty_random_moments(make_project, toy_datasets, unbroken):
    moments = random.Random(0)
    for number in range(20):
        project = with_datasets(make_project(f"killed_{number}"), toy_datasets)
        moment = moments.uniform(1, 11)
        code, finished = killed_and_resumed(project, moment, signal.SIGKILL, unbroken)
        print(f"kill -9 after {moment:.1f} s: status {code}, {finished} of 8 cells were finished")


def runs(project, *parameters):
    """Whole runs, one after the other in one process: exit status and output of each."""
    outcomes = project.kedro_each(
        *(("run", "--pipelines=conle", f"--params={given}") for given in parameters)
    )
    return [(outcome.returncode, outcome.stdout + outcome.stderr) for outcome in outcomes]


def test_cells_of_other_parameters_data_or_threads_are_not_taken(several):
    changes = ["seed=1", "conle.steps=41", "threads=1", "folds=4"]
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


def test_two_runs_at_once(several, unbroken):
    processes = [start(several, SEVERAL), start(several, f"{SEVERAL},seed=1")]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    versions = sorted((several.folder / "data/08_reporting/results.parquet").glob("*/*"))
    assert len(versions) == 2
    assert sum(path.read_bytes() == unbroken for path in versions) == 1
    assert statuses(several).count("FINISHED") == 2 * 9
    everything_that_loads_is_whole(several)


def test_a_failing_method_leaves_the_others(several):
    """The report shows the gap with its reason."""
    failing = f"{SEVERAL},conle.learning_rate=1e30"
    broken, report = several.kedro_each(
        ("run", "--pipelines=conle", f"--params={failing}"),
        ("run", "--pipelines=report", f"--params={failing}"),
    )
    assert broken.returncode == 1
    assert "2 of 8 cells have failed, all others are done:" in broken.stderr
    assert "One conle: One conle: ConLE diverged" in broken.stderr
    assert "Traceback" not in broken.stdout + broken.stderr
    found = pd.read_parquet(several.newest("08_reporting/results.parquet"))
    assert set(found["method"]) == {"uniform", "softmax_labels", "label_posterior"}
    assert report.returncode == 0, report.stderr
    missing = pd.read_csv(several.newest("08_reporting/report/missing.csv"))
    reasons = missing.set_index(["dataset", "method"])["reason"]
    assert reasons["One", "conle"].startswith("failed: One conle: ConLE diverged")
    client = mlflow.MlflowClient(f"sqlite:///{several.folder}/mlflow.db")
    (experiment,) = client.search_experiments(filter_string="name = 'conle'")
    tracked = client.search_runs([experiment.experiment_id])
    failed = {run.info.run_name for run in tracked if run.info.status == "FAILED"}
    assert failed == {"conle", "One conle", "Two conle"}
    # What has failed is tried again.
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


@pytest.mark.parametrize("pipeline", ["convergence", "sensitivity"])
def test_every_training_that_fails_is_said(several, pipeline):
    """With nothing left to show, the run ends in that message."""
    given = (
        "repeats=1,folds=3,conle.learning_rate=1e30,convergence.epochs=2,sensitivity.steps=20,"
        "convergence.datasets=One+Two,sensitivity.datasets=One"
    )
    (outcome,) = several.kedro_each(("run", f"--pipelines={pipeline}", f"--params={given}"))
    assert outcome.returncode == 1
    assert "nothing was recovered: every method has failed" in outcome.stderr
    assert outcome.stdout.count("ConLE diverged") == (2 if pipeline == "convergence" else 14)
    assert "Traceback" not in outcome.stdout + outcome.stderr


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
    broken, report = project.kedro_each(
        ("run", "--pipelines=posterior", given), ("run", "--pipelines=report", given)
    )
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


def test_an_mlflow_server_that_is_down(several):
    local = several.folder / "conf" / "local" / "mlflow.yml"
    local.write_text("server: {mlflow_tracking_uri: 'http://me:secret@127.0.0.1:9'}\n")
    code, output = finish(several, SEVERAL)
    assert code == 1
    assert "MLflow at http://127.0.0.1:9 does not answer" in output
    assert "secret" not in output
    assert "Traceback" not in output
    assert not (several.folder / "data" / "02_intermediate").exists()


def test_a_database_that_is_locked_for_a_while(several, unbroken):
    assert finish(several, f"{SEVERAL},seed=1")[0] == 0
    # When it is opened, whenever that is, and in the middle.
    database = sqlite3.connect(several.folder / "mlflow.db", timeout=30)
    database.execute("begin exclusive")
    process = start(several, SEVERAL)
    time.sleep(14)
    database.rollback()
    wait_until(lambda: statuses(several).count("FINISHED") > 9)
    database.execute("begin exclusive")
    time.sleep(8)
    database.rollback()
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert results(several) == unbroken
