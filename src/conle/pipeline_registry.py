"""The pipelines of the project, by name."""

from collections.abc import Sequence

from kedro.pipeline import Pipeline

from conle.enhancers.registry import BASELINES, REFERENCES
from conle.options import selected_datasets
from conle.pipelines import evaluation, ingestion, recovery, splitting


def register_pipelines() -> dict[str, Pipeline]:
    """Register the pipelines for the selected datasets.

    Returns:
        `conle` and `baselines` run everything that their methods need, from the raw files to the
        scored results, `__default__` both; all have the reference rows. The others are parts of
        `__default__` and read what earlier runs left in the catalog.
    """
    datasets = selected_datasets()
    every_method = ("conle", *BASELINES, *REFERENCES)
    preparation = {
        "ingestion": ingestion.create_pipeline(datasets),
        "splitting": splitting.create_pipeline(datasets),
    }

    def from_raw_files(methods: Sequence[str]) -> Pipeline:
        return sum(
            preparation.values(),
            recovery.create_pipeline(datasets, methods)
            + evaluation.create_pipeline(datasets, methods),
        )

    return preparation | {
        "recovery": recovery.create_pipeline(datasets, every_method),
        "evaluation": evaluation.create_pipeline(datasets, every_method),
        "conle": from_raw_files(("conle", *REFERENCES)),
        "baselines": from_raw_files((*BASELINES, *REFERENCES)),
        "__default__": from_raw_files(every_method),
    }
