"""Make tables, exhibits and the page from the scores that runs have left in the catalog."""

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from conle.messages import existing_runs
from conle.reporting import figures
from conle.reporting.exhibits import COSTS, EXHIBITS, SCORES, TABLES, value_of_input
from conle.reporting.latex import latex_table
from conle.reporting.page import FIGURES, render_page
from conle.reporting.samples import INTERVALS, LOGICAL, RECOVERED, TRUE, sample_table
from conle.reporting.scores import NOT_RECOVERED, collect_scores, warn_missing

logger = logging.getLogger(__name__)

Recorded = Mapping[str, Callable[[], Any]]


def collect_available(
    runs: pd.DataFrame, recorded: Recorded, *_: pd.DataFrame, datasets: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Put the scores of the report's cells into one results table, and log what is missing.

    The scores are those of the newest run of the report's protocol, repeats, folds, seed and
    threshold (`conle.versions`).

    Args:
        runs: the runs that the catalog holds.
        recorded: functions that load the entries of cells.
        _: the results of the same run, if it has any; its cells are done when they exist.
        datasets: the datasets of the report.

    Returns:
        The results table, and the missing cells: dataset, method and reason. The log lists other
        runs of missing cells.
    """
    scores, costs = (value_of_input(name, {}, recorded, datasets) for name in (SCORES, COSTS))
    results, missing = collect_scores(scores, costs)
    warn_missing(missing, "report")
    others = _with_missing(runs, missing)
    if results.empty:
        logger.warning("No run is of the protocol of this report.%s", existing_runs(runs))
    elif len(others):
        logger.warning(
            "Other runs have some of them; their parameters or data differ, or they did not "
            "finish.%s",
            existing_runs(others),
        )
    return results, missing


def _with_missing(runs: pd.DataFrame, missing: pd.DataFrame) -> pd.DataFrame:
    """The runs of methods that the report does not have."""
    absent = missing[missing["reason"] == NOT_RECOVERED]
    cells = set(zip(absent["dataset"], absent["method"], strict=True))
    has_missing = [
        not cells.isdisjoint(product(run.datasets.split(", "), run.methods.split(", ")))
        for run in runs.itertuples()
    ]
    return runs.loc[has_missing]


def collect_samples(recorded: Recorded, *_: pd.DataFrame, datasets: Sequence[str]) -> pd.DataFrame:
    """Collect what every method recovered of a few samples (`conle.reporting.samples`).

    Args:
        recorded: functions that load the entries of cells and datasets.
        _: the results of the same run, if it has any; its cells are done when they exist.
        datasets: the datasets of the report.
    """
    inputs = (TRUE, LOGICAL, RECOVERED, INTERVALS)
    return sample_table(*(value_of_input(name, {}, recorded, datasets) for name in inputs))


def tabulate(
    recorded: Recorded, *, datasets: Sequence[str], **values: Any
) -> dict[str, pd.DataFrame]:
    """Make all tables of the report.

    Args:
        recorded: functions that load the entries of cells and datasets.
        datasets: the datasets of the report.
        values: the other inputs of `TABLES`, by name.

    Returns:
        Tables by file name.
    """
    tables = dict(values)
    for name, table in TABLES.items():
        inputs = (value_of_input(own, tables, recorded, datasets) for own in table.inputs)
        tables[name] = table.function(*inputs)
    return {f"{name}.csv": tables[name] for name in TABLES}


def present_all(
    recorded: Recorded,
    tables: Mapping[str, pd.DataFrame],
    *,
    datasets: Sequence[str],
    **values: Any,
) -> dict[str, str | Figure]:
    """Present every exhibit as LaTeX, as a figure, or as both.

    Args:
        recorded: functions that load the entries of cells and datasets.
        tables: tables by file name.
        datasets: the datasets of the report.
        values: the other inputs of `EXHIBITS`, by name; None where no run has made them.

    Returns:
        By file name: LaTeX (.tex), and the figure (.png) and its text (.svg).
    """
    values |= {name.removesuffix(".csv"): table for name, table in tables.items()}
    made: dict[str, str | Figure] = {}
    for name, exhibit in EXHIBITS.items():
        inputs = [value_of_input(own, values, recorded, datasets) for own in exhibit.inputs]
        latex, figure = present(name, inputs)
        if exhibit.grids is not None:
            made[f"{name}.tex"] = latex
        if figure is not None:
            made |= {f"{name}.png": figure, f"{name}.svg": figures.as_svg(figure)}
    return made


def present(name: str, inputs: Sequence[Any]) -> tuple[str | None, Figure | None]:
    """Present an exhibit.

    Args:
        name: a key of `EXHIBITS`.
        inputs: the values of the exhibit's inputs.

    Returns:
        LaTeX and the figure; None for an exhibit without it. If there is nothing to show, the LaTeX
        is a comment that says so, and there is no figure.
    """
    exhibit = EXHIBITS[name]
    shown = exhibit.prepare(*inputs)
    if not exhibit.is_available(*shown):
        return f"% {exhibit.absent}\n", None
    latex = exhibit.grids and latex_table(exhibit.grids(*shown), exhibit.caption, exhibit.label)
    return latex, exhibit.figure and exhibit.figure(*shown)


def write_page(
    parameters: Mapping[str, Any],
    provenance: Mapping[str, str],
    runs: pd.DataFrame,
    missing: pd.DataFrame,
    predictive: pd.DataFrame | None,
    samples: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    exhibits: Mapping[str, str],
) -> str:
    """Write the page from the samples, and from tables and exhibits by file name."""
    by_name = {name.removesuffix(".csv"): table for name, table in tables.items()}
    svgs = {name: exhibits.get(f"{name}.svg") for name in FIGURES}
    return render_page(
        parameters, provenance, runs, predictive, samples, by_name | {"missing": missing}, svgs
    )
