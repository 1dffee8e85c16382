"""The paper's tables, measured beside published, from the tidy tables of the evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from conle.core.measures import MEASURES
from conle.methods.registry import CHOSEN, FLOORS, TITLES, TRUE_DISTRIBUTIONS

FORMULAS = {
    "kl_divergence": "Σ d ln(d / p)",
    "kl_divergence_reversed": "Σ p ln(p / d)",
    "chebyshev": "max |d − p|",
    "clark": "√ Σ (d − p)² / (d + p)²",
    "canberra": "Σ |d − p| / (d + p)",
    "cosine": "d·p / (|d| |p|)",
    "intersection": "Σ min(d, p)",
}
NOTES = {
    "kl_divergence": "a recovered 0 counts as 1e-12: KM recovers many",
    "kl_divergence_reversed": "not of the paper's six: the published divergences of KM and LP; a "
    "true 0 counts as 1e-12",
    "canberra": "the paper prints a square in the numerator; its figures are without it",
}
SIZES = ("examples", "features", "labels")
# As the paper prints them: ranks and wins are those of rounded means.
PUBLISHED_DECIMALS = 3
REFERENCE = "label_posterior"


def dataset_table(statistics: Sequence[Mapping], published_sizes: pd.DataFrame) -> pd.DataFrame:
    """Table 1: the sizes of the datasets, measured beside published.

    Args:
        statistics: of the datasets, as the ingestion describes them.
        published_sizes: the paper's Table 1.

    Returns:
        Columns dataset, examples, features, labels, the same with `_published` (empty where the
        paper has no such dataset), relevant_labels, the sum of the logical labels, and sha256 of
        the raw file.
    """
    measured = pd.DataFrame(statistics, columns=["dataset", *SIZES, "relevant_labels", "sha256"])
    table = measured.merge(published_sizes, on="dataset", how="left", suffixes=("", "_published"))
    published = [f"{name}_published" for name in SIZES]
    table[published] = table[published].astype("Int64")
    return table[["dataset", *SIZES, *published, "relevant_labels", "sha256"]]


def measure_table() -> pd.DataFrame:
    """Table 2: the measures, their formulas (d true, p recovered) and directions.

    Returns:
        Columns measure, formula, better and note.
    """
    return pd.DataFrame(
        [
            {
                "measure": measure.title,
                "formula": FORMULAS[name],
                "better": "larger" if measure.larger_is_better else "smaller",
                "note": NOTES.get(name, ""),
            }
            for name, measure in MEASURES.items()
        ]
    )


def recovery_table(
    summary: pd.DataFrame, comparison: pd.DataFrame, methods: Sequence[str]
) -> pd.DataFrame:
    """Table 3 or 4 in tidy form: every measured cell, its rank and the published value.

    Args:
        summary: dataset, method, fitted_on, measure, mean, std, folds.
        comparison: the published cells beside the measured ones.
        methods: those to keep, in the order they are shown in.

    Returns:
        Columns dataset, method, fitted_on, measure, mean, std, folds, rank (among the methods of
        a dataset and measure; ties of the rounded means share the best), published, difference
        and suspect. The last three are empty where nothing was published, and stand with the
        measure that the published value is of.
    """
    table = summary[summary["method"].isin(methods)].copy()
    table["rank"] = _signed(table).groupby([table["dataset"], table["measure"]]).rank(method="min")
    beside = comparison.assign(measure=comparison["compared_with"])
    table = table.merge(
        beside[["dataset", "method", "measure", "published", "difference", "suspect"]],
        on=["dataset", "method", "measure"],
        how="left",
    )
    orders = {
        "measure": list(MEASURES),
        "dataset": list(summary["dataset"].unique()),
        "method": list(methods),
    }
    table = table.sort_values(
        list(orders),
        key=lambda column: column.map({v: i for i, v in enumerate(orders[column.name])}),
        kind="stable",
    )
    columns = ["dataset", "method", "fitted_on", "measure", "mean", "std", "folds", "rank"]
    return table[[*columns, "published", "difference", "suspect"]].reset_index(drop=True)


def _signed(table: pd.DataFrame) -> pd.Series:
    """Rounded means, signed so that smaller is better."""
    larger = table["measure"].map(lambda name: MEASURES[name].larger_is_better)
    rounded = table["mean"].round(PUBLISHED_DECIMALS)
    return rounded.where(~larger.astype(bool), -rounded)


def complete_part(recovery: pd.DataFrame) -> pd.DataFrame:
    """The part of a table that methods can be compared on as wholes.

    Of the methods, by the number of datasets that they recovered, and the datasets that all of them
    recovered, as many as make the most cells: one that was tried on a single dataset does not take
    the others out. The chosen posterior and those with one floor for all datasets do not count, for
    most of their cells are another posterior's once more.
    """
    own = recovery[~recovery["method"].isin((CHOSEN, *FLOORS))]
    found = {method: set(rows["dataset"]) for method, rows in own.groupby("method", sort=False)}
    names = sorted(found, key=lambda name: -len(found[name]))
    common = [
        set.intersection(*(found[name] for name in names[:n])) for n in range(1, len(names) + 1)
    ]
    most = max(range(len(names)), key=lambda n: (n + 1) * len(common[n]), default=None)
    if most is None:
        return own
    return own[own["method"].isin(names[: most + 1]) & own["dataset"].isin(common[most])]


def rank_table(recovery: pd.DataFrame, published_ranks: pd.DataFrame) -> pd.DataFrame:
    """Average rank of each method beside the published one, over `complete_part`.

    Args:
        recovery: as `recovery_table` gives it.
        published_ranks: method, measure, average_rank.

    Returns:
        Columns measure, method, average_rank (among all methods that count, the references
        included), rank_among_the_papers (among the methods that the paper has), published and
        datasets, the number that count.
    """
    kept = complete_part(recovery).copy()
    kept["rank"] = kept.groupby(["dataset", "measure"])["rank"].rank(method="min")
    own = kept[kept["method"].isin(published_ranks["method"])].copy()
    own["rank"] = own.groupby(["dataset", "measure"])["rank"].rank(method="min")
    keys = ["measure", "method"]
    table = kept.groupby(keys, sort=False)["rank"].mean().to_frame("average_rank")
    table["rank_among_the_papers"] = own.groupby(keys)["rank"].mean().reindex(table.index)
    table["published"] = published_ranks.set_index(keys)["average_rank"].reindex(table.index)
    table["datasets"] = kept["dataset"].nunique()
    return table.reset_index()


def wins_table(recovery: pd.DataFrame, published: pd.DataFrame, folds: int) -> pd.DataFrame:
    """In how many cells each method is at least as good as the published ConLE.

    A cell is a dataset and one of the paper's six measures. It counts where the mean, rounded as
    the paper prints it, is at least as good.

    Args:
        recovery: as `recovery_table` gives it.
        published: the paper's Table 3: dataset, method, measure, value.
        folds: of the cross-validation.

    Returns:
        Columns method, cells (that could be compared), at_least_as_good, lost_within_error (cells
        lost by less than the standard error of the mean over the folds, corrected for their
        sharing samples: Nadeau, Bengio, "Inference for the generalization error", Machine
        Learning 2003), and
        better_than_label_posterior with the number of those cells, cells_beside_it (empty where
        the label posterior is missing, and for itself).
    """
    target = published[published["method"] == "conle"].set_index(["dataset", "measure"])["value"]
    larger = target.index.get_level_values("measure").map(lambda m: MEASURES[m].larger_is_better)
    sign = pd.Series(np.where(larger, -1.0, 1.0), index=target.index)
    cells = {
        method: own.set_index(["dataset", "measure"])
        for method, own in recovery.groupby("method", sort=False)
    }
    rows = []
    for method, own in cells.items():
        compared = target.index.intersection(own.index)
        excess = sign[compared] * (own["mean"][compared] - target[compared])
        rounded = own["mean"][compared].round(PUBLISHED_DECIMALS)
        good = sign[compared] * rounded <= sign[compared] * target[compared]
        error = own["std"][compared] * np.sqrt(1 / own["folds"][compared] + 1 / (folds - 1))
        row = {
            "method": method,
            "cells": len(compared),
            "at_least_as_good": int(good.sum()),
            "lost_within_error": int((~good & (excess < error)).sum()),
        }
        if REFERENCE in cells and method != REFERENCE:
            beside = compared.intersection(cells[REFERENCE].index)
            gain = sign[beside] * (cells[REFERENCE]["mean"][beside] - own["mean"][beside])
            row |= {
                "better_than_label_posterior": int((gain > 0).sum()),
                "cells_beside_it": len(beside),
            }
        rows.append(row)
    counts = ["cells", "at_least_as_good", "lost_within_error"]
    counts += ["better_than_label_posterior", "cells_beside_it"]
    table = pd.DataFrame(rows, columns=["method", *counts])
    return table.astype(dict.fromkeys(counts, "Int64"))


def cost_table(costs: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Seconds and memory of each recovery, all folds together.

    Args:
        costs: dataset, method, seconds, peak_memory_mib and memory_before_mib of each.

    Returns:
        Columns dataset, method, seconds, peak_memory_mib (the most that the process held
        meanwhile) and memory_before_mib.
    """
    columns = ["dataset", "method", "seconds", "peak_memory_mib", "memory_before_mib"]
    return pd.DataFrame(costs, columns=columns)


@dataclass(frozen=True)
class Cell:
    """A cell of a table as it is read.

    Attributes:
        text: what stands in it.
        value: what it is sorted by; the text where there is none.
        best: whether it is set in bold.
        beside: what stands below it in small letters.
        note: shown when it is pointed at.
    """

    text: str
    value: float | None = None
    best: bool = False
    beside: str = ""
    note: str = ""


@dataclass(frozen=True)
class Grid:
    """A table as it is read: headings, rows of cells, and rows that stay below when sorted."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    footer: Sequence[Sequence[Cell]] = ()


def recovery_grid(recovery: pd.DataFrame, measure: str, ranks: pd.DataFrame | None = None) -> Grid:
    """One measure as the paper shows it: datasets down, methods across, average ranks below.

    Args:
        recovery: as `recovery_table` gives it.
        measure: its name.
        ranks: as `rank_table` gives it.
    """
    rows = recovery[recovery["measure"] == measure]
    methods = list(dict.fromkeys(recovery["method"]))
    headings = ["dataset", *(method_title(name, recovery) for name in methods)]
    body = []
    for dataset, own in rows.groupby("dataset", sort=False):
        cells = {row.method: row for row in own.itertuples()}
        body.append(
            [
                Cell(dataset),
                *(_recovery_cell(cells[m]) if m in cells else Cell("–") for m in methods),
            ]
        )
    footer = []
    if ranks is not None:
        averages = ranks[ranks["measure"] == measure].set_index("method")
        for column, title in (
            ("average_rank", "average rank"),
            ("rank_among_the_papers", "rank among the paper's methods"),
            ("published", "published average rank"),
        ):
            values = averages[column].reindex(methods)
            if values.notna().any():
                cells = [
                    Cell("" if pd.isna(v) else f"{v:.2f}", best=v == values.min()) for v in values
                ]
                footer.append([Cell(title), *cells])
    return Grid(headings, body, footer)


def _recovery_cell(row: Any) -> Cell:
    deviation = "" if pd.isna(row.std) else f" ± {row.std:.4f}"
    beside, note = "", ""
    if not pd.isna(row.published):
        suspect = not pd.isna(row.suspect)
        beside = f"{row.published:.3f}{'?' if suspect else ''} ({row.difference:+.3f})"
        note = f"suspect: {row.suspect}" if suspect else ""
    return Cell(f"{row.mean:.4f}{deviation}", row.mean, row.rank == 1, beside, note)


def method_title(method: str, recovery: pd.DataFrame) -> str:
    """The title of a method, with a star where it was fitted to all rows."""
    on_all = recovery.loc[recovery["method"] == method, "fitted_on"] == "all"
    return TITLES[method] + ("*" if on_all.any() else "")


def grid_of(table: pd.DataFrame, decimals: int = 4) -> Grid:
    """Any table as it is read, methods and measures by their titles, gaps empty.

    Args:
        table: its columns are the headings.
        decimals: of floating-point numbers.
    """

    def cell(column: str, value: Any) -> Cell:
        if pd.isna(value):
            return Cell("")
        if column in ("method", "other", "better") and value in TITLES:
            return Cell(TITLES[value])
        if column in ("measure", "compared_with") and value in MEASURES:
            return Cell(MEASURES[value].title)
        if isinstance(value, float) and not value.is_integer():
            small = 0 < abs(value) < 10**-decimals
            return Cell(f"{value:.1e}" if small else f"{value:.{decimals}f}", value)
        if isinstance(value, int | float | np.integer) and not isinstance(value, bool):
            return Cell(f"{value:.0f}", float(value))
        return Cell(str(value))

    return Grid(
        [str(column).replace("_", " ") for column in table],
        [
            [cell(column, value) for column, value in zip(table, row, strict=True)]
            for row in table.itertuples(index=False, name=None)
        ],
    )


def curve_table(table: pd.DataFrame, index: str, columns: str) -> pd.DataFrame:
    """A tidy table of curves with a column for each curve: means with standard deviations.

    Args:
        table: columns dataset, mean, std, and those named.
        index: name of the column that runs along the rows, after the dataset.
        columns: name of the column whose values become columns.

    Returns:
        Columns dataset, index, and the values of `columns`; cells are text.
    """
    text = [
        f"{mean:.4f}" + ("" if pd.isna(std) else f" ± {std:.4f}")
        for mean, std in zip(table["mean"], table["std"], strict=True)
    ]
    names = list(dict.fromkeys(table[columns]))
    wide = table.assign(text=text).pivot(index=["dataset", index], columns=columns, values="text")
    return wide[names].rename_axis(columns=None).reset_index()


def against_the_truth(predictive: pd.DataFrame) -> dict[str, float]:
    """The KL of the learner by what it was trained on, divided by that on the true distributions.

    Args:
        predictive: columns dataset, method, measure, mean.

    Returns:
        By method, the geometric mean over the datasets that all methods have; nothing without any.
    """
    kl = predictive[predictive["measure"] == "kl_divergence"]
    means = kl.pivot(index="dataset", columns="method", values="mean").dropna()
    if means.empty or TRUE_DISTRIBUTIONS not in means:
        return {}
    ratios = means.drop(columns=TRUE_DISTRIBUTIONS).div(means[TRUE_DISTRIBUTIONS], axis=0)
    return np.exp(np.log(ratios).mean()).sort_values().to_dict()
