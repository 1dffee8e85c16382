"""The decoders, one choice among them per dataset, and its recovery under a name of its own."""

from collections.abc import Mapping, Sequence

from kedro.pipeline import Node, Pipeline

from conle.methods.registry import CHOSEN, FLOORS, METHODS, POSTERIORS
from conle.pipelines import for_cell, resource_tags
from conle.pipelines.posterior.nodes import (
    choose_representation,
    compare_intervals,
    draw_held_out,
    nothing_chosen,
    nothing_drawn,
    take_chosen,
    take_over,
)
from conle.pipelines.recovery.pipeline import recovery_node
from conle.pipelines.resuming import resumable


def create_pipeline(datasets: Sequence[str], degree_floors: Mapping[str, float]) -> Pipeline:
    """Recover each dataset with every decoder, and choose by the likelihood of logical labels.

    Args:
        datasets: their names.
        degree_floors: of the datasets that declare one.
    """
    nodes = []
    for dataset in datasets:
        nodes += [recovery_node(dataset, method, method) for method in POSTERIORS]
        nodes += [
            _take_over(dataset, method)
            if METHODS[method].fixed["degree_floor"] == degree_floors.get(dataset, 0.0)
            else recovery_node(dataset, method, method)
            for method in FLOORS
        ]
        for method in POSTERIORS:
            nodes += _examine(dataset, method)
        nodes += [
            resumable(
                choose_representation,
                inputs=[
                    f"{dataset}.features",
                    f"{dataset}.logical_labels",
                    "params:threshold",
                    "params:device",
                    "params:seed",
                    "params:degree_floors",
                    *(f"params:{METHODS[method].parameters}" for method in POSTERIORS),
                ],
                outputs=["posterior_choice"],
                name="choose_representation",
                namespace=dataset,
                tags=["method", dataset, *resource_tags("conle_posterior")],
                instead=nothing_chosen,
                dataset=dataset,
            ),
            Node(
                take_chosen,
                inputs=[
                    f"{dataset}.posterior_choice",
                    *(
                        f"{dataset}.{method}.{output}"
                        for method in POSTERIORS
                        for output in ("recovered", "cost")
                    ),
                ],
                outputs=[f"{dataset}.{CHOSEN}.recovered", f"{dataset}.{CHOSEN}.cost"],
                name="take_chosen",
                namespace=f"{dataset}.{CHOSEN}",
                tags=[dataset, CHOSEN],
            ),
        ]
    return Pipeline(nodes, tags="posterior")


def _examine(dataset: str, method: str) -> list[Node]:
    """Draw held-out distributions, then put their intervals beside the true ones."""
    cell = f"{dataset}.{method}"
    return [
        resumable(
            draw_held_out,
            inputs=[
                f"{dataset}.features",
                f"{dataset}.logical_labels",
                f"params:{METHODS[method].parameters}",
                "params:threshold",
                "params:device",
                "params:seed",
                "params:degree_floors",
            ],
            outputs=["agreement", "intervals", "draws"],
            name="draw_held_out",
            namespace=cell,
            tags=["method", dataset, method, *resource_tags(method)],
            instead=nothing_drawn,
            dataset=dataset,
            method=method,
        ),
        Node(
            for_cell(compare_intervals, dataset=dataset, method=method),
            inputs=[f"{cell}.intervals", f"{dataset}.label_distributions"],
            outputs=f"{cell}.coverage",
            name="compare_intervals",
            namespace=cell,
            tags=[dataset, method],
        ),
    ]


def _take_over(dataset: str, method: str) -> Node:
    """The dataset declares the floor that the method fixes: `conle_posterior` is the same."""
    return Node(
        take_over,
        inputs=[f"{dataset}.conle_posterior.{output}" for output in ("recovered", "cost")],
        outputs=[f"{dataset}.{method}.{output}" for output in ("recovered", "cost")],
        name="take_over",
        namespace=f"{dataset}.{method}",
        tags=[dataset, method],
    )
