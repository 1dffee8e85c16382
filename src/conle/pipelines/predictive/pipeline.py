"""The predictive setting: each method beside true distributions and normalised logical labels."""

from collections.abc import Mapping, Sequence
from typing import Any

from kedro.pipeline import Node, Pipeline

from conle.cells import bind, make_cell
from conle.methods.registry import NORMALISED_LABELS, TRUE_DISTRIBUTIONS
from conle.pipelines.evaluation.nodes import score_folds
from conle.pipelines.predictive.nodes import (
    collect_predictive,
    predict_from_distributions,
    predict_from_logical_labels,
    predict_from_recovered,
)

LEARNING = ["params:predictive.repeats", "params:predictive.l2"]


def create_pipeline(
    datasets: Sequence[str], methods: Sequence[str], parameters: Mapping[str, Any]
) -> Pipeline:
    """Learn from each method's distributions of the training folds, and predict the test folds."""
    nodes, scores = [], []
    for dataset in datasets:
        nodes += [_method_node(dataset, method, parameters) for method in methods]
        nodes += [
            _reference_node(
                dataset, TRUE_DISTRIBUTIONS, predict_from_distributions, "label_distributions"
            ),
            _reference_node(
                dataset, NORMALISED_LABELS, predict_from_logical_labels, "logical_labels"
            ),
        ]
        for method in (*methods, TRUE_DISTRIBUTIONS, NORMALISED_LABELS):
            nodes.append(_score_node(dataset, method))
            scores.append(f"{_namespace(dataset, method)}.scores")
    nodes.append(
        Node(collect_predictive, inputs=scores, outputs="predictive", name="collect_predictive")
    )
    return Pipeline(nodes, tags="predictive")


def _namespace(dataset: str, method: str) -> str:
    return f"{dataset}.predictive_{method}"


def _method_node(dataset: str, method: str, parameters: Mapping[str, Any]) -> Node:
    cell = make_cell(parameters, dataset, method, f"predictive_{method}")
    return Node(
        bind(predict_from_recovered, cell=cell),
        inputs=[
            f"{dataset}.features",
            f"{dataset}.logical_labels",
            f"{dataset}.folds",
            *LEARNING,
        ],
        outputs=[f"{cell.namespace}.predicted", f"{cell.namespace}.cost"],
        name="predict",
        namespace=cell.namespace,
        tags=[method, *cell.tags],
    )


def _reference_node(dataset: str, reference: str, function: Any, targets: str) -> Node:
    return Node(
        function,
        inputs=[f"{dataset}.features", f"{dataset}.{targets}", f"{dataset}.folds", *LEARNING],
        outputs=f"{_namespace(dataset, reference)}.predicted",
        name="predict",
        namespace=_namespace(dataset, reference),
        tags=[dataset, reference],
    )


def _score_node(dataset: str, method: str) -> Node:
    namespace = _namespace(dataset, method)
    return Node(
        bind(score_folds, dataset=dataset, method=method),
        inputs=[
            f"{dataset}.label_distributions",
            f"{dataset}.logical_labels",
            f"{namespace}.predicted",
        ],
        outputs=f"{namespace}.scores",
        name="score",
        namespace=namespace,
        tags=[dataset, method],
    )
