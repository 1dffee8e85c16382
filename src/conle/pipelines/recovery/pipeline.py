"""Recovery: one node per cell, which runs all of its folds."""

from collections.abc import Iterable

from kedro.pipeline import Node, Pipeline

from conle.cells import Cell, bind
from conle.methods.registry import METHODS
from conle.pipelines.recovery.nodes import recover


def create_pipeline(cells: Iterable[Cell]) -> Pipeline:
    """Recover the distributions of every cell; no node has the label distributions as an input."""
    return Pipeline([recovery_node(cell) for cell in cells])


def recovery_node(cell: Cell) -> Node:
    """The node that recovers a cell."""
    outputs = ["recovered", "cost"]
    if METHODS[cell.method].trained:
        outputs += ["weights", "curves"]
    return Node(
        bind(recover, cell=cell),
        inputs=[
            f"{cell.dataset}.features",
            f"{cell.dataset}.logical_labels",
            f"{cell.dataset}.folds",
            "params:protocol",
        ],
        outputs=[f"{cell.namespace}.{output}" for output in outputs],
        name="recover",
        namespace=cell.namespace,
        tags=["recovery", *cell.tags],
    )
