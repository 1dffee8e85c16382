"""One choice per dataset, then its recovery under a name of its own."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.enhancers.registry import CHOSEN, METHODS, POSTERIORS
from conle.pipelines import for_cell
from conle.pipelines.posterior.nodes import choose_representation, take_chosen


def create_pipeline(datasets: Sequence[str]) -> Pipeline:
    """Choose the representation of each dataset by the likelihood of its logical labels."""
    nodes = []
    for dataset in datasets:
        nodes += [
            Node(
                for_cell(choose_representation, dataset=dataset),
                inputs=[
                    f"{dataset}.features",
                    f"{dataset}.logical_labels",
                    "params:threshold",
                    "params:device",
                    "params:seed",
                    "params:degree_floors",
                    *(f"params:{METHODS[method].parameters}" for method in POSTERIORS),
                ],
                outputs=f"{dataset}.posterior_choice",
                name="choose_representation",
                namespace=dataset,
                tags=["method", dataset],
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
