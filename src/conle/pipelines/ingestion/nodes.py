"""Turn a raw .mat file into checked features, label distributions and logical labels."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from conle.core.artificial import make_artificial
from conle.core.binarisation import binarise
from conle.data.matrices import (
    DISTRIBUTION_KEYS,
    FEATURE_KEYS,
    LOGICAL_LABEL_KEYS,
    find_matrix,
    find_name,
    samples_down,
)
from conle.errors import DataError
from conle.methods.contract import LARGEST_FEATURE, minus_one_hint

logger = logging.getLogger(__name__)

# Rows whose sum is this close to 1 are used as they are; others are divided by their sum.
EXACT_SUM_TOLERANCE = 1e-9
# Rows whose sum is further from 1 than this are refused, unless the registry says why. Degrees with
# three decimals may sum to 0.999 or 1.001, and as floats these may be further from 1 than 0.001.
SUM_TOLERANCE = 1e-3 + EXACT_SUM_TOLERANCE
ROWS_SHOWN = 5


def write_artificial() -> dict[str, np.ndarray]:
    """Make the Artificial dataset, with the names of variables that the benchmark's files have."""
    features, label_distributions = make_artificial()
    return {"features": features, "labels": label_distributions}


def ingest(
    raw: Mapping[str, Any], folds: int, known_datasets: pd.DataFrame, *, dataset: str
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, dict[str, str]]:
    """Check a raw file, and split it into features, distributions and logical labels.

    Matrices with a column per sample are recognised by their common dimension and transposed.

    Args:
        raw: the variables of the file, with its name and checksum under `__file__`, `__sha256__`.
        folds: number of folds; the file must have at least as many samples.
        known_datasets: the registry; `renormalised` says why rows of a dataset do not sum to 1.
        dataset: selects the row of the registry; named in messages.

    Returns:
        Features (samples x features). Label distributions (samples x labels, float64); rows whose
        sum is not within 1e-9 of 1 are divided by it. Sums further from 1 than 0.001 are refused,
        unless the registry gives a reason for them. The file's own logical labels, without
        columns if it has none. The source: dataset, file and SHA-256.

    Raises:
        DataError: names the variable and the rows, and says what is wrong.
    """
    place = f"{dataset} ({raw['__file__']})"
    features, distributions = samples_down(
        _finite_matrix(raw, FEATURE_KEYS, "features", place),
        _finite_matrix(raw, DISTRIBUTION_KEYS, "label distributions", place),
        "label distributions",
        place,
        _are_distributions,
    )
    samples, labels = distributions.shape
    _refuse_rows(
        (np.abs(features) > LARGEST_FEATURE).any(axis=1),
        place,
        f"features must lie within {LARGEST_FEATURE:g} of 0",
    )
    if labels < 2:
        raise DataError(f"{place}: label distributions need at least two labels, not {labels}")
    if samples < folds:
        raise DataError(f"{place}: {samples} samples cannot be split into {folds} folds")
    _refuse_rows(
        (distributions < 0).any(axis=1), place, "label distributions have negative degrees"
    )
    sums = distributions.sum(axis=1)
    reason = _column(known_datasets, "renormalised").get(dataset)
    _refuse_rows(
        np.abs(sums - 1) > SUM_TOLERANCE if reason is None else sums == 0,
        place,
        "label distributions must sum to 1",
        [f"sum {value:.6g}" for value in sums],
    )
    inexact = np.abs(sums - 1) > EXACT_SUM_TOLERANCE
    if inexact.any():
        logger.warning(
            "%s: %d rows sum to 1 only within %.2g, and are divided by their sum%s",
            place,
            inexact.sum(),
            np.abs(sums - 1).max(),
            "" if reason is None else f": {reason}",
        )
    distributions = np.where(inexact[:, None], distributions / sums[:, None], distributions)

    label_names = [f"label_{number}" for number in range(1, labels + 1)]
    given = _given_logical_labels(raw, (samples, labels), place)
    return (
        pd.DataFrame(
            features, columns=[f"feature_{number}" for number in range(1, features.shape[1] + 1)]
        ),
        pd.DataFrame(distributions, columns=label_names),
        pd.DataFrame(given, columns=label_names if given.shape[1] else []),
        _source(raw, dataset),
    )


def make_logical_labels(
    label_distributions: pd.DataFrame, given_logical_labels: pd.DataFrame, threshold: float
) -> pd.DataFrame:
    """Take the file's own logical labels, or else binarise the distributions.

    This node is the only path from the distributions to an input of a method.

    Args:
        label_distributions: samples x labels.
        given_logical_labels: the file's own logical labels, or a table without columns.
        threshold: T of the binarisation.

    Returns:
        0/1 labels (int8), samples x labels.
    """
    if len(given_logical_labels.columns):
        return given_logical_labels
    return pd.DataFrame(
        binarise(label_distributions.to_numpy(), threshold), columns=label_distributions.columns
    )


def describe(
    raw: Mapping[str, Any],
    features: pd.DataFrame,
    label_distributions: pd.DataFrame,
    logical_labels: pd.DataFrame,
    published_sizes: pd.DataFrame,
    known_datasets: pd.DataFrame,
    *,
    dataset: str,
) -> dict[str, Any]:
    """Describe a dataset, and compare it with the paper's Table 1 and the known checksums.

    Args:
        raw: the raw file, with its name and checksum under `__file__`, `__sha256__`.
        features: samples x features.
        label_distributions: samples x labels.
        logical_labels: samples x labels.
        published_sizes: the paper's Table 1: dataset, examples, features, labels.
        known_datasets: the registry: dataset, sha256.
        dataset: selects the row of both tables.

    Returns:
        Sizes, counts and the outcome of both comparisons; an outcome is None if the table does not
        have the dataset.
    """
    source = _source(raw, dataset)
    relevant = logical_labels.to_numpy().sum(axis=1)
    sizes = {
        "examples": len(features),
        "features": features.shape[1],
        "labels": label_distributions.shape[1],
    }
    published = published_sizes.set_index("dataset")
    sizes_match = None
    if dataset in published.index:
        expected = {name: int(published.loc[dataset, name]) for name in sizes}
        sizes_match = sizes == expected
        if not sizes_match:
            logger.warning("%s has %s, Table 1 of the paper %s", dataset, sizes, expected)
    checksums = _column(known_datasets, "sha256")
    file_is_known = None
    if dataset in checksums.index:
        file_is_known = source["sha256"] == checksums[dataset]
        if not file_is_known:
            logger.warning("%s differs from the known file of that name", source["file"])
    counts, occurrences = np.unique(relevant, return_counts=True)
    return {
        **source,
        **sizes,
        "zero_degrees": int((label_distributions.to_numpy() == 0).sum()),
        "relevant_labels": int(relevant.sum()),
        "samples_by_relevant_labels": {
            str(k): int(number) for k, number in zip(counts, occurrences, strict=True)
        },
        "sizes_match_table_1": sizes_match,
        "file_is_the_benchmarks": file_is_known,
    }


def _column(known_datasets: pd.DataFrame, column: str) -> pd.Series:
    """The cells of a column that are not empty, by dataset."""
    return known_datasets.dropna(subset=column).set_index("dataset")[column]


def _source(raw: Mapping[str, Any], dataset: str) -> dict[str, str]:
    return {"dataset": dataset, "file": raw["__file__"], "sha256": raw["__sha256__"]}


def _finite_matrix(
    raw: Mapping[str, Any], keys: tuple[str, ...], kind: str, place: str
) -> np.ndarray:
    matrix = find_matrix(raw, keys, kind, place)
    _refuse_rows(~np.isfinite(matrix).all(axis=1), place, f"{kind} must be finite")
    return matrix


def _are_distributions(matrix: np.ndarray) -> bool:
    return bool(np.abs(matrix.sum(axis=1) - 1).max() <= SUM_TOLERANCE)


def _given_logical_labels(raw: Mapping[str, Any], shape: tuple[int, int], place: str) -> np.ndarray:
    """The file's own logical labels, or a matrix without columns."""
    if find_name(raw, LOGICAL_LABEL_KEYS, place) is None:
        return np.empty((shape[0], 0), dtype=np.int8)
    given = find_matrix(raw, LOGICAL_LABEL_KEYS, "logical labels", place)
    if given.shape != shape and given.T.shape == shape:
        given = given.T
    if given.shape != shape:
        raise DataError(
            f"{place}: logical labels have the shape {given.shape}, label distributions {shape}"
        )
    _refuse_rows(
        ~np.isin(given, (0, 1)).all(axis=1),
        place,
        f"logical labels must be 0 or 1{minus_one_hint(given)}",
    )
    return given.astype(np.int8)


def _refuse_rows(
    wrong: np.ndarray, place: str, problem: str, details: list[str] | None = None
) -> None:
    """Raise a DataError that names the first wrong rows, if any row is wrong."""
    rows = np.flatnonzero(wrong)
    if not len(rows):
        return
    shown = [
        f"{row} ({details[row]})" if details is not None else str(row) for row in rows[:ROWS_SHOWN]
    ]
    more = f" and {len(rows) - ROWS_SHOWN} more" if len(rows) > ROWS_SHOWN else ""
    raise DataError(f"{place}: {problem}; rows (from 0) {', '.join(shown)}{more}")
