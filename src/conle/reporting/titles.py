"""Titles of methods and measures, as tables, figures and pages show them."""

import pandas as pd

from conle.core.measures import MEASURES
from conle.methods.registry import TITLES


def measure_title(measure: str) -> str:
    """The title of a measure with an arrow that points to its better values."""
    return f"{MEASURES[measure].title} {MEASURES[measure].arrow}"


def method_title(method: str, recovery: pd.DataFrame) -> str:
    """The title of a method, with a star if the table says that it was fitted to all rows."""
    on_all = recovery.loc[recovery["method"] == method, "fitted_on"] == "all"
    return TITLES[method] + ("*" if on_all.any() else "")
