import errno
import pickle
import platform
from importlib import import_module
from types import SimpleNamespace

import click
import pandas as pd
import pytest
from botocore.exceptions import EndpointConnectionError
from kedro.io import DataCatalog, DatasetError
from kedro.io.core import Version
from kedro.pipeline import Node, Pipeline
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from safetensors import SafetensorError

from conle.data.atomic import CSVDataset
from conle.errors import DataError, ParameterError
from conle.hooks import (
    ExperimentTracking,
    ModelLogging,
    SharedFolder,
    plain_error,
    without_password,
)


def wrapped(error):
    """As Kedro wraps what a dataset raises."""
    outer = DatasetError("Failed while saving data")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DataError("row 3"), "row 3"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "a.csv"), "Permission denied: 'a.csv'"),
        # As of S3.
        (PermissionError("Access Denied"), "Access Denied"),
        (EndpointConnectionError(endpoint_url="http://x"), "connect to the endpoint URL"),
        (SafetensorError("I/O error: No space left"), "No space left"),
        (MlflowException("API request failed"), "MLflow has failed: API request failed"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda error: error, wrapped])
def test_errors_that_are_shown_without_their_place(error, message, wrap):
    plain = plain_error(wrap(error))
    assert isinstance(plain, click.ClickException)
    assert message in plain.message


@pytest.mark.parametrize(
    "error", [ValueError("x"), FileNotFoundError(errno.ENOENT, "x"), SafetensorError("header")]
)
def test_errors_of_the_program_are_left(error):
    assert plain_error(wrapped(error)) is None


def test_addresses_are_shown_without_a_password():
    assert without_password("https://me:secret@host:5000/x") == "https://host:5000/x"
    assert without_password("sqlite:////a/b@c/mlflow.db") == "sqlite:////a/b@c/mlflow.db"


def shared_folder(artifacts):
    hook = SharedFolder()
    hook.after_context_created(SimpleNamespace(config_loader={"globals": {"artifacts": artifacts}}))
    return hook


def test_a_run_reads_what_it_has_written_itself(tmp_path):
    """And not what another run has written meanwhile; also in a worker, which did not write it."""
    path = str(tmp_path / "data" / "table.csv")
    own, other = (
        CSVDataset(filepath=path, save_args={"index": False}, version=Version(None, version))
        for version in ("2026-01-01T00.00.00.000Z", "2026-01-01T00.00.01.000Z")
    )
    catalog = DataCatalog({"table": own})
    shared_folder("data").before_pipeline_run(
        {"project_path": str(tmp_path)}, Pipeline([Node(lambda: None, None, "table")]), catalog
    )
    worker = pickle.loads(pickle.dumps(own))
    catalog.save("table", pd.DataFrame({"a": [1]}))
    other.save(pd.DataFrame({"a": [2]}))
    assert catalog.load("table")["a"].tolist() == [1]
    assert worker.load()["a"].tolist() == [1]


@pytest.mark.parametrize("artifacts", ["data", "s3://bucket/conle"])
def test_a_run_removes_what_a_dead_one_has_left(tmp_path, artifacts):
    for folder in (tmp_path, tmp_path / "data" / "deep"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"a~{platform.node()}_{2**22 + 1}_1.00.partial").write_text("half")
    shared_folder(artifacts).before_pipeline_run(
        {"project_path": str(tmp_path)}, Pipeline([]), DataCatalog({})
    )
    assert not list(tmp_path.rglob("*.partial"))


def test_a_model_that_cannot_be_logged_fails_the_run(tmp_path, monkeypatch, tracked_at):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    tracked_at(uri)
    client = MlflowClient(uri)
    parent = client.create_run(client.create_experiment("x")).info.run_id
    monkeypatch.setenv(ExperimentTracking.PARENT, parent)

    def log_model(**_):
        raise MlflowException("the server is gone")

    # MLflow's own name of it is no module before it is first used.
    monkeypatch.setattr(import_module("mlflow.pyfunc"), "log_model", log_model)
    table = pd.DataFrame({"a": [0.5, 0.5]})
    loaded = {
        "enhance.input": (table, table.rename(columns={"a": "b"})),
        "enhance.distributions": table,
        "params:registered_model": "conle",
    }
    catalog = SimpleNamespace(
        load=loaded.__getitem__, get=lambda _: SimpleNamespace(_get_load_path=lambda: tmp_path)
    )
    with pytest.raises(click.ClickException, match="MLflow has failed: the server is gone"):
        ModelLogging().after_pipeline_run(
            SimpleNamespace(all_outputs=lambda: {"enhance.model"}), catalog
        )
    assert client.get_run(parent).info.status == "FAILED"


def test_no_cell_is_opened_below_a_run_that_has_ended(tmp_path, monkeypatch, tracked_at):
    """A worker may begin what it was given by a client that is no more."""
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    tracked_at(uri)
    client = MlflowClient(uri)
    experiment = client.create_experiment("x")
    parent = client.create_run(experiment, tags={"git_commit": "x", "process": "x"}).info.run_id
    monkeypatch.setenv(ExperimentTracking.PARENT, parent)
    cell = ("One", "uniform", {"protocol": "transductive"}, {"sha256": "x"})
    ExperimentTracking()._open(*cell)
    assert len(client.search_runs([experiment])) == 2
    client.set_terminated(parent, "KILLED")
    with pytest.raises(ParameterError, match="has ended"):
        ExperimentTracking()._open("Two", *cell[1:])
    with pytest.raises(ParameterError, match="has ended"):
        ExperimentTracking()._open(*cell)
    assert len(client.search_runs([experiment])) == 2
