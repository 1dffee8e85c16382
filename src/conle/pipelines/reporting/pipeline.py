"""The report: tables, exhibits (`conle.reporting.exhibits`) and the page."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.cells import bind
from conle.pipelines.evaluation.nodes import compare_with_published, summarise
from conle.pipelines.reporting.nodes import (
    COLLECTED,
    collect_available,
    entry_names,
    present,
    tabulate,
    write_page,
)
from conle.reporting.exhibits import EXHIBITS, TABLES
from conle.reporting.page import FIGURES, PAGE_TABLES

STAGE = "report"


def create_pipeline(datasets: Sequence[str]) -> Pipeline:
    """Report on every method of the paper and the references that a run has recovered.

    Entries of the catalog that no run has made are optional: the report lists what is missing.
    """
    datasets = tuple(datasets)

    def entries(inputs: Sequence[str]) -> list[str]:
        return [entry for name in inputs for entry in entry_names(name, datasets).values()]

    nodes = [
        Node(
            bind(collect_available, datasets=datasets),
            inputs=["runs", *entries(COLLECTED)],
            outputs=["report.results", "report.missing.csv"],
            name="collect_available",
            namespace=STAGE,
        ),
        Node(
            summarise,
            inputs="report.results",
            outputs="report.summary.csv",
            name="summarise_available",
            namespace=STAGE,
        ),
        Node(
            compare_with_published,
            inputs=["report.summary.csv", "published_recovery"],
            outputs="report.comparison.csv",
            name="compare_with_table_3",
            namespace=STAGE,
        ),
        Node(
            compare_with_published,
            inputs=["report.summary.csv", "published_ablation"],
            outputs="report.ablation_comparison.csv",
            name="compare_with_table_4",
            namespace=STAGE,
        ),
    ]
    nodes += [
        Node(
            bind(tabulate, name=name, datasets=datasets),
            inputs=entries(table.inputs),
            outputs=f"report.{name}.csv",
            name=f"tabulate_{name}",
            namespace=STAGE,
        )
        for name, table in TABLES.items()
    ]
    nodes += [
        Node(
            bind(present, name=name, datasets=datasets),
            inputs=entries(exhibit.inputs),
            outputs=[f"report.{name}.{form}" for form in ("latex", "png", "svg")]
            if exhibit.figure
            else f"report.{name}.latex",
            name=f"present_{name}",
            namespace=STAGE,
        )
        for name, exhibit in EXHIBITS.items()
    ]
    nodes.append(
        Node(
            write_page,
            inputs=[
                "parameters",
                "provenance",
                "runs",
                "predictive",
                *(f"report.{name}.csv" for name in PAGE_TABLES),
                *(f"report.{name}.svg" for name in FIGURES),
            ],
            outputs="report",
            name="write_page",
            namespace=STAGE,
        )
    )
    return Pipeline(nodes, tags="report")
