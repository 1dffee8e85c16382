"""The threshold model: conditions on degrees whose binarisation gives the logical labels.

Degrees are proportional to weights w > phi. With R and I the relevant and the irrelevant mass of
w, binarising at T gives L if and only if every relevant weight exceeds every irrelevant one,
(1 - T) R > T I, and (1 - T) R - T I <= the smallest relevant weight. Given all others, a weight
therefore lies in an interval (`weight_bounds`). Where labels only order the degrees, relevant
above irrelevant, only the first condition holds.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

LogicalLabels = Float[np.ndarray, "samples labels"]
PerSample = Bool[np.ndarray, " samples"]

# Largest distance of T c + 1 from a whole number that counts as rounding.
COUNT_TOLERANCE = 1e-9
# Largest ratio of a relevant to an irrelevant weight at the start, where nothing bounds it.
WIDEST_START = 4.0


def possible_counts(
    labels: int, threshold: float
) -> tuple[Bool[np.ndarray, " counts"], int | None]:
    """The numbers of relevant labels that binarising can give.

    Args:
        labels: number of labels c.
        threshold: T.

    Returns:
        For k = 0 to c, whether a distribution that is not exactly uniform gives k relevant labels
        (1 <= k < T c + 1); and the k that only an exactly uniform one gives (T c + 1), if any.
    """
    counts = np.arange(labels + 1)
    most = threshold * labels + 1
    possible = (counts >= 1) & (counts < most - COUNT_TOLERANCE)
    whole = round(most)
    uniform = whole if abs(most - whole) < COUNT_TOLERANCE and whole <= labels else None
    return possible, uniform


def start_ratios(logical_labels: LogicalLabels, threshold: float | None) -> LogicalLabels:
    """Weights that the logical labels allow, 1 for irrelevant labels and one t for relevant ones.

    Args:
        logical_labels: samples x labels; their numbers of relevant labels must be possible.
        threshold: T, or None where labels only order the degrees.

    Returns:
        The weights; t is the geometric middle of its allowed range, cut to a ratio of 4 to 1.
    """
    k = logical_labels.sum(axis=1, keepdims=True)
    rest = logical_labels.shape[1] - k
    if threshold is None:
        low, high = np.ones_like(k), np.full_like(k, WIDEST_START)
    else:
        mass = (1 - threshold) * k
        with np.errstate(divide="ignore"):
            low = np.maximum(1, threshold * rest / mass)
            bounded = mass > 1
            high = np.where(bounded, threshold * rest / np.where(bounded, mass - 1, 1), np.inf)
        high = np.minimum(high, WIDEST_START * low)
    return np.sqrt(low * high) ** logical_labels


def weight_bounds(
    if_irrelevant: Float[Tensor, "*shape"],
    if_relevant: Float[Tensor, "*shape"],
    room: Float[Tensor, "*shape"],
    smallest_relevant: Float[Tensor, "*shape"],
    largest_irrelevant: Float[Tensor, "*shape"],
    threshold: float,
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """The interval of one weight of each sample, given its others.

    Args:
        if_irrelevant: inf where the label of the weight is irrelevant, 0 elsewhere.
        if_relevant: inf where it is relevant, 0 elsewhere.
        room: (1 - T) / T R - I of the others.
        smallest_relevant: smallest relevant weight of the others, inf where there is none.
        largest_irrelevant: largest irrelevant weight of the others, -inf where there is none.
        threshold: T.

    Returns:
        Lower and upper limits without regard to phi.
    """
    lack = room * (-threshold / (1 - threshold))
    low = torch.maximum(largest_irrelevant, torch.maximum(room, lack)).sub_(if_irrelevant)
    low_irrelevant = torch.sub(room, smallest_relevant, alpha=1 / threshold).sub_(if_relevant)
    high = torch.add(lack, smallest_relevant, alpha=1 / (1 - threshold)).add_(if_irrelevant)
    high_irrelevant = torch.minimum(smallest_relevant, room).add_(if_relevant)
    return torch.maximum(low, low_irrelevant), torch.minimum(high, high_irrelevant)


def ordering_bounds(
    if_irrelevant: Float[Tensor, "*shape"],
    if_relevant: Float[Tensor, "*shape"],
    smallest_relevant: Float[Tensor, "*shape"],
    largest_irrelevant: Float[Tensor, "*shape"],
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """The interval of one weight where labels only order the degrees; see `weight_bounds`."""
    return largest_irrelevant - if_irrelevant, smallest_relevant + if_relevant


def is_feasible(
    weights: Float[Tensor, "folds labels samples"],
    relevant: Float[Tensor, "folds labels samples"],
    threshold: float | None,
    ordering_only: Bool[Tensor, "folds samples"] | None = None,
) -> Bool[Tensor, "folds samples"]:
    """Whether the weights of each sample give its logical labels.

    Args:
        weights: w of each label, positive.
        relevant: 1 for relevant labels and 0 for the others.
        threshold: T, or None where labels only order the degrees.
        ordering_only: samples whose labels only order the degrees; None for none.
    """
    # To fill by a mask takes ten times as long as this arithmetic.
    relevant_weights = weights * relevant
    smallest = (weights / relevant).amin(dim=1)
    ordered = smallest > (weights - relevant_weights).amax(dim=1)
    if threshold is None:
        return ordered
    relevant_mass = relevant_weights.sum(dim=1)
    surplus = relevant_mass - threshold * weights.sum(dim=1)
    crossed = (surplus > 0) & (surplus <= smallest)
    return ordered & (crossed if ordering_only is None else crossed | ordering_only)
