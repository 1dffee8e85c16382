import hashlib
import json
import os
import platform
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from threading import Barrier
from types import SimpleNamespace

import click
import numpy as np
import pandas as pd
import pytest
from cells_for_tests import cell_of
from kedro.io import DataCatalog
from kedro.io.core import Version
from kedro.pipeline import Node, Pipeline
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput
from mlflow.exceptions import MlflowException

from conle import tracking
from conle.cells import bind
from conle.cli import plain_error
from conle.core.measures import MEASURES
from conle.data.atomic import JSONDataset, ParquetDataset
from conle.data.models import FittedModel
from conle.errors import ParameterError
from conle.methods.registry import TITLES, make_enhancer
from conle.process_identity import this_process
from conle.reporting.description import board_of, describe
from conle.reporting.scores import RESULT_COLUMNS, summarise
from conle.tracking import (
    PARENT,
    RUN_CONTEXT,
    ExperimentTracking,
    ModelLogging,
    continue_tracking,
    log_inputs,
)

SOURCE = {"sha256": "f"}


@pytest.fixture
def client(tmp_path, tracking_database, tracked_at):
    """A client of a database of its own, where this process tracks its runs."""
    path = tmp_path / "mlflow.db"
    path.write_bytes(tracking_database.read_bytes())
    tracked_at(f"sqlite:///{path}")
    return MlflowClient(f"sqlite:///{path}")


@pytest.fixture
def parent(client, tmp_path, monkeypatch):
    """The id of a run that is parent to those of cells."""
    experiment = client.create_experiment("x", artifact_location=str(tmp_path / "artifacts"))
    run_id = client.create_run(experiment, tags={"git_commit": "c", "process": "p"}).info.run_id
    client.log_param(run_id, "protocol", "transductive")
    monkeypatch.setenv(PARENT, run_id)
    return run_id


def artifacts_of(client, run_id, folder):
    return sorted(file.path for file in client.list_artifacts(run_id, folder))


TABLE = pd.DataFrame({"a": range(6)}), pd.DataFrame({"b": [0, 1] * 3})


@pytest.fixture
def log(parent, tmp_path, monkeypatch):
    """Log a model by a hook; what MLflow is given."""
    logged = {}
    # MLflow's own name of it is no module before it is first used.
    pyfunc = import_module("mlflow.pyfunc")
    monkeypatch.setattr(pyfunc, "log_model", lambda **given: logged.update(given))
    entries = {"enhance.distributions": TABLE[1], "params:registered_model": "conle"}

    def log(hook, **more):
        catalog = SimpleNamespace(
            load=(entries | more).__getitem__,
            get=lambda _: JSONDataset(filepath=str(tmp_path / "model")),
            exists=lambda _: True,
        )
        hook.after_pipeline_run(SimpleNamespace(all_outputs=lambda: {"enhance.model"}), catalog)
        return logged

    return log


def test_the_example_of_a_model_is_the_first_rows_of_the_table(log):
    """The table is loaded again only if this process has not loaded it in this run."""
    hook = ModelLogging()
    hook.after_dataset_loaded("enhance.input", TABLE)
    assert log(hook)["input_example"].to_numpy().tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]
    hook.before_pipeline_run()
    other = log(hook, **{"enhance.input": [part[3:] for part in TABLE]})
    assert other["input_example"].to_numpy().tolist() == [[3.0, 1.0], [4.0, 0.0], [5.0, 1.0]]


def test_a_model_that_cannot_be_logged_fails_the_run(client, parent, log, monkeypatch):
    def log_model(**_):
        raise MlflowException("the server is gone")

    monkeypatch.setattr(import_module("mlflow.pyfunc"), "log_model", log_model)
    with pytest.raises(MlflowException) as error:
        log(ModelLogging(), **{"enhance.input": TABLE})
    plain = plain_error(error.value)
    assert isinstance(plain, click.ClickException)
    assert plain.message.startswith("MLflow has failed: the server is gone")
    assert client.get_run(parent).info.status == "FAILED"


def test_no_cell_is_opened_below_a_run_that_has_ended(client, parent):
    """A worker may begin what it was given by a client that is no more."""
    experiment = client.get_run(parent).info.experiment_id
    one, two = (cell_of("uniform", dataset=name) for name in ("One", "Two"))
    ExperimentTracking()._open(one, SOURCE)
    assert len(client.search_runs([experiment])) == 2
    client.set_terminated(parent, "KILLED")
    with pytest.raises(ParameterError, match="has ended"):
        ExperimentTracking()._open(two, SOURCE)
    with pytest.raises(ParameterError, match="has ended"):
        ExperimentTracking()._open(one, SOURCE)
    assert len(client.search_runs([experiment])) == 2


@pytest.fixture
def hook(parent, tmp_path):
    """The hook, and what saves the outputs of a cell as a run does."""
    hook = ExperimentTracking()
    cell = cell_of("conle", {"steps": 20}, seed=3)

    def entry(kind, name, **wanted):
        return kind(
            filepath=str(tmp_path / name),
            version=Version("v1", "v1"),
            metadata={"mlflow": wanted} if wanted else None,
        )

    catalog = DataCatalog(
        {
            "Toy.source": entry(JSONDataset, "source.json"),
            "Toy.conle.cost": entry(JSONDataset, "cost.json", run="cell", metrics=["seconds"]),
            "Toy.conle.curves": entry(ParquetDataset, "curves", run="cell", metrics="steps"),
            "Toy.conle.scores": entry(ParquetDataset, "scores", run="cell", metrics="measures"),
            "Toy.conle.rows": entry(JSONDataset, "rows.json", run="cell", artifact_path="rows"),
            "Toy.picture": entry(JSONDataset, "seen.json", run="dataset", artifact_path="seen/Toy"),
            "summary": entry(JSONDataset, "summary.json", artifact_path="tables"),
            "Toy.features": entry(JSONDataset, "features.json"),
        }
    )
    catalog.save("Toy.source", SOURCE)
    node = Node(
        bind(lambda cell: None, cell=cell),
        None,
        "out",
        name="recover",
        namespace="Toy.conle",
        tags="recovery",
    )
    hook.before_node_run(node, catalog)

    def save(name, data, namespace="Toy.conle"):
        catalog.save(name, data)
        saver = Node(lambda: None, None, "out", name="n", namespace=namespace)
        hook.after_dataset_saved(name, data, saver)

    return hook, catalog, node, save


def child_of(client, parent):
    (child,) = client.search_runs(
        [client.get_run(parent).info.experiment_id], f"tags.`mlflow.parentRunId` = '{parent}'"
    )
    return child


def test_a_cell_has_a_run_with_its_parameters(client, parent, hook):
    child = child_of(client, parent)
    assert child.info.run_name == "Toy conle"
    assert child.info.status == "RUNNING"
    tags = {"dataset": "Toy", "method": "conle", "protocol": "transductive", "data_sha256": "f"}
    assert tags.items() <= child.data.tags.items()
    assert (child.data.tags["git_commit"], child.data.tags["process"]) == ("c", "p")
    parameters = {"seed": "3", "conle.steps": "20", "device": "cpu", "degree_floor": "0.0"}
    # Also those that the configuration does not name.
    parameters |= {"conle.snapshot_every": "None", "conle.seed": "3"}
    assert parameters.items() <= child.data.params.items()


def test_a_run_of_enhance_has_the_method_and_hyperparameters_in_effect(client, parent):
    enhancer = cell_of("conle_h", {"steps": 20}, dataset="enhance", seed=3).make_enhancer()
    node, tracking = Node(lambda: None, None, "enhance.model"), ExperimentTracking()
    tracking.before_node_run(node, DataCatalog({"enhance.model": JSONDataset(filepath="x")}))
    # The node has chosen the method.
    model = FittedModel("conle_h", enhancer, None, [])
    tracking.after_dataset_saved("enhance.model", model, node)
    logged = client.get_run(parent).data.params
    expected = {"method": "conle_h", **enhancer.get_params()}
    del logged["protocol"]
    assert logged == {f"enhance.{name}": str(value) for name, value in expected.items()}
    assert logged["enhance.use_contrastive_loss"] == "False"


def test_a_run_that_applies_a_model_has_its_method_and_hyperparameters(client, parent, samples):
    enhancer = make_enhancer("conle_adaptive", {"steps": 10}, seed=3).fit(*samples)
    model = FittedModel("conle_adaptive", enhancer, None, [])
    ExperimentTracking().after_dataset_loaded("enhance.fitted_model", model)
    ExperimentTracking().after_dataset_loaded("enhance.input", None)
    logged = client.get_run(parent).data.params
    assert (logged["enhance.method"], logged["enhance.reading"]) == ("conle_adaptive", "auto")
    assert (logged["enhance.steps"], logged["enhance.seed"]) == ("10", "3")
    assert logged["enhance.kept_reading"] == enhancer.kept_reading_


def test_a_cell_whose_cost_was_saved_and_not_logged(client, parent, hook):
    """The run was killed between the two; resumed, it scores what is there."""
    *_, save = hook
    save("Toy.conle.scores", pd.DataFrame({"measure": ["clark"], "value": [0.1]}))
    child = child_of(client, parent)
    assert child.data.metrics == {"clark": 0.1}
    assert child.info.status == "FINISHED"
    assert child.info.end_time >= child.info.start_time


def test_numbers_of_a_cell(client, parent, hook):
    *_, save = hook
    save("Toy.conle.cost", {"memory_before_mib": 3.0, "seconds": 2.0})
    curves = [("loss", 1, 1, 1, 4.0), ("loss", 1, 2, 1, 2.0), ("loss", 1, 1, 2, 1.0)]
    save(
        "Toy.conle.curves",
        pd.DataFrame(curves, columns=["quantity", "repeat", "fold", "step", "value"]),
    )
    child = child_of(client, parent)
    # Only the numbers that the catalog names.
    assert child.data.metrics == {"seconds": 2.0, "training/loss": 1.0}
    history = client.get_metric_history(child.info.run_id, "training/loss")
    # The mean over the folds.
    assert [(own.step, own.value) for own in history] == [(1, 3.0), (2, 1.0)]
    assert child.info.status == "RUNNING"
    scores = pd.DataFrame({"measure": ["clark", "clark", "cosine"], "value": [0.1, 0.3, 0.9]})
    save("Toy.conle.scores", scores)
    child = child_of(client, parent)
    assert child.data.metrics["clark"] == pytest.approx(0.2)
    assert child.data.metrics["std/clark"] == pytest.approx(scores["value"][:2].std())
    # A single fold has no deviation.
    assert child.data.metrics["cosine"] == 0.9
    assert "std/cosine" not in child.data.metrics
    # It ended when its method did.
    assert child.info.status == "FINISHED"
    assert child.info.end_time == child.info.start_time + 2000


def test_a_failed_cell_has_its_failure(client, parent, hook):
    *_, save = hook
    save("Toy.conle.cost", {"failure": "too wide"})
    save("Toy.conle.scores", pd.DataFrame({"measure": [], "value": []}))
    child = child_of(client, parent)
    assert child.info.status == "FAILED"
    assert child.data.tags["failure"] == "too wide"
    assert child.data.metrics == {}


def test_files_go_where_the_catalog_says(client, parent, hook):
    *_, save = hook
    save("Toy.conle.rows", {"a": 1})
    save("Toy.picture", {"a": 1}, namespace="Toy")
    save("summary", {"a": 1}, namespace=None)
    save("Toy.features", {"a": 1}, namespace="Toy")
    child = child_of(client, parent).info.run_id
    assert artifacts_of(client, child, "rows") == ["rows/rows.json"]
    assert artifacts_of(client, child, "pictures") == ["pictures/seen.json"]
    assert artifacts_of(client, parent, "seen/Toy") == ["seen/Toy/seen.json"]
    assert artifacts_of(client, parent, "tables") == ["tables/summary.json"]
    assert artifacts_of(client, parent, None) == ["seen", "tables"]
    assert artifacts_of(client, child, None) == ["pictures", "rows"]


def test_a_cell_that_is_computed_again_has_the_same_run(client, parent, hook):
    own, catalog, node, _ = hook
    own.on_node_error(node)
    assert child_of(client, parent).info.status == "FAILED"
    ExperimentTracking().before_node_run(node, catalog)
    assert child_of(client, parent).info.status == "RUNNING"


@pytest.mark.parametrize(
    ("cost", "begins", "status"),
    [
        ({"seconds": 1.0}, True, "FINISHED"),
        ({"failure": "too wide"}, True, "FAILED"),
        ({"failure": "too wide"}, False, "RUNNING"),
    ],
)
def test_the_end_of_a_run(client, parent, hook, cost, begins, status):
    """A run that somebody else has begun stays open."""
    own, catalog, *_, save = hook
    own.after_context_created(SimpleNamespace())
    own._begins_run = begins
    save("Toy.conle.cost", cost)
    node = Node(bind(lambda cell: None, cell=cell_of("conle")), None, "Toy.conle.cost")
    own.after_pipeline_run(Pipeline([node]), catalog)
    assert child_of(client, parent).info.status == ("FINISHED" if "seconds" in cost else "FAILED")
    assert client.get_run(parent).info.status == status


def test_the_parent_run_compares_the_methods(client, parent, tmp_path):
    """It has the means over the datasets, the leaderboard and the datasets."""
    folds = [
        (name, method, "cross_validation", "training_folds", 0, fold, measure, value + 0.1 * fold)
        for name, shift in (("One", 0.0), ("Two", 1.0))
        for method, value in (("conle", 0.2 + shift), ("lp", 0.4 + shift))
        for fold in range(2)
        for measure in MEASURES
    ]
    results = pd.DataFrame([(*row, "d") for row in folds], columns=RESULT_COLUMNS)
    sha256 = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("One", "Two")}
    entries = {
        "summary": summarise(results),
        "results": results,
        "params:folds": 2,
    }
    catalog = SimpleNamespace(
        load=entries.__getitem__,
        get=lambda name: JSONDataset(filepath=str(tmp_path / name)),
    )
    cells = [
        SimpleNamespace(data=SimpleNamespace(tags={"dataset": name, "data_sha256": own}))
        for name, own in sha256.items()
        for _ in ("conle", "lp")
    ]
    tracking.log_comparison(catalog, cells)
    run = client.get_run(parent)
    expected = {"conle": 0.75, "lp": 0.95}
    assert run.data.metrics == {
        f"{measure}.{method}": pytest.approx(value)
        for measure in ("kl_divergence", "canberra")
        for method, value in expected.items()
    }
    note = run.data.tags["mlflow.note.content"].splitlines()
    assert note[2].startswith("One: ConLE is best by KL (0.2500), 0.2000 (44 %) below LP")
    assert note[6] == "Means over the datasets (2):"
    assert note[8].startswith("| method | average rank | KL ↓ | Chebyshev ↓ |")
    assert note[10].startswith("| ConLE | **1.33** | **0.7500** |")
    logged = [own.dataset for own in run.inputs.dataset_inputs]
    assert {own.name: own.digest for own in logged} == {k: v[:36] for k, v in sha256.items()}
    assert {json.loads(own.source)["sha256"] for own in logged} == set(sha256.values())
    assert json.loads(logged[0].source)["uri"].endswith(f"{logged[0].name}.raw")


def test_a_run_with_cells_has_a_view_that_compares_them(client, parent, hook):
    own, catalog, *_ = hook
    own.after_context_created(SimpleNamespace())
    experiment = client.get_run(parent).info.experiment_id
    address = f"/#/experiments/{experiment}/runs"
    assert tracking.page_of_run() == (f"{address}/{parent}", False)
    own.after_pipeline_run(Pipeline([]), catalog)
    assert tracking.page_of_run() == (f"{address}?viewStateShareKey={parent[:8]}", True)
    tags = client.get_experiment(experiment).tags
    view = json.loads(tags[f"mlflow.sharedViewState.{parent[:8]}"])
    assert parent in view["searchFilter"]
    assert view["groupBy"]["groupByKeys"] == [{"mode": "tag", "groupByData": "method"}]
    assert [own["metricKey"] for own in view["compareRunCharts"]][:2] == [
        "kl_divergence",
        "canberra",
    ]


def test_two_runs_log_the_same_data_at_once(client, parent):
    other = client.create_run(client.get_run(parent).info.experiment_id).info.run_id
    both = Barrier(2, timeout=30)

    def log(run_id):
        for digest in map(str, range(10)):
            both.wait()
            log_inputs(client, run_id, [DatasetInput(Dataset("Toy", digest, "local", "{}"))])

    with ThreadPoolExecutor() as pool:
        list(pool.map(log, (parent, other)))
    for run_id in (parent, other):
        inputs = client.get_run(run_id).inputs.dataset_inputs
        assert sorted(own.dataset.digest for own in inputs) == list("0123456789")


def test_the_description_of_many_datasets_fits():
    """MLflow cuts a tag after 8000 characters."""
    names = [f"Dataset_of_a_long_name_{n:02}" for n in range(14)]
    for datasets in (names[:13], names):
        rng = np.random.default_rng(0)
        folds = [
            (name, method, "cross_validation", "all", 0, fold, measure, rng.random(), "d")
            for name in datasets
            for method in TITLES
            for fold in range(2)
            for measure in MEASURES
        ]
        results = pd.DataFrame(folds, columns=RESULT_COLUMNS)
        text = describe(*board_of(summarise(results), 2), results, 2)
        assert len(text) < 8000
        assert ("Dataset_of_a_long_name_00: " in text) == (len(datasets) == 13)
        assert "| ConLE\\* |" in text


def test_a_run_that_fails_leaves_no_cell_open(client, parent, hook):
    hook[0].on_pipeline_error()
    assert child_of(client, parent).info.status == "FAILED"


def test_nothing_is_tracked_without_a_parent(client, parent, hook, monkeypatch):
    own, catalog, node, save = hook
    monkeypatch.delenv(PARENT)
    save("summary", {"a": 1}, namespace=None)
    own.before_node_run(node, catalog)
    own.on_node_error(node)
    own.after_pipeline_run(Pipeline([node]), catalog)
    own.on_pipeline_error()
    ModelLogging().after_pipeline_run(Pipeline([node]), catalog)
    assert tracking.environment_of_workers() == {}
    assert artifacts_of(client, parent, None) == []
    assert child_of(client, parent).info.status == "RUNNING"


def test_workers_know_the_parent(client, parent):
    import mlflow

    assert tracking.environment_of_workers() == {
        PARENT: parent,
        "MLFLOW_TRACKING_URI": mlflow.get_tracking_uri(),
    }


def test_the_start_of_a_run(client, parent, monkeypatch, tmp_path, caplog):
    """Parameters are logged, and runs are closed whose process has ended."""
    import mlflow

    caplog.set_level("INFO", "conle")

    experiment = client.get_run(parent).info.experiment_id
    dead = f"{platform.node()}_{2**22 + 1}_1.00"
    ids = [
        client.create_run(experiment, tags=tags).info.run_id
        for tags in ({"process": dead}, {"process": this_process()}, {})
    ]
    monkeypatch.setenv(RUN_CONTEXT, json.dumps({"user": "me"}))
    client.set_tag(parent, "process", this_process())
    hook = ExperimentTracking()
    parameters = {"conle": {"steps": 20}, "resume": False, **{f"p{n}": n for n in range(150)}}
    parameters |= {"protocol": "cross_validation", "repeats": 10, "folds": 5}
    client.delete_run(parent)
    parent = client.create_run(experiment, run_name="conle+posterior").info.run_id
    run = SimpleNamespace(nested=True)
    settings = SimpleNamespace(tracking=SimpleNamespace(run=run))
    hook.after_context_created(
        SimpleNamespace(config_loader={"parameters": parameters}, mlflow=settings)
    )
    # kedro-mlflow begins the run.
    monkeypatch.setattr(mlflow, "active_run", lambda: client.get_run(parent))
    assert json.loads(os.environ[RUN_CONTEXT]) == {"user": "me", "process": this_process()}
    node = Node(bind(lambda cell: None, cell=cell_of("conle", dataset="Toy")), None, "out")
    run_params = {"project_path": str(tmp_path), "pipeline_names": ["conle", "posterior"]}
    hook.before_pipeline_run(run_params, Pipeline([node]))
    assert "MLflow tracks this run at sqlite:///mlflow.db" in caplog.messages
    assert [client.get_run(run_id).info.status for run_id in ids] == [
        "KILLED",
        "RUNNING",
        "RUNNING",
    ]
    own = client.get_run(parent)
    assert own.info.status == "RUNNING"
    assert own.data.tags["git_commit"] == "not in git"
    assert own.info.run_name == "conle+posterior, Toy, 10 x 5 folds"
    # A resumed run keeps the name that it has.
    client.update_run(parent, name="mine")
    hook.before_pipeline_run(run_params, Pipeline([node]))
    assert client.get_run(parent).info.run_name == "mine"
    logged = {"conle.steps": "20", "p149": "149", "protocol": "cross_validation"}
    assert logged.items() <= own.data.params.items()
    assert "resume" not in own.data.params
    assert os.environ[PARENT] == parent
    # kedro-mlflow does not begin it again for each node.
    assert run.nested is False


def test_a_resumed_run_goes_on_in_mlflow(client, parent):
    experiment = SimpleNamespace(name="x")
    settings = SimpleNamespace(experiment=experiment, run=SimpleNamespace(id=None))
    context = SimpleNamespace(mlflow=SimpleNamespace(tracking=settings))
    continue_tracking(context, "v1")
    assert settings.run.id is None
    client.set_tag(parent, "run_id", "v1")
    continue_tracking(context, "v1")
    assert settings.run.id == parent
    settings.run.id, experiment.name = None, "another"
    continue_tracking(context, "v1")
    assert settings.run.id is None
