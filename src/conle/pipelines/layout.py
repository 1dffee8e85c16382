"""How Kedro-Viz draws a pipeline."""

from kedro.pipeline import Node, Pipeline

from conle.pipelines.evaluation.pipeline import STAGE

# The nodes of a dataset that leave its box, and the box that they go to.
MOVED = {"split": None, "describe": STAGE, "draw_recovery": STAGE, "collect": STAGE}


def lay_open(pipeline: Pipeline, dataset: str) -> Pipeline:
    """Show what a pipeline makes of a dataset, from its features to its scores.

    Kedro-Viz opens with one box per namespace, and shows of a box what nodes outside it read. Here
    nodes outside the dataset's box read its features, labels, folds, recovered distributions and
    scores.

    Args:
        pipeline: has the nodes of the dataset in the dataset's namespace.
        dataset: the only dataset of the pipeline.
    """
    return Pipeline(
        [
            _move(node, MOVED[node.short_name])
            if node.namespace == dataset and node.short_name in MOVED
            else node
            for node in pipeline.nodes
        ]
    )


def _move(node: Node, namespace: str | None) -> Node:
    return Node(
        node.func,
        inputs=node.inputs,
        outputs=node.outputs if len(node.outputs) > 1 else node.outputs[0],
        name=node.name,
        namespace=namespace,
        tags=node.tags,
    )
