"""Fetching: one node per file."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.cells import bind
from conle.known_datasets import PAPER_DATASETS
from conle.pipelines.fetch.nodes import announce_terms, fetch_dataset


def create_pipeline(datasets: Sequence[str]) -> Pipeline:
    """Fetch known datasets into the folder of the raw data.

    Artificial is made, not fetched. A selection of Artificial alone, which is the default, stands
    for the paper's datasets.
    """
    names = [name for name in datasets if name != "Artificial"] or list(PAPER_DATASETS)
    return Pipeline(
        [
            Node(
                bind(announce_terms, datasets=names),
                inputs="known_datasets",
                outputs="terms",
                name="announce_terms",
                # The terms are logged for any selection of files.
                tags=names,
            ),
            *(
                Node(
                    bind(fetch_dataset, dataset=dataset),
                    inputs=[
                        f"{dataset}.present",
                        "known_datasets",
                        "params:fetch_from",
                        "params:raw_dir",
                        "terms",
                    ],
                    outputs=f"{dataset}.fetched",
                    name="fetch",
                    namespace=dataset,
                    tags=dataset,
                )
                for dataset in names
            ),
        ],
        tags="fetch",
    )
