"""Training traced without the true distributions, then scored."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.pipelines import for_cell, resource_tags
from conle.pipelines.convergence.nodes import (
    collect_convergence,
    draw_convergence,
    nothing_traced,
    score_epochs,
    trace_training,
)
from conle.pipelines.resuming import resumable


def create_pipeline(datasets: Sequence[str]) -> Pipeline:
    """Trace ConLE's training on each dataset."""
    nodes = []
    for dataset in datasets:
        traced = ["recovered_by_epoch", "objective_by_epoch"]
        nodes += [
            resumable(
                trace_training,
                inputs=[
                    f"{dataset}.features",
                    f"{dataset}.logical_labels",
                    f"{dataset}.folds",
                    "params:conle",
                    "params:convergence.epochs",
                    "params:convergence.repeats",
                    "params:device",
                    "params:seed",
                ],
                outputs=traced,
                name="trace_training",
                namespace=dataset,
                tags=["method", dataset, *resource_tags("conle")],
                instead=nothing_traced,
                dataset=dataset,
            ),
            Node(
                for_cell(score_epochs, dataset=dataset),
                inputs=[
                    f"{dataset}.label_distributions",
                    *(f"{dataset}.{artifact}" for artifact in traced),
                ],
                outputs=f"{dataset}.convergence",
                name="score_epochs",
                namespace=dataset,
                tags=dataset,
            ),
        ]
    nodes.append(
        Node(
            collect_convergence,
            inputs=[f"{dataset}.convergence" for dataset in datasets],
            outputs="convergence",
            name="collect_convergence",
        )
    )
    nodes.append(
        Node(
            draw_convergence,
            inputs="convergence",
            outputs="convergence_curves",
            name="draw_convergence",
        )
    )
    return Pipeline(nodes, tags="convergence")
