"""The limit: one node per dataset, the only one that has the label distributions as an input."""

from collections.abc import Mapping, Sequence
from typing import Any

from kedro.pipeline import Node, Pipeline

from conle.cells import bind, make_cell
from conle.methods.registry import LIMIT
from conle.pipelines.limit.nodes import recover_with_distributions


def create_pipeline(datasets: Sequence[str], parameters: Mapping[str, Any]) -> Pipeline:
    """Recover each dataset with the true distributions of the training rows."""
    nodes = []
    for dataset in datasets:
        cell = make_cell(parameters, dataset, "posterior_pca", LIMIT)
        nodes.append(
            Node(
                bind(recover_with_distributions, cell=cell),
                inputs=[
                    f"{dataset}.features",
                    f"{dataset}.logical_labels",
                    f"{dataset}.folds",
                    "params:protocol",
                    f"{dataset}.label_distributions",
                ],
                outputs=[f"{cell.namespace}.recovered", f"{cell.namespace}.cost"],
                name="recover",
                namespace=cell.namespace,
                tags=cell.tags,
            )
        )
    return Pipeline(nodes, tags="limit")
