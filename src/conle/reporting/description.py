"""What MLflow shows of a run that compares methods, in Markdown."""

import pandas as pd

from conle.reporting.grids import Entry, Grid, leaderboard_grid
from conle.reporting.leaderboard import (
    gain_sentence,
    lead_sentence,
    leader_sentence,
    leaderboard,
    verdicts,
)
from conle.reporting.scores import COMPARISON_COLUMNS
from conle.reporting.tables import rank_table, recovery_table

# MLflow keeps 8000 characters: the verdicts of more datasets are left out.
MOST_VERDICTS = 13


def board_of(summary: pd.DataFrame, folds: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The leaderboard and the recovery table of a summary, without published values.

    Args:
        summary: the result of `scores.summarise`.
        folds: the number of folds of a repeat.
    """
    methods = list(dict.fromkeys(summary["method"]))
    recovery = recovery_table(summary, pd.DataFrame(columns=COMPARISON_COLUMNS), methods)
    ranks = rank_table(recovery, pd.DataFrame(columns=["method", "measure", "average_rank"]))
    return leaderboard(recovery, ranks, folds), recovery


def verdict_lines(results: pd.DataFrame, folds: int) -> list[str]:
    """Say of each dataset which method is best, and whether features help.

    Args:
        results: the results table.
        folds: the number of folds of a repeat.
    """
    rows = verdicts(results, folds).to_dict("records")
    return [f"{row['dataset']}: {lead_sentence(row)} {gain_sentence(row)}" for row in rows]


def describe(board: pd.DataFrame, recovery: pd.DataFrame, results: pd.DataFrame, folds: int) -> str:
    """Say which methods are best, and show the leaderboard.

    Args:
        board: the leaderboard.
        recovery: the recovery table.
        results: the results table.
        folds: the number of folds of a repeat.

    Returns:
        Markdown of less than 8000 characters.
    """
    lines = verdict_lines(results, folds)
    sentences = [leader_sentence(board), *(lines if len(lines) <= MOST_VERDICTS else [])]
    table = markdown_table(leaderboard_grid(board, recovery))
    datasets = board["datasets"].iloc[0]
    return "\n\n".join([*filter(None, sentences), f"Means over the datasets ({datasets}):", table])


def markdown_table(grid: Grid) -> str:
    """A grid as a Markdown table; the footer is the last rows."""

    def line(texts: list[str]) -> str:
        return f"| {' | '.join(texts)} |"

    def text(entry: Entry) -> str:
        # A star marks methods that are fitted to all rows.
        plain = entry.text.replace("*", "\\*")
        return f"**{plain}**" if entry.best else plain

    rows = [line([text(entry) for entry in row]) for row in [*grid.rows, *grid.footer]]
    rule = line(["---", *["---:"] * (len(grid.headings) - 1)])
    return "\n".join([line(list(grid.headings)), rule, *rows])
