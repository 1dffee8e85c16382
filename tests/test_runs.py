"""Whole runs, through the command line as a user starts them."""

import json
import os
import re
import signal
import sqlite3
import sys
from functools import wraps

import joblib
import numpy as np
import pandas as pd
import pytest
from broken_runs import wait_until
from kedro.io import MemoryDataset
from projects import tracked
from safetensors.numpy import load_file

from conle.core.measures import MEASURES
from conle.methods.registry import BASELINES

METHODS = ["conle", "uniform", "softmax_labels", "label_posterior"]


def test_run_ends_with_a_table_and_says_where_things_are(artificial_run):
    _, run = artificial_run
    assert run.returncode == 0, run.stderr
    for text in ("Artificial", "ConLE", "uniform", "softmax of L", "label posterior", "Canberra ↓"):
        assert text in run.stdout
    for text in ("results.parquet", "summary.csv", "recovery_picture.png"):
        assert text in run.stdout
    # The printed address leaves out the time that a run waits for the database.
    assert re.search(r"mlflow ui --backend-store-uri sqlite:///mlflow\.db\s", run.stdout)
    assert "Traceback" not in run.stderr


def test_results_table(artificial_run):
    project, _ = artificial_run
    results = pd.read_parquet(project.newest("08_reporting/results.parquet"))
    assert list(results.columns) == [
        "dataset",
        "method",
        "protocol",
        "fitted_on",
        "repeat",
        "fold",
        "measure",
        "value",
        "scored_on",
    ]
    # The same labels and folds for every method.
    assert len(results["scored_on"].unique()) == 1
    assert len(results) == len(METHODS) * 3 * len(MEASURES)
    assert set(results["method"]) == set(METHODS)
    assert np.isfinite(results["value"]).all()
    summary = pd.read_csv(project.newest("08_reporting/summary.csv"))
    means = results.groupby(["method", "measure"])["value"].mean()
    for row in summary.itertuples():
        assert row.mean == pytest.approx(means[row.method, row.measure])


def test_artificial_is_a_real_mat_file(artificial_run):
    project, _ = artificial_run
    header = (project.folder / "data" / "01_raw" / "Artificial.mat").read_bytes()[:19]
    assert header == b"MATLAB 5.0 MAT-file"


def test_every_artifact_is_versioned_and_in_an_open_format(artificial_run):
    project, _ = artificial_run
    data = project.folder / "data"
    files = {path.relative_to(data) for path in data.rglob("*") if path.is_file()}
    made = {path for path in files if path.parts[0] not in ("01_raw", "latest")}
    assert {path.suffix for path in made} == {".parquet", ".json", ".safetensors", ".png", ".csv"}
    # <layer>/.../<artifact>/<version>/<artifact>
    assert all(path.parts[-3] == path.name for path in made)
    names = {path.name for path in made}
    assert {"features.parquet", "label_distributions.parquet", "logical_labels.parquet"} <= names
    assert {"statistics.json", "folds.parquet", "weights.safetensors", "recovered.parquet"} <= names
    assert {"scores.parquet", "training_curves.png", "recovery_picture.png"} <= names


def test_weights_of_all_folds(artificial_run):
    project, _ = artificial_run
    weights = load_file(project.newest("06_models/Artificial/conle/weights.safetensors"))
    assert weights["f1.0.weight"].shape == (3, 3, 64)
    assert weights["feature_shift"].shape == (3, 3)


def test_mlflow_runs(artificial_run):
    project, _ = artificial_run
    client, runs = tracked(project)
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = {run.data.tags["method"]: run for run in runs if run not in parents}
    assert len(parents) == 1
    assert set(children) == set(METHODS)
    assert {run.info.status for run in runs} == {"FINISHED"}

    source = json.loads(project.newest("02_intermediate/Artificial/source.json").read_text())
    results = pd.read_parquet(project.newest("08_reporting/results.parquet"))
    for method, child in children.items():
        tags = child.data.tags
        assert tags["mlflow.parentRunId"] == parents[0].info.run_id
        assert tags["dataset"] == "Artificial"
        assert tags["protocol"] == "cross_validation"
        assert tags["data_sha256"] == source["sha256"]
        assert tags["git_commit"]
        assert child.data.params["seed"] == "0"
        values = results[results["method"] == method].groupby("measure")["value"]
        for measure in MEASURES:
            assert child.data.metrics[measure] == pytest.approx(values.mean()[measure])
            assert child.data.metrics[f"std/{measure}"] == pytest.approx(values.std()[measure])
        assert child.data.metrics["seconds"] > 0
        artifacts = {item.path for item in client.list_artifacts(child.info.run_id)}
        assert {"recovered", "pictures"} <= artifacts

    conle = children["conle"]
    assert conle.data.params["conle.steps"] == "20"
    loss = client.get_metric_history(conle.info.run_id, "training/loss")
    assert sorted(point.step for point in loss) == list(range(1, 21))
    agreement = client.get_metric_history(conle.info.run_id, "training/agreement")
    assert sorted(point.step for point in agreement) == [10, 20]
    pictures = {item.path for item in client.list_artifacts(conle.info.run_id, "pictures")}
    assert pictures == {"pictures/training_curves.png", "pictures/recovery_picture.png"}


def test_same_run_same_results_with_any_runner(artificial_run, project):
    """A second run with parallel nodes, and both spellings of the option, give the same bytes."""
    first, _ = artificial_run
    again = project.kedro(
        "run",
        "--pipeline=conle",
        "--runner=ParallelRunner",
        "--params=conle.steps=20,repeats=1,folds=3",
    )
    assert again.returncode == 0, again.stderr
    for artifact in (
        "08_reporting/results.parquet",
        "07_model_output/Artificial/conle/recovered.parquet",
        "06_models/Artificial/conle/weights.safetensors",
    ):
        assert project.newest(artifact).read_bytes() == first.newest(artifact).read_bytes()
    _, runs = tracked(project)
    assert len(runs) == 1 + len(METHODS)
    assert {run.info.status for run in runs} == {"FINISHED"}


@pytest.mark.slow
def test_recovery_alone_leaves_no_open_run(toy):
    parameters = {"datasets": "Toy", "levi_mlp.epochs": 5, "lible.epochs": 5}
    for part in ("ingestion", "splitting", "recovery"):
        run = toy.run(part, **parameters)
        assert run.returncode == 0, run.stderr
    assert {run.info.status for run in tracked(toy)[1]} == {"FINISHED"}


@pytest.mark.slow
def test_ablation(toy):
    run = toy.run("ablation", datasets="Toy")
    assert run.returncode == 0, run.stderr
    results = pd.read_parquet(toy.newest("08_reporting/results.parquet"))
    assert {"conle", "conle_h", "conle_l"} < set(results["method"])
    fixed = {
        run.data.tags["method"]: run.data.params["conle.use_contrastive_loss"]
        for run in tracked(toy)[1]
        if "conle.use_contrastive_loss" in run.data.params and "method" in run.data.tags
    }
    assert fixed == {"conle": "True", "conle_h": "False", "conle_l": "True"}


@pytest.mark.slow
def test_sensitivity(toy):
    grid = {"sensitivity.datasets": "Toy", "sensitivity.steps": 15}
    run = toy.run("sensitivity", **grid)
    assert run.returncode == 0, run.stderr
    table = pd.read_csv(toy.newest("08_reporting/sensitivity.csv"))
    settings = table[["parameter", "setting"]].drop_duplicates()
    assert len(settings) == 14
    assert len(table) == 14 * len(MEASURES)
    # The defaults stand in both halves of the grid.
    means = table.set_index(["parameter", "setting", "measure"])["mean"]
    pd.testing.assert_series_equal(means["lambda1", 0.5], means["lambda2", 1.0])
    assert toy.newest("08_reporting/sensitivity_curves.png").stat().st_size > 10_000
    _, runs = tracked(toy)
    children = {run.data.tags.get("method"): run for run in runs}
    assert len(children) == 15
    assert children["conle_lambda1_0p3"].data.params["conle.lambda1"] == "0.3"
    assert {run.info.status for run in runs} == {"FINISHED"}


@pytest.mark.slow
def test_predictive(toy):
    methods = ["conle", "lp", "uniform"]
    run = toy.run("predictive", datasets="Toy", **{"predictive.methods": "+".join(methods)})
    assert run.returncode == 0, run.stderr
    table = pd.read_csv(toy.newest("08_reporting/predictive.csv"))
    assert set(table["method"]) == {*methods, "true_distributions", "normalised_labels"}
    assert set(table["folds"]) == {3}
    means = table.set_index(["method", "measure"])["mean"]
    assert means["true_distributions", "kl_divergence"] < means["uniform", "kl_divergence"] + 0.1
    predicted = pd.read_parquet(
        toy.newest("07_model_output/Toy/predictive_uniform/predicted.parquet")
    )
    labels = [name for name in predicted if name.startswith("label_")]
    # A learner of uniform distributions predicts them.
    np.testing.assert_allclose(predicted[labels], 1 / len(labels), atol=1e-6)
    assert sorted(predicted["sample"]) == list(range(len(predicted)))


@pytest.mark.slow
def test_convergence(toy):
    options = {"convergence.datasets": "Toy", "convergence.epochs": 6, "conle.batch_size": 16}
    run = toy.run("convergence", **options)
    assert run.returncode == 0, run.stderr
    table = pd.read_csv(toy.newest("08_reporting/convergence.csv"))
    assert set(MEASURES) | {"loss", "contrastive_loss"} <= set(table["quantity"])
    canberra = table[table["quantity"] == "canberra"]
    assert canberra["epoch"].tolist() == [1, 2, 3, 4, 5, 6]
    assert (canberra["folds"] == 3).all()
    assert toy.newest("08_reporting/convergence_curves.png").stat().st_size > 10_000


@pytest.mark.usefixtures("tracked_at")  # kedro-mlflow sets it
def test_sessions_in_one_process(toy, monkeypatch):
    """Each run has the nodes of its own datasets, and its own versions."""
    from kedro.framework.session import KedroSession, session
    from kedro.framework.startup import bootstrap_project

    monkeypatch.chdir(toy.folder)
    monkeypatch.setattr(session, "generate_timestamp", lambda: "2026-01-01T00.00.00.000Z")
    bootstrap_project(toy.folder)
    for dataset in ("Artificial", "Toy", "Toy"):
        with KedroSession.create(runtime_params={"datasets": dataset, "folds": 3}) as begun:
            begun.run(pipeline_names=["ingestion"])
    for dataset, versions in {"Artificial": 1, "Toy": 2}.items():
        made = toy.folder / "data" / "02_intermediate" / dataset / "features.parquet"
        assert len(list(made.glob("2026-01-01T00.00.00.000Z-*"))) == versions


@pytest.mark.slow
@pytest.mark.usefixtures("tracked_at")  # kedro-mlflow sets it
def test_no_node_changes_what_is_in_memory(toy, monkeypatch):
    """Nodes get what is in memory without a copy."""
    from kedro.framework.session import KedroSession
    from kedro.framework.startup import bootstrap_project

    load, before, again = MemoryDataset.load, {}, set()

    @wraps(load)
    def load_and_compare(self):
        data = load(self)
        if id(self) in before:
            # The dataset is kept, so that no other gets its id.
            assert joblib.hash(data) == before[id(self)][1]
            again.add(id(self))
        before[id(self)] = self, joblib.hash(data)
        return data

    monkeypatch.setattr(MemoryDataset, "load", load_and_compare)
    monkeypatch.chdir(toy.folder)
    bootstrap_project(toy.folder)
    generator = np.random.default_rng(0)
    table = pd.DataFrame(generator.normal(size=(60, 3)), columns=list("abc"))
    for name in ("l_a", "l_b", "l_c"):
        table[name] = generator.integers(0, 2, 60)
    table.to_csv(toy.folder / "my.csv", index=False)
    short = {"datasets": "Toy", "repeats": 1, "folds": 3, "conle": {"steps": 20}}
    short |= {"levi_mlp": {"epochs": 2}, "lible": {"epochs": 2}}
    short |= {"input": str(toy.folder / "my.csv")}
    short |= {"labels_prefix": "l_", "enhance": {"candidates": "lp+glle+conle+conle_adaptive"}}
    for pipeline in ("__default__", "enhance"):
        with KedroSession.create(runtime_params=short) as begun:
            begun.run(pipeline_names=[pipeline])
    assert len(again) >= 3


@pytest.mark.slow
def test_baselines_alone(toy):
    run = toy.run("baselines", datasets="Toy", **{"levi_mlp.epochs": 5, "lible.epochs": 5})
    assert run.returncode == 0, run.stderr
    results = pd.read_parquet(toy.newest("08_reporting/results.parquet"))
    assert "conle" not in set(results["method"])
    assert {*BASELINES} < set(results["method"])


@pytest.mark.slow
def test_a_dataset_of_the_users_own_with_the_transductive_protocol(project):
    """Nine labels with many zeros, as Natural_Scene has them."""
    generator = np.random.default_rng(0)
    distributions = generator.dirichlet(np.ones(9), size=50)
    distributions[distributions < 0.1] = 0
    distributions /= distributions.sum(axis=1, keepdims=True)
    project.write_raw("Natural_Scene", generator.normal(size=(50, 294)), distributions)
    run = project.run(datasets="Natural_Scene", protocol="transductive")
    assert run.returncode == 0, run.stderr
    assert "has {'examples': 50" in run.stderr
    assert "* fitted to all rows" in run.stdout
    results = pd.read_parquet(project.newest("08_reporting/results.parquet"))
    assert set(results["fitted_on"]) == {"all"}
    assert np.isfinite(results["value"]).all()


def test_real_datasets_from_another_folder(project, real_data):
    run = project.kedro(
        "run",
        "--pipelines=conle",
        "--env=paper",
        f"--params=datasets=SJAFFE+Yeast_spo5,raw_dir={real_data},repeats=1,conle.steps=50",
    )
    assert run.returncode == 0, run.stderr
    results = pd.read_parquet(project.newest("08_reporting/results.parquet"))
    mean = results.groupby(["dataset", "method", "measure"])["value"].mean()
    # Uniform and the label-only posterior are determined by the data.
    assert mean["Yeast_spo5", "label_posterior", "kl_divergence"] == pytest.approx(0.0119, abs=3e-4)
    assert mean["SJAFFE", "label_posterior", "canberra"] == pytest.approx(0.529, abs=3e-3)
    assert mean["SJAFFE", "conle", "kl_divergence"] < mean["SJAFFE", "uniform", "kl_divergence"]
    comparison = pd.read_csv(project.newest("08_reporting/comparison.csv"))
    assert len(comparison) == 12
    cell = comparison.set_index(["dataset", "measure"]).loc["SJAFFE", "canberra"]
    assert cell["published"] == 0.545
    assert cell["measured"] == pytest.approx(mean["SJAFFE", "conle", "canberra"])
    assert cell["difference"] == pytest.approx(cell["measured"] - cell["published"])


def test_a_misspelt_parameter_in_a_file(project):
    """A user's own parameters are allowed in the configuration."""
    local = project.folder / "conf" / "local" / "parameters.yml"
    local.write_text("my_cutoff: 3\n")
    assert project.run("ingestion").returncode == 0
    local.write_text("repeat: 3\n")
    run = project.run("ingestion")
    assert run.returncode == 1
    assert "no parameter 'repeat'; did you mean 'repeats'" in run.stderr


@pytest.mark.slow
def test_what_is_read_from_the_command_line_alone_is_refused_in_a_file(project):
    local = project.folder / "conf" / "local"
    command = ("run", "--pipelines=ingestion", "--params=datasets=SJAFFE")
    for name, value in {"raw_dir": "elsewhere", "input": "my.csv"}.items():
        (local / "parameters.yml").write_text(f"{name}: {value}\n")
        run = project.kedro(*command)
        assert run.returncode == 1
        assert f"{name} is set in a file of parameters, where it is not read" in run.stderr
        assert "Traceback" not in run.stderr
    (local / "parameters.yml").unlink()
    # The folder of raw files has a place of its own.
    (local / "globals.yml").write_text("raw_dir: elsewhere\n")
    run = project.kedro(*command)
    assert f"missing:\n  {project.folder.as_posix()}/elsewhere/SJAFFE.mat" in run.stderr


def test_bad_data_ends_in_one_message_and_no_open_run(project):
    project.write_raw("Bad", np.zeros((20, 2)), np.full((20, 3), 0.4))
    run = project.run(datasets="Artificial+Bad")
    assert run.returncode == 1
    assert (
        run.stderr.count("Bad (Bad.mat): label distributions must sum to 1; rows (from 0) 0") == 1
    )
    assert "Traceback" not in run.stderr
    assert not (project.folder / "data" / "07_model_output").exists()
    assert {run.info.status for run in tracked(project)[1]} == {"FAILED"}


@pytest.mark.parametrize("failing", ["conle.recover", "conle.score"])
def test_an_exception_leaves_no_open_run(project, failing):
    """Any exception of a node ends the run; here, a device has the name of an output's folder."""
    artifact = {"conle.recover": "recovered", "conle.score": "scores"}[failing]
    blocked = project.folder / "data" / "07_model_output" / "Artificial" / "conle"
    blocked.mkdir(parents=True)
    (blocked / f"{artifact}.parquet").symlink_to(os.devnull)
    run = project.run()
    assert run.returncode == 1
    statuses = {run.data.tags.get("method"): run.info.status for run in tracked(project)[1]}
    assert "RUNNING" not in statuses.values()
    assert statuses[None] == "FAILED"
    assert statuses["conle"] == "FAILED"


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_ctrl_c_leaves_no_open_run(project):
    command = project.start("run", "--pipelines=conle", "--params=conle.steps=100000")
    database = project.folder / "mlflow.db"
    wait_until(lambda: database.exists() and "conle" in methods_tracked(database), command)
    command.send_signal(signal.SIGINT)
    assert command.wait() == 1
    assert "Aborted!" in command.output()[1]
    statuses = {run.data.tags.get("method"): run.info.status for run in tracked(project)[1]}
    assert statuses == {None: "KILLED", "conle": "KILLED"}


def methods_tracked(database):
    """Methods of the MLflow runs so far."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return {
            method for (method,) in connection.execute("select value from tags where key='method'")
        }
