"""The decoders, a choice among them for each dataset, and the recovery of the chosen one."""

from collections.abc import Mapping, Sequence
from typing import Any

from kedro.pipeline import Node, Pipeline

from conle.cells import Cell, bind, make_cell
from conle.methods.registry import CHOSEN, FLOORS, METHODS, POSTERIORS
from conle.pipelines.posterior.nodes import (
    choose_representation,
    compare_intervals,
    draw_held_out,
    identity,
    take_chosen,
)
from conle.pipelines.recovery.pipeline import recovery_node


def create_pipeline(datasets: Sequence[str], parameters: Mapping[str, Any]) -> Pipeline:
    """Recover each dataset with every decoder, and choose by the likelihood of logical labels."""
    nodes = []
    for dataset in datasets:
        decoders = [make_cell(parameters, dataset, method) for method in POSTERIORS]
        nodes += [recovery_node(cell) for cell in decoders]
        nodes += [_floor_node(dataset, method, parameters) for method in FLOORS]
        for cell in decoders:
            nodes += _examine(cell)
        nodes += _choose(make_cell(parameters, dataset, POSTERIORS[0], CHOSEN), decoders)
    return Pipeline(nodes, tags="posterior")


def _floor_node(dataset: str, method: str, parameters: Mapping[str, Any]) -> Node:
    """ConLE's posterior with a fixed floor; a copy if the dataset declares the same floor."""
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


def _choose(chosen: Cell, decoders: Sequence[Cell]) -> list[Node]:
    """Choose a decoder, and take its recovery."""
    dataset = chosen.dataset
    return [
        Node(
            bind(choose_representation, cell=chosen, candidates=tuple(decoders)),
            inputs=[f"{dataset}.features", f"{dataset}.logical_labels"],
            outputs=f"{dataset}.posterior_choice",
            name="choose_representation",
            namespace=dataset,
            tags=chosen.tags,
        ),
        Node(
            take_chosen,
            inputs=[
                f"{dataset}.posterior_choice",
                *(
                    f"{cell.namespace}.{output}"
                    for cell in decoders
                    for output in ("recovered", "cost")
                ),
            ],
            outputs=[f"{chosen.namespace}.recovered", f"{chosen.namespace}.cost"],
            name="take_chosen",
            namespace=chosen.namespace,
            tags=[dataset, CHOSEN],
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
                for output in ("diagnostics", "intervals", "draws", "draws_cost")
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
