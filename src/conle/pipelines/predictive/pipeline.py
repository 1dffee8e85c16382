"""A prediction per dataset and method, beside that from the true distributions and from L."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.methods.registry import METHODS, NORMALISED_LABELS, TRUE_DISTRIBUTIONS
from conle.pipelines import for_cell, resource_tags
from conle.pipelines.evaluation.nodes import score_folds
from conle.pipelines.predictive.nodes import (
    collect_predictive,
    nothing_predicted,
    predict_from_distributions,
    predict_from_logical_labels,
    predict_from_recovered,
)
from conle.pipelines.resuming import resumable

LEARNING = ["params:predictive.repeats", "params:predictive.l2"]


def create_pipeline(datasets: Sequence[str], methods: Sequence[str]) -> Pipeline:
    """Learn from each method's distributions of the training folds, and predict the test folds."""
    nodes, scores = [], []
    for dataset in datasets:
        references = {
            TRUE_DISTRIBUTIONS: (predict_from_distributions, f"{dataset}.label_distributions"),
            NORMALISED_LABELS: (predict_from_logical_labels, f"{dataset}.logical_labels"),
        }
        for method in (*methods, *references):
            cell = f"{dataset}.predictive_{method}"
            if method in references:
                function, targets = references[method]
                bound = {}
                inputs = [f"{dataset}.features", targets, f"{dataset}.folds", *LEARNING]
            else:
                function = predict_from_recovered
                bound = {"dataset": dataset, "method": method}
                inputs = [
                    f"{dataset}.features",
                    f"{dataset}.logical_labels",
                    f"{dataset}.folds",
                    f"params:{METHODS[method].parameters}",
                    *LEARNING,
                    "params:threshold",
                    "params:device",
                    "params:seed",
                    "params:degree_floors",
                ]
            nodes += [
                resumable(
                    function,
                    inputs=inputs,
                    outputs=["predicted"],
                    name="predict",
                    namespace=cell,
                    tags=[
                        dataset,
                        method,
                        *(["method", *resource_tags(method)] if method in METHODS else []),
                    ],
                    instead=nothing_predicted,
                    **bound,
                ),
                Node(
                    for_cell(score_folds, dataset=dataset, cell=method),
                    inputs=[
                        f"{dataset}.label_distributions",
                        f"{dataset}.logical_labels",
                        f"{cell}.predicted",
                    ],
                    outputs=f"{cell}.scores",
                    name="score",
                    namespace=cell,
                    tags=[dataset, method],
                ),
            ]
            scores.append(f"{cell}.scores")
    nodes.append(
        Node(collect_predictive, inputs=scores, outputs="predictive", name="collect_predictive")
    )
    return Pipeline(nodes, tags="predictive")
