"""Standardised features, distances and kernels, computed once per feature matrix.

Several methods need them, and the nine Yeast datasets have the same features. So results are cached
by the content of the matrix. The matrices are large: caches hold few of them.
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

from conle.core.memory import beyond_memory
from conle.methods.contract import Features, NotApplicableError, Recovered

Result = TypeVar("Result")
# Rounding error of a distance by inner products, relative to the norms.
ROUNDING = 1e-7
# Matrices of samples x samples that a method has at once: the distances and a kernel.
MATRICES = 2


def cached_by_content(
    maxsize: int,
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Cache the last results of a function of a feature matrix and plain settings.

    Callers share a result and must not write to it.

    Args:
        maxsize: number of results in the cache.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        cache: OrderedDict[tuple, Result] = OrderedDict()
        lock = threading.Lock()

        @wraps(function)
        def cached(features: Features, *settings: float | int) -> Result:
            features = np.ascontiguousarray(features)
            content = hashlib.blake2b(features, digest_size=32).digest()
            key = (content, features.shape, settings)
            with lock:
                result = cache.pop(key) if key in cache else function(features, *settings)
                cache[key] = result
                if len(cache) > maxsize:
                    cache.popitem(last=False)
            return result

        return cached

    return decorate


def standardised(features: Features) -> Features:
    """Features with mean 0 and sample standard deviation 1; constant columns are 0."""
    if len(features) == 1:
        return np.zeros_like(features)
    deviation = features.std(axis=0, ddof=1)
    # The deviation may round to above 0 where all values are equal, and to 0 where they hardly
    # differ.
    constant = (features == features[0]).all(axis=0) | (deviation == 0)
    return (features - features.mean(axis=0)) / np.where(constant, np.inf, deviation)


@cached_by_content(maxsize=1)
def raw_distances(features: Features) -> tuple[Float[np.ndarray, "samples samples"], float]:
    """Cached `distances`: KM and LP both need them for the raw features."""
    return distances(features)


def distances(features: Features) -> tuple[Float[np.ndarray, "samples samples"], float]:
    """Euclidean distances between all samples, and their mean over pairs of different samples.

    The mean is the width of a kernel, so it is 1 where it would be 0 (a single sample, or equal
    samples).

    Raises:
        NotApplicableError: they do not fit into the free memory.
    """
    samples = len(features)
    too_much = beyond_memory((samples, samples), MATRICES)
    if too_much is not None:
        raise NotApplicableError(
            f"the kernel of {samples} x {samples} samples does not fit into memory with their "
            f"distances: {too_much}; take a method that needs no distances between all samples, or "
            "fewer samples"
        )
    # Inner products are many times as fast as differences. Around the median they lose few digits
    # to cancellation; a distance below this error belongs to equal samples.
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


def as_distributions(degrees: Float[np.ndarray, "samples labels"]) -> Recovered:
    """Divide non-negative rows by their sums; a row of zeros becomes uniform."""
    sums = degrees.sum(axis=1, keepdims=True)
    uniform = np.full_like(degrees, 1 / degrees.shape[1])
    return np.divide(degrees, sums, out=uniform, where=sums != 0)
