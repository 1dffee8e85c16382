"""No method sees the true distributions: otherwise every result would be worthless."""

import ast
import inspect
from importlib import import_module
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from cells_for_tests import parameters_with

import conle
from conle.cells import Cell, CellFunction
from conle.core.binarisation import binarise
from conle.methods.contract import LabelEnhancer
from conle.methods.references import LabelPosterior
from conle.methods.registry import BASELINES, METHODS, REFERENCES
from conle.options import set_run_parameters
from conle.pipeline_registry import register_pipelines
from conle.pipelines.convergence.nodes import trace_training
from conle.pipelines.enhance.nodes import compare_methods, fit_and_enhance
from conle.pipelines.ingestion.nodes import make_logical_labels
from conle.pipelines.limit.nodes import recover_with_distributions
from conle.pipelines.posterior.nodes import draw_held_out
from conle.pipelines.predictive.nodes import predict_from_recovered
from conle.pipelines.recovery.nodes import recover

DATASETS = ["Artificial", "SJAFFE", "Yeast_spo5"]
# The raw file holds the features too, and the node that reads it passes them on.
EXCEPTIONS = {("ingest", "features")}
# Ends of the names of datasets that are made with the distributions.
MADE_WITH_DISTRIBUTIONS = (
    ".raw",
    ".label_distributions",
    ".given_logical_labels",
    ".statistics",
    ".scores",
    ".coverage",
    ".convergence",
    ".samples",
    "results",
    "summary",
    # Not `enhance.comparison`: a user's own table has no distributions.
    " comparison",
    "sensitivity",
    "predictive",
)


MAKES_AN_ENHANCER = {
    recover,
    trace_training,
    draw_held_out,
    predict_from_recovered,
    fit_and_enhance,
    compare_methods,
    recover_with_distributions,
}


# These pipelines have the row that is shown true distributions.
WITH_LIMIT = {"limit", "benchmark"}


def runs_a_method(node) -> bool:
    """A node runs a method if its function is bound to a cell, whatever its name and tags."""
    return isinstance(node.func, CellFunction)


@pytest.fixture
def pipelines(request):
    set_run_parameters(
        parameters_with(
            datasets=DATASETS,
            sensitivity={"grid": [0.1, 1.0], "parameters": ["lambda1"]},
            predictive={"methods": ["conle", "lp"]},
        ),
        request.config.rootpath,
    )
    yield register_pipelines()
    set_run_parameters(None, request.config.rootpath)


def leaks(pipeline) -> list[tuple[str, str]]:
    """Pairs of a forbidden dataset and a method node that it reaches past the binarisation."""
    graph = nx.DiGraph()
    for node in pipeline.nodes:
        short_name = node.name.rsplit(".", 1)[-1]
        if node.func is make_logical_labels:
            assert node.name == f"{node.namespace}.binarise"
            continue
        for name in node.inputs:
            graph.add_edge(f"dataset {name}", f"node {node.name}")
        for name in node.outputs:
            if (short_name, name.rsplit(".", 1)[-1]) not in EXCEPTIONS:
                graph.add_edge(f"node {node.name}", f"dataset {name}")
    forbidden = [
        name
        for name in graph
        if name.startswith("dataset ") and name.endswith(MADE_WITH_DISTRIBUTIONS)
    ]
    methods = [f"node {node.name}" for node in pipeline.nodes if runs_a_method(node)]
    return [
        (name, method)
        for name in forbidden
        for method in methods
        if method in graph and nx.has_path(graph, name, method)
    ]


def test_no_registered_pipeline_leads_from_the_distributions_to_a_method(pipelines):
    assert {
        "ingestion",
        "splitting",
        "recovery",
        "evaluation",
        "conle",
        "baselines",
        "posterior",
        "ablation",
        "adaptive",
        "limit",
        "benchmark",
        "sensitivity",
        "convergence",
        "predictive",
        "fetch",
        "enhance",
        "report",
        "__default__",
    } == set(pipelines)
    for name, pipeline in pipelines.items():
        if name not in WITH_LIMIT:
            assert leaks(pipeline) == [], name


def test_the_limit_alone_is_shown_the_distributions_and_nothing_reads_it_but_the_evaluation(
    pipelines,
):
    shown = {
        (f"dataset {dataset}.{name}", f"node {dataset}.limit.recover")
        for dataset in DATASETS
        for name in ("raw", "label_distributions")
    }
    for name in WITH_LIMIT:
        assert set(leaks(pipelines[name])) == shown, name
    for name, pipeline in pipelines.items():
        readers = {
            node.name.rsplit(".", 1)[-1]
            for node in pipeline.nodes
            if any(".limit." in own for own in node.inputs)
        }
        assert readers <= {"score", "collect", "draw_recovery"}, name
        assert (name in WITH_LIMIT) == any(".limit." in node.name for node in pipeline.nodes)


def test_every_method_node_is_looked_at(pipelines):
    for pipeline in pipelines.values():
        assert all(runs_a_method(node) == ("method" in node.tags) for node in pipeline.nodes)
    nodes = [node for node in pipelines["conle"].nodes if runs_a_method(node)]
    assert len(nodes) == len(DATASETS) * 4
    recovered = [node for node in pipelines["__default__"].nodes if "recovery" in node.tags]
    assert len(recovered) == len(DATASETS) * (1 + len(BASELINES) + len(REFERENCES))
    for node in nodes:
        dataset, method = node.namespace.split(".")
        assert dataset in DATASETS
        assert method in METHODS


def test_every_function_that_makes_an_enhancer_is_bound_to_a_cell(pipelines):
    """Only `Cell` makes enhancers, and only the functions that this test lists use it."""
    makers, others = set(), set()
    package = Path(conle.__file__).parent
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if "pipelines" in path.parts:
            imported = {own.module for own in ast.walk(tree) if isinstance(own, ast.ImportFrom)}
            methods = {name for name in imported if name.startswith("conle.methods.")}
            # No class of a method: cells make enhancers by the registry.
            assert methods <= {
                "conle.methods.contract",
                "conle.methods.geometry",
                "conle.methods.registry",
            }
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for function in functions:
            called = {
                ast.unparse(node.func).rpartition(".")[2]
                for node in ast.walk(function)
                if isinstance(node, ast.Call)
            }
            if not called & {"make_enhancer", "enhancer_class"}:
                continue
            place = path.relative_to(package).with_suffix("")
            if place.parts[0] == "pipelines":
                module = import_module(f"conle.{'.'.join(place.parts)}")
                makers.add(getattr(module, function.name))
            else:
                others.add((place.as_posix(), function.name))
    assert makers == MAKES_AN_ENHANCER
    # A model that is read is already fitted; the preflight and the hyperparameters fit none.
    assert others == {
        ("cells", "hyperparameters"),
        ("cells", "make_enhancer"),
        ("data/models", "read_model"),
        ("methods/registry", "make_enhancer"),
        ("preflight", "before_pipeline_run"),
    }
    bound = set()
    for pipeline in pipelines.values():
        for node in pipeline.nodes:
            function = getattr(node.func, "func", node.func)
            assert runs_a_method(node) == (function in makers), node.name
            if runs_a_method(node):
                bound.add(function)
                assert isinstance(node.func.cell, Cell)
                candidates = node.func.keywords.get("candidates", ())
                # Cells hold parameters, not data.
                assert set(node.func.keywords) <= {"cell", "candidates"}
                assert all(isinstance(candidate, Cell) for candidate in candidates)
    assert bound == makers


@pytest.mark.parametrize(
    "shortcut",
    [
        ("SJAFFE.label_distributions", "SJAFFE.folds"),
        ("SJAFFE.raw", "SJAFFE.folds"),
        ("SJAFFE.uniform.scores", "SJAFFE.logical_labels"),
    ],
)
def test_a_leak_would_be_found(pipelines, shortcut):
    """The search itself is tested: it must find a node that passes distributions on."""
    from kedro.pipeline import Node, Pipeline

    source, target = shortcut
    kept = [node for node in pipelines["conle"].nodes if target not in node.outputs]
    without_cycle = [node for node in kept if source not in node.outputs]
    spoilt = Pipeline([*without_cycle, Node(lambda x: x, source, target, name="shortcut")])
    if source.endswith(".scores"):
        spoilt = Pipeline(
            [
                *without_cycle,
                Node(lambda x: x, "SJAFFE.label_distributions", source, name="peek"),
                Node(lambda x: x, source, target, name="shortcut"),
            ]
        )
    assert leaks(spoilt)


def test_methods_take_features_and_logical_labels_only():
    for method in METHODS.values():
        assert issubclass(method.enhancer_class, LabelEnhancer)
        for name in ("fit", "transform", "fit_transform"):
            parameters = inspect.signature(getattr(method.enhancer_class, name)).parameters
            assert list(parameters) == ["self", "features", "logical_labels"]


@pytest.mark.parametrize(
    ("pipeline", "protocol"),
    [
        ("conle", "cross_validation"),
        pytest.param("__default__", "cross_validation", marks=pytest.mark.slow),
        pytest.param("__default__", "transductive", marks=pytest.mark.slow),
    ],
)
def test_other_distributions_with_the_same_labels_change_nothing_recovered(
    project, pipeline, protocol
):
    """Raw files that differ only in D, and binarise to the same L, give equal recoveries."""
    generator = np.random.default_rng(5)
    features = generator.normal(size=(40, 6))
    first = generator.dirichlet(np.full(4, 2.0), size=40)
    logical_labels = binarise(first)
    second = LabelPosterior().fit_transform(features, logical_labels)
    np.testing.assert_array_equal(binarise(second), logical_labels)
    assert np.abs(first - second).max() > 0.1

    recovered, scores = [], []
    for distributions in (first, second):
        project.write_raw("Toy", features, distributions)
        short = {"levi_mlp.epochs": 5, "lible.epochs": 5}
        run = project.run(pipeline, datasets="Toy", protocol=protocol, **short)
        assert run.returncode == 0, run.stderr
        baselines = () if pipeline == "conle" else BASELINES
        methods = ("conle", *baselines, *REFERENCES)
        recovered.append(
            [
                project.newest(f"07_model_output/Toy/{method}/recovered.parquet").read_bytes()
                for method in methods
            ]
        )
        scores.append(project.newest("08_reporting/results.parquet").read_bytes())
    assert recovered[0] == recovered[1]
    assert scores[0] != scores[1]
