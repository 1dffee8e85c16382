"""The pipeline `enhance` as a user runs it."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
import requests
from broken_runs import wait_until
from commands import GENEROUS

from conle.core.binarisation import binarise


@pytest.fixture
def own(project):
    """A project with a table of 80 rows, two features and four labels."""
    generator = np.random.default_rng(3)
    features = generator.normal(size=(80, 2))
    labels = binarise(generator.dirichlet(np.ones(4), 80))
    table = pd.DataFrame(
        np.hstack([features, labels]), columns=["x", "y", "l_a", "l_b", "l_c", "l_d"]
    )
    table.set_axis([f"row{n}" for n in range(80)]).to_csv(project.folder / "my.csv")
    return project


def enhance(project, **parameters):
    short = {"method": "conle", "conle.steps": 20}
    given = {"input": "my.csv", "labels_prefix": "l_", **short, **parameters}
    joined = ",".join(f"{name}={value}" for name, value in given.items())
    return project.kedro("run", "--pipelines", "enhance", "--params", joined)


def test_enhance_and_apply(own, tracked_at):
    run = enhance(own)
    assert run.returncode == 0, run.stderr
    parquet = pd.read_parquet(own.newest("07_model_output/enhance/distributions.parquet"))
    assert list(parquet) == ["l_a", "l_b", "l_c", "l_d"]
    assert parquet.index[7] == "row7"
    np.testing.assert_allclose(parquet.sum(axis=1), 1)
    csv = pd.read_csv(own.newest("07_model_output/enhance/distributions.csv"), index_col=0)
    pd.testing.assert_frame_equal(csv, parquet, check_names=False)
    assert "<h1>" in own.newest("08_reporting/enhance/checks.html").read_text()
    for text in ("samples", "Parquet", "CSV", "Checks", "Model", "MLflow"):
        assert text in run.stdout
    few = pd.read_csv(own.folder / "my.csv", index_col=0)[:5]
    few.to_csv(own.folder / "few.csv")
    run = enhance(own, input="few.csv", model="latest")
    assert run.returncode == 0, run.stderr
    assert f"model=latest is {own.newest('06_models/enhance/model')}" in run.stdout
    assert "The fitted model is one of " in run.stderr
    again = pd.read_csv(own.newest("07_model_output/enhance/distributions.csv"), index_col=0)
    np.testing.assert_allclose(again, parquet[:5], atol=1e-6)
    tracked_at(f"sqlite:///{own.folder}/mlflow.db")
    experiment = mlflow.get_experiment_by_name("conle")
    runs = mlflow.MlflowClient().search_runs([experiment.experiment_id])
    assert {run.info.status for run in runs} == {"FINISHED"}


def answers(address):
    try:
        return requests.get(address, timeout=GENEROUS).ok
    except requests.ConnectionError:
        return False


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.slow
def test_the_model_can_be_served(own, free_port, tracked_at):
    run = enhance(own, method="conle", registered_model="toy")
    assert run.returncode == 0, run.stderr
    table = pd.read_csv(own.folder / "my.csv", index_col=0)[:4]
    expected = pd.read_parquet(own.newest("07_model_output/enhance/distributions.parquet"))[:4]
    uri = f"sqlite:///{own.folder}/mlflow.db"
    tracked_at(uri)
    model = mlflow.pyfunc.load_model("models:/toy/1")
    given = table.astype(float)
    np.testing.assert_allclose(model.predict(given), expected, atol=1e-6)
    assert [column.name for column in model.metadata.signature.inputs] == list(table)

    # MLflow starts the server by its name.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    arguments = ("models", "serve", "-m", "models:/toy/1", "--env-manager", "local")
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", *arguments, "--port", str(free_port)],
        env=os.environ | {"MLFLOW_TRACKING_URI": uri, "PATH": path},
        cwd=own.folder,
        start_new_session=True,
    )
    try:
        address = f"http://127.0.0.1:{free_port}"
        wait_until(lambda: answers(f"{address}/ping"), server)
        body = {"dataframe_split": given.to_dict(orient="split")}
        answer = requests.post(f"{address}/invocations", json=body, timeout=GENEROUS)
        assert answer.status_code == 200, answer.text
        served = pd.DataFrame(answer.json()["predictions"])
        np.testing.assert_allclose(served[list(expected)], expected, atol=1e-6)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(GENEROUS)


@pytest.mark.slow
def test_a_transductive_method(own):
    run = enhance(own, method="lp")
    assert run.returncode == 0, run.stderr
    assert "Model " not in run.stdout


@pytest.mark.slow
def test_a_method_is_chosen(own, tracked_at):
    run = enhance(own, method="auto", **{"enhance.candidates": "softmax_labels+lp+posterior_pca"})
    assert run.returncode == 0, run.stderr
    comparison = pd.read_csv(own.newest("08_reporting/enhance/comparison.csv"))
    (chosen,) = comparison.loc[comparison["chosen"], "candidate"]
    for text in ("Compared methods", "log likelihood", "compared on 80 rows", "Methods"):
        assert text in run.stdout
    assert chosen in own.newest("08_reporting/enhance/checks.html").read_text()
    tracked_at(f"sqlite:///{own.folder}/mlflow.db")
    experiment = mlflow.get_experiment_by_name("conle")
    (logged,) = mlflow.MlflowClient().search_runs([experiment.experiment_id])
    assert logged.data.params["method"] == "auto"
    assert logged.data.params["enhance.method"] == chosen
