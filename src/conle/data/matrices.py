"""Features, distributions and labels among the variables of a MATLAB file."""

import logging
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from conle.errors import DataError

logger = logging.getLogger(__name__)

# Names of the matrices in the field's files, in any case; the first that a file has is taken.
FEATURE_KEYS = ("features", "feature", "x", "data")
DISTRIBUTION_KEYS = ("labels", "labeldistribution", "label_distribution", "d")
LOGICAL_LABEL_KEYS = ("logicallabel", "logical_label", "logical_labels", "l")

# Variables that are no matrices, by the types that the readers have for them.
OTHER_KINDS = {list: "a cell array", dict: "a struct", str: "a text", type(None): "an object"}


def find_matrix(
    variables: Mapping[str, Any], keys: tuple[str, ...], kind: str, place: str
) -> np.ndarray:
    """The matrix under the first of the keys that a file has, in any case.

    Args:
        variables: those of the file.
        keys: names of the matrix.
        kind: what the matrix holds, for messages.
        place: the file, for messages.

    Returns:
        float64, rows and columns as in the file.

    Raises:
        DataError: the file has none of the keys, two names differ only in case, or the variable is
            no matrix of real numbers.
    """
    name = find_name(variables, keys, place)
    if name is None:
        held = [
            f"{key} {_described(variables[key])}" for key in sorted(variables) if key[:2] != "__"
        ]
        raise DataError(
            f"{place}: no {kind}; they are looked for under {', '.join(keys)} (in any case), "
            f"the file holds {', '.join(held) or 'nothing'}"
        )
    value = variables[name]
    matrix = np.asarray(None if type(value) in OTHER_KINDS else value)
    if matrix.ndim == 1:
        # The reader of v7.3 files makes a vector of a matrix of one row or column.
        matrix = matrix[:, None]
    if matrix.ndim != 2 or matrix.dtype.kind not in "buif" or 0 in matrix.shape:
        raise DataError(
            f"{place}: {kind} must be a matrix of real numbers, but {name!r} is {_described(value)}"
        )
    return matrix.astype(np.float64)


def find_name(variables: Mapping[str, Any], keys: tuple[str, ...], place: str) -> str | None:
    """The name of the first of the keys that the file has, or None.

    A number of one element is passed over: it is a scalar in MATLAB, such as a number named `d`.

    Raises:
        DataError: two names differ only in case.
    """
    for key in keys:
        names = [
            name
            for name, value in variables.items()
            if name.lower() == key and (type(value) in OTHER_KINDS or np.size(value) != 1)
        ]
        if len(names) > 1:
            raise DataError(
                f"{place}: {' and '.join(names)} could both be meant; leave one of them in the file"
            )
        if names:
            return names[0]
    return None


def samples_down(
    features: np.ndarray,
    labels: np.ndarray,
    kind: str,
    place: str,
    fits: Callable[[np.ndarray], bool] = lambda labels: True,
) -> tuple[np.ndarray, np.ndarray]:
    """Transpose matrices with a column per sample, so that both have a row per sample.

    Both matrices have the same number of samples. The log says what is transposed.

    Args:
        features: samples x features or features x samples.
        labels: samples x labels or labels x samples.
        kind: what `labels` holds, for messages.
        place: the file, for messages.
        fits: whether a matrix can be samples x labels.

    Raises:
        DataError: the matrices have no number of samples in common.
    """
    for turn_features, turn_labels in product((False, True), repeat=2):
        x, y = features.T if turn_features else features, labels.T if turn_labels else labels
        turned = " and ".join(["features"] * turn_features + [kind] * turn_labels)
        if len(x) == len(y) and (not turned or fits(y)):
            if turned:
                logger.warning("%s: the samples are the columns of %s", place, turned)
            return x, y
    raise DataError(
        f"{place}: {len(features)} rows of features but {len(labels)} of {kind}; both need one row "
        "per sample"
    )


def _described(value: Any) -> str:
    """The kind of a variable, or the shape of a matrix."""
    # The reader of v7.3 files makes a list of dicts of a struct array.
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "a struct"
    return OTHER_KINDS.get(type(value)) or f"{np.asarray(value).dtype} {np.shape(value)}"
