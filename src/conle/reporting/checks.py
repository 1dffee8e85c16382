"""Checks of enhanced labels for which the true distributions are not needed."""

import numpy as np
import pandas as pd

from conle.core.binarisation import binarise
from conle.reporting import figures
from conle.reporting.grids import grid_of
from conle.reporting.page import fill_template, image_address

EXAMPLES = 6
MOST_LABELS_SHOWN = 12


def check_table(
    distributions: pd.DataFrame, logical_labels: pd.DataFrame, threshold: float
) -> pd.DataFrame:
    """Checks of all samples together.

    Args:
        distributions: D, samples x labels.
        logical_labels: L, samples x labels.
        threshold: T of the binarisation that D is compared with.

    Returns:
        Columns check and value. The checks count the samples and labels, the samples and the pairs
        in which a relevant label ranks below an irrelevant one, and the samples that binarise to
        their logical labels. They give the entropy of the distributions (1 is uniform) and the mean
        mass of the relevant labels.
    """
    D, relevant = distributions.to_numpy(), logical_labels.to_numpy() == 1
    smallest = np.where(relevant, D, np.inf).min(axis=1)
    largest = np.where(relevant, -np.inf, D).max(axis=1)
    pairs = relevant.sum(axis=1) * (~relevant).sum(axis=1)
    below = np.array(
        [(row[own][:, None] < row[~own]).sum() for row, own in zip(D, relevant, strict=True)]
    )
    entropy = entropies(distributions)
    rows = {
        "samples": len(D),
        "labels": D.shape[1],
        "samples with a relevant label below an irrelevant one": int((smallest < largest).sum()),
        "pairs of a relevant label below an irrelevant one": int(below.sum()),
        "pairs of a relevant and an irrelevant label": int(pairs.sum()),
        f"samples that binarise to their logical labels at T = {threshold:g}": int(
            (binarise(D, threshold) == relevant).all(axis=1).sum()
        ),
        "entropy, 1 is uniform: smallest": entropy.min(),
        "entropy, 1 is uniform: mean": entropy.mean(),
        "entropy, 1 is uniform: largest": entropy.max(),
        "mean mass of the relevant labels": np.where(relevant, D, 0).sum(axis=1).mean(),
    }
    return pd.DataFrame({"check": list(rows), "value": list(rows.values())}, dtype=object)


def label_table(distributions: pd.DataFrame, logical_labels: pd.DataFrame) -> pd.DataFrame:
    """Checks of every label.

    Returns:
        Columns label, relevant_share (of the samples), degree_where_relevant and
        degree_where_irrelevant (mean degrees; empty where there are no such samples).
    """
    relevant = logical_labels == 1
    return pd.DataFrame(
        {
            "label": list(distributions.columns),
            "relevant_share": relevant.mean().to_numpy(),
            "degree_where_relevant": distributions.where(relevant).mean().to_numpy(),
            "degree_where_irrelevant": distributions.where(~relevant).mean().to_numpy(),
        }
    )


def entropies(distributions: pd.DataFrame) -> np.ndarray:
    """The entropy of every distribution, from 0 to 1 (the uniform distribution)."""
    D = distributions.to_numpy()
    terms = np.where(D > 0, D * np.log(np.where(D > 0, D, 1.0)), 0.0)
    return -terms.sum(axis=1) / np.log(D.shape[1])


def render_checks(
    distributions: pd.DataFrame, logical_labels: pd.DataFrame, threshold: float
) -> tuple[str, pd.DataFrame]:
    """Put the checks on an HTML page without references to other files.

    Args:
        distributions: D, samples x labels.
        logical_labels: L, samples x labels.
        threshold: T of the binarisation that D is compared with.

    Returns:
        The page, and the result of `check_table`.
    """
    checks = check_table(distributions, logical_labels, threshold)
    examples = np.unique(np.linspace(0, len(distributions) - 1, EXAMPLES).astype(int))
    pictures = {
        "entropies": figures.entropy_histogram(entropies(distributions)),
        "examples": figures.example_distributions(
            distributions.iloc[examples], logical_labels.iloc[examples], MOST_LABELS_SHOWN
        ),
    }
    page = fill_template(
        "checks.html.j2",
        checks=grid_of(checks),
        labels=grid_of(label_table(distributions, logical_labels)),
        pictures={name: image_address(figures.as_svg(figure)) for name, figure in pictures.items()},
    )
    return page, checks
