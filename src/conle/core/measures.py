"""The measures of label enhancement, which compare recovered distributions with the true ones.

Every function takes two arrays of shape (samples, labels), the true and the recovered
distributions, and returns one value per sample; `score` gives their means.

Source: Geng, "Label distribution learning", TKDE 2016, Table 1; Wang et al., "Contrastive
label enhancement", IJCAI 2023, Table 2. The latter prints Canberra with a square in the
numerator; all published figures, its own included, are computed without it, as here.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from conle.core.arrays import real_array

Distributions = Float[np.ndarray, "samples labels"]
PerSample = Float[np.ndarray, " samples"]

# Smaller degrees are raised to this one, because a degree of exactly zero would make the divergence
# infinite.
SMALLEST_DEGREE = 1e-12


def kl_divergence(true: Distributions, recovered: Distributions) -> PerSample:
    """Kullback-Leibler divergence KL(true || recovered) in nats; 0 is best, no upper bound."""
    return rel_entr(true, np.maximum(recovered, SMALLEST_DEGREE)).sum(axis=1)


def kl_divergence_reversed(true: Distributions, recovered: Distributions) -> PerSample:
    """KL(recovered || true) in nats, the direction of some published figures."""
    return kl_divergence(recovered, true)


def chebyshev(true: Distributions, recovered: Distributions) -> PerSample:
    """Largest absolute difference of a row; from 0 (best) to 1."""
    return np.abs(true - recovered).max(axis=1)


def clark(true: Distributions, recovered: Distributions) -> PerSample:
    """Clark distance; from 0 (best) to sqrt(labels)."""
    return np.sqrt((_relative_difference(true, recovered) ** 2).sum(axis=1))


def canberra(true: Distributions, recovered: Distributions) -> PerSample:
    """Canberra distance; from 0 (best) to the number of labels."""
    return _relative_difference(true, recovered).sum(axis=1)


def cosine(true: Distributions, recovered: Distributions) -> PerSample:
    """Cosine similarity; from 0 to 1 (best). A row of zeros has similarity 0."""
    products = (true * recovered).sum(axis=1)
    norms = np.linalg.norm(true, axis=1) * np.linalg.norm(recovered, axis=1)
    return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


def intersection(true: Distributions, recovered: Distributions) -> PerSample:
    """Mass that both distributions share; from 0 to 1 (best)."""
    return np.minimum(true, recovered).sum(axis=1)


def _relative_difference(true: Distributions, recovered: Distributions) -> Distributions:
    """|d - p| / (d + p), and 0 where both are 0."""
    difference, total = np.abs(true - recovered), true + recovered
    return np.divide(difference, total, out=np.zeros_like(difference), where=total > 0)


@dataclass(frozen=True)
class Measure:
    """A measure, its title in reports, and whether larger values are better."""

    function: Callable[[Distributions, Distributions], PerSample]
    title: str
    larger_is_better: bool

    @property
    def arrow(self) -> str:
        """The direction of better values, for table headings."""
        return "↑" if self.larger_is_better else "↓"


MEASURES = {
    "kl_divergence": Measure(kl_divergence, "KL", False),
    "kl_divergence_reversed": Measure(kl_divergence_reversed, "KL reversed", False),
    "chebyshev": Measure(chebyshev, "Chebyshev", False),
    "clark": Measure(clark, "Clark", False),
    "canberra": Measure(canberra, "Canberra", False),
    "cosine": Measure(cosine, "Cosine", True),
    "intersection": Measure(intersection, "Intersection", True),
}


def score(true: ArrayLike, recovered: ArrayLike) -> dict[str, float]:
    """Mean of every measure over the samples.

    Args:
        true: label distributions, rows sum to 1.
        recovered: recovered distributions, same shape.

    Returns:
        The value of each measure of `MEASURES`, by name.

    Raises:
        ValueError: the shapes differ, there are no samples, or a value is no finite real number.
    """
    true, recovered = real_array(true, "true"), real_array(recovered, "recovered")
    if true.ndim != 2 or true.shape != recovered.shape or 0 in true.shape:
        raise ValueError(
            "true and recovered must be two arrays of one shape (samples, labels), "
            f"not {true.shape} and {recovered.shape}"
        )
    if not (np.isfinite(true).all() and np.isfinite(recovered).all()):
        raise ValueError("true and recovered distributions must be finite")
    return {
        name: float(measure.function(true, recovered).mean()) for name, measure in MEASURES.items()
    }
