"""How Kedro-Viz draws a pipeline."""

from kedro.pipeline import Node, Pipeline

from conle.pipelines.evaluation.pipeline import STAGE

# Nodes that read a dataset's features, labels, folds, recovered distributions and scores.
READERS = ("describe", "draw_recovery", "collect")


def lay_open(pipeline: Pipeline, dataset: str) -> Pipeline:
    """Show what a pipeline makes of a dataset, from its features to its scores.

    Kedro-Viz opens with one box per namespace. Of what the nodes in a box make, it shows what
    nodes outside the box read. Here the nodes of a dataset that read its other artifacts leave the
    box of the dataset for that of the evaluation.

    Args:
        pipeline: has the nodes of the dataset in the dataset's namespace.
        dataset: the only dataset of the pipeline.
    """
    return Pipeline(
        [
            _evaluate(node) if node.namespace == dataset and node.short_name in READERS else node
            for node in pipeline.nodes
        ]
    )


def _evaluate(node: Node) -> Node:
    return Node(
        node.func,
        inputs=node.inputs,
        outputs=node.outputs[0],
        name=node.short_name,
        namespace=f"{STAGE}.{node.namespace}",
        tags=node.tags,
    )
