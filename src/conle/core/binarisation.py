"""Logical labels from label distributions, by the field's convention.

Source: Xu, Liu, Geng, "Label enhancement for label distribution learning", TKDE 2021.
"""

import numpy as np
from jaxtyping import Float, Int8

from conle.core.arrays import real_array


def binarise(
    label_distributions: Float[np.ndarray, "samples labels"], threshold: float = 0.5
) -> Int8[np.ndarray, "samples labels"]:
    """Mark the labels of a row relevant, largest degree first, until their mass exceeds T.

    Ties keep the column order. The float64 values are used as they are: normalising or rounding
    them first changes rows whose cumulative sum is within a rounding error of T.

    Args:
        label_distributions: rows are non-negative and sum to 1.
        threshold: T, between 0 and 1 (both excluded).

    Returns:
        Logical labels, 1 where relevant and 0 elsewhere; every row has a relevant label.

    Raises:
        ValueError: T is not between 0 and 1, or a value is no real number.
    """
    if not 0 < threshold < 1:
        raise ValueError(f"threshold must lie between 0 and 1, not {threshold}")
    distributions = real_array(label_distributions, "label_distributions")
    order = np.argsort(-distributions, axis=1, kind="stable")
    mass = np.take_along_axis(distributions, order, axis=1).cumsum(axis=1)
    # A label is relevant while the mass before it has not exceeded T yet.
    relevant = np.ones(distributions.shape, dtype=bool)
    relevant[:, 1:] = ~(mass[:, :-1] > threshold)
    logical_labels = np.empty(distributions.shape, dtype=np.int8)
    np.put_along_axis(logical_labels, order, relevant.astype(np.int8), axis=1)
    return logical_labels
