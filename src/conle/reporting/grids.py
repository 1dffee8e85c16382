"""Tables as a reader sees them: texts with titles for names, ready for LaTeX and HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from conle.core import selection
from conle.core.measures import MEASURES
from conle.methods.registry import LIMIT, REFERENCES, SET_APART, TITLES
from conle.reporting.leaderboard import gain_sentence, lead_sentence
from conle.reporting.titles import column_title, measure_title, method_title

# Candidates that learn nothing from the features.
FEATURELESS = (*REFERENCES, "posterior_featureless")
# Marks the chosen candidate also where text is never bold, such as in a file.
CHOICE_MARK = "→"


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


def recovery_grids(recovery: pd.DataFrame) -> list[tuple[str, Grid]]:
    """Table 3 or 4, one grid per dataset: methods down, measures across.

    Args:
        recovery: the result of `tables.recovery_table`.
    """
    return [
        (dataset, recovery_grid(rows)) for dataset, rows in recovery.groupby("dataset", sort=False)
    ]


def recovery_grid(rows: pd.DataFrame) -> Grid:
    """The methods of one dataset: means, with standard deviations beside them.

    The references are the footer; the best of the methods are bold.

    Args:
        rows: the rows of `tables.recovery_table` of one dataset.
    """
    methods = rows[~rows["method"].isin(SET_APART)]
    best = methods.groupby("measure")["rank"].min()
    entries = {
        (row.method, row.measure): Entry(
            f"{row.mean:.4f}",
            row.mean,
            row.method not in SET_APART and row.rank == best[row.measure],
            "" if pd.isna(row.std) else f"± {row.std:.4f}",
        )
        for row in rows.itertuples()
    }
    return _methods_by_measures(rows, entries)


def published_grids(recovery: pd.DataFrame) -> list[tuple[str, Grid]]:
    """Published means, with the differences of the measured ones beside them, per dataset.

    Args:
        recovery: the result of `tables.recovery_table`. Datasets and methods that the paper does
            not have are left out.
    """
    return [
        (dataset, _published_grid(rows))
        for dataset, rows in recovery.dropna(subset="published").groupby("dataset", sort=False)
    ]


def _published_grid(rows: pd.DataFrame) -> Grid:
    entries = {}
    for row in rows.itertuples():
        suspect = not pd.isna(row.suspect)
        entries[row.method, row.measure] = Entry(
            f"{row.published:.3f}{'?' if suspect else ''}",
            row.published,
            beside=f"{row.difference:+.3f}",
            note=f"suspect: {row.suspect}" if suspect else "",
        )
    return _methods_by_measures(rows, entries)


def _methods_by_measures(rows: pd.DataFrame, entries: Mapping[tuple[str, str], Entry]) -> Grid:
    measures = [name for name in MEASURES if name in set(rows["measure"])]
    by_method = {
        method: [
            Entry(method_title(method, rows) if "fitted_on" in rows else TITLES[method]),
            *(entries.get((method, name), Entry("–")) for name in measures),
        ]
        for method in dict.fromkeys(rows["method"])
    }
    return Grid(["method", *map(measure_title, measures)], *_references_last(by_method))


def _references_last(
    by_method: Mapping[str, Sequence[Entry]],
) -> tuple[list[Sequence[Entry]], list[Sequence[Entry]]]:
    """The rows of the methods, and those of the references for the footer."""
    return (
        [row for method, row in by_method.items() if method not in SET_APART],
        [row for method, row in by_method.items() if method in SET_APART],
    )


def ranks_grid(ranks: pd.DataFrame) -> Grid:
    """Average ranks among the paper's methods, with the published ones beside them.

    Args:
        ranks: the result of `tables.rank_table`.
    """
    own = ranks.dropna(subset="rank_among_the_papers")
    entries = {
        (row.method, row.measure): Entry(
            f"{row.rank_among_the_papers:.2f}",
            row.rank_among_the_papers,
            beside=f"{row.published:.2f}" if not pd.isna(row.published) else "",
        )
        for row in own.itertuples()
    }
    return _methods_by_measures(own, entries)


def leaderboard_grid(board: pd.DataFrame, recovery: pd.DataFrame) -> Grid:
    """The leaderboard; the references are its footer, the best of the methods are bold.

    Args:
        board: the result of `leaderboard.leaderboard`.
        recovery: the result of `tables.recovery_table`.
    """
    measures = [name for name in MEASURES if name in board and board[name].notna().any()]
    counted = board["better_than_label_posterior"].notna().any()
    has_limit = board["multiple_of_limit"].notna().any()
    methods = board[~board["method"].isin(SET_APART)]
    best = {
        name: methods[name].max() if MEASURES[name].larger_is_better else methods[name].min()
        for name in measures
    }

    def entries(row: Mapping[str, Any]) -> list[Entry]:
        is_reference = row["method"] in SET_APART
        rank = row["average_rank"]
        own = [
            Entry(method_title(row["method"], recovery)),
            Entry(
                "–" if pd.isna(rank) else f"{rank:.2f}",
                rank,
                not is_reference and rank == methods["average_rank"].min(),
            ),
        ]
        for name in measures:
            error = row[f"{name}_error"]
            beside = "" if pd.isna(error) else f"± {error:.4f}"
            is_best = not is_reference and row[name] == best[name]
            own.append(Entry(f"{row[name]:.4f}", row[name], is_best, beside))
        if counted:
            count = row["better_than_label_posterior"]
            text = "" if pd.isna(count) else f"{count:.0f} of {row['means']:.0f}"
            own.append(Entry(text, float(count) if text else None))
        if has_limit:
            multiple = row["multiple_of_limit"]
            is_best = not is_reference and multiple == methods["multiple_of_limit"].min()
            own.append(Entry(f"{multiple:.2f}", multiple, is_best))
        return own

    headings = ["method", "average rank", *map(measure_title, measures)]
    if counted:
        headings.append("better than label posterior")
    if has_limit:
        headings.append("KL / limit")
    rows = {row["method"]: entries(row) for row in board.to_dict("records")}
    return Grid(headings, *_references_last(rows))


def limit_grid(multiples: pd.DataFrame) -> Grid:
    """The limit's KL, and that of every method as a multiple of it, the best method bold.

    Args:
        multiples: the result of `tables.limit_table`.
    """
    names = list(multiples.columns[2:])
    best = multiples[[name for name in names if name not in SET_APART]].min(axis=1)
    return Grid(
        [column_title(name) for name in multiples],
        [
            [
                Entry(row["dataset"]),
                Entry(f"{row[LIMIT]:.4f}", row[LIMIT]),
                *(
                    Entry("–")
                    if pd.isna(row[name])
                    else Entry(
                        f"{row[name]:.2f}", row[name], name not in SET_APART and row[name] == least
                    )
                    for name in names
                ),
            ]
            for row, least in zip(multiples.to_dict("records"), best, strict=True)
        ],
    )


def verdict_grid(verdicts: pd.DataFrame) -> Grid:
    """The best method of each dataset, by how much, and whether features help.

    Args:
        verdicts: the result of `leaderboard.verdicts`.
    """
    return Grid(
        ["dataset", "best", "by how much", "do features help?"],
        [
            [
                Entry(row["dataset"]),
                Entry(TITLES[row["best"]]),
                Entry(lead_sentence(row)),
                Entry(gain_sentence(row)),
            ]
            for row in verdicts.to_dict("records")
        ],
    )


def comparison_grid(comparison: pd.DataFrame, measures: Sequence[str] = selection.MEASURES) -> Grid:
    """The candidates that were compared, the chosen one marked; the rivals are the footer.

    Args:
        comparison: the result of `conle.core.selection.compare`.
        measures: the columns that are shown.
    """
    candidates, rivals = [], []
    for row in comparison.to_dict("records"):
        mark = f"{CHOICE_MARK} " if row["chosen"] else ""
        entries = [Entry(mark + row["candidate"], best=row["chosen"])]
        for name in measures:
            value = row[name]
            if pd.isna(value):
                entries.append(Entry("–"))
                continue
            error = row[selection.ERRORS[name]] if name in selection.ERRORS else np.nan
            beside = "" if pd.isna(error) else f"± {error:.4f}"
            text = f"{value:.1f}" if name == "seconds" else f"{value:.4f}"
            entries.append(Entry(text, value, row["chosen"], beside))
        (rivals if row["candidate"] in selection.RIVALS else candidates).append(entries)
    return Grid(["candidate", *map(column_title, measures)], candidates, rivals)


def choice_sentences(comparison: pd.DataFrame) -> list[str]:
    """Which candidate of a comparison was chosen, and why; then which rows were compared.

    Args:
        comparison: the result of `conle.core.selection.compare`.
    """
    chosen = comparison[comparison["chosen"]].iloc[0]
    rows, all_rows = int(chosen["rows"]), int(chosen["all_rows"])
    sample = "" if rows == all_rows else f", a random sample of {all_rows}"
    teacher = comparison.loc[comparison["lead"].idxmax()]
    lead = f"{teacher['lead']:+.4f} ± {teacher['lead_error']:.4f}"
    why = (
        "its KL to the featureless posterior is the smallest"
        if chosen["kl_error"] == 0
        else "of the candidates with the smallest KL to the featureless posterior, within its "
        "standard error, it is nearest to uniform"
    )
    method = chosen["candidate"].split()[0]
    features = (
        " It does not look at the features: that they help is not shown here."
        if method in FEATURELESS
        else ""
    )
    return [
        f"{chosen['candidate']} is chosen: {why}.{features}",
        f"To predict labels, {teacher['candidate']} is the best of them: its lead over the "
        f"normalised labels is {lead}."
        if selection.helps(comparison)
        else "To predict labels, label enhancement does not help on these data: no candidate leads "
        f"the normalised labels by more than its standard error. The largest lead is that of "
        f"{teacher['candidate']}, {lead}.",
        f"The candidates were compared on {rows} rows{sample}.",
    ]


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
