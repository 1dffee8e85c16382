"""Scores, the results table and its summary, and pictures."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.cells import bind
from conle.methods.registry import METHODS
from conle.pipelines.evaluation.nodes import (
    collect_dataset,
    collect_results,
    draw_recovery,
    draw_training_curves,
    score_folds,
)
from conle.reporting.scores import compare_with_published

# Namespace of the nodes that belong to no dataset.
STAGE = "evaluation"


def create_pipeline(datasets: Sequence[str], methods: Sequence[str]) -> Pipeline:
    """Evaluate each method on each dataset, and put all scores into one table."""
    nodes = []
    for dataset in datasets:
        for method in methods:
            cell = f"{dataset}.{method}"
            nodes.append(score_node(dataset, method))
            if method in METHODS and METHODS[method].trained:
                nodes.append(
                    Node(
                        bind(draw_training_curves, dataset=dataset, method=method),
                        inputs=f"{cell}.curves",
                        outputs=f"{cell}.training_curves",
                        name="draw_training_curves",
                        namespace=cell,
                        tags=[dataset, method],
                    )
                )
        nodes.append(
            Node(
                bind(draw_recovery, dataset=dataset, methods=tuple(methods)),
                inputs=[
                    f"{dataset}.features",
                    f"{dataset}.label_distributions",
                    f"{dataset}.folds",
                    *(f"{dataset}.{method}.recovered" for method in methods),
                ],
                outputs=f"{dataset}.recovery_picture",
                name="draw_recovery",
                namespace=dataset,
                tags=dataset,
            )
        )
        nodes.append(
            Node(
                bind(collect_dataset, cells=tuple((dataset, method) for method in methods)),
                inputs=[f"{dataset}.{method}.scores" for method in methods],
                outputs=f"{dataset}.results",
                name="collect",
                namespace=dataset,
                tags=dataset,
            )
        )
    nodes += [
        Node(
            collect_results,
            inputs=[f"{dataset}.results" for dataset in datasets],
            outputs=["results", "summary"],
            name="collect_results",
            namespace=STAGE,
        ),
        Node(
            compare_with_published,
            inputs=["summary", "published_recovery"],
            outputs="comparison",
            name="compare_with_published",
            namespace=STAGE,
        ),
    ]
    return Pipeline(nodes, tags="evaluation")


def score_node(dataset: str, name: str) -> Node:
    """The node that scores the recovered distributions of a cell, `<dataset>.<name>`."""
    return Node(
        bind(score_folds, dataset=dataset, method=name),
        inputs=[
            f"{dataset}.label_distributions",
            f"{dataset}.logical_labels",
            f"{dataset}.{name}.recovered",
            f"{dataset}.{name}.cost",
        ],
        outputs=f"{dataset}.{name}.scores",
        name="score",
        namespace=f"{dataset}.{name}",
        tags=[dataset, name],
    )
