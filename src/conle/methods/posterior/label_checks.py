"""Checks of the logical labels that the posterior decoder is given, and of what they identify."""

import warnings

import numpy as np
from jaxtyping import Bool

from conle.methods.contract import LogicalLabels, NotApplicableError
from conle.methods.posterior.threshold_model import possible_counts

# If a smaller share of the samples has another number of relevant labels than the most frequent
# one, L hardly says how far the degrees are apart.
SHARE_OF_OTHER_COUNTS = 0.01
ROWS_SHOWN = 5


def uniform_rows(
    logical_labels: LogicalLabels, threshold: float | None
) -> Bool[np.ndarray, " samples"]:
    """Mark the rows that only an exactly uniform distribution gives; none without a threshold."""
    if threshold is None:
        return np.zeros(len(logical_labels), dtype=bool)
    _, uniform = possible_counts(logical_labels.shape[1], threshold)
    return logical_labels.sum(axis=1) == (-1 if uniform is None else uniform)


def check_labels(method: str, logical_labels: LogicalLabels, threshold: float | None) -> None:
    """Refuse logical labels that binarising at the threshold never gives.

    Warns of rows that only an exactly uniform distribution gives.

    Args:
        method: name of the method in messages.
        logical_labels: samples x labels.
        threshold: T, or None where labels only order the degrees.

    Raises:
        NotApplicableError: no distribution binarised at T gives some rows.
    """
    if threshold is None:
        return
    labels = logical_labels.shape[1]
    possible, uniform = possible_counts(labels, threshold)
    counts = logical_labels.sum(axis=1).astype(int)
    impossible = np.flatnonzero(~possible[counts] & (counts != uniform))
    if len(impossible):
        shown = ", ".join(f"row {row} with {counts[row]}" for row in impossible[:ROWS_SHOWN])
        more = ", ..." if len(impossible) > ROWS_SHOWN else ""
        raise NotApplicableError(
            f"no distribution of {labels} labels binarised at {threshold:g} gives the "
            f"relevant labels of {len(impossible)} rows ({shown}{more} relevant): if the logical "
            "labels were not made by binarising, set threshold_model to false, so that they "
            "only order the degrees"
        )
    if (counts == uniform).any():
        warnings.warn(
            f"{method}: {(counts == uniform).sum()} rows have {uniform} relevant labels, which "
            "only an exactly uniform distribution gives; their labels only order the degrees",
            stacklevel=3,
        )


def warn_of_climbing_deviation(method: str, climbing: Bool[np.ndarray, " folds"]) -> None:
    """Warn where the overall deviation of most folds still climbs at the end of the sweeps."""
    if 2 * climbing.sum() > len(climbing):
        warnings.warn(
            f"{method}: the overall deviation of the log weights still climbs at the end of the "
            "sweeps, so that the recovered degrees are too near to each other; more sweeps, or a "
            "smaller scale_prior, would end the climb",
            stacklevel=3,
        )


def warn_of_unidentified_scale(
    method: str, logical_labels: LogicalLabels, threshold: float | None
) -> None:
    """Warn where the logical labels hardly say how far the degrees are apart.

    This is so without a threshold, with two labels, or if nearly all samples have the same number
    of relevant labels. Then the prior decides.
    """
    counts = np.bincount(logical_labels.sum(axis=1).astype(int))
    others = 1 - counts.max() / counts.sum()
    if threshold is None or logical_labels.shape[1] == 2 or others < SHARE_OF_OTHER_COUNTS:
        warnings.warn(
            f"{method}: the logical labels hardly say how far the degrees are apart "
            f"({1 - others:.1%} of the samples have {counts.argmax()} of "
            f"{logical_labels.shape[1]} labels relevant); the prior decides, whose scale is "
            'scale_prior (kedro run --params "METHOD.scale_prior=...")',
            stacklevel=3,
        )
