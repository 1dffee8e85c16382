"""The text that a command prints on the terminal at its end."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from kedro.io import CatalogProtocol

from conle import kedro_internals
from conle.core.measures import MEASURES
from conle.reporting.grids import mean_and_deviation
from conle.reporting.titles import measure_title, method_title

# A command prints the places of these entries of the catalog, with their titles.
PLACES = {
    "results": "Results",
    "summary": "Summary",
    "report": "Report",
    "enhance.distributions": "Parquet",
    "enhance.distributions_csv": "CSV",
    "enhance.checks": "Checks",
    "enhance.model": "Model",
}
PICTURES = (".recovery_picture", ".training_curves")


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
        console.print(summary_table(catalog.load("summary")))
    if "enhance.check_table" in outputs:
        console.print(checks_table(catalog.load("enhance.check_table")))
    titles = {name: title for name, title in PLACES.items() if name in outputs}
    titles |= {name: "Picture" for name in sorted(outputs) if name.endswith(PICTURES)}
    lines = [f"{title:<9} {_place(catalog, name, project)}" for name, title in titles.items()]
    console.print("\n".join([*lines, *more]), highlight=False, soft_wrap=True)


def _place(catalog: CatalogProtocol, name: str, project: Path) -> str:
    dataset = catalog.get(name)
    path = kedro_internals.load_path(dataset)
    protocol, _ = kedro_internals.file_system(dataset)
    return os.path.relpath(path, project) if protocol == "file" else f"{protocol}://{path}"


def summary_table(summary: pd.DataFrame) -> Any:
    """The summary of a run: mean and standard deviation over the folds, best in bold.

    Args:
        summary: columns dataset, method, fitted_on, measure, mean and std.

    Returns:
        A table of rich.
    """
    from rich.table import Table

    table = Table(title="Recovery: mean ± standard deviation over the folds, best in bold")
    table.add_column("dataset")
    table.add_column("method")
    for measure in MEASURES:
        table.add_column(measure_title(measure), justify="right")
    marked = False
    for dataset, rows in summary.groupby("dataset", sort=False):
        by_method = rows.set_index(["method", "measure"])
        means = rows.pivot(index="method", columns="measure", values="mean")
        best = {
            name: means[name].max() if measure.larger_is_better else means[name].min()
            for name, measure in MEASURES.items()
        }
        for method in rows["method"].unique():
            texts = []
            for name in MEASURES:
                mean, std = by_method.loc[(method, name), ["mean", "std"]]
                text = mean_and_deviation(mean, std)
                texts.append(f"[bold]{text}[/bold]" if mean == best[name] else text)
            title = method_title(method, rows)
            marked |= title.endswith("*")
            table.add_row(dataset, title, *texts)
        table.add_section()
    if marked:
        table.caption = "* fitted to all rows, the scored ones included"
    return table


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
