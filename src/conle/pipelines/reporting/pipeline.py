"""Tables, figures and the page: an exhibit is a table, its LaTeX and its figure."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from conle.methods.registry import ABLATIONS, BASELINES, CHOSEN, FLOORS, POSTERIORS, REFERENCES
from conle.pipelines import for_cell
from conle.pipelines.evaluation.nodes import compare_with_published, summarise
from conle.pipelines.reporting.nodes import (
    ABLATION_MEASURES,
    collect_available,
    present_ablation,
    present_convergence,
    present_cost,
    present_datasets,
    present_measures,
    present_posterior,
    present_predictive,
    present_ranks,
    present_recovery,
    present_sensitivity,
    present_statistics,
    tabulate_cost,
    tabulate_datasets,
    tabulate_examination,
    tabulate_recovery,
)
from conle.reporting.page import FIGURES, render_page
from conle.reporting.posterior import contribution_table
from conle.reporting.statistics import friedman_table, wilcoxon_table
from conle.reporting.tables import measure_table, rank_table, wins_table

TABLE_3 = ("conle", *POSTERIORS, CHOSEN, *FLOORS, *BASELINES, *REFERENCES)
TABLE_4 = (*ABLATIONS, "conle", *REFERENCES)

PAGE_TABLES = (
    "missing",
    "comparison",
    "table1",
    "table2",
    "table3",
    "table4",
    "ranks",
    "wins",
    "friedman",
    "wilcoxon",
    "examination",
    "contributions",
    "cost",
)
# The decoder whose draws are shown.
SHOWN_DECODER = "conle_posterior"


def create_pipeline(datasets: Sequence[str]) -> Pipeline:
    """Report on every method of the paper and the references, as far as the catalog has them.

    The scores, costs and curves of other runs are read if they are there (`IfThere` datasets);
    what is missing is listed.
    """
    methods = tuple(dict.fromkeys((*TABLE_3, *TABLE_4)))
    cells = tuple((dataset, method) for dataset in datasets for method in methods)
    nodes = [
        Node(
            for_cell(collect_available, cells=cells),
            inputs=[
                "params:protocol",
                "params:repeats",
                "params:folds",
                *(f"{dataset}.{method}.scores" for dataset, method in cells),
                *(f"{dataset}.{method}.cost" for dataset, method in cells),
            ],
            outputs=["report.results", "report.missing.csv"],
            name="collect_available",
        ),
        Node(summarise, "report.results", "report.summary.csv", name="summarise_available"),
        Node(
            compare_with_published,
            inputs=["report.summary.csv", "published_recovery"],
            outputs="report.comparison.csv",
            name="compare_with_table_3",
        ),
        Node(
            compare_with_published,
            inputs=["report.summary.csv", "published_ablation"],
            outputs="report.ablation_comparison.csv",
            name="compare_with_table_4",
        ),
        Node(
            tabulate_datasets,
            inputs=["published_sizes", *(f"{dataset}.statistics" for dataset in datasets)],
            outputs="report.table1.csv",
            name="table_1",
        ),
        Node(measure_table, inputs=None, outputs="report.table2.csv", name="table_2"),
        Node(
            for_cell(tabulate_recovery, methods=TABLE_3),
            inputs=["report.summary.csv", "report.comparison.csv"],
            outputs="report.table3.csv",
            name="table_3",
        ),
        Node(
            for_cell(tabulate_recovery, methods=TABLE_4, measures=ABLATION_MEASURES),
            inputs=["report.summary.csv", "report.ablation_comparison.csv"],
            outputs="report.table4.csv",
            name="table_4",
        ),
        Node(
            rank_table,
            inputs=["report.table3.csv", "published_ranks"],
            outputs="report.ranks.csv",
            name="average_ranks",
        ),
        Node(
            wins_table,
            inputs=["report.table3.csv", "published_recovery", "params:folds"],
            outputs="report.wins.csv",
            name="count_wins",
        ),
        Node(friedman_table, "report.table3.csv", "report.friedman.csv", name="friedman"),
        Node(wilcoxon_table, "report.table3.csv", "report.wilcoxon.csv", name="wilcoxon"),
        Node(
            for_cell(tabulate_cost, cells=cells),
            inputs=[f"{dataset}.{method}.cost" for dataset, method in cells],
            outputs="report.cost.csv",
            name="cost",
        ),
        Node(
            for_cell(tabulate_examination, datasets=tuple(datasets), methods=POSTERIORS),
            inputs=[
                name
                for dataset in datasets
                for name in (
                    f"{dataset}.posterior_choice",
                    *(
                        f"{dataset}.{method}.{artifact}"
                        for method in POSTERIORS
                        for artifact in ("agreement", "coverage")
                    ),
                )
            ],
            outputs="report.examination.csv",
            name="examine_posterior",
        ),
        Node(
            contribution_table,
            inputs="report.table3.csv",
            outputs="report.contributions.csv",
            name="contributions",
        ),
        _present(present_datasets, "table1", ["report.table1.csv"]),
        _present(present_measures, "table2", ["report.table2.csv"]),
        _present(present_recovery, "table3", ["report.table3.csv", "report.ranks.csv"]),
        _present(present_ablation, "table4", ["report.table4.csv"]),
        _present(
            present_statistics,
            "tests",
            ["report.table3.csv", "report.friedman.csv", "report.wilcoxon.csv"],
        ),
        _present(
            for_cell(present_posterior, datasets=tuple(datasets)),
            "posterior",
            [
                "report.examination.csv",
                "report.contributions.csv",
                *(
                    f"{dataset}.{SHOWN_DECODER}.{artifact}"
                    for dataset in datasets
                    for artifact in ("draws", "coverage")
                ),
            ],
        ),
        _present(present_sensitivity, "figure3", ["sensitivity"]),
        _present(present_convergence, "figure4", ["convergence"]),
        _present(present_predictive, "predictive", ["predictive"]),
        _present(present_cost, "cost", ["report.cost.csv"]),
        Node(
            present_ranks,
            inputs=["report.ranks.csv", "report.wins.csv"],
            outputs="report.ranks.latex",
            name="present_ranks",
        ),
        Node(
            render_page,
            inputs={
                "parameters": "parameters",
                "environment": "environment",
                "predictive": "predictive",
                **{name: f"report.{name}.csv" for name in PAGE_TABLES},
                **{f"{name}_figure": f"report.{name}.svg" for name in FIGURES},
            },
            outputs="report",
            name="render_page",
        ),
    ]
    return Pipeline(nodes, tags="report")


def _present(function, exhibit: str, inputs: Sequence[str]) -> Node:
    return Node(
        function,
        inputs=list(inputs),
        outputs=[f"report.{exhibit}.{form}" for form in ("latex", "png", "svg")],
        name=f"present_{exhibit}",
    )
