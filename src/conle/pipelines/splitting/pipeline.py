"""Splitting: the folds of each dataset, the same for every method."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.core.folds import make_folds


def create_pipeline(datasets: Sequence[str]) -> Pipeline:
    """Split the samples of each dataset into folds."""
    return Pipeline(
        [
            Node(
                make_folds,
                inputs=[
                    f"{dataset}.logical_labels",
                    "params:repeats",
                    "params:folds",
                    "params:seed",
                ],
                outputs=f"{dataset}.folds",
                name="split",
                namespace=dataset,
            )
            for dataset in datasets
        ],
        tags="splitting",
    )
