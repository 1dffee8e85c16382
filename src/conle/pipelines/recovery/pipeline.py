"""Recovery: one node per dataset and method, the folds inside it."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.enhancers.registry import METHODS
from conle.pipelines import for_cell
from conle.pipelines.recovery.nodes import recover, train_and_recover


def create_pipeline(datasets: Sequence[str], methods: Sequence[str]) -> Pipeline:
    """Recover the distributions of each dataset with each method.

    The namespace of a node is <dataset>.<method>. None has the label distributions as an input.
    """
    nodes = []
    for dataset in datasets:
        for name in methods:
            method, cell = METHODS[name], f"{dataset}.{name}"
            outputs = [f"{cell}.recovered", f"{cell}.cost"]
            if method.trained:
                outputs += [f"{cell}.weights", f"{cell}.curves"]
            nodes.append(
                Node(
                    for_cell(
                        train_and_recover if method.trained else recover,
                        dataset=dataset,
                        method=name,
                    ),
                    inputs=[
                        f"{dataset}.features",
                        f"{dataset}.logical_labels",
                        f"{dataset}.folds",
                        f"params:{method.parameters}",
                        "params:protocol",
                        "params:threshold",
                        "params:device",
                        "params:seed",
                    ],
                    outputs=outputs,
                    name="recover",
                    namespace=cell,
                    tags=[dataset, name],
                )
            )
    return Pipeline(nodes, tags="recovery")
