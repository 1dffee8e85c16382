import platform
import re
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest
import threadpoolctl
import torch
from cells_for_tests import cell_of, parameters_with
from kedro.io import DataCatalog, MemoryDataset
from kedro.io.core import Version
from kedro.pipeline import Node, Pipeline
from mlflow import MlflowClient
from mlflow.version import VERSION
from sqlalchemy import Engine, event

from conle import run
from conle.cells import bind
from conle.data.atomic import JSONDataset
from conle.data.optional import OptionalJSONDataset
from conle.errors import ParameterError, RawFileError
from conle.methods.registry import METHODS
from conle.pipelines.recovery.pipeline import recovery_node
from conle.preflight import (
    Preflight,
    create_experiment,
    prepare_database,
    prepare_tracking,
    read_by_hooks,
    use_threads,
    write_without_waiting,
)


def check(tmp_path, pipeline=None, catalog=None, artifacts="data", runner="", given=(), **options):
    """Run the checks of the nodes and files of a run; `given` are parameters of the command."""
    hook = Preflight()
    hook._parameters = parameters_with(**options)
    hook._artifacts = artifacts if "://" in artifacts else str(tmp_path / artifacts)
    run_params = {"project_path": str(tmp_path), "runner": runner, "runtime_params": dict(given)}
    hook.before_pipeline_run(run_params, pipeline or Pipeline([]), catalog or DataCatalog({}))


@pytest.mark.parametrize("artifacts", ["data", "elsewhere", "s3://bucket/conle"])
def test_a_run_removes_what_a_dead_one_has_left(tmp_path, artifacts):
    folders = [tmp_path, tmp_path / "data" / "deep"]
    if artifacts == "elsewhere":
        folders.append(tmp_path / "elsewhere" / "deep")
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"a~{platform.node()}_{2**22 + 1}_1.00.partial").write_text("half")
    check(tmp_path, artifacts=artifacts)
    assert not list(tmp_path.rglob("*.partial"))


def test_methods_do_not_share_a_process(tmp_path):
    with pytest.raises(ParameterError, match="methods cannot share a process"):
        check(tmp_path, runner="kedro.runner.ThreadRunner")


@pytest.mark.parametrize(
    ("method", "block", "message"),
    [
        ("conle", {"step": 3}, "conle has no hyperparameter 'step'; did you mean 'steps'"),
        ("conle", 3, "conle must be a block of hyperparameters, not 3"),
        ("km", {"delta": -1.0}, "KM: delta must be greater than"),
    ],
)
def test_hyperparameters_are_checked_before_any_work(tmp_path, method, block, message):
    wrong = Node(bind(lambda cell: None, cell=cell_of(method, block)), None, "out")
    with pytest.raises(ParameterError, match=message):
        check(tmp_path, Pipeline([Node(lambda: 1, None, "first"), wrong]))


def test_hyperparameters_of_candidates_are_checked_before_any_work(tmp_path):
    bound = bind(
        lambda cell, candidates: None,
        cell=cell_of("uniform"),
        candidates=(cell_of("uniform"), cell_of("conle", {"reading": "rough"})),
    )
    with pytest.raises(ParameterError, match=r"ConLE: reading must be 'raw', .* or 'auto'"):
        check(tmp_path, Pipeline([Node(bound, None, "out")]))


@pytest.mark.parametrize(
    ("methods", "warnings"),
    [
        (["conle_adaptive"], ["conle_adaptive sets reading=auto"]),
        (["conle_adaptive", "conle"], []),
        (["uniform"], []),
    ],
)
def test_a_hyperparameter_that_no_method_of_the_run_takes(tmp_path, caplog, methods, warnings):
    given = {"conle": {"reading": "raw", "steps": 30}, "repeats": 2}
    nodes = [
        Node(bind(lambda cell: None, cell=cell_of(name, given.get(block))), None, name)
        for name in methods
        for block in [METHODS[name].parameters]
    ]
    check(tmp_path, Pipeline(nodes), given=given)
    start = "conle.reading=raw has no effect in this run: "
    assert caplog.messages == [start + warning for warning in warnings]


def test_a_hyperparameter_that_every_candidate_sets(tmp_path, caplog):
    candidates = tuple(cell_of("conle", {"reading": own}) for own in ("double", "softmax"))
    bound = bind(lambda cell, candidates: None, cell=candidates[0], candidates=candidates)
    check(tmp_path, Pipeline([Node(bound, None, "out")]), given={"conle": {"reading": "raw"}})
    assert caplog.messages == [
        "conle.reading=raw has no effect in this run: conle sets reading=double, conle sets "
        "reading=softmax"
    ]


@pytest.mark.parametrize("name", ["convergence", "predictive"])
def test_no_more_repeats_than_there_are(tmp_path, name):
    pipeline = Pipeline([Node(lambda repeats: repeats, f"params:{name}.repeats", "out")])
    changed = {"repeats": 2, name: {"repeats": 3}}
    with pytest.raises(ParameterError, match=rf"{name}\.repeats \(3\) must not exceed repeats \(2"):
        check(tmp_path, pipeline, **changed)
    check(tmp_path, pipeline, **changed | {"repeats": 3})
    # Another pipeline does not read this input.
    check(tmp_path, **changed)


def reads(name):
    return Pipeline([Node(lambda data: data, name, "out")])


def test_missing_inputs(tmp_path):
    missing = JSONDataset(filepath=str(tmp_path / "missing"))
    optional = OptionalJSONDataset(filepath=str(tmp_path / "missing"))

    def refused(name, error, **options):
        with pytest.raises(error) as found:
            check(tmp_path, reads(name), DataCatalog({name: missing}), **options)
        return found.value.message

    message = refused("SJAFE.raw", RawFileError, raw_dir="raw")
    assert message.startswith(
        f"These raw files are missing:\n  {tmp_path.as_posix()}/raw/SJAFE.mat\n"
    )
    assert "SJAFE is no known dataset; did you mean 'SJAFFE'?" in message
    assert refused("enhance.input", RawFileError, input="my.csv") == "my.csv is missing"
    assert "No table is given: --input FILE" in refused("enhance.input", RawFileError)
    assert refused("enhance.fitted_model", RawFileError, model="m").startswith("m is missing")
    assert "git restores them" in refused("known_datasets", RawFileError)
    message = refused("Toy.folds", ParameterError)
    assert "no run has left in the catalog yet:\n  Toy.folds\n" in message
    assert message.endswith("The catalog holds no run of a method.")
    run.begin(
        str(tmp_path / "data"),
        "v1",
        {
            "pipelines": ["conle"],
            "parameters": parameters_with(),
            "datasets": ["Toy"],
            "methods": ["lp"],
        },
    )
    message = refused("Toy.folds", ParameterError)
    assert "The catalog holds these runs:\n  conle on Toy (lp): cross_validation, 10 x" in message
    assert 'kedro run --pipeline=report --params "datasets=Toy,' in message
    check(tmp_path, reads("Toy.folds"), DataCatalog({"Toy.folds": optional}))


def test_hooks_read_the_source_of_a_recovered_dataset(tmp_path):
    node = recovery_node(cell_of("uniform"))
    assert read_by_hooks(node) == {"Toy.source"}
    assert read_by_hooks(Node(lambda data: data, "a", "b")) == set()
    catalog = DataCatalog({name: MemoryDataset(1) for name in node.inputs})
    catalog["Toy.source"] = JSONDataset(filepath=str(tmp_path / "missing"))
    with pytest.raises(ParameterError, match=r"catalog yet:\n  Toy\.source\n"):
        check(tmp_path, Pipeline([node]), catalog)


def test_a_new_tracking_database_is_that_of_mlflow(tmp_path, tracking_database):
    path = tmp_path / "mlflow.db"
    prepare_database(path)
    # The order in which a constraint names its values varies between processes.
    tables = "SELECT type, name FROM sqlite_master ORDER BY type, name"
    made, expected = (
        sqlite3.connect(file).execute(tables).fetchall() for file in (path, tracking_database)
    )
    assert made == expected
    assert not list(tmp_path.glob("*.partial"))
    # Later connections wait for the disk.
    assert not event.contains(Engine, "connect", write_without_waiting)


def test_the_number_of_threads():
    def numbers():
        return {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}

    before = torch.get_num_threads()
    with threadpoolctl.threadpool_limits(None):
        try:
            use_threads(2)
            assert torch.get_num_threads() == 2
            assert numbers() == {2}
            # The settings of the libraries do not change.
            use_threads(None)
            assert torch.get_num_threads() == 2
            assert numbers() == {2}
            use_threads(1)
            assert torch.get_num_threads() == 1
            assert numbers() == {1}
        finally:
            torch.set_num_threads(before)


def test_a_run_has_its_number_of_threads(tmp_path, monkeypatch):
    used = []
    monkeypatch.setattr("conle.preflight.use_threads", used.append)
    check(tmp_path, threads=3)
    check(tmp_path)
    assert used == [3, None]


def artifact(path, versioned=True):
    return JSONDataset(filepath=str(path), version=Version("v1", "v1") if versioned else None)


def test_names_of_artifacts_that_are_taken(tmp_path):
    """Versions need a folder where an older project has a file; also where a run only reads."""
    layer = tmp_path / "data" / "08_reporting"
    (layer / "one.json").mkdir(parents=True)
    (layer / "table.json").mkdir()
    (tmp_path / "in_the_way").write_text("")
    catalog = DataCatalog(
        {
            "read": artifact(layer / "read.json"),
            "one": artifact(layer / "one.json"),
            "two": artifact(layer / "two.json"),
            "three": artifact(tmp_path / "in_the_way" / "Toy" / "three.json"),
            "four": artifact(layer / "table.json", versioned=False),
        }
    )
    catalog.save("read", 1)
    node = Node(lambda read: read, "read", ["one", "two", "three", "four"])
    (layer / "two.json").write_text("")
    (layer / "outcome.json").write_text("")
    with pytest.raises(ParameterError) as refused:
        check(tmp_path, Pipeline([node]), catalog)
    lines = refused.value.message.splitlines()
    assert lines[0].startswith("These names are those of artifacts, but a file is where a folder")
    assert lines[1:-1] == [
        f"  {tmp_path}/data/08_reporting/outcome.json",
        f"  {tmp_path}/data/08_reporting/table.json",
        f"  {tmp_path}/data/08_reporting/two.json",
        f"  {tmp_path}/in_the_way",
    ]
    assert lines[-1] == "Move them away and run the command again."
    for line in lines[1:-1]:
        Path(line.strip()).rename(f"{line.strip()}.old")
    check(tmp_path, Pipeline([node]), catalog)
    (layer / "read.json").rename(layer / "read.old")
    (layer / "read.json").write_text("")
    with pytest.raises(ParameterError, match=r"08_reporting/read\.json\nMove them away"):
        check(tmp_path, Pipeline([node]), catalog)


def tracked(uri, **tracking):
    return {"server": {"mlflow_tracking_uri": uri}, "tracking": tracking}


@pytest.fixture
def database(tmp_path, tracking_database):
    """A tracking database in a project."""
    path = tmp_path / "mlflow.db"
    path.write_bytes(tracking_database.read_bytes())
    return path


def refused_tracking(uri, project):
    with pytest.raises(ParameterError) as refused:
        prepare_tracking(tracked(uri), project)
    return refused.value.message


def test_a_tracking_database_is_made_once(tmp_path):
    path = tmp_path / "deep" / "er" / "mlflow.db"
    uri = f"sqlite:///{path}?timeout=60"
    prepare_tracking(tracked(uri), tmp_path)
    assert [own.name for own in MlflowClient(uri).search_experiments()] == ["Default"]
    made = path.read_bytes()
    prepare_tracking(tracked(uri), tmp_path)
    assert path.read_bytes() == made
    assert sorted(own.name for own in path.parent.iterdir()) == ["mlflow.db", "mlflow.db.lock"]


def test_the_experiment_is_made_before_kedro_mlflow_looks(database, tmp_path):
    configured = tracked(f"sqlite:///{database}", experiment={"name": "trial"})
    for _ in range(2):
        prepare_tracking(configured, tmp_path)
        assert MlflowClient(f"sqlite:///{database}").get_experiment_by_name("trial") is not None


def test_two_runs_create_their_experiment_at_once(database):
    both = Barrier(2, timeout=30)

    def create(client):
        for number in range(10):
            both.wait()
            create_experiment(client, f"trial {number}")

    clients = [MlflowClient(f"sqlite:///{database}") for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(create, clients))
    names = [own.name for own in clients[0].search_experiments()]
    assert sorted(names) == ["Default", *(f"trial {number}" for number in range(10))]


@pytest.mark.parametrize("revision", ["f5a4f2784254", "ffffffffffff"])
def test_a_tracking_database_of_another_version(database, tmp_path, revision):
    with closing(sqlite3.connect(database)) as opened, opened:
        opened.execute("UPDATE alembic_version SET version_num = ?", [revision])
    assert refused_tracking(f"sqlite:///{database}?timeout=60", tmp_path) == (
        f"MLflow cannot use sqlite:///mlflow.db: its schema is not that of MLflow {VERSION}. Take "
        "a copy; then mlflow db upgrade sqlite:///mlflow.db mends an older schema. A newer one "
        "needs the MLflow that made it"
    )


@pytest.mark.parametrize("kind", ["text", "folder", "another program's"])
def test_a_file_that_is_no_tracking_database(tmp_path, kind):
    path = tmp_path / "mlflow.db"
    if kind == "text":
        path.write_text("This is a text, which is longer than the header of a database.")
    elif kind == "folder":
        path.mkdir()
    else:
        with closing(sqlite3.connect(path)) as opened, opened:
            opened.execute("CREATE TABLE own (name)")
    message = refused_tracking(f"sqlite:///{path}", tmp_path)
    assert message.startswith(f"{path} cannot be read as a database of MLflow (")
    assert message.endswith(
        "if it is another file, move it away, and the next run makes a database"
    )
    # MLflow has added no tables.
    if kind == "another program's":
        with closing(sqlite3.connect(path)) as opened:
            assert opened.execute("SELECT name FROM sqlite_master").fetchall() == [("own",)]


def test_a_database_that_a_killed_run_has_left(tmp_path):
    """Its last change is undone when it is opened."""
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("CREATE TABLE experiments (name)")
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("BEGIN")
        # The change is larger than the cache, so that it is in the file before it is committed.
        writer.executemany("INSERT INTO experiments VALUES (?)", [["x" * 999]] * 99)
        left = tmp_path / "left.db"
        for suffix in ("", "-journal"):
            shutil.copy(f"{path}{suffix}", f"{left}{suffix}")
    assert Path(f"{left}-journal").stat().st_size > 0
    prepare_database(left)
    with closing(sqlite3.connect(left)) as opened:
        assert opened.execute("SELECT count(*) FROM experiments").fetchone() == (0,)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("nonsense://me:secret@here", "MLflow cannot use nonsense://here: .*unsupported URI"),
        ("mlruns", "MLflow cannot use mlruns: The filesystem tracking backend"),
    ],
)
def test_addresses_that_mlflow_cannot_use(tmp_path, monkeypatch, uri, reason):
    monkeypatch.chdir(tmp_path)
    assert re.match(reason, refused_tracking(uri, tmp_path))


def test_the_run_of_the_environment(database, tmp_path, monkeypatch):
    uri = f"sqlite:///{database}"
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)
    unset = "unset it to begin a new run"
    assert refused_tracking(uri, tmp_path) == (
        f"MLFLOW_RUN_ID is {'0' * 32}, but MLflow at sqlite:///mlflow.db cannot go on with this "
        f"run (Run with id={'0' * 32} not found): {unset}"
    )
    client = MlflowClient(uri)
    run_id = client.create_run(client.create_experiment("theirs")).info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", run_id)
    configured = tracked(uri, experiment={"name": "conle"})
    prepare_tracking(configured, tmp_path)
    assert configured["tracking"] == {"experiment": {"name": "theirs"}}
    client.delete_run(run_id)
    assert refused_tracking(uri, tmp_path).endswith(f"this run (it is deleted): {unset}")


def test_the_environment_goes_before_the_file(monkeypatch):
    """MLflow writes the address of a session into the variable: this one does not count."""
    hook = Preflight()

    def address(configured, experiment="conle"):
        own = tracked(configured, experiment={"name": "conle"})
        hook._take_environment(own)
        assert own["tracking"]["experiment"]["name"] == experiment
        return own["server"]["mlflow_tracking_uri"]

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert address("sqlite:///one.db") == "sqlite:///one.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///one.db")
    assert address("sqlite:///two.db") == "sqlite:///two.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    assert address("sqlite:///two.db", "theirs") == "http://server"
    assert address("sqlite:///one.db", "theirs") == "http://server"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    assert address("sqlite:///one.db", "theirs") == "sqlite:///one.db"
