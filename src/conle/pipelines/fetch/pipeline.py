"""Fetching: one node per file."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.cells import bind
from conle.pipelines.fetch.nodes import announce_licence, fetch_dataset


def create_pipeline(datasets: Sequence[str]) -> Pipeline:
    """Fetch files of the benchmark into the folder of the raw data."""
    return Pipeline(
        [
            Node(
                announce_licence,
                inputs=None,
                outputs="licence",
                name="announce_licence",
                # The terms are logged for any selection of files.
                tags=list(datasets),
            ),
            *(
                Node(
                    bind(fetch_dataset, dataset=dataset),
                    inputs=[
                        f"{dataset}.present",
                        "known_files",
                        "params:fetch_from",
                        "params:raw_dir",
                        "licence",
                    ],
                    outputs=f"{dataset}.fetched",
                    name="fetch",
                    namespace=dataset,
                    tags=dataset,
                )
                for dataset in datasets
            ),
        ],
        tags="fetch",
    )
