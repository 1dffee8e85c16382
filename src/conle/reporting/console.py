"""The text that a command prints on the terminal at its end."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from kedro.io import CatalogProtocol

from conle import kedro_internals
from conle.core.selection import MEASURES, noted
from conle.reporting.description import board_of, verdict_lines
from conle.reporting.grids import (
    CHOICE_MARK,
    Entry,
    Grid,
    choice_sentences,
    comparison_grid,
    leaderboard_grid,
    recovery_grids,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# A command prints the places of these entries of the catalog, with their titles.
PLACES = {
    "results": "Results",
    "summary": "Summary",
    "report": "Report",
    "sensitivity": "Table",
    "sensitivity_curves": "Picture",
    "convergence": "Table",
    "convergence_curves": "Picture",
    "predictive": "Table",
    "enhance.comparison": "Methods",
    "enhance.distributions": "Parquet",
    "enhance.distributions_csv": "CSV",
    "enhance.checks": "Checks",
    "enhance.model": "Model",
}
PICTURES = (".recovery_picture", ".training_curves")
# Headings where the terminal is narrow.
SHORT = {
    "KL reversed": "KL r.",
    "KL to the featureless posterior": "KL",
    "Chebyshev": "Cheb.",
    "Canberra": "Canb.",
    "Cosine": "Cos.",
    "Intersection": "Int.",
    "average rank": "rank",
    "log likelihood": "log lik.",
    "average precision": "prec.",
    "entropy": "entr.",
    "seconds": "s",
}
# Measures of a comparison that have no room in a terminal.
LEFT_OUT = ("ranking_loss", "coverage", "one_error")
# More datasets than these share one table.
MOST_TABLES = 3


def print_results(
    outputs: set[str], catalog: CatalogProtocol, project: Path, more: Sequence[str]
) -> None:
    """Print the table of measures or checks, and where the results are.

    Args:
        outputs: names of the catalog entries that a run has made.
        catalog: holds the entries and their places.
        project: folder of the project; places are relative to it.
        more: further lines.
    """
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=180)
    if "summary" in outputs:
        folds = catalog.load("params:folds")
        print_recovery(console, catalog.load("summary"), catalog.load("results"), folds)
    if "enhance.comparison" in outputs:
        print_comparison(console, catalog.load("enhance.comparison"))
    if "enhance.check_table" in outputs:
        console.print(checks_table(catalog.load("enhance.check_table")))
    # A transductive method leaves no model.
    titles = {
        name: title
        for name, title in PLACES.items()
        if name in outputs and (name != "enhance.model" or catalog.exists(name))
    }
    titles |= {name: "Picture" for name in sorted(outputs) if name.endswith(PICTURES)}
    lines = [f"{title:<9} {_place(catalog, name, project)}" for name, title in titles.items()]
    if outputs & {"report", "enhance.checks"}:
        lines.append("Page      kedro open shows it in the browser")
    if not lines:
        lines = [f"Wrote     {len(outputs)} entries of the catalog"]
    console.print("\n".join([*lines, *more]), highlight=False, soft_wrap=True)


def print_recovery(
    console: "Console", summary: pd.DataFrame, results: pd.DataFrame, folds: int
) -> None:
    """Print a table of measures per dataset, or the leaderboard of many, and who is best.

    Args:
        console: its width decides whether there is room for standard deviations.
        summary: the result of `scores.summarise`.
        results: the results table.
        folds: the number of folds of a repeat.
    """
    board, recovery = board_of(summary, folds)
    grids = recovery_grids(recovery)
    if len(grids) > MOST_TABLES:
        # The last column has no room in a terminal.
        board["better_than_label_posterior"] = pd.NA
        print_grid(console, leaderboard_grid(board, recovery), f"Means over {len(grids)} datasets")
    else:
        for dataset, grid in grids:
            print_grid(console, grid, f"{dataset}: means over the folds, best method in bold")
    if (recovery["fitted_on"] == "all").any():
        console.print("* fitted to all rows, the scored ones included", highlight=False)
    for line in verdict_lines(results, folds):
        console.print(line, highlight=False)


def print_comparison(console: "Console", comparison: pd.DataFrame) -> None:
    """Print the candidates that were compared, those that failed, and which one was chosen.

    Args:
        console: its width decides which columns there are.
        comparison: the result of `conle.core.selection.compare`.
    """
    measures = [name for name in MEASURES if name not in LEFT_OUT]
    print_grid(
        console,
        comparison_grid(comparison, measures),
        f"Compared methods; {CHOICE_MARK} marks the chosen one",
    )
    failed = noted(comparison[comparison["lead"].isna()])
    lines = [f"{row.candidate} cannot be compared: {row.note}" for row in failed.itertuples()]
    console.print("\n".join([*lines, *choice_sentences(comparison)]), highlight=False, markup=False)


def print_grid(console: "Console", grid: Grid, title: str) -> None:
    """Print a grid in the first of three forms that fits: with deviations, without, and narrow."""
    wide, plain, narrow = (
        _as_table(grid, title, beside=beside, short=short)
        for beside, short in ((True, False), (False, False), (False, True))
    )
    unlimited = console.options.update_width(10**4)
    fits = (
        own
        for own in (wide, plain)
        if console.measure(own, options=unlimited).maximum <= console.width
    )
    console.print(next(fits, narrow))


def _as_table(grid: Grid, title: str, *, beside: bool, short: bool) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        title_justify="left",
    )
    for number, heading in enumerate(grid.headings):
        for long, own in SHORT.items() if short else ():
            heading = heading.replace(long, own)
        # Only titles of methods may take a second line.
        table.add_column(heading, justify="right" if number else "left", no_wrap=number > 0)
    for part in (grid.rows, grid.footer):
        for row in part:
            table.add_row(*(_as_text(entry, beside) for entry in row))
        table.add_section()
    return table


def _as_text(entry: Entry, beside: bool) -> str:
    text = f"{entry.text} {entry.beside}".strip() if beside else entry.text
    return f"[bold]{text}[/bold]" if entry.best else text


def _place(catalog: CatalogProtocol, name: str, project: Path) -> str:
    dataset = catalog.get(name)
    path = kedro_internals.load_path(dataset)
    protocol, _ = kedro_internals.file_system(dataset)
    return os.path.relpath(path, project) if protocol == "file" else f"{protocol}://{path}"


def checks_table(checks: pd.DataFrame) -> Any:
    """The checks of enhanced labels.

    Args:
        checks: columns check and value.

    Returns:
        A table of rich.
    """
    from rich.table import Table

    table = Table(title="Enhanced labels")
    table.add_column("check")
    table.add_column("", justify="right")
    for row in checks.itertuples():
        table.add_row(row.check, f"{row.value:.{0 if row.value.is_integer() else 4}f}")
    return table
