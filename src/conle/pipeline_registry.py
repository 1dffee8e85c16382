"""The pipelines of the project, by name."""

from collections.abc import Sequence

from kedro.pipeline import Pipeline

from conle.cells import make_cell
from conle.methods.registry import (
    ABLATIONS,
    ADAPTIVE,
    BASELINES,
    FLOORS,
    LIMIT,
    POSTERIORS,
    REFERENCES,
    SET_APART,
    STACKED,
)
from conle.options import run_options, run_parameters
from conle.pipelines import (
    convergence,
    enhance,
    evaluation,
    fetch,
    ingestion,
    limit,
    posterior,
    predictive,
    recovery,
    reporting,
    sensitivity,
    splitting,
)
from conle.pipelines.layout import lay_open


def register_pipelines() -> dict[str, Pipeline]:
    """Register the pipelines for the selected datasets.

    Returns:
        `conle`, `adaptive`, `baselines`, `posterior`, `limit` and `ablation` run everything that
        their methods need, from the raw files to the scored results; all have the reference rows.
        `__default__` runs `conle`, `baselines` and the report; `benchmark` runs these, `adaptive`,
        `posterior` and `limit` at once. `predictive` learns from the
        recovered distributions of the same datasets. `sensitivity` and `convergence` run for
        datasets of their own, `enhance` for a table without distributions; `fetch` gets the
        selected datasets, those of the paper by default. `report` and the parts of `__default__`
        read what earlier runs left in the catalog.
    """
    options = run_options()
    parameters = run_parameters()
    datasets = options.datasets
    every_method = ("conle", *BASELINES, *REFERENCES)
    decoders = (STACKED, *POSTERIORS, *FLOORS)
    learned_from = [name for name in datasets if name not in options.predictive.without]

    def prepared(names: Sequence[str]) -> Pipeline:
        return ingestion.create_pipeline(names) + splitting.create_pipeline(names)

    def recovered(methods: Sequence[str]) -> Pipeline:
        return recovery.create_pipeline(
            make_cell(parameters, dataset, method) for dataset in datasets for method in methods
        )

    def from_raw_files(methods: Sequence[str]) -> Pipeline:
        return (
            prepared(datasets) + recovered(methods) + evaluation.create_pipeline(datasets, methods)
        )

    conle = from_raw_files(("conle", *REFERENCES))
    if len(datasets) == 1:
        conle = lay_open(conle, datasets[0])
    return {
        "ingestion": ingestion.create_pipeline(datasets),
        "splitting": splitting.create_pipeline(datasets),
        "recovery": recovered(every_method),
        "evaluation": evaluation.create_pipeline(datasets, every_method),
        "conle": conle,
        "baselines": from_raw_files((*BASELINES, *REFERENCES)),
        "posterior": prepared(datasets)
        + recovered(REFERENCES)
        + posterior.create_pipeline(datasets, parameters)
        + evaluation.create_pipeline(datasets, (*decoders, *REFERENCES)),
        "limit": prepared(datasets)
        + recovered(REFERENCES)
        + limit.create_pipeline(datasets, parameters)
        + evaluation.create_pipeline(datasets, SET_APART),
        "adaptive": from_raw_files((*ADAPTIVE, *REFERENCES)),
        "ablation": from_raw_files(("conle", *ABLATIONS, *REFERENCES)),
        "sensitivity": prepared(options.sensitivity.datasets)
        + sensitivity.create_pipeline(options.sensitivity, parameters),
        "convergence": prepared(options.convergence.datasets)
        + convergence.create_pipeline(options.convergence.datasets, parameters),
        "predictive": prepared(learned_from)
        + predictive.create_pipeline(learned_from, options.predictive.methods, parameters),
        "fetch": fetch.create_pipeline(datasets),
        "enhance": enhance.create_pipeline(options.enhance, parameters),
        "report": reporting.create_pipeline(datasets),
        "benchmark": prepared(datasets)
        + recovered((*every_method, *ADAPTIVE))
        + posterior.create_pipeline(datasets, parameters)
        + limit.create_pipeline(datasets, parameters)
        + evaluation.create_pipeline(datasets, (*every_method, *ADAPTIVE, *decoders, LIMIT))
        + reporting.create_pipeline(datasets, after="results"),
        "__default__": from_raw_files(every_method)
        + reporting.create_pipeline(datasets, after="results"),
    }
