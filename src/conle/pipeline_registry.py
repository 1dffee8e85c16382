"""The pipelines of the project, by name."""

from kedro.pipeline import Pipeline

from conle.enhancers.registry import REFERENCES
from conle.options import selected_datasets
from conle.pipelines import evaluation, ingestion, recovery, splitting


def register_pipelines() -> dict[str, Pipeline]:
    """Register the pipelines for the selected datasets.

    Returns:
        `conle` runs everything it needs, from the raw files to the scored results; the others
        are its parts and read what earlier runs left in the catalog.
    """
    datasets = selected_datasets()
    methods = ("conle", *REFERENCES)
    parts = {
        "ingestion": ingestion.create_pipeline(datasets),
        "splitting": splitting.create_pipeline(datasets),
        "recovery": recovery.create_pipeline(datasets, methods),
        "evaluation": evaluation.create_pipeline(datasets, methods),
    }
    conle = sum(parts.values(), Pipeline([]))
    return parts | {"conle": conle, "__default__": conle}
