"""What several methods need of the features alone, computed once per feature matrix.

The nine Yeast datasets have the same features: results are kept by the content of the matrix,
not by the dataset. A few are kept at a time; the matrices are large.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import numpy as np
from jaxtyping import Float
from sklearn.metrics.pairwise import euclidean_distances

from conle.methods.contract import Features

Result = TypeVar("Result")
# Of a distance by inner products, relative to the norms.
ROUNDING = 1e-7


def kept_by_content(
    most: int,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Keep the last results of a function of a feature matrix and plain settings.

    Callers must not write to what they get: the next one gets the same.

    Args:
        most: how many results are kept.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        kept: OrderedDict[tuple, Result] = OrderedDict()
        lock = threading.Lock()

        @wraps(function)
        def kept_function(features: Features, *settings: float) -> Result:
            features = np.ascontiguousarray(features)
            content = hashlib.blake2b(features, digest_size=32).digest()
            key = (content, features.shape, settings)
            with lock:
                result = kept.pop(key) if key in kept else function(features, *settings)
                kept[key] = result
                if len(kept) > most:
                    kept.popitem(last=False)
            return result

        return kept_function

    return decorate


def standardised(features: Features) -> Features:
    """Features with mean 0 and sample standard deviation 1; constant columns are 0."""
    if len(features) == 1:
        return np.zeros_like(features)
    deviation = features.std(axis=0, ddof=1)
    # A deviation may round to a little above 0 where all values are equal, and to 0 where they
    # hardly differ.
    constant = (features == features[0]).all(axis=0) | (deviation == 0)
    return (features - features.mean(axis=0)) / np.where(constant, np.inf, deviation)


@kept_by_content(most=1)
def raw_distances(features: Features) -> tuple[Float[np.ndarray, "samples samples"], float]:
    """`distances`, kept: KM and LP both need those of the raw features."""
    return distances(features)


def distances(features: Features) -> tuple[Float[np.ndarray, "samples samples"], float]:
    """Euclidean distances between all samples, and the mean over the pairs of different ones.

    The mean is 1 where it would be 0 (a single sample, or equal ones), so that it can be the
    width of a kernel.
    """
    samples = len(features)
    # By inner products, many times as fast as differences. About the middle little is lost to
    # cancellation; what is no more than that is the distance of equal samples.
    centred = features - np.median(features, axis=0)
    square = euclidean_distances(centred)
    square[square <= ROUNDING * np.linalg.norm(centred, axis=1, keepdims=True)] = 0.0
    square.setflags(write=False)
    mean = square.sum() / max(samples * (samples - 1), 1)
    return square, mean or 1.0


def gaussian(
    distance: Float[np.ndarray, "rows columns"], width: float
) -> Float[np.ndarray, "rows columns"]:
    """The kernel exp(-distance^2 / (2 width^2)) of distances."""
    kernel = np.square(distance)
    kernel /= -2 * width**2
    return np.exp(kernel, out=kernel)


def as_distributions(degrees: Float[np.ndarray, "samples labels"]) -> Float[np.ndarray, "s l"]:
    """Divide non-negative rows by their sum; a row of zeros says nothing and becomes uniform."""
    sums = degrees.sum(axis=1, keepdims=True)
    uniform = np.full_like(degrees, 1 / degrees.shape[1])
    return np.divide(degrees, sums, out=uniform, where=sums != 0)
