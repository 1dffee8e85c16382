"""Tables as a reader sees them: texts with titles for names, ready for LaTeX and HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from conle.core.measures import MEASURES
from conle.methods.registry import TITLES
from conle.reporting.titles import column_title, measure_title, method_title


@dataclass(frozen=True)
class Entry:
    """One entry of a table.

    Attributes:
        text: the text that a reader sees.
        value: sorts the entry; None sorts it by its text.
        best: whether the text is bold.
        beside: a second text, in small letters.
        note: a text that appears under the pointer.
    """

    text: str
    value: float | None = None
    best: bool = False
    beside: str = ""
    note: str = ""


@dataclass(frozen=True)
class Grid:
    """Headings and rows of entries; the footer stays below the rows when they are sorted."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    footer: Sequence[Sequence[Entry]] = ()


def grid_of(table: pd.DataFrame, decimals: int = 4) -> Grid:
    """A table with the titles of methods and measures, and gaps for missing values.

    Args:
        table: its columns become the headings.
        decimals: decimals of floating-point numbers.
    """

    def entry(column: str, value: Any) -> Entry:
        if pd.isna(value):
            return Entry("")
        if column in ("method", "other", "better") and value in TITLES:
            return Entry(TITLES[value])
        if column in ("measure", "compared_with") and value in MEASURES:
            return Entry(MEASURES[value].title)
        if column == "methods" and isinstance(value, str):
            return Entry(", ".join(TITLES.get(name, name) for name in value.split(", ")))
        if column in ("fitted_on", "protocol"):
            return Entry(value.replace("_", " "))
        if isinstance(value, float) and not value.is_integer():
            small = 0 < abs(value) < 10**-decimals
            return Entry(f"{value:.1e}" if small else f"{value:.{decimals}f}", value)
        if isinstance(value, int | float | np.integer) and not isinstance(value, bool):
            return Entry(f"{value:.0f}", float(value))
        return Entry(str(value))

    return Grid(
        [column_title(str(column)) for column in table],
        [
            [entry(column, value) for column, value in zip(table, row, strict=True)]
            for row in table.itertuples(index=False, name=None)
        ],
    )


def recovery_grids(
    recovery: pd.DataFrame, ranks: pd.DataFrame | None = None
) -> list[tuple[str, Grid]]:
    """Table 3 or 4 as the paper shows it: the title and grid of each measure.

    Args:
        recovery: the result of `tables.recovery_table`.
        ranks: the result of `tables.rank_table`, for average ranks in the footer.
    """
    return [
        (measure_title(measure), recovery_grid(recovery, measure, ranks))
        for measure in dict.fromkeys(recovery["measure"])
    ]


def recovery_grid(recovery: pd.DataFrame, measure: str, ranks: pd.DataFrame | None = None) -> Grid:
    """One measure of Table 3 or 4: datasets down, methods across, average ranks below.

    Args:
        recovery: the result of `tables.recovery_table`.
        measure: a key of `MEASURES`.
        ranks: the result of `tables.rank_table`.
    """
    rows = recovery[recovery["measure"] == measure]
    methods = list(dict.fromkeys(recovery["method"]))
    headings = ["dataset", *(method_title(name, recovery) for name in methods)]
    body = []
    for dataset, own in rows.groupby("dataset", sort=False):
        found = {row.method: _recovery_entry(row) for row in own.itertuples()}
        body.append([Entry(dataset), *(found.get(method, Entry("–")) for method in methods)])
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
                entries = [
                    Entry("" if pd.isna(v) else f"{v:.2f}", best=v == values.min()) for v in values
                ]
                footer.append([Entry(title), *entries])
    return Grid(headings, body, footer)


def _recovery_entry(row: Any) -> Entry:
    beside, note = "", ""
    if not pd.isna(row.published):
        suspect = not pd.isna(row.suspect)
        beside = f"{row.published:.3f}{'?' if suspect else ''} ({row.difference:+.3f})"
        note = f"suspect: {row.suspect}" if suspect else ""
    return Entry(mean_and_deviation(row.mean, row.std), row.mean, row.rank == 1, beside, note)


def curve_grid(table: pd.DataFrame, index: str, columns: str) -> Grid:
    """A tidy table with a column for each curve: means with standard deviations.

    Args:
        table: columns dataset, mean, std, and those named.
        index: the column whose values run along the rows, after the dataset.
        columns: the column whose values become columns.
    """
    text = [
        mean_and_deviation(mean, std) for mean, std in zip(table["mean"], table["std"], strict=True)
    ]
    names = list(dict.fromkeys(table[columns]))
    wide = table.assign(text=text).pivot(index=["dataset", index], columns=columns, values="text")
    return grid_of(wide[names].rename_axis(columns=None).reset_index())


def mean_and_deviation(mean: float, std: float) -> str:
    """Mean ± standard deviation; only the mean for a single fold."""
    return f"{mean:.4f}" + ("" if pd.isna(std) else f" ± {std:.4f}")
