"""Numbers that a table holds as text: among words for missing values, or in other notations."""

import logging

import pandas as pd

from conle.errors import DataError

logger = logging.getLogger(__name__)

# Words for a missing number. In a column of text they are values.
MISSING = (
    *("", "?", "-", "--", ".", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "null", "none"),
    *("missing", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
)
BOOLEANS = {"true": 1.0, "false": 0.0}
# Notations that pandas does not read as numbers.
NOTATIONS = {
    "a sign of per cent or currency": r"[$€£]\s?[+-]?\d[\d.,']*|[+-]?\d[\d.,']*\s?[%$€£]",
    "a comma for decimals or thousands": r"[+-]?\d[\d.' ]*(,\d+)+(\.\d+)?",
    "marks between thousands": r"[+-]?\d{1,3}([' \u00a0\u2019\u202f]\d{3})+(\.\d+)?",
}
# Text of which so many values are numbers, and which has so many different values, may be meant as
# numbers.
MOST, MANY = 0.9, 10
SHOWN = 5


def read_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Convert columns of text that hold nothing but numbers and words for missing values.

    The log counts these words. In other columns of text they stay values; the log names them too.
    """
    converted = {}
    for name, column in table.items():
        if not isinstance(column.dtype, pd.StringDtype):
            continue
        numbers, is_missing = _numbers(column), column.str.strip().str.casefold().isin(MISSING)
        if not is_missing.any():
            continue
        if (numbers.notna() | is_missing | column.isna()).all():
            converted[name] = numbers
            text = "Feature %r holds numbers; these are taken for missing: %s"
        else:
            text = "Feature %r holds text; these are values, only empty fields are missing: %s"
        logger.warning(text, name, _counted(column[is_missing]))
    return table.assign(**converted)


def check_text(name: str, values: pd.Series) -> None:
    """Refuse text that holds numbers in another notation; warn of text that is nearly numbers.

    Args:
        name: of the column.
        values: its texts, none missing.

    Raises:
        DataError: names the column, a value and its notation.
    """
    if not values.drop_duplicates().str.contains(r"\d").any():
        # Numbers have digits, in any notation.
        return
    others = values[_numbers(values).isna()]
    unread = others[~others.str.strip().str.casefold().isin(MISSING)]
    for notation, pattern in NOTATIONS.items():
        if len(unread) and unread.str.strip().str.fullmatch(pattern).all():
            raise DataError(
                f"feature {name!r} holds numbers that are not read, such as {unread.iloc[0]!r}, "
                f"with {notation}: write them with a decimal point and nothing else"
            )
    if len(others) and len(others) <= (1 - MOST) * len(values) and values.nunique() > MANY:
        logger.warning(
            "Feature %r is taken for text, although nearly all its values are numbers, because of: "
            "%s",
            name,
            _counted(others),
        )


def _numbers(values: pd.Series) -> pd.Series:
    """The numbers in texts, 1 for true and 0 for false; NaN for other texts."""
    booleans = values.str.strip().str.casefold().map(BOOLEANS)
    return pd.to_numeric(values, errors="coerce").astype("float64").fillna(booleans)


def _counted(values: pd.Series) -> str:
    counts = values.value_counts()
    shown = ", ".join(f"{value!r} ({count})" for value, count in counts[:SHOWN].items())
    return shown + f" and {len(counts) - SHOWN} more" * (len(counts) > SHOWN)
