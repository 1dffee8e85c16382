"""The report: tables, exhibits (`conle.reporting.exhibits`) and the page."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.cells import bind
from conle.pipelines.reporting.nodes import (
    collect_available,
    collect_samples,
    present_all,
    tabulate,
    write_page,
)

STAGE = "report"
PUBLISHED = ("published_sizes", "published_recovery", "published_ranks", "published_ablation")
# Made by pipelines of their own, and None if no run has made them.
OPTIONAL = ("sensitivity", "convergence", "predictive")


def create_pipeline(datasets: Sequence[str], after: str | None = None) -> Pipeline:
    """Report on every method of the paper and the references that a run has recovered.

    Args:
        datasets: the datasets of the report.
        after: an entry that exists when the cells of the same run are done.
    """
    datasets = tuple(datasets)
    recorded = ["recorded", *([after] if after else [])]
    nodes = [
        Node(
            bind(collect_available, datasets=datasets),
            inputs=["runs", *recorded],
            outputs=["report.results", "report.missing"],
            name="collect_available",
            namespace=STAGE,
        ),
        Node(
            bind(collect_samples, datasets=datasets),
            inputs=recorded,
            outputs="report.samples",
            name="collect_samples",
            namespace=STAGE,
        ),
        Node(
            bind(tabulate, datasets=datasets),
            inputs={
                "recorded": "recorded",
                "results": "report.results",
                "folds": "params:folds",
                **{name: name for name in PUBLISHED},
            },
            outputs="report.tables",
            name="tabulate",
            namespace=STAGE,
        ),
        Node(
            bind(present_all, datasets=datasets),
            inputs={
                "recorded": "recorded",
                "tables": "report.tables",
                **{name: name for name in OPTIONAL},
            },
            outputs="report.exhibits",
            name="present",
            namespace=STAGE,
        ),
        Node(
            write_page,
            inputs=[
                "parameters",
                "provenance",
                "runs",
                "report.missing",
                "predictive",
                "report.samples",
                "report.tables",
                "report.exhibits",
            ],
            outputs="report",
            name="write_page",
            namespace=STAGE,
        ),
    ]
    return Pipeline(nodes, tags="report")
