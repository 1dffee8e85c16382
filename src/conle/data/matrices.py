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
) -> np.ndarray | None:
    """The matrix under the first of the keys that a file has, in any case, as float64.

    A number of one element is passed over: it is a scalar in MATLAB, such as a number named `d`.

    Args:
        variables: those of the file.
        keys: names of the matrix.
        kind: what the matrix holds, for messages.
        place: the file, for messages.

    Returns:
        Rows and columns as in the file; None if the file has none of the keys.

    Raises:
        DataError: two names differ only in case; the variable is no matrix of real numbers.
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
            value = variables[names[0]]
            break
    else:
        return None
    described = _described(value)
    if described is None:
        matrix = np.asarray(value)
        # The reader of v7.3 files makes a vector of a matrix of one row or column.
        matrix = matrix[:, None] if matrix.ndim == 1 else matrix
        if matrix.ndim == 2 and matrix.dtype.kind in "buif" and 0 not in matrix.shape:
            return matrix.astype(np.float64)
        described = f"{matrix.dtype} of shape {matrix.shape}"
    raise DataError(
        f"{place}: {kind} must be a matrix of real numbers, but {names[0]!r} is {described}"
    )


def existing_matrix(
    variables: Mapping[str, Any], keys: tuple[str, ...], kind: str, place: str
) -> np.ndarray:
    """The matrix as from `find_matrix`, which must exist.

    Raises:
        DataError: as `find_matrix`; the file has none of the keys.
    """
    matrix = find_matrix(variables, keys, kind, place)
    if matrix is None:
        held = [
            f"{name} {_described(variables[name]) or np.shape(variables[name])}"
            for name in sorted(variables)
            if not name.startswith("__")
        ]
        raise DataError(
            f"{place}: no {kind}; they are looked for under {', '.join(keys)} (in any case), "
            f"the file holds {', '.join(held) or 'nothing'}"
        )
    return matrix


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
    for features_turned, labels_turned in product((False, True), repeat=2):
        turned = (
            features.T if features_turned else features,
            labels.T if labels_turned else labels,
        )
        as_given = not (features_turned or labels_turned)
        if len(turned[0]) == len(turned[1]) and (as_given or fits(turned[1])):
            kinds = ["features"] * features_turned + [kind] * labels_turned
            if kinds:
                logger.warning("%s: the samples are the columns of %s", place, " and ".join(kinds))
            return turned
    raise DataError(
        f"{place}: {len(features)} rows of features but {len(labels)} of {kind}; both need one row "
        "per sample"
    )


def _described(value: Any) -> str | None:
    """The kind of a variable that is no matrix; None for a matrix."""
    # The reader of v7.3 files makes a list of dicts of a struct array.
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return "a struct"
    return OTHER_KINDS.get(type(value))
