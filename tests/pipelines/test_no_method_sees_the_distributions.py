"""The one rule whose breach makes every result worthless."""

import inspect
from functools import partial

import networkx as nx
import numpy as np
import pytest

from conle.core.binarisation import binarise
from conle.methods.contract import LabelEnhancer
from conle.methods.references import LabelPosterior
from conle.methods.registry import BASELINES, METHODS, REFERENCES
from conle.options import set_run_parameters
from conle.pipeline_registry import register_pipelines
from conle.pipelines.convergence.nodes import trace_training
from conle.pipelines.enhance.nodes import fit_and_enhance
from conle.pipelines.ingestion.nodes import make_logical_labels
from conle.pipelines.posterior.nodes import choose_representation, draw_held_out
from conle.pipelines.predictive.nodes import predict_from_recovered
from conle.pipelines.recovery.nodes import recover

DATASETS = ["Artificial", "SJAFFE", "Yeast_spo5"]
# The raw file holds the features too: the node that reads it hands them on.
EXCEPTIONS = {("ingest", "features")}
# Whatever a part of a pipeline may read that the distributions went into.
MADE_WITH_DISTRIBUTIONS = (
    ".raw",
    ".label_distributions",
    ".given_logical_labels",
    ".statistics",
    ".scores",
    ".coverage",
    ".convergence",
    "results",
    "summary",
    "comparison",
    "sensitivity",
    "predictive",
)


def runs_a_method(node) -> bool:
    """By its function: whatever else it is called or tagged."""
    functions = (
        recover,
        trace_training,
        choose_representation,
        draw_held_out,
        predict_from_recovered,
        fit_and_enhance,
    )
    if not isinstance(node.func, partial):
        return False
    # Of a node that can be resumed, the function is an argument.
    return node.func.keywords.get("function", node.func.func) in functions


@pytest.fixture
def pipelines(request):
    set_run_parameters(
        {
            "datasets": DATASETS,
            "sensitivity": {
                "datasets": ["SBU_3DFE"],
                "parameters": ["lambda1"],
                "grid": [0.1, 1.0],
                "steps": 20,
            },
            "convergence": {"datasets": ["Movie"], "epochs": 2, "repeats": 1},
            "raw_dir": "data/01_raw",
            "seed": 0,
            "repeats": 1,
            "folds": 2,
            "protocol": "cross_validation",
            "threshold": 0.5,
            "device": "cpu",
            "resume": False,
            "threads": None,
            "degree_floors": {},
            "predictive": {"methods": ["conle", "lp"], "without": [], "repeats": 1, "l2": 1.0},
            "fetch_from": "",
            "input": None,
            "method": "conle",
            "model": None,
            "registered_model": "conle",
        },
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
        "sensitivity",
        "convergence",
        "predictive",
        "fetch",
        "enhance",
        "report",
        "__default__",
    } == set(pipelines)
    for name, pipeline in pipelines.items():
        assert leaks(pipeline) == [], name


def test_every_method_node_is_looked_at(pipelines):
    for pipeline in pipelines.values():
        assert all(runs_a_method(node) == ("method" in node.tags) for node in pipeline.nodes)
    nodes = [node for node in pipelines["conle"].nodes if runs_a_method(node)]
    assert len(nodes) == len(DATASETS) * 4
    assert len([n for n in pipelines["__default__"].nodes if "recovery" in n.tags]) == 30
    for node in nodes:
        dataset, method = node.namespace.split(".")
        assert dataset in DATASETS
        assert method in METHODS


@pytest.mark.parametrize(
    "shortcut",
    [
        ("SJAFFE.label_distributions", "SJAFFE.folds"),
        ("SJAFFE.raw", "SJAFFE.folds"),
        ("SJAFFE.uniform.scores", "SJAFFE.logical_labels"),
    ],
)
def test_a_leak_would_be_found(pipelines, shortcut):
    """The walk itself is tested: with a node that passes something on, it must object."""
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
    """Two runs whose raw files differ in D alone, binarised alike: the same bytes recovered."""
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
        run = project.run(pipeline, datasets="Toy", protocol=protocol, **{"levi_mlp.epochs": 5})
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
