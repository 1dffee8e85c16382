import json
import pickle
from types import SimpleNamespace

import pandas as pd
import pytest
from cells_for_tests import cell_of, parameters_with
from kedro.config import OmegaConfigLoader
from kedro.io import DataCatalog
from kedro.io.core import Version
from kedro.pipeline import Node, Pipeline

from conle import run, versions
from conle.cells import bind
from conle.data.atomic import CSVDataset, JSONDataset
from conle.data.optional import OptionalCSVDataset
from conle.data.recorded import RecordedDataset
from conle.errors import FailedCellsError, ParameterError
from conle.reporting.exhibits import recorded_entries
from conle.versions import PinnedVersions, RunRecord, artifacts_folder


def table(path, kind=CSVDataset, version=None):
    return kind(filepath=str(path), save_args={"index": False}, version=Version(version, version))


def context_of(tmp_path, **options):
    configured = {"parameters": parameters_with(**options), "globals": {"artifacts": "data"}}
    return SimpleNamespace(config_loader=configured, project_path=tmp_path)


def pin(tmp_path, pipeline, catalog, load_versions=None, **options):
    hook = PinnedVersions()
    hook.after_context_created(context_of(tmp_path, **options))
    hook.before_pipeline_run(
        {"run_id": "present", "load_versions": load_versions}, pipeline, catalog
    )


def test_a_run_reads_what_it_has_written_itself(tmp_path):
    """A run that ends meanwhile is not read; the same holds in a worker that wrote nothing."""
    own = table(tmp_path / "table.csv")
    catalog = DataCatalog({"table": own})
    pin(tmp_path, Pipeline([Node(lambda: None, None, "table")]), catalog)
    worker = pickle.loads(pickle.dumps(own))
    catalog.save("table", pd.DataFrame({"a": [1]}))
    table(tmp_path / "table.csv", version="q: later").save(pd.DataFrame({"a": [2]}))
    assert (tmp_path / "table.csv" / "present" / "table.csv").is_file()
    assert catalog.load("table")["a"].tolist() == [1]
    assert worker.load()["a"].tolist() == [1]


FULL = {"repeats": 10}
QUICK = {"repeats": 1}


@pytest.fixture
def scores(tmp_path):
    """The scores of a cell that three runs have left, and the pipeline that reads them."""

    def written(version, number, **options):
        run.begin(
            str(tmp_path / "data"),
            version,
            {"parameters": parameters_with(**options), "process": "elsewhere_1_1.00"},
        )
        if number is not None:
            scored = table(tmp_path / "scores.csv", version=version)
            scored.save(pd.DataFrame({"a": [number]}))

    written("1: full", 1, **FULL)
    written("2: full", 2, **FULL)
    written("3: quick", 3, **QUICK)
    written("4: another seed", 4, **FULL, seed=1)
    # This run has not come to the cell.
    written("5: full", None, **FULL)
    catalog = DataCatalog({"Toy.lp.scores": table(tmp_path / "scores.csv", OptionalCSVDataset)})
    return Pipeline([Node(lambda rows: rows, "Toy.lp.scores", "copy")]), catalog


@pytest.mark.parametrize(
    ("options", "found"),
    [
        # A later quick trial does not hide a full run.
        (FULL, [2]),
        (QUICK, [3]),
        ({**FULL, "seed": 1}, [4]),
        ({**FULL, "conle": {"steps": 30}}, [2]),
    ],
)
def test_the_newest_run_of_the_same_protocol_is_read(tmp_path, scores, options, found):
    pipeline, catalog = scores
    pin(tmp_path, pipeline, catalog, **options)
    assert catalog.load("Toy.lp.scores")["a"].tolist() == found


@pytest.mark.parametrize(
    "other", [{"threshold": 0.6}, {"folds": 5}, {"protocol": "transductive"}, {"seed": 7}]
)
def test_no_run_of_another_protocol_is_read(tmp_path, scores, other):
    pipeline, catalog = scores
    pin(tmp_path, pipeline, catalog, **other)
    assert not catalog.exists("Toy.lp.scores")
    assert catalog.load("Toy.lp.scores") is None


def test_versions_of_the_command_win(tmp_path, scores):
    pipeline, catalog = scores
    catalog["Toy.lp.scores"] = table(tmp_path / "scores.csv", version="1: full")
    pin(tmp_path, pipeline, catalog, {"Toy.lp.scores": "1: full"}, **FULL)
    assert catalog.load("Toy.lp.scores")["a"].tolist() == [1]


@pytest.mark.parametrize("own", [False, True])
def test_a_report_reads_the_cells_of_this_run_and_of_earlier_ones(tmp_path, monkeypatch, own):
    monkeypatch.setattr(versions, "run_options", lambda: SimpleNamespace(datasets=["Toy"]))
    catalog = DataCatalog(
        {name: table(tmp_path / name, OptionalCSVDataset) for name in recorded_entries(["Toy"])}
        | {"recorded": RecordedDataset()}
    )
    run.begin(str(tmp_path / "data"), "earlier", {"parameters": parameters_with(**FULL)})
    table(tmp_path / "Toy.lp.scores", version="earlier").save(pd.DataFrame({"a": [1]}))
    nodes = [Node(lambda found: found, "recorded", "report")]
    if own:
        nodes.append(Node(lambda: None, None, "Toy.lp.scores"))
    pin(tmp_path, Pipeline(nodes), catalog, **FULL)
    loaded = catalog.load("recorded")
    assert loaded["Toy.km.scores"]() is None
    assert (loaded["Toy.lp.scores"]() is None) == own
    if own:
        catalog.save("Toy.lp.scores", pd.DataFrame({"a": [2]}))
    assert loaded["Toy.lp.scores"]()["a"].tolist() == [2 if own else 1]


def test_a_resumed_report_reads_the_same_versions(tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "run_options", lambda: SimpleNamespace(datasets=["Toy"]))
    catalog = DataCatalog(
        {name: table(tmp_path / name, OptionalCSVDataset) for name in recorded_entries(["Toy"])}
        | {"recorded": RecordedDataset()}
    )
    folder, record = str(tmp_path / "data"), {"parameters": parameters_with(**FULL)}
    for version in ("1", "2"):
        run.begin(folder, version, record)
        table(tmp_path / "Toy.lp.scores", version=version).save(pd.DataFrame({"a": [version]}))
    run.begin(folder, "present", {**record, "inputs": {"Toy.lp.scores": "1"}})
    pipeline = Pipeline([Node(lambda found: found, "recorded", "report")])
    pin(tmp_path, pipeline, catalog, **FULL)
    assert catalog.load("recorded")["Toy.lp.scores"]()["a"].tolist() == [1]
    assert run.entries_read(pipeline, catalog) == {"recorded", *recorded_entries(["Toy"])}


def test_a_version_that_does_not_exist_is_refused(tmp_path, scores):
    pipeline, catalog = scores
    catalog["Toy.lp.scores"] = table(tmp_path / "scores.csv", version="6: none")
    with pytest.raises(ParameterError) as error:
        pin(tmp_path, pipeline, catalog, {"Toy.lp.scores": "6: none"}, **FULL)
    assert error.value.message == (
        "--load-versions: Toy.lp.scores has no version '6: none'; it has: 4: another seed, "
        "3: quick, 2: full, 1: full"
    )
    catalog = DataCatalog({"new": table(tmp_path / "new.csv"), "raw": CSVDataset(filepath="raw")})
    for name, message in (
        ("new", "no version 'v'; no run has made it yet"),
        ("raw", "no versions"),
    ):
        with pytest.raises(ParameterError, match=f"{name} has {message}"):
            pin(tmp_path, Pipeline([]), catalog, {name: "v"})


def test_tables_of_the_whole_project_are_the_newest(tmp_path):
    """These tables have protocols of their own."""
    for version in ("1", "2"):
        table(tmp_path / "sensitivity.csv", version=version).save(pd.DataFrame({"a": [version]}))
    catalog = DataCatalog({"sensitivity": table(tmp_path / "sensitivity.csv")})
    pin(tmp_path, Pipeline([Node(lambda rows: rows, "sensitivity", "copy")]), catalog)
    assert catalog.load("sensitivity")["a"].tolist() == [2]


def test_what_has_no_versions_is_left(tmp_path):
    table = CSVDataset(filepath=str(tmp_path / "Toy.csv"))
    catalog = DataCatalog({"Toy.raw": table, "params:seed": table})
    pin(tmp_path, Pipeline([Node(lambda *_: None, ["Toy.raw", "params:seed"], "out")]), catalog)
    assert table.resolve_load_version() is None


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """The hook, and the pipeline and the catalog of one cell and a summary."""
    continued = []
    monkeypatch.setattr(versions, "continue_tracking", lambda *given: continued.append(given[1]))
    catalog = DataCatalog(
        {
            name: JSONDataset(filepath=str(tmp_path / name), version=Version("v1", "v1"))
            for name in ("Toy.lp.cost", "summary")
        }
    )
    pipeline = Pipeline(
        [
            Node(bind(lambda cell: None, cell=cell_of("lp")), None, "Toy.lp.cost", name="lp"),
            Node(lambda cost: cost, "Toy.lp.cost", "summary", name="summarise"),
        ]
    )

    def begin(**options):
        hook = RunRecord()
        hook.after_context_created(context_of(tmp_path, **options))
        hook.before_pipeline_run({"run_id": "v1", "pipeline_names": ["conle"]}, pipeline, catalog)
        return hook

    return begin, pipeline, catalog, continued


def content(tmp_path, name):
    path = tmp_path / "data" / "08_reporting" / name / "v1" / name
    return json.loads(path.read_text()) if path.exists() else None


def test_a_run_records_its_begin_and_its_outcome(tmp_path, recorded):
    begin, pipeline, catalog, continued = recorded
    hook = begin(seed=3)
    begun = content(tmp_path, "run.json")
    assert (begun["pipelines"], begun["methods"]) == (["conle"], ["lp"])
    assert begun["parameters"]["seed"] == 3
    assert content(tmp_path, "outcome.json") is None
    catalog.save("Toy.lp.cost", {"seconds": 1.0})
    hook.after_pipeline_run(pipeline, catalog)
    assert content(tmp_path, "outcome.json") == {"failed": {}}
    assert continued == []


def test_failed_cells_are_recorded_and_end_in_a_message(tmp_path, recorded):
    begin, pipeline, catalog, _ = recorded
    hook = begin()
    catalog.save("Toy.lp.cost", {"failure": "too wide"})
    with pytest.raises(FailedCellsError) as error:
        hook.after_pipeline_run(pipeline, catalog)
    assert error.value.message == (
        "1 of 1 cells have failed, all others are done:\n  Toy lp: too wide"
    )
    assert content(tmp_path, "outcome.json") == {"failed": {"Toy lp": "too wide"}}


def test_a_resumed_run_makes_what_failed_and_what_follows_again(tmp_path, recorded):
    begin, pipeline, catalog, continued = recorded
    hook = begin()
    catalog.save("Toy.lp.cost", {"failure": "too wide"})
    catalog.save("summary", {"failure": "too wide"})
    with pytest.raises(FailedCellsError):
        hook.after_pipeline_run(pipeline, catalog)
    begin()
    assert not catalog.exists("Toy.lp.cost")
    assert not catalog.exists("summary")
    assert content(tmp_path, "outcome.json") is None
    assert continued == ["v1"]


def test_a_resumed_run_keeps_what_is_done(recorded):
    begin, _, catalog, _ = recorded
    begin()
    catalog.save("Toy.lp.cost", {"seconds": 1.0})
    begin()
    assert catalog.load("Toy.lp.cost") == {"seconds": 1.0}
    assert not catalog.exists("summary")


def test_a_run_with_other_parameters_is_not_resumed(tmp_path, recorded):
    begin, _, catalog, continued = recorded
    begin()
    catalog.save("Toy.lp.cost", {"failure": "too wide"})
    with pytest.raises(ParameterError, match="seed: 0, now 1"):
        begin(seed=1)
    # Nothing is removed, and the record of the earlier run stays.
    assert catalog.exists("Toy.lp.cost")
    assert content(tmp_path, "run.json")["parameters"]["seed"] == 0
    assert continued == []


def test_a_run_that_another_process_has_taken_over_is_refused(tmp_path, recorded, monkeypatch):
    begin, _, catalog, continued = recorded
    begin()
    catalog.save("Toy.lp.cost", {"failure": "too wide"})
    monkeypatch.setattr(run, "this_process", lambda: "another")
    with pytest.raises(ParameterError, match=r"Another command goes on with the run v1 already\."):
        begin()
    assert catalog.exists("Toy.lp.cost")
    assert continued == []


def test_the_folder_of_the_artifacts():
    assert artifacts_folder("data", "/project") == "/project/data"
    assert artifacts_folder("/elsewhere", "/project") == "/elsewhere"
    assert artifacts_folder("s3://bucket/conle", "/project") == "s3://bucket/conle"


def test_the_table_of_enhance_has_an_entry_of_its_own(request):
    """The names of its entries differ from those of all datasets."""
    from conle.settings import CONFIG_LOADER_ARGS

    conf = str(request.config.rootpath / "conf")
    loader = OmegaConfigLoader(conf, env="base", **CONFIG_LOADER_ARGS)
    assert "enhance.logical_labels" in loader["catalog"]
    catalog = DataCatalog.from_config(loader["catalog"])
    paths = {
        name: str(catalog.get(f"{name}.logical_labels")._describe()["filepath"])
        for name in ("enhance", "Toy")
    }
    assert paths == {
        "enhance": "data/03_primary/enhance/logical_labels.parquet",
        "Toy": "data/03_primary/Toy/logical_labels.parquet",
    }
