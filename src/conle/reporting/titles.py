"""Titles of methods, measures, columns and labels, as tables, figures and pages show them."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pandas as pd

from conle.core.measures import MEASURES
from conle.methods.registry import TITLES

LABEL_NAMES = Path(__file__).parents[1] / "published" / "label_names.csv"
# Columns whose names do not say enough when their underscores become spaces.
COLUMNS = {
    "bulk_ess_median": "bulk ESS, median",
    "f_statistic": "F",
    "kl_to_featureless": "KL to the featureless posterior",
    "lambda1": "λ1",
    "lambda2": "λ2",
    "loss": "objective",
    "memory_before_mib": "memory before, MiB",
    "p_value": "p",
    "peak_memory_mib": "peak memory, MiB",
    "r_hat_largest": "R-hat, largest",
    "r_hat_median": "R-hat, median",
    "rank_among_the_papers": "rank among the paper's methods",
    "statistic": "chi squared",
    "tail_ess_median": "tail ESS, median",
}


def measure_title(measure: str) -> str:
    """The title of a measure with an arrow that points to its better values."""
    return f"{MEASURES[measure].title} {MEASURES[measure].arrow}"


def method_title(method: str, recovery: pd.DataFrame) -> str:
    """The title of a method, with a star if the table says that it was fitted to all rows."""
    on_all = recovery.loc[recovery["method"] == method, "fitted_on"] == "all"
    return TITLES[method] + ("*" if on_all.any() else "")


def column_title(column: str) -> str:
    """The title of a column of a table, which may be a method or a measure."""
    if column.startswith("lower_with_"):
        return f"lower with {TITLES[column.removeprefix('lower_with_')]}"
    if column.endswith("_published"):
        return f"{column.removesuffix('_published')}, published"
    if column in MEASURES:
        return measure_title(column)
    return COLUMNS.get(column) or TITLES.get(column) or column.replace("_", " ")


def label_titles(dataset: str, labels: Sequence[str]) -> list[str]:
    """The names of a dataset's labels, those of the field where they are known."""
    known = _label_names().get(dataset, [])
    return (
        known if len(known) == len(labels) else [str(label).replace("_", " ") for label in labels]
    )


@cache
def _label_names() -> dict[str, list[str]]:
    names = pd.read_csv(LABEL_NAMES)
    return {dataset: list(own) for dataset, own in names.groupby("dataset")["name"]}
