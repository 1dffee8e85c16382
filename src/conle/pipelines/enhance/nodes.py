"""Recover label distributions from features of any kind and 0/1 labels."""

import logging
from collections.abc import Mapping, Sequence
from numbers import Number

import numpy as np
import pandas as pd
from sklearn.base import TransformerMixin

from conle.cells import Cell, failures_as_parameter_errors
from conle.core.threads import blas_threads_for
from conle.data.memory import refuse_beyond_memory
from conle.data.models import FittedModel, as_numbers, as_texts, encode
from conle.data.number_text import check_text
from conle.errors import DataError
from conle.progress import progress_bar

# Parts of scikit-learn are imported inside functions because they take long to load.

logger = logging.getLogger(__name__)

SHOWN = 5
# Text with more values than this, and few rows for each, is names, dates or prose.
MOST_VALUES, FEWEST_ROWS = 50, 5
# Many labels leave the comparison of methods no fewer rows.
FEWEST_COMPARED = 300


def split_table(
    table: tuple[pd.DataFrame, pd.DataFrame],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split a multi-label table into features and logical labels.

    Raises:
        DataError: there are no rows, or a single label.
    """
    features, logical_labels = table
    if features.empty:
        raise DataError("the input has no rows")
    if logical_labels.shape[1] < 2:
        raise DataError(
            f"label distributions need at least two labels; the input has "
            f"{', '.join(logical_labels.columns)} alone"
        )
    return features, logical_labels


def encode_features(features: pd.DataFrame) -> tuple[np.ndarray, TransformerMixin]:
    """Encode features of any kind as numbers.

    Missing numbers are replaced by the median of their column, other missing values by the most
    frequent one. Columns that are not numbers are one-hot encoded; two values become one column.
    The log names the columns.

    Args:
        features: samples x features, as they are in the file.

    Returns:
        Encoded features, samples x numbers, and the encoder, fitted to them.

    Raises:
        DataError: a column has infinite numbers, or text with many values and few rows for each,
            or numbers in a notation that is not read; or the encoded features would not fit into
            memory.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    is_numbers = {name: _is_numbers(column) for name, column in features.items()}
    numbers = [name for name in features if is_numbers[name]]
    others = [name for name in features if not is_numbers[name]]
    encoder = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median", keep_empty_features=True), numbers),
            (
                "others",
                make_pipeline(
                    SimpleImputer(strategy="most_frequent", keep_empty_features=True),
                    OneHotEncoder(drop="if_binary", handle_unknown="ignore", sparse_output=False),
                ),
                others,
            ),
        ]
    )
    widths, texts = {}, {}
    for name in others:
        values = as_texts(features[name]).dropna()
        widths[name] = _width(name, values)
        counts = values.value_counts()
        # If several texts are the most frequent, scikit-learn takes the first by the alphabet.
        texts[name] = [*counts.index, *counts.index[counts == counts.max()].sort_values()[:1]]
    widest = sorted(others, key=widths.get, reverse=True)
    shown = _shortened([f"{name} ({widths[name]})" for name in widest])
    refuse_beyond_memory(
        f"the table of encoded features (columns of text and their widths: {shown or 'none'})",
        (len(features), len(numbers) + sum(widths.values())),
    )
    medians = {name: pd.Series(as_numbers(name, features[name])).median() for name in numbers}
    encoder.fit(_summary(medians, texts)[list(features)])
    encoded = encode(encoder, features)
    _log_missing(features)
    if others:
        logger.info("One-hot encoded %d features (columns): %s", len(others), shown)
    names = [name for name in others if len(features) > 1 and features[name].is_unique]
    if names:
        logger.warning(
            "Another value in every row, so that each value is a column; leave out features that "
            "are only a name or a date: %s",
            _shortened(names),
        )
    return encoded, encoder


def _summary(medians: Mapping[str, float], texts: Mapping[str, list[str]]) -> pd.DataFrame:
    """A few rows to which an encoder is fitted as to the whole table, without copies of that.

    Args:
        medians: of the columns of numbers.
        texts: of the columns of text, each text once and then the most frequent one.
    """
    rows = max([1, *map(len, texts.values())])
    columns = {name: np.full(rows, median) for name, median in medians.items()}
    for name, own in texts.items():
        filler = own[-1:] or [np.nan]
        columns[name] = pd.Series(own + filler * (rows - len(own)), dtype=object)
    return pd.DataFrame(columns)


def _is_numbers(column: pd.Series) -> bool:
    """Whether a column holds numbers; pandas holds Decimals and very large integers as objects."""
    return pd.api.types.is_numeric_dtype(column) or (
        column.dtype == object
        and column.notna().any()
        and column.dropna().map(lambda value: isinstance(value, Number)).all()
    )


def _width(name: str, values: pd.Series) -> int:
    """Number of columns into which texts are encoded.

    Raises:
        DataError: there are many texts and few rows for each; or the texts are numbers in a
            notation that is not read.
    """
    check_text(name, values)
    number = values.nunique()
    if number > MOST_VALUES and len(values) < FEWEST_ROWS * number:
        raise DataError(
            f"feature {name!r} is text with {number} different values in {len(values)} rows; each "
            f"value would be a column: leave the feature out, or let it name the rows by --params "
            f'"index={name}"'
        )
    return 1 if number == 2 else number


def compare_methods(
    features: np.ndarray,
    logical_labels: pd.DataFrame,
    folds: int,
    rows: int,
    seed: int,
    threshold: float,
    degrees: int | None = None,
    *,
    cell: Cell,
    candidates: Sequence[Cell],
) -> pd.DataFrame:
    """Compare methods by what a learner predicts of held-out labels, and choose one.

    Args:
        features: encoded features, samples x numbers.
        logical_labels: samples x labels, 0 or 1.
        folds: number of folds.
        rows: the largest number of rows that are compared.
        seed: seed of the folds and of the sample of rows.
        threshold: T of the binarisation.
        degrees: the largest number of rows times labels that are compared, but no fewer than
            FEWEST_COMPARED rows; None does not limit it.
        cell: its title is beside the progress bar.
        candidates: the methods and their hyperparameters.

    Returns:
        The result of `conle.core.selection.compare`.

    Raises:
        ParameterError: there are too few rows, or no method can be used with these labels.
    """
    from conle.core.selection import compare

    labels = logical_labels.shape[1]
    if degrees is not None:
        rows = min(rows, max(FEWEST_COMPARED, degrees // labels))
    if rows < len(features):
        logger.info(
            "With %d labels, %d of %d rows are compared (enhance.rows, enhance.degrees)",
            labels,
            rows,
            len(features),
        )
    enhancers = {candidate.name: candidate.make_enhancer() for candidate in candidates}
    with failures_as_parameter_errors(), progress_bar(cell.title) as on_progress:
        return compare(
            features,
            logical_labels.to_numpy(),
            enhancers,
            folds,
            seed,
            rows,
            on_progress,
            threshold,
        )


def fit_and_enhance(
    features: np.ndarray,
    encoder: TransformerMixin,
    logical_labels: pd.DataFrame,
    comparison: pd.DataFrame | None = None,
    *,
    cell: Cell,
    candidates: Sequence[Cell] = (),
) -> tuple[pd.DataFrame, FittedModel]:
    """Fit a method to all rows and recover their distributions.

    Args:
        features: encoded features, samples x numbers.
        encoder: the encoder of the features.
        logical_labels: samples x labels, 0 or 1.
        comparison: the result of `compare_methods`; None takes the method of the cell.
        cell: the method and its hyperparameters.
        candidates: the methods of the comparison.

    Returns:
        Distributions with the index and columns of the logical labels, and the fitted model.

    Raises:
        ParameterError: the training diverged, or the method cannot be used with these labels.
    """
    if comparison is not None:
        chosen = comparison.loc[comparison["chosen"], "candidate"].item()
        cell = next(candidate for candidate in candidates if candidate.name == chosen)
    enhancer = cell.make_enhancer()
    with (
        failures_as_parameter_errors(),
        progress_bar(cell.title),
        blas_threads_for(len(features)),
    ):
        distributions = enhancer.fit_transform(features, logical_labels)
    if not enhancer.inductive:
        logger.info(
            "%s recovers only the rows that it is fitted to: there is no model of it", cell.method
        )
    labels = list(logical_labels.columns)
    model = FittedModel(cell.method, enhancer, encoder, labels, comparison)
    if model.kept_reading is not None:
        logger.info("%s keeps the reading %s", cell.method, model.kept_reading)
    return distributions, model


def apply_model(
    model: FittedModel, features: pd.DataFrame, logical_labels: pd.DataFrame
) -> pd.DataFrame:
    """Recover the distributions of new rows with a fitted model.

    Raises:
        DataError: a column that the model was fitted with is missing.
        ParameterError: the method cannot be used with these labels.
    """
    logger.info("The fitted model is one of %s", model.method)
    _log_missing(features)
    for name, values in model.unseen_values(features).items():
        logger.warning(
            "Feature %s has values that the model was not fitted to, taken for none of its values "
            "or, if it has two, for the first: %s",
            name,
            _shortened(values),
        )
    with failures_as_parameter_errors(), progress_bar(model.method):
        return model.enhance(features, logical_labels)


def identity(distributions: pd.DataFrame) -> pd.DataFrame:
    """Pass on the distributions, so that the catalog writes them in another format."""
    return distributions


def _log_missing(features: pd.DataFrame) -> None:
    missing = features.isna().sum()
    missing = missing[missing > 0]
    if len(missing):
        logger.info(
            "Imputed missing values of %d features: %s",
            len(missing),
            _shortened([f"{name} ({count})" for name, count in missing.items()]),
        )


def _shortened(names: list[str]) -> str:
    return ", ".join(map(str, names[:SHOWN])) + ", ..." * (len(names) > SHOWN)
