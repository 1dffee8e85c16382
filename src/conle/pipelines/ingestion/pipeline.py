"""Ingestion: raw files become checked data and logical labels."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.cells import bind
from conle.pipelines.ingestion.nodes import (
    describe,
    ingest,
    make_logical_labels,
    write_artificial,
)


def create_pipeline(datasets: Sequence[str]) -> Pipeline:
    """Ingest each dataset; the file of Artificial is made first."""
    nodes = []
    for dataset in datasets:
        if dataset == "Artificial":
            nodes.append(
                Node(
                    write_artificial,
                    inputs=None,
                    outputs=f"{dataset}.raw",
                    name="write_artificial",
                    namespace=dataset,
                )
            )
        nodes += [
            Node(
                bind(ingest, dataset=dataset),
                inputs=[f"{dataset}.raw", "params:folds", "known_datasets"],
                outputs=[
                    f"{dataset}.features",
                    f"{dataset}.label_distributions",
                    f"{dataset}.given_logical_labels",
                    f"{dataset}.source",
                ],
                name="ingest",
                namespace=dataset,
            ),
            Node(
                make_logical_labels,
                inputs=[
                    f"{dataset}.label_distributions",
                    f"{dataset}.given_logical_labels",
                    "params:threshold",
                ],
                outputs=f"{dataset}.logical_labels",
                name="binarise",
                namespace=dataset,
            ),
            Node(
                bind(describe, dataset=dataset),
                inputs=[
                    f"{dataset}.raw",
                    f"{dataset}.features",
                    f"{dataset}.label_distributions",
                    f"{dataset}.logical_labels",
                    "published_sizes",
                    "known_datasets",
                ],
                outputs=f"{dataset}.statistics",
                name="describe",
                namespace=dataset,
            ),
        ]
    return Pipeline(nodes, tags="ingestion")
