"""Make tables, exhibits and the page from the scores that runs have left in the catalog."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from conle.messages import existing_runs
from conle.methods.registry import POSTERIORS
from conle.pipelines.evaluation.nodes import collect_scores, warn_missing
from conle.reporting import figures
from conle.reporting.exhibits import EXHIBITS, REPORTED_METHODS, TABLES
from conle.reporting.latex import latex_table
from conle.reporting.page import FIGURES, PAGE_TABLES, render_page

logger = logging.getLogger(__name__)

COLLECTED = ("{dataset}.{method}.scores", "{dataset}.{method}.cost")


def collect_available(
    runs: pd.DataFrame, *entries: Any, datasets: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Put the scores of the report's cells into one results table, and log what is missing.

    The scores are those of the newest run of the report's protocol, repeats, folds, seed and
    threshold (`conle.versions`).

    Args:
        runs: the runs that the catalog holds.
        entries: the catalog entries of `COLLECTED`.
        datasets: the datasets of the report.

    Returns:
        The results table, and the missing cells: dataset, method and reason.
    """
    scores, costs = gather(entries, COLLECTED, datasets)
    results, missing = collect_scores(scores, costs)
    warn_missing(missing, "report")
    if results.empty:
        logger.warning("No run is of the protocol of this report.%s", existing_runs(runs))
    return results, missing


def tabulate(*entries: Any, name: str, datasets: Sequence[str]) -> pd.DataFrame:
    """Make a table of the report.

    Args:
        entries: the catalog entries of the table's inputs.
        name: a key of `TABLES`.
        datasets: the datasets of the report.
    """
    table = TABLES[name]
    return table.function(*gather(entries, table.inputs, datasets))


def present(*entries: Any, name: str, datasets: Sequence[str]) -> tuple[str, Figure, str] | str:
    """Present an exhibit as LaTeX and as a figure.

    Args:
        entries: the catalog entries of the exhibit's inputs.
        name: a key of `EXHIBITS`.
        datasets: the datasets of the report.

    Returns:
        LaTeX source, and for an exhibit with a figure also the figure and its SVG text. If no run
        has made the inputs, they name the command that does.
    """
    exhibit = EXHIBITS[name]
    inputs = list(gather(entries, exhibit.inputs, datasets))
    if not exhibit.is_available(*inputs):
        text = f"Not in the catalog yet: kedro run --pipeline={exhibit.made_by} makes it"
        source, figure = f"% {text}\n", figures.note(text)
    else:
        source = latex_table(exhibit.grids(*inputs), exhibit.caption, exhibit.label)
        if exhibit.figure is None:
            return source
        figure = exhibit.figure(*inputs)
    return source, figure, figures.as_svg(figure)


def write_page(
    parameters: Mapping[str, Any],
    provenance: Mapping[str, str],
    runs: pd.DataFrame,
    predictive: pd.DataFrame | None,
    *entries: Any,
) -> str:
    """Write the page; the entries are the tables of `PAGE_TABLES`, then SVG texts of `FIGURES`."""
    tables = dict(zip(PAGE_TABLES, entries, strict=False))
    svgs = dict(zip(FIGURES, entries[len(tables) :], strict=True))
    return render_page(parameters, provenance, runs, predictive, tables, svgs)


def entry_names(name: str, datasets: Sequence[str]) -> dict[tuple[str, ...], str]:
    """The catalog entries that an input stands for.

    Args:
        name: an input, which may have the placeholders {dataset}, {method} and {decoder}.
        datasets: the datasets of the report.

    Returns:
        Names by the values of the placeholders; an input without placeholders is itself a name.
    """
    values = {"dataset": datasets, "method": REPORTED_METHODS, "decoder": POSTERIORS}
    used = [place for place in values if f"{{{place}}}" in name]
    return {
        chosen: name.format(**dict(zip(used, chosen, strict=True)))
        for chosen in product(*(values[place] for place in used))
    }


def gather(entries: Sequence[Any], inputs: Sequence[str], datasets: Sequence[str]) -> Iterator[Any]:
    """Yield the entry of every input, or a mapping of entries if the input has placeholders.

    Keys of a mapping are datasets, or pairs of a dataset and a method.
    """
    remaining = iter(entries)
    for name in inputs:
        found = {key: next(remaining) for key in entry_names(name, datasets)}
        if "{" not in name:
            yield found[()]
        else:
            yield {key if len(key) > 1 else key[0]: own for key, own in found.items()}
