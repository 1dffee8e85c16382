"""Convergence: training is traced without the true distributions, then scored."""

from collections.abc import Mapping, Sequence
from typing import Any

from kedro.pipeline import Node, Pipeline

from conle.cells import bind, make_cell
from conle.pipelines.convergence.nodes import (
    collect_convergence,
    draw_convergence,
    score_epochs,
    trace_training,
)

TRACED = ("recovered_by_epoch", "objective_by_epoch")


def create_pipeline(datasets: Sequence[str], parameters: Mapping[str, Any]) -> Pipeline:
    """Trace ConLE's training on each dataset, with the run's parameters."""
    nodes = []
    for dataset in datasets:
        cell = make_cell(parameters, dataset, "conle", "convergence")
        nodes += [
            Node(
                bind(trace_training, cell=cell),
                inputs=[
                    f"{dataset}.features",
                    f"{dataset}.logical_labels",
                    f"{dataset}.folds",
                    "params:convergence.epochs",
                    "params:convergence.repeats",
                ],
                outputs=[*(f"{dataset}.{name}" for name in TRACED), f"{dataset}.convergence_cost"],
                name="trace_training",
                namespace=dataset,
                tags=cell.tags,
            ),
            Node(
                bind(score_epochs, dataset=dataset),
                inputs=[
                    f"{dataset}.label_distributions",
                    *(f"{dataset}.{name}" for name in TRACED),
                ],
                outputs=f"{dataset}.convergence",
                name="score_epochs",
                namespace=dataset,
                tags=dataset,
            ),
        ]
    nodes += [
        Node(
            collect_convergence,
            inputs=[f"{dataset}.convergence" for dataset in datasets],
            outputs="convergence",
            name="collect_convergence",
        ),
        Node(
            draw_convergence,
            inputs="convergence",
            outputs="convergence_curves",
            name="draw_convergence",
        ),
    ]
    return Pipeline(nodes, tags="convergence")
