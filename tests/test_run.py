import platform

import pandas as pd
import pytest
from cells_for_tests import cell_of, parameters_with
from kedro.io import DataCatalog
from kedro.io.core import Version
from kedro.pipeline import Node, Pipeline

from conle import run
from conle.cells import bind
from conle.data.atomic import CSVDataset, JSONDataset, TextDataset
from conle.data.models import FittedModelDataset
from conle.data.runs import RunsDataset
from conle.errors import ParameterError
from conle.pipelines.ingestion.pipeline import create_pipeline as create_ingestion
from conle.pipelines.recovery.pipeline import recovery_node
from conle.process_identity import this_process
from conle.run import RecordedRun, SessionStore

DEAD = f"{platform.node()}_{2**22 + 1}_1.00"


def record(pipelines=("conle",), process=DEAD, methods=("conle",), datasets=("Toy",), **options):
    """The record of a run whose process has ended."""
    return {
        "pipelines": list(pipelines),
        "parameters": parameters_with(**options),
        "datasets": list(datasets),
        "methods": list(methods),
        "process": process,
    }


@pytest.fixture(params=["folder", "object store"])
def artifacts(request, tmp_path):
    if request.param == "folder":
        return str(tmp_path)
    return f"{request.getfixturevalue('bucket')}/{tmp_path.name}"


def test_what_a_run_writes_is_found_the_newest_first(artifacts):
    assert run.recorded_runs(artifacts) == []
    assert run.find(artifacts, "v1") is None
    for version in ("2026-01-02T00", "2026-01-01T00", "2026-01-03T00"):
        run.begin(artifacts, version, record(seed=int(version[9])))
    run.end(artifacts, "2026-01-02T00", {"Toy conle": "too wide"})
    newest, failed, oldest = run.recorded_runs(artifacts)
    assert newest == RecordedRun("2026-01-03T00", record(seed=3), None)
    assert failed.outcome == {"failed": {"Toy conle": "too wide"}}
    assert oldest.protocol == {
        "protocol": "cross_validation",
        "repeats": 10,
        "folds": 10,
        "seed": 1,
        "threshold": 0.5,
    }
    assert run.find(artifacts, "2026-01-02T00") == failed
    # A run that is resumed has no outcome yet.
    run.begin(artifacts, "2026-01-02T00", record(seed=7))
    assert run.find(artifacts, "2026-01-02T00") == RecordedRun(
        "2026-01-02T00", record(seed=7), None
    )


@pytest.mark.parametrize(
    ("process", "outcome", "resumable"),
    [
        (DEAD, None, True),
        (DEAD, {"failed": {}}, False),
        (DEAD, {"failed": {"Toy conle": "too wide"}}, True),
        (this_process(), None, False),
        # The process of a notebook is alive after a run.
        (this_process(), {"failed": {"Toy conle": "too wide"}}, True),
        # Processes on other hosts count as alive.
        ("elsewhere_1_1.00", None, False),
    ],
    # Names of tests must not hold the process, which differs between test workers.
    ids=["broken off", "done", "failed cell", "at work", "failed cell of this one", "elsewhere"],
)
def test_a_run_can_be_resumed_if_nobody_works_on_it(process, outcome, resumable):
    assert RecordedRun("v1", record(process=process), outcome).resumable is resumable


def test_the_run_to_resume(tmp_path):
    artifacts = str(tmp_path)

    def resumed(given=None, pipelines=("conle",)):
        found = run.run_to_resume(artifacts, pipelines, given or {})
        return None if found is None else found.version

    assert resumed() is None
    run.begin(artifacts, "1", record(seed=1))
    run.begin(artifacts, "2", record(seed=2))
    run.begin(artifacts, "3", record(seed=3, conle={"steps": 30}))
    run.begin(artifacts, "4", record(("posterior",)))
    run.begin(artifacts, "5", record(process=this_process()))
    run.begin(artifacts, "6", record())
    run.end(artifacts, "6", {})
    # These runs have the same pipeline, are not finished, and no process works on them.
    assert resumed() == "3"
    assert resumed(pipelines=["posterior"]) == "4"
    assert resumed(pipelines=["ablation"]) is None
    # A run with the same parameters comes first.
    assert resumed({"seed": 1}) == "1"
    assert resumed({"seed": 2, "resume": True}) == "2"
    assert resumed({"conle": {"steps": 30}}) == "3"
    assert resumed({"conle": {"steps": 200}}) == "2"
    assert resumed({"seed": 9}) == "3"
    run.end(artifacts, "3", {})
    assert resumed() == "2"
    run.end(artifacts, "1", {"Toy conle": "too wide"})
    assert resumed({"seed": 1}) == "1"


PRESENT = {
    "pipelines": ["conle"],
    "nodes": "a1",
    "parameters": {"seed": 0, "threads": None, "conle": {"steps": 20}},
    "datasets": ["Toy"],
    "methods": ["conle"],
    "raw_files": {"Toy.raw": "b1"},
    "code": "c1",
    "numpy": "2.4.0",
    "gpu": None,
    "threads": 2,
    "process": DEAD,
}


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"process": this_process()},
        # Only the number of threads counts, not the parameter that sets it.
        {"parameters": {"seed": 0, "threads": 2, "conle": {"steps": 20}}},
    ],
)
def test_the_same_run_is_resumed(other):
    run.refuse_other(PRESENT, PRESENT | other)


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ({"parameters": {"seed": 1, "conle": {"steps": 20}}}, "seed: 0, now 1"),
        ({"parameters": {"seed": 0, "conle": {"steps": 30}}}, "conle.steps: 20, now 30"),
        ({"parameters": {"seed": 0, "conle": {}}}, "conle.steps: 20, now None"),
        ({"raw_files": {"Toy.raw": "b2"}}, "Toy.raw has changed"),
        ({"code": "c2"}, "code has changed"),
        ({"numpy": "2.4.1"}, "numpy: '2.4.0', now '2.4.1'"),
        ({"threads": 1}, "threads: 2, now 1"),
        ({"gpu": "H200"}, "gpu: None, now 'H200'"),
        ({"nodes": "a2", "datasets": ["Toy", "One"]}, "other nodes are selected"),
    ],
)
def test_a_run_that_differs_is_refused(other, line):
    with pytest.raises(ParameterError) as error:
        run.refuse_other(PRESENT, PRESENT | other)
    first, *differing, last = error.value.message.splitlines()
    assert first == "The unfinished run cannot be resumed, because this one differs:"
    assert f"  {line}" in differing
    assert last == "Run the same command without --resume to begin a new run."
    # The message shows no digest and names no difference twice.
    assert not {"b2", "c2", "a2"} & set(error.value.message.split("'"))
    assert len(differing) == len(set(differing)) <= 2


@pytest.fixture
def toy(tmp_path):
    """A catalog and a pipeline: a node of a cell and the nodes after it, whose files exist."""

    def dataset(kind, name):
        return kind(filepath=str(tmp_path / name), version=Version("v1", "v1"))

    names = ("One.lp.recovered", "One.lp.scores", "Two.lp.recovered", "Two.lp.scores", "summary")
    catalog = DataCatalog(
        {
            **{name: dataset(TextDataset, name) for name in names},
            **{f"{name}.lp.cost": dataset(JSONDataset, f"{name}.cost") for name in ("One", "Two")},
            "model": FittedModelDataset(str(tmp_path / "model"), Version("v1", "v1")),
        }
    )
    for name in names:
        catalog.save(name, "text")
    for name in ("One", "Two"):
        catalog.save(f"{name}.lp.cost", {"seconds": 1.0})
    nodes = []
    for name in ("One", "Two"):
        nodes += [
            Node(
                bind(lambda cell: None, cell=cell_of("lp", dataset=name)),
                None,
                [f"{name}.lp.recovered", f"{name}.lp.cost"],
                name=f"recover_{name}",
            ),
            # This output stays in memory and has no file.
            Node(lambda rows: rows, f"{name}.lp.recovered", f"{name}.lp.sorted"),
            Node(lambda rows: rows, f"{name}.lp.sorted", f"{name}.lp.scores"),
        ]
    nodes.append(Node(lambda *rows: rows, ["One.lp.scores", "Two.lp.scores"], "summary"))
    return Pipeline(nodes), catalog


OF_ONE = {"One.lp.recovered", "One.lp.cost", "One.lp.sorted", "One.lp.scores", "summary"}


def test_nothing_is_made_again_if_all_is_there(toy):
    assert run.outputs_to_make_again(*toy) == set()
    assert run.failures(*toy) == {}


def test_a_failed_cell_and_all_that_follows_is_made_again(toy):
    pipeline, catalog = toy
    catalog.save("One.lp.cost", {"failure": "too wide"})
    assert run.failures(pipeline, catalog) == {"One lp": "too wide"}
    assert run.outputs_to_make_again(pipeline, catalog) == OF_ONE


@pytest.mark.parametrize(
    ("missing", "again"),
    [
        ("One.lp.recovered", OF_ONE),
        ("One.lp.cost", OF_ONE),
        ("One.lp.scores", {"One.lp.scores", "summary"}),
        ("summary", {"summary"}),
    ],
)
def test_what_is_missing_and_all_that_follows_is_made_again(toy, missing, again):
    pipeline, catalog = toy
    run.remove_output(catalog, missing)
    assert run.outputs_to_make_again(pipeline, catalog) == again


def test_the_version_of_an_output_is_removed(toy, tmp_path):
    _, catalog = toy
    older = CSVDataset(filepath=str(tmp_path / "summary"), version=Version("v0", "v0"))
    older.save(pd.DataFrame({"a": [1]}))
    run.remove_output(catalog, "summary")
    assert not catalog.exists("summary")
    assert older.exists()
    (tmp_path / "model" / "v1" / "model").mkdir(parents=True)
    (tmp_path / "model" / "v1" / "model" / "model.json").write_text("{}")
    run.remove_output(catalog, "model")
    assert not catalog.exists("model")
    # There is nothing to remove.
    run.remove_output(catalog, "model")
    run.remove_output(catalog, "in memory")


def test_files_without_versions_are_not_removed(tmp_path):
    """Such files belong to the user."""
    catalog = DataCatalog({"Toy.raw": TextDataset(filepath=str(tmp_path / "Toy.mat"))})
    catalog.save("Toy.raw", "text")
    run.remove_output(catalog, "Toy.raw")
    assert catalog.exists("Toy.raw")


def described(tmp_path, *methods, raw="raw", **options):
    (tmp_path / "Toy.mat").write_text(raw)
    catalog = DataCatalog({"Toy.raw": TextDataset(filepath=str(tmp_path / "Toy.mat"))})
    cells = [cell_of(method, **options) for method in methods]
    pipeline = create_ingestion(["Toy"]) + Pipeline([recovery_node(cell) for cell in cells])
    return run.describe(parameters_with(**options), ["conle"], pipeline, catalog)


def test_a_run_is_described_by_all_that_its_results_depend_on(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    first = described(tmp_path, "lp", "uniform", resume=True, seed=4)
    assert first["pipelines"] == ["conle"]
    assert (first["datasets"], first["methods"]) == (["Toy"], ["lp", "uniform"])
    assert first["parameters"]["seed"] == 4
    assert not {"resume", "registered_model", "fetch_from"} & set(first["parameters"])
    assert list(first["raw_files"]) == ["Toy.raw"]
    assert first["threads"] == 3
    assert first["gpu"] is None
    assert first["process"] == this_process()
    assert {"code", "numpy", "scipy", "scikit-learn", "torch", "pandas"} <= set(first)
    assert described(tmp_path, "lp", "uniform", seed=4) == first
    assert described(tmp_path, "lp", "uniform", seed=4, threads=1)["threads"] == 1
    other = described(tmp_path, "lp", "uniform", seed=4, raw="other")
    assert other.pop("raw_files") != first["raw_files"]
    assert other == {name: value for name, value in first.items() if name != "raw_files"}
    assert described(tmp_path, "lp", seed=4)["nodes"] != first["nodes"]


def test_a_folder_is_described_by_all_its_files(tmp_path):
    (tmp_path / "model").mkdir()
    catalog = DataCatalog({"enhance.fitted_model": FittedModelDataset(str(tmp_path / "model"))})
    pipeline = Pipeline([Node(lambda model: model, "enhance.fitted_model", "distributions")])
    digests = set()
    for name, content in (("a", "1"), ("a", "2"), ("b", "2")):
        (tmp_path / "model" / name).write_text(content)
        described = run.describe(parameters_with(), ["enhance"], pipeline, catalog)
        digests.add(described["raw_files"]["enhance.fitted_model"])
    assert len(digests) == 3


def test_other_code_is_something_else(monkeypatch):
    before = run.made_with()
    monkeypatch.setattr(run, "_digest_of_code", lambda: "other")
    after = run.made_with()
    assert before.pop("code") != after.pop("code")
    assert before == after


def test_the_table_of_runs(tmp_path):
    for version, more in (
        ("1", {"methods": ["conle", "lp"], "datasets": ["One", "Two"], "repeats": 10}),
        ("2", {"repeats": 1}),
        ("3", {"repeats": 1}),
        ("4", {"pipelines": ["fetch"], "methods": [], "datasets": []}),
    ):
        run.begin(str(tmp_path), version, record(**more))
    run.end(str(tmp_path), "1", {})
    table = RunsDataset(filepath=str(tmp_path)).load()
    # The newest of each protocol, datasets and methods; a run without cells has no scores.
    assert table["run"].tolist() == ["3", "1"]
    assert table["finished"].tolist() == ["no", "yes"]
    assert table["datasets"].tolist() == ["Toy", "One, Two"]
    assert table["methods"].tolist() == ["conle", "conle, lp"]
    assert table["repeats"].tolist() == [1, 10]
    assert table["command"][1] == (
        "kedro run --pipeline=report --params "
        '"datasets=One+Two,protocol=cross_validation,repeats=10,folds=10,seed=0,threshold=0.5"'
    )
    assert RunsDataset(filepath=str(tmp_path / "nothing")).load().empty


def test_runs_of_a_protocol(tmp_path):
    for version, options in (("1", {}), ("2", {"repeats": 1}), ("3", {"conle": {"steps": 20}})):
        run.begin(str(tmp_path), version, record(**options))
    runs = run.recorded_runs(str(tmp_path))
    found = run.of_protocol(runs, parameters_with())
    assert [own.version for own in found] == ["3", "1"]
    assert run.of_protocol(runs, parameters_with(seed=1)) == []


def test_a_session_has_a_version_of_its_own_or_that_of_a_run():
    first, second = (SessionStore("", "2026-01-01T00.00.00.000Z") for _ in range(2))
    for store in (first, second):
        store["session_id"] = "2026-01-01T00.00.00.000Z"
        store["other"] = "as it is"
    assert first["session_id"].startswith("2026-01-01T00.00.00.000Z-")
    assert first["session_id"] != second["session_id"]
    assert first["other"] == "as it is"
    SessionStore.resumed = "v1"
    resumed, after = (SessionStore("", "v2") for _ in range(2))
    for store in (resumed, after):
        store["session_id"] = "v2"
    assert resumed["session_id"] == "v1"
    assert after["session_id"].startswith("v2-")


def test_a_record_that_cannot_be_read_is_left_out(tmp_path, caplog):
    """A disk was full, or an earlier version of the project wrote it."""
    run.begin(str(tmp_path), "1", record())
    for version, content in (("2", ""), ("3", "{}")):
        path = tmp_path / run.LAYER / run.RUN / version / run.RUN
        path.parent.mkdir(parents=True)
        path.write_text(content)
    assert [own.version for own in run.recorded_runs(str(tmp_path))] == ["1"]
    assert "The record of the run 2 cannot be read" in caplog.text


def test_runs_of_another_raw_file_are_not_read():
    """A run that read no raw file itself has the data of the run whose artifacts it read."""
    runs = [
        run.RecordedRun(version, {"raw_files": raw, "inputs": inputs}, None)
        for version, raw, inputs in (
            ("4", {}, {"Toy.features": "3"}),
            ("3", {"Toy.raw": "new"}, {}),
            ("2", {}, {"Toy.features": "1"}),
            ("1", {"Toy.raw": "old", "Other.raw": "x"}, {}),
        )
    ]
    assert run.versions_of_data(runs, runs, "Toy") == ["4", "3"]
    assert run.versions_of_data(runs, runs[2:], "Toy") == ["2", "1"]
    # Nothing is known of the data of the others.
    assert run.versions_of_data(runs, runs, "Other") == ["4", "3", "2", "1"]


def test_datasets_compare_however_they_are_given(artifacts):
    """`--datasets A,B`, `--params datasets=A+B` and a list in a file are the same."""
    for version, datasets in (("1", "A+B"), ("2", ["A"])):
        own = run.comparable({"datasets": datasets, "seed": 0, "resume": True})
        assert own == {"datasets": datasets.split("+") if version == "1" else ["A"], "seed": 0}
        run.begin(artifacts, version, record() | {"parameters": own})

    def resumed(**given):
        found = run.run_to_resume(artifacts, ["conle"], given)
        return found and found.version

    assert resumed(datasets=["A", "B"]) == resumed(datasets="A+B") == "1"
    assert resumed(datasets="A") == resumed() == "2"
    # A run of other datasets is not the one to resume, one of another seed is: it is refused then.
    assert resumed(datasets="B") is None
    assert resumed(datasets="A", seed=1) == "2"


def test_nested_values_have_names_with_dots():
    assert run.flatten({"a": {"b": {"c": 1}, "d": [2]}, "e": {}}) == {
        "a.b.c": 1,
        "a.d": [2],
    }
