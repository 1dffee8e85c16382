"""The decoders, their weights on each dataset, and the weighted mean of their recoveries."""

from collections.abc import Mapping, Sequence
from typing import Any

from kedro.pipeline import Node, Pipeline

from conle.cells import Cell, bind, make_cell
from conle.methods.registry import FLOORS, METHODS, POSTERIORS, STACKED
from conle.pipelines.posterior.nodes import (
    average_recovered,
    compare_intervals,
    draw_held_out,
    identity,
    stack_posteriors,
)
from conle.pipelines.recovery.pipeline import recovery_node


def create_pipeline(datasets: Sequence[str], parameters: Mapping[str, Any]) -> Pipeline:
    """Recover each dataset with every decoder, and weight them by what they predict of L."""
    nodes = []
    for dataset in datasets:
        decoders = [make_cell(parameters, dataset, method) for method in POSTERIORS]
        nodes += [recovery_node(cell) for cell in decoders]
        nodes += [_floor_node(dataset, method, parameters) for method in FLOORS]
        for cell in decoders:
            nodes += _examine(cell)
        nodes += _stack(dataset, decoders)
    return Pipeline(nodes, tags="posterior")


def _floor_node(dataset: str, method: str, parameters: Mapping[str, Any]) -> Node:
    """ConLE's posterior with no floor; a copy if the dataset declares none."""
    cell = make_cell(parameters, dataset, method)
    if METHODS[method].fixed["degree_floor"] != cell.settings["degree_floor"]:
        return recovery_node(cell)
    return Node(
        identity,
        inputs=[f"{dataset}.conle_posterior.{output}" for output in ("recovered", "cost")],
        outputs=[f"{cell.namespace}.{output}" for output in ("recovered", "cost")],
        name="identity",
        namespace=cell.namespace,
        tags=[dataset, method],
    )


def _stack(dataset: str, decoders: Sequence[Cell]) -> list[Node]:
    """Weight the decoders, and take the mean of their recoveries."""
    return [
        Node(
            bind(stack_posteriors, dataset=dataset),
            inputs=[f"{cell.namespace}.label_probabilities" for cell in decoders],
            outputs=f"{dataset}.posterior_weights",
            name="stack_posteriors",
            namespace=dataset,
            tags=[dataset, STACKED],
        ),
        Node(
            average_recovered,
            inputs=[
                f"{dataset}.posterior_weights",
                *(
                    f"{cell.namespace}.{output}"
                    for cell in decoders
                    for output in ("recovered", "cost")
                ),
            ],
            outputs=[f"{dataset}.{STACKED}.recovered", f"{dataset}.{STACKED}.cost"],
            name="average_recovered",
            namespace=f"{dataset}.{STACKED}",
            tags=[dataset, STACKED],
        ),
    ]


def _examine(cell: Cell) -> list[Node]:
    """Draw held-out distributions, then put their intervals beside the true ones."""
    return [
        Node(
            bind(draw_held_out, cell=cell),
            inputs=[f"{cell.dataset}.features", f"{cell.dataset}.logical_labels"],
            outputs=[
                f"{cell.namespace}.{output}"
                for output in (
                    "diagnostics",
                    "intervals",
                    "draws",
                    "label_probabilities",
                    "draws_cost",
                )
            ],
            name="draw_held_out",
            namespace=cell.namespace,
            tags=cell.tags,
        ),
        Node(
            bind(compare_intervals, dataset=cell.dataset, method=cell.method),
            inputs=[f"{cell.namespace}.intervals", f"{cell.dataset}.label_distributions"],
            outputs=f"{cell.namespace}.coverage",
            name="compare_intervals",
            namespace=cell.namespace,
            tags=[cell.dataset, cell.name],
        ),
    ]
