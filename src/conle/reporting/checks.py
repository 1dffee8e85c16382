"""What can be said of enhanced labels without knowing the true distributions."""

import base64

import numpy as np
import pandas as pd

from conle.core.binarisation import binarise
from conle.reporting import tables
from conle.reporting.page import fill_template

EXAMPLES = 6
MOST_LABELS_SHOWN = 12


def check_table(
    distributions: pd.DataFrame, logical_labels: pd.DataFrame, threshold: float
) -> pd.DataFrame:
    """Facts of all samples.

    Args:
        distributions: D, samples x labels.
        logical_labels: L, samples x labels.
        threshold: T of a binarisation.

    Returns:
        Columns check and value: samples, labels; in how many samples a relevant label ranks below
        an irrelevant one, and how many of all such pairs do; how many samples binarise to their
        logical labels; the entropy of the distributions (divided by that of the uniform one); the
        mean mass of the relevant labels.
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
    """Facts of every label.

    Returns:
        Columns label, relevant_share (of the samples), degree_where_relevant and
        degree_where_irrelevant (means; empty where there are no such samples).
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
    """The entropy of every distribution, divided by that of the uniform one."""
    D = distributions.to_numpy()
    terms = np.where(D > 0, D * np.log(np.where(D > 0, D, 1.0)), 0.0)
    return -terms.sum(axis=1) / np.log(D.shape[1])


def render_checks(
    distributions: pd.DataFrame, logical_labels: pd.DataFrame, threshold: float
) -> tuple[str, pd.DataFrame]:
    """The checks as a page that needs nothing but itself, and their table.

    Args:
        distributions: D, samples x labels.
        logical_labels: L, samples x labels.
        threshold: T of a binarisation.
    """
    from conle.reporting import figures

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
        checks=tables.grid_of(checks),
        labels=tables.grid_of(label_table(distributions, logical_labels)),
        pictures={
            name: base64.b64encode(figures.as_svg(figure).encode()).decode()
            for name, figure in pictures.items()
        },
    )
    return page, checks
