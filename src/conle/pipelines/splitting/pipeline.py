"""The folds, the same for every method."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.core.folds import make_folds


def create_pipeline(datasets: Sequence[str]) -> Pipeline:
    """Split each dataset."""
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
