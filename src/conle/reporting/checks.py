"""Checks of enhanced labels for which the true distributions are not needed."""

import logging

import numpy as np
import pandas as pd

from conle.core.binarisation import binarise
from conle.core.selection import entropies, noted, pairs_in_order
from conle.reporting import figures
from conle.reporting.grids import choice_sentences, comparison_grid, grid_of
from conle.reporting.page import fill_template, image_address

logger = logging.getLogger(__name__)

# Beyond these, the page and the log warn: mean entropy, share of pairs in the wrong order, and the
# largest difference of degrees between rows.
NEARLY_UNIFORM, WRONG_SHARE, CONSTANT = 0.98, 0.01, 1e-4
MOST_NAMED = 5
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
    kept, pairs = pairs_in_order(D, logical_labels.to_numpy())
    entropy = entropies(D)
    rows = {
        "samples": len(D),
        "labels": D.shape[1],
        "samples with a relevant label below an irrelevant one": int((smallest < largest).sum()),
        "pairs of a relevant label below an irrelevant one": pairs - kept,
        "pairs of a relevant and an irrelevant label": pairs,
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


def warnings_of(
    distributions: pd.DataFrame, logical_labels: pd.DataFrame, compared: bool
) -> list[str]:
    """What makes the distributions of little use, and the option that would change it.

    Args:
        distributions: D, samples x labels.
        logical_labels: L, samples x labels.
        compared: whether the method was chosen by a comparison.
    """
    D = distributions.to_numpy()
    other = "method=NAME takes another candidate" if compared else "method=auto compares methods"
    found = []
    if (mean := entropies(D).mean()) > NEARLY_UNIFORM:
        found.append(
            f"the distributions are nearly uniform (mean entropy {mean:.3f}) and say little: "
            f"{other}; with method=conle, conle.reading=raw lets degrees differ more"
        )
    kept, pairs = pairs_in_order(D, logical_labels.to_numpy())
    if pairs - kept > WRONG_SHARE * pairs:
        found.append(
            f"{1 - kept / pairs:.1%} of the pairs of a relevant and an irrelevant label are in the "
            "wrong order: method=posterior_pca with posterior_pca.threshold_model=false keeps the "
            "order; with method=conle, a larger conle.lambda2 weighs it more"
        )
    constant = list(map(str, distributions.columns[np.ptp(D, axis=0) < CONSTANT]))
    if constant and len(D) > 1:
        names = ", ".join(constant[:MOST_NAMED]) + ", ..." * (len(constant) > MOST_NAMED)
        found.append(
            f"the degrees of {names} are the same in all rows: {other}; a label that is relevant "
            "in all rows or in none can be left out (labels=)"
        )
    return found


def render_checks(
    distributions: pd.DataFrame,
    logical_labels: pd.DataFrame,
    threshold: float,
    comparison: pd.DataFrame | None = None,
) -> tuple[str, pd.DataFrame]:
    """Put the checks on an HTML page without references to other files; log the warnings.

    Args:
        distributions: D, samples x labels.
        logical_labels: L, samples x labels.
        threshold: T of the binarisation that D is compared with.
        comparison: the methods that were compared; None if one was named.

    Returns:
        The page, and the result of `check_table`.
    """
    checks = check_table(distributions, logical_labels, threshold)
    warnings = warnings_of(distributions, logical_labels, comparison is not None)
    for warning in warnings:
        logger.warning("%s%s", warning[0].upper(), warning[1:])
    examples = np.unique(np.linspace(0, len(distributions) - 1, EXAMPLES).astype(int))
    pictures = {
        "entropies": figures.entropy_histogram(entropies(distributions.to_numpy())),
        "examples": figures.example_distributions(
            distributions.iloc[examples], logical_labels.iloc[examples], MOST_LABELS_SHOWN
        ),
    }
    page = fill_template(
        "checks.html.j2",
        warnings=warnings,
        comparison=None if comparison is None else comparison_grid(comparison),
        choice=[] if comparison is None else choice_sentences(comparison),
        notes=[] if comparison is None else noted(comparison)[["candidate", "note"]].to_numpy(),
        checks=grid_of(checks),
        labels=grid_of(label_table(distributions, logical_labels)),
        pictures={name: image_address(figures.as_svg(figure)) for name, figure in pictures.items()},
    )
    return page, checks
