"""Tables for the terminal, at the end of a run."""

from typing import Any

import pandas as pd

from conle.core.measures import MEASURES
from conle.methods.registry import TITLES
from conle.reporting.grids import mean_and_deviation
from conle.reporting.titles import measure_title


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
            on_all = (rows.loc[rows["method"] == method, "fitted_on"] == "all").any()
            marked |= on_all
            table.add_row(dataset, TITLES[method] + (" *" if on_all else ""), *texts)
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
