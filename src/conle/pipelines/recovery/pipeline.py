"""Recovery: one node per dataset and method, the folds inside it."""

from collections.abc import Mapping, Sequence
from typing import Any

from kedro.pipeline import Node, Pipeline

from conle.methods.registry import METHODS
from conle.pipelines import resource_tags
from conle.pipelines.recovery.nodes import nothing_recovered, recover
from conle.pipelines.resuming import resumable


def create_pipeline(datasets: Sequence[str], methods: Sequence[str]) -> Pipeline:
    """Recover the distributions of each dataset with each method.

    The namespace of a node is <dataset>.<method>. None has the label distributions as an input.
    """
    return Pipeline(
        [recovery_node(dataset, method, method) for dataset in datasets for method in methods]
    )


def recovery_node(
    dataset: str,
    cell: str,
    method: str,
    overrides: Mapping[str, Any] | None = None,
) -> Node:
    """The node that recovers a dataset with a method.

    Args:
        dataset: its name.
        cell: what the artifacts are named after; the method's name unless it is varied.
        method: its name.
        overrides: hyperparameters that take precedence over the method's block.
    """
    outputs = ["recovered", "cost"]
    if METHODS[method].trained:
        outputs += ["weights", "curves"]
    return resumable(
        recover,
        inputs=[
            f"{dataset}.features",
            f"{dataset}.logical_labels",
            f"{dataset}.folds",
            f"params:{METHODS[method].parameters}",
            "params:protocol",
            "params:threshold",
            "params:device",
            "params:seed",
            "params:degree_floors",
        ],
        outputs=outputs,
        name="recover",
        namespace=f"{dataset}.{cell}",
        tags=["method", "recovery", dataset, cell, *resource_tags(method)],
        instead=nothing_recovered,
        dataset=dataset,
        method=method,
        overrides=dict(overrides or {}),
    )
