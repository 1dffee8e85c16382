"""How Kedro-Viz opens the pipelines: a box per outermost namespace, a row per layer."""

import inspect
import warnings
from collections import defaultdict

import networkx as nx
import pandas as pd
import pytest
from cells_for_tests import parameters_with
from commands import REPOSITORY
from kedro.config import OmegaConfigLoader
from kedro.io import DataCatalog
from kedro.io.core import is_parameter
from matplotlib.figure import Figure

from conle import settings
from conle.data import atomic, optional
from conle.methods.registry import REFERENCES
from conle.options import set_run_parameters
from conle.pipeline_registry import register_pipelines

METHODS_OF_CONLE = ("conle", *REFERENCES)


@pytest.fixture
def registered():
    def register(*datasets):
        set_run_parameters(parameters_with(datasets=list(datasets)), REPOSITORY)
        return register_pipelines()

    yield register
    set_run_parameters(None, REPOSITORY)


@pytest.fixture(scope="module")
def layer_of():
    """The layer of a name; None for a parameter and for an entry that is kept in memory."""
    loader = OmegaConfigLoader(str(REPOSITORY / "conf"), env="base", **settings.CONFIG_LOADER_ARGS)
    catalog = DataCatalog.from_config(loader["catalog"])

    def layer(name):
        entry = None if is_parameter(name) else catalog.get(name)
        return None if entry is None else entry.metadata["kedro-viz"]["layer"]

    return layer


def opening_view(pipeline):
    """Boxes, nodes and catalog entries that Kedro-Viz shows before anything is expanded."""
    groups = defaultdict(list)
    for node in pipeline.nodes:
        groups[node.namespace.split(".")[0] if node.namespace else node].append(node)
    shown = set()
    for group in groups.values():
        made = {name for node in group for name in node.outputs}
        read = {name for node in group for name in node.inputs}
        others = [node for node in pipeline.nodes if node not in group]
        read_by_others = {name for node in others for name in node.inputs}
        shown |= (read - made) | (made - read) | (made & read_by_others)
    boxes = {group for group in groups if isinstance(group, str)}
    nodes = {group.name for group in groups if not isinstance(group, str)}
    return boxes, nodes, {name for name in shown if not is_parameter(name)}


def test_layers_never_go_back(registered, layer_of):
    """Kedro-Viz orders layers by the edges between them, and drops all of them for a cycle."""
    for datasets in (["Artificial"], ["SJAFFE", "Movie"]):
        for pipeline_name, pipeline in registered(*datasets).items():
            made_from = nx.DiGraph(
                (read, made)
                for node in pipeline.nodes
                for read in node.inputs
                for made in node.outputs
                if not is_parameter(read)
            )
            for read in made_from:
                layers = [(made, layer_of(made)) for made in nx.descendants(made_from, read)]
                for made, layer in layers:
                    if None not in (layer, layer_of(read)):
                        assert layer_of(read) <= layer, (pipeline_name, read, made)


@pytest.mark.parametrize("dataset", ["Artificial", "SJAFFE"])
def test_conle_on_one_dataset_is_laid_open(registered, layer_of, dataset):
    boxes, nodes, entries = opening_view(registered(dataset)["conle"])
    assert boxes == {dataset, "evaluation"}
    assert nodes == set()
    rows = defaultdict(set)
    for name in entries:
        rows[layer_of(name)].add(name)
    of_dataset = {
        "01 raw": {"raw"},
        "03 primary": {"features", "label_distributions", "logical_labels", "source"},
        "05 model input": {"folds"},
        "07 model output": {
            "conle.weights",
            *(f"{method}.recovered" for method in METHODS_OF_CONLE),
        },
        "08 reporting": {
            "conle.training_curves",
            *(f"{method}.scores" for method in METHODS_OF_CONLE),
            "recovery_picture",
            "statistics",
        },
    }
    expected = {
        layer: {f"{dataset}.{name}" for name in names} for layer, names in of_dataset.items()
    }
    expected["01 raw"] |= {"published_sizes", "published_recovery", "known_datasets"}
    expected["08 reporting"] |= {"results", "comparison"}
    assert rows == expected
    # At 1400 x 900 Kedro-Viz shows these 25 at 54 %.
    assert len(boxes) + len(entries) == 25


def test_conle_on_several_datasets_has_a_box_for_each(registered):
    boxes, nodes, entries = opening_view(registered("SJAFFE", "Movie")["conle"])
    assert boxes == {"SJAFFE", "Movie", "evaluation"}
    assert nodes == set()
    assert "SJAFFE.results" in entries
    assert "SJAFFE.folds" not in entries
    assert "SJAFFE.conle.scores" not in entries


@pytest.mark.parametrize(("name", "most"), [("baselines", 16), ("ablation", 18), ("posterior", 24)])
def test_other_pipelines_open_collapsed(registered, name, most):
    boxes, nodes, entries = opening_view(registered("SJAFFE")[name])
    assert boxes == {"SJAFFE", "evaluation"}
    assert nodes == set()
    assert len(boxes) + len(entries) <= most
    assert not {entry for entry in entries if entry.endswith((".recovered", ".scores", ".cost"))}


def test_the_report_is_one_box(registered):
    pipelines = registered("Artificial")
    boxes, nodes, entries = opening_view(pipelines["report"])
    assert (boxes, nodes) == ({"report"}, set())
    assert entries == {
        *("published_sizes", "published_recovery", "published_ranks", "published_ablation"),
        *("recorded", "runs", "provenance", "sensitivity", "convergence", "predictive", "report"),
    }
    boxes, nodes, entries = opening_view(pipelines["__default__"])
    assert (boxes, nodes) == ({"Artificial", "evaluation", "report"}, set())
    # At 1400 x 900 Kedro-Viz shows 25 of these at 49 %.
    assert len(boxes) + len(entries) <= 27


def test_a_dataset_that_is_laid_open_is_computed_in_the_same_way(registered):
    """Nodes change only their box."""

    def work(pipeline):
        return {
            (node.func.__name__, *node.inputs, *node.outputs)
            for node in pipeline.nodes
            if any("SJAFFE" in name for name in node.outputs)
        }

    alone, among_others = registered("SJAFFE"), registered("SJAFFE", "Movie")
    assert work(alone["conle"]) == work(among_others["conle"])


def test_no_box_is_left_and_entered_again(registered):
    """Kedro warns at each command about a namespace that nodes outside it interrupt."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        registered("Artificial")
        registered("SJAFFE", "Movie")
    assert not [str(own.message) for own in caught if "interrupted" in str(own.message)]


@pytest.mark.parametrize(
    ("dataset_class", "content", "kind"),
    [
        (atomic.CSVDataset, pd.DataFrame({"a": [1]}), "TablePreview"),
        (atomic.ParquetDataset, pd.DataFrame({"a": [1]}), "TablePreview"),
        (atomic.JSONDataset, {"a": 1}, "JSONPreview"),
        (atomic.MatplotlibDataset, Figure(), "ImagePreview"),
        (optional.OptionalCSVDataset, pd.DataFrame({"a": [1]}), "TablePreview"),
        (optional.OptionalParquetDataset, pd.DataFrame({"a": [1]}), "TablePreview"),
        (optional.OptionalJSONDataset, {"a": 1}, "JSONPreview"),
    ],
)
def test_nothing_is_previewed_until_a_run_writes_it(tmp_path, dataset_class, content, kind):
    dataset = dataset_class(filepath=str(tmp_path / "artifact.png"))
    assert dataset.preview() is None
    dataset.save(content)
    assert dataset.preview() is not None
    # Kedro-Viz chooses the kind of preview by the annotation.
    annotation = inspect.signature(dataset.preview).return_annotation
    assert getattr(annotation, "__name__", annotation) == kind


@pytest.mark.slow
def test_static_pages_are_built_before_any_run(project):
    pytest.importorskip("kedro_viz")
    built = project.kedro("viz", "build", "--include-previews")
    assert built.returncode == 0
    assert "previewed" not in built.stdout + built.stderr
