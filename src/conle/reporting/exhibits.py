"""The exhibits of the report, one row each.

An exhibit has tables (CSV), LaTeX that shows them, and mostly a figure. Its inputs are names of
tables or of catalog entries. An input with placeholders, such as `{dataset}.statistics`, stands for
what runs have left of all datasets; functions take it as a mapping.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from conle.methods.registry import (
    ABLATIONS,
    ADAPTIVE,
    BASELINES,
    FLOORS,
    POSTERIORS,
    REFERENCES,
    SET_APART,
    STACKED,
)
from conle.reporting import figures, statistics, tables
from conle.reporting.grids import (
    Grid,
    curve_grid,
    grid_of,
    leaderboard_grid,
    limit_grid,
    recovery_grids,
)
from conle.reporting.leaderboard import leaderboard, verdicts
from conle.reporting.posterior import contribution_table, examination_table
from conle.reporting.samples import (
    FEATURES,
    INTERVALS,
    LOGICAL,
    RECOVERED,
    TRUE,
    three_labels_as_colours,
)
from conle.reporting.scores import compare_with_published, summarise
from conle.reporting.titles import column_title

TABLE_3_METHODS = ("conle", *ADAPTIVE, *POSTERIORS, STACKED, *FLOORS, *BASELINES, *SET_APART)
TABLE_4_METHODS = (*ABLATIONS, "conle", *REFERENCES)
REPORTED_METHODS = tuple(dict.fromkeys((*TABLE_3_METHODS, *TABLE_4_METHODS)))
ABLATION_MEASURES = ("kl_divergence", "clark", "canberra", "intersection")
# The figure of the posterior shows draws of this decoder.
SHOWN_DECODER = "conle_posterior"
SCORES, COSTS = "{dataset}.{method}.scores", "{dataset}.{method}.cost"


@dataclass(frozen=True)
class Table:
    """A table of the report.

    Attributes:
        name: name of the file, without the suffix.
        function: takes the inputs and returns the table.
        inputs: names of earlier tables and of catalog entries.
    """

    name: str
    function: Callable[..., pd.DataFrame]
    inputs: tuple[str, ...] = ()


def _all_have_rows(*inputs: Any) -> bool:
    return all(own is not None and len(own) for own in inputs)


@dataclass(frozen=True)
class Exhibit:
    """LaTeX and a figure, or one of them.

    Attributes:
        name: name of the files, without the suffix.
        caption: caption of the LaTeX tables.
        label: label of the LaTeX tables.
        inputs: names of tables and of catalog entries.
        prepare: takes the inputs and returns what the following functions take instead.
        grids: takes the inputs and returns the LaTeX tables, each with an addition to the caption;
            None for an exhibit without LaTeX.
        figure: takes the inputs and returns the figure; None for an exhibit without one.
        figure_caption: caption of the figure on the page.
        tables: the tables that belong to the exhibit.
        made_by: the pipeline that makes the inputs, if they are optional.
        is_available: takes the inputs and tells whether they have something to show.
    """

    name: str
    caption: str
    label: str
    inputs: tuple[str, ...]
    prepare: Callable[..., Sequence[Any]] = lambda *inputs: inputs
    grids: Callable[..., Sequence[tuple[str, Grid]]] | None = None
    figure: Callable[..., Figure] | None = None
    figure_caption: str = ""
    tables: tuple[Table, ...] = ()
    made_by: str = ""
    is_available: Callable[..., bool] = _all_have_rows

    @property
    def absent(self) -> str:
        """The sentence that stands in place of the exhibit if it has nothing to show."""
        if not self.made_by:
            return "Nothing to show yet"
        return f"Not in the catalog yet: kedro run --pipeline={self.made_by} makes it"


def _sensitivity_grids(sensitivity: pd.DataFrame) -> list[tuple[str, Grid]]:
    return [
        (column_title(parameter), curve_grid(rows, "setting", "measure"))
        for parameter, rows in sensitivity.groupby("parameter", sort=False)
    ]


def _convergence_grids(convergence: pd.DataFrame) -> list[tuple[str, Grid]]:
    shown = convergence[convergence["quantity"].isin(["loss", "canberra"])]
    return [("", curve_grid(shown, "epoch", "quantity"))]


def _trainings(curves: Mapping[str, pd.DataFrame | None]) -> dict[str, pd.DataFrame]:
    """Curves by dataset; datasets that were not run or have failed are left out."""
    return {dataset: own for dataset, own in curves.items() if own is not None and len(own)}


def _held_out(
    draws: Mapping[str, pd.DataFrame | None], coverages: Mapping[str, pd.DataFrame | None]
) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """Draws and coverage by dataset; datasets that were not run or have failed are left out."""
    both = {dataset: (draws[dataset], coverages[dataset]) for dataset in draws}
    return {
        dataset: own
        for dataset, own in both.items()
        if all(table is not None and len(table) for table in own)
    }


_ROWS = (
    Exhibit(
        "leaderboard",
        "Means over the datasets and average ranks",
        "leaderboard",
        tables=(
            Table("summary", summarise, ("results",)),
            Table("comparison", compare_with_published, ("summary", "published_recovery")),
            Table(
                "table3",
                partial(tables.recovery_table, methods=TABLE_3_METHODS),
                ("summary", "comparison"),
            ),
            Table("ranks", tables.rank_table, ("table3", "published_ranks")),
            Table("leaderboard", leaderboard, ("table3", "ranks", "folds")),
            Table("verdicts", verdicts, ("results", "folds")),
        ),
        inputs=("leaderboard", "table3"),
        grids=lambda board, recovery: [("", leaderboard_grid(board, recovery))],
    ),
    Exhibit(
        "table1",
        "The datasets, here and published",
        "data",
        tables=(
            Table("table1", tables.dataset_table, ("published_sizes", "{dataset}.statistics")),
        ),
        inputs=("table1",),
        grids=lambda datasets: [("", grid_of(datasets.drop(columns="sha256")))],
        figure=figures.dataset_sizes,
        figure_caption="Sizes of the datasets, published as crosses",
    ),
    Exhibit(
        "table2",
        "The measures of a true distribution d and a recovered one p",
        "measures",
        tables=(Table("table2", tables.measure_table),),
        inputs=("table2",),
        grids=lambda measures: [("", grid_of(measures))],
        figure=lambda measures: figures.measure_curves(),
        figure_caption="The measures between a distribution and others on the way to two extremes",
    ),
    Exhibit(
        "table3",
        "Recovery, mean ± standard deviation",
        "recovery",
        inputs=("table3",),
        grids=recovery_grids,
        figure=figures.rank_map,
        figure_caption="Rank of every method on every dataset, averaged over the six measures; "
        "1 is best",
    ),
    Exhibit(
        "limit",
        "KL as a multiple of the limit, which knows the true distributions of the training rows; "
        "the first column is its own KL",
        "limit",
        tables=(Table("multiples_of_limit", tables.limit_table, ("table3",)),),
        inputs=("multiples_of_limit",),
        grids=lambda multiples: [("", limit_grid(multiples))],
        made_by="limit",
    ),
    Exhibit(
        "ranks",
        "Against the published ConLE",
        "ranks",
        tables=(
            Table(
                "wins",
                tables.wins_table,
                ("table3", "published_recovery", "folds"),
            ),
        ),
        inputs=("ranks", "wins"),
        grids=lambda ranks, wins: [("average ranks", grid_of(ranks, 2)), ("means", grid_of(wins))],
    ),
    Exhibit(
        "table4",
        "ConLE without one of its losses",
        "ablation",
        tables=(
            Table("ablation_comparison", compare_with_published, ("summary", "published_ablation")),
            Table(
                "table4",
                partial(tables.recovery_table, methods=TABLE_4_METHODS, measures=ABLATION_MEASURES),
                ("summary", "ablation_comparison"),
            ),
        ),
        inputs=("table4",),
        grids=recovery_grids,
        figure=figures.method_bars,
        figure_caption="Ablations: means, standard deviations over the folds as bars",
        made_by="ablation",
        is_available=lambda recovery: bool(recovery["method"].isin(ABLATIONS).any()),
    ),
    Exhibit(
        "posterior",
        "The posterior decoders",
        "posterior",
        tables=(
            Table(
                "examination",
                examination_table,
                (
                    "{dataset}.posterior_weights",
                    "{dataset}.{decoder}.diagnostics",
                    INTERVALS,
                ),
            ),
            Table("contributions", contribution_table, ("table3",)),
        ),
        inputs=(
            "examination",
            "contributions",
            f"{{dataset}}.{SHOWN_DECODER}.draws",
            f"{{dataset}}.{SHOWN_DECODER}.coverage",
        ),
        prepare=lambda examination, contributions, *drawn: (
            examination,
            contributions,
            _held_out(*drawn),
        ),
        grids=lambda examination, contributions, _: [
            ("held-out samples", grid_of(examination, 3)),
            ("KL and what features add", grid_of(contributions)),
        ],
        figure=lambda examination, contributions, drawn: figures.posterior_intervals(drawn),
        figure_caption="Held-out samples: degrees of every label; thin lines are draws, bars 90 % "
        "intervals, crosses the true degrees, which are read for this picture alone",
        made_by="posterior",
        is_available=lambda examination, contributions, drawn: bool(drawn),
    ),
    Exhibit(
        "tests",
        "Tests over the datasets",
        "tests",
        tables=(
            Table("friedman", statistics.friedman_table, ("table3",)),
            Table("wilcoxon", statistics.wilcoxon_table, ("table3",)),
        ),
        inputs=("table3", "friedman", "wilcoxon"),
        grids=lambda recovery, friedman, wilcoxon: [
            ("Friedman's test", grid_of(friedman)),
            ("Wilcoxon's test with Holm's correction", grid_of(wilcoxon)),
        ],
        figure=lambda recovery, *_: figures.critical_differences(statistics.nemenyi(recovery)),
        figure_caption="Critical differences",
    ),
    Exhibit(
        "figure3",
        "Recovery against the weights of the losses",
        "sensitivity",
        inputs=("sensitivity",),
        grids=_sensitivity_grids,
        figure=figures.sensitivity_curves,
        figure_caption="Measures against a weight, the other at its default, steps fixed; standard "
        "deviation over the folds shaded",
        made_by="sensitivity",
    ),
    Exhibit(
        "figure4",
        "Objective and Canberra distance against the epoch",
        "convergence",
        inputs=("convergence",),
        grids=_convergence_grids,
        figure=figures.convergence_curves,
        figure_caption="Objective and Canberra distance against the epoch, standard deviation over "
        "the folds shaded; the true distributions are read for the scores alone",
        made_by="convergence",
    ),
    Exhibit(
        "training",
        "ConLE's training",
        "training",
        inputs=("{dataset}.conle.curves",),
        prepare=lambda curves: [_trainings(curves)],
        figure=figures.training_means,
        figure_caption="ConLE's training: objective and agreement by step, means over the folds",
        made_by="conle",
    ),
    Exhibit(
        "colours",
        "Three labels as colours",
        "colours",
        inputs=(FEATURES, TRUE, RECOVERED),
        prepare=lambda *inputs: [three_labels_as_colours(*inputs)],
        figure=figures.recoveries_as_colours,
        figure_caption="Datasets with three labels: true and recovered degrees (first repeat) as "
        "colours, over two features or principal components; the true ones are read for this "
        "picture alone",
    ),
    Exhibit(
        "predictive",
        "A learner trained on recovered distributions",
        "predictive",
        inputs=("predictive",),
        grids=lambda predictive: [("", curve_grid(predictive, "method", "measure"))],
        figure=lambda predictive: figures.method_bars(
            predictive[predictive["measure"].isin(ABLATION_MEASURES)]
        ),
        figure_caption="The learner's predictions, standard deviations over the folds as bars",
        made_by="predictive",
    ),
    Exhibit(
        "cost",
        "Time and memory of recovery",
        "cost",
        tables=(Table("cost", tables.cost_table, (COSTS,)),),
        inputs=("cost",),
        grids=lambda cost: [("", grid_of(cost, 1))],
        figure=figures.cost_map,
        figure_caption="Seconds and peak memory of every cell",
    ),
)
EXHIBITS = {exhibit.name: exhibit for exhibit in _ROWS}
TABLES = {table.name: table for exhibit in _ROWS for table in exhibit.tables}


def recorded_entries(datasets: Sequence[str]) -> set[str]:
    """The catalog entries of cells and datasets that the report reads."""
    inputs = {SCORES, LOGICAL, *(name for own in (*_ROWS, *TABLES.values()) for name in own.inputs)}
    return {
        entry
        for name in inputs
        if "{" in name
        for entry in entries_of_input(name, datasets).values()
    }


def entries_of_input(name: str, datasets: Sequence[str]) -> dict[str | tuple[str, str], str]:
    """The catalog entries that an input with placeholders stands for.

    Args:
        name: an input with the placeholder {dataset}, and perhaps {method} or {decoder}.
        datasets: the datasets of the report.

    Returns:
        Names of entries by dataset, or by dataset and method.
    """
    values = {"dataset": datasets, "method": REPORTED_METHODS, "decoder": POSTERIORS}
    places = [place for place in values if f"{{{place}}}" in name]
    return {
        chosen if len(chosen) > 1 else chosen[0]: name.format(
            **dict(zip(places, chosen, strict=True))
        )
        for chosen in product(*(values[place] for place in places))
    }


def value_of_input(
    name: str,
    values: Mapping[str, Any],
    recorded: Mapping[str, Callable[[], Any]],
    datasets: Sequence[str],
) -> Any:
    """The value of an input; entries of cells and datasets are loaded when they are asked for.

    Args:
        name: a name of `values`, or an input with placeholders.
        values: tables and catalog entries by name.
        recorded: functions that load the entries of cells and datasets.
        datasets: the datasets of the report.

    Returns:
        One value, or for an input with placeholders a mapping with the keys of `entries_of_input`.
    """
    if name in values:
        return values[name]
    return _Entries(recorded, entries_of_input(name, datasets))


class _Entries(Mapping):
    """Entries of cells or datasets; together they would fill the memory."""

    def __init__(self, recorded: Mapping[str, Callable[[], Any]], names: Mapping[Any, str]) -> None:
        self._recorded, self._names = recorded, names

    def __getitem__(self, key: Any) -> Any:
        return self._recorded[self._names[key]]()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
