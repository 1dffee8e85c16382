"""The exhibits of the report, one row each.

An exhibit has tables (CSV), a LaTeX source that shows them, and mostly a figure. `inputs` name
entries of the catalog; an input with placeholders such as `{dataset}.statistics` stands for the
entries of all datasets and reaches its function as a mapping. No function here reads a file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from conle.methods.registry import ABLATIONS, BASELINES, CHOSEN, FLOORS, POSTERIORS, REFERENCES
from conle.reporting import figures, statistics, tables
from conle.reporting.grids import Grid, curve_grid, grid_of, recovery_grids
from conle.reporting.posterior import contribution_table, examination_table

TABLE_3_METHODS = ("conle", *POSTERIORS, CHOSEN, *FLOORS, *BASELINES, *REFERENCES)
TABLE_4_METHODS = (*ABLATIONS, "conle", *REFERENCES)
REPORTED_METHODS = tuple(dict.fromkeys((*TABLE_3_METHODS, *TABLE_4_METHODS)))
ABLATION_MEASURES = ("kl_divergence", "clark", "canberra", "intersection")
# The figure of the posterior shows draws of this decoder.
SHOWN_DECODER = "conle_posterior"


@dataclass(frozen=True)
class Table:
    """A table of the report, which the catalog holds as `report.<name>.csv`.

    Attributes:
        name: of the catalog entry and the file.
        function: takes the inputs, returns the table.
        inputs: entries of the catalog.
    """

    name: str
    function: Callable[..., pd.DataFrame]
    inputs: tuple[str, ...] = ()


def _all_given(*inputs: Any) -> bool:
    return all(own is not None for own in inputs)


@dataclass(frozen=True)
class Exhibit:
    """An exhibit, which the catalog holds as `report.<name>.latex`, `.png` and `.svg`.

    Attributes:
        name: of the catalog entries and the files.
        caption: of the LaTeX tables.
        label: of the LaTeX tables.
        inputs: entries of the catalog.
        grids: takes the inputs, returns the LaTeX tables, each with an addition to the caption.
        figure: takes the inputs, returns the figure; None for an exhibit without one.
        figure_caption: of the figure on the page.
        tables: the tables that belong to the exhibit.
        made_by: the pipeline that makes the inputs, where they are optional.
        is_available: takes the inputs, tells whether a run has made them.
    """

    name: str
    caption: str
    label: str
    inputs: tuple[str, ...]
    grids: Callable[..., Sequence[tuple[str, Grid]]]
    figure: Callable[..., Figure] | None = None
    figure_caption: str = ""
    tables: tuple[Table, ...] = ()
    made_by: str = ""
    is_available: Callable[..., bool] = _all_given


def _sensitivity_grids(sensitivity: pd.DataFrame) -> list[tuple[str, Grid]]:
    return [
        (parameter, curve_grid(rows, "setting", "measure"))
        for parameter, rows in sensitivity.groupby("parameter", sort=False)
    ]


def _convergence_grids(convergence: pd.DataFrame) -> list[tuple[str, Grid]]:
    shown = convergence[convergence["quantity"].isin(["loss", "canberra"])]
    return [("", curve_grid(shown, "epoch", "quantity"))]


def _critical_differences(recovery: pd.DataFrame, *_: pd.DataFrame) -> Figure:
    ranks = statistics.nemenyi(recovery)
    if not ranks:
        return figures.note(f"No critical differences: {statistics.why_not(recovery)}")
    return figures.critical_differences(ranks)


def _drawn_datasets(
    draws: Mapping[str, pd.DataFrame | None], coverages: Mapping[str, pd.DataFrame | None]
) -> list[str]:
    """The datasets that have draws and coverage: some were not run, others have failed."""
    return [
        dataset
        for dataset in draws
        if all(own is not None and len(own) for own in (draws[dataset], coverages[dataset]))
    ]


def _posterior_intervals(
    examination: pd.DataFrame,
    contributions: pd.DataFrame,
    draws: Mapping[str, pd.DataFrame | None],
    coverages: Mapping[str, pd.DataFrame | None],
) -> Figure:
    shown = _drawn_datasets(draws, coverages)
    return figures.posterior_intervals(
        {dataset: draws[dataset] for dataset in shown},
        {dataset: coverages[dataset] for dataset in shown},
    )


_ROWS = (
    Exhibit(
        name="table1",
        caption="The datasets, here and published",
        label="data",
        tables=(
            Table("table1", tables.dataset_table, ("published_sizes", "{dataset}.statistics")),
        ),
        inputs=("report.table1.csv",),
        grids=lambda datasets: [("", grid_of(datasets.drop(columns="sha256")))],
        figure=figures.dataset_sizes,
        figure_caption="Sizes of the datasets, published as crosses",
    ),
    Exhibit(
        name="table2",
        caption="The measures of a true distribution d and a recovered one p",
        label="measures",
        tables=(Table("table2", tables.measure_table),),
        inputs=("report.table2.csv",),
        grids=lambda measures: [("", grid_of(measures))],
        figure=lambda measures: figures.measure_curves(),
        figure_caption="The measures between a distribution and others on the way to two extremes",
    ),
    Exhibit(
        name="table3",
        caption="Recovery, mean ± standard deviation",
        label="recovery",
        tables=(
            Table(
                "table3",
                partial(tables.recovery_table, methods=TABLE_3_METHODS),
                ("report.summary.csv", "report.comparison.csv"),
            ),
        ),
        inputs=("report.table3.csv", "report.ranks.csv"),
        grids=recovery_grids,
        figure=lambda recovery, ranks: figures.rank_map(recovery),
        figure_caption="Rank of every method on every dataset",
    ),
    Exhibit(
        name="ranks",
        caption="Against the published ConLE",
        label="ranks",
        tables=(
            Table("ranks", tables.rank_table, ("report.table3.csv", "published_ranks")),
            Table(
                "wins",
                tables.wins_table,
                ("report.table3.csv", "published_recovery", "params:folds"),
            ),
        ),
        inputs=("report.ranks.csv", "report.wins.csv"),
        grids=lambda ranks, wins: [("average ranks", grid_of(ranks, 2)), ("cells", grid_of(wins))],
    ),
    Exhibit(
        name="table4",
        caption="ConLE without one of its losses",
        label="ablation",
        tables=(
            Table(
                "table4",
                partial(tables.recovery_table, methods=TABLE_4_METHODS, measures=ABLATION_MEASURES),
                ("report.summary.csv", "report.ablation_comparison.csv"),
            ),
        ),
        inputs=("report.table4.csv",),
        grids=recovery_grids,
        figure=figures.method_bars,
        figure_caption="Ablations: means, standard deviations over the folds as bars",
    ),
    Exhibit(
        name="posterior",
        caption="The posterior decoders",
        label="posterior",
        tables=(
            Table(
                "examination",
                examination_table,
                (
                    "{dataset}.posterior_choice",
                    "{dataset}.{decoder}.agreement",
                    "{dataset}.{decoder}.coverage",
                ),
            ),
            Table("contributions", contribution_table, ("report.table3.csv",)),
        ),
        inputs=(
            "report.examination.csv",
            "report.contributions.csv",
            f"{{dataset}}.{SHOWN_DECODER}.draws",
            f"{{dataset}}.{SHOWN_DECODER}.coverage",
        ),
        grids=lambda examination, contributions, *_: [
            ("held-out samples", grid_of(examination, 3)),
            ("KL and what features add", grid_of(contributions)),
        ],
        figure=_posterior_intervals,
        figure_caption="Held-out samples: degrees of every label; thin lines are draws, bars 90 % "
        "intervals, crosses the true degrees, which are read for this picture alone",
        made_by="posterior",
        is_available=lambda examination, contributions, draws, coverages: bool(
            _drawn_datasets(draws, coverages)
        ),
    ),
    Exhibit(
        name="tests",
        caption="Tests over the datasets",
        label="tests",
        tables=(
            Table("friedman", statistics.friedman_table, ("report.table3.csv",)),
            Table("wilcoxon", statistics.wilcoxon_table, ("report.table3.csv",)),
        ),
        inputs=("report.table3.csv", "report.friedman.csv", "report.wilcoxon.csv"),
        grids=lambda recovery, friedman, wilcoxon: [
            ("Friedman's test", grid_of(friedman)),
            ("Wilcoxon's test with Holm's correction", grid_of(wilcoxon)),
        ],
        figure=_critical_differences,
        figure_caption="Critical differences",
    ),
    Exhibit(
        name="figure3",
        caption="Recovery against the weights of the losses",
        label="sensitivity",
        inputs=("sensitivity",),
        grids=_sensitivity_grids,
        figure=figures.sensitivity_curves,
        figure_caption="Measures against a weight, the other at its default, steps fixed; standard "
        "deviation over the folds shaded",
        made_by="sensitivity",
    ),
    Exhibit(
        name="figure4",
        caption="Objective and Canberra distance against the epoch",
        label="convergence",
        inputs=("convergence",),
        grids=_convergence_grids,
        figure=figures.convergence_curves,
        figure_caption="Objective and Canberra distance against the epoch, standard deviation over "
        "the folds shaded; the true distributions are read for the scores alone",
        made_by="convergence",
    ),
    Exhibit(
        name="predictive",
        caption="A learner trained on recovered distributions",
        label="predictive",
        inputs=("predictive",),
        grids=lambda predictive: [("", curve_grid(predictive, "method", "measure"))],
        figure=lambda predictive: figures.method_bars(
            predictive[predictive["measure"].isin(ABLATION_MEASURES)]
        ),
        figure_caption="The learner's predictions, standard deviations over the folds as bars",
        made_by="predictive",
    ),
    Exhibit(
        name="cost",
        caption="Time and memory of recovery",
        label="cost",
        tables=(Table("cost", tables.cost_table, ("{dataset}.{method}.cost",)),),
        inputs=("report.cost.csv",),
        grids=lambda cost: [("", grid_of(cost, 1))],
        figure=figures.cost_map,
        figure_caption="Seconds and peak memory of every cell",
    ),
)
EXHIBITS = {exhibit.name: exhibit for exhibit in _ROWS}
TABLES = {table.name: table for exhibit in _ROWS for table in exhibit.tables}
