import platform

import pytest
import threadpoolctl
import torch
from cells_for_tests import cell_of, parameters_with
from kedro.io import DataCatalog, MemoryDataset
from kedro.pipeline import Node, Pipeline

from conle import run
from conle.cells import bind
from conle.data.atomic import JSONDataset
from conle.data.optional import OptionalJSONDataset
from conle.errors import ParameterError, RawFileError
from conle.pipelines.recovery.pipeline import recovery_node
from conle.preflight import Preflight, read_by_hooks, use_threads


def check(tmp_path, pipeline=None, catalog=None, artifacts="data", runner="", **options):
    """Run the checks of the nodes and files of a run."""
    hook = Preflight()
    hook._parameters = parameters_with(**options)
    hook._artifacts = artifacts if "://" in artifacts else str(tmp_path / artifacts)
    run_params = {"project_path": str(tmp_path), "runner": runner}
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
    assert "SJAFE is no dataset of the paper; did you mean 'SJAFFE'?" in message
    assert refused("enhance.input", RawFileError, input="my.csv") == "my.csv is missing"
    assert "No table is given: --input FILE" in refused("enhance.input", RawFileError)
    assert refused("enhance.fitted_model", RawFileError, model="m").startswith("m is missing")
    assert "git restores them" in refused("known_files", RawFileError)
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
