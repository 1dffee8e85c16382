"""Intervals of decoders whose W and Sigma are fitted to logical labels, where the model holds.

`benchmarks/coverage.py` does the same at the sizes of the benchmark's datasets.
"""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from conle.core.binarisation import binarise
from conle.methods.posterior.variants import PosteriorPCA

# Samples, features and labels of SJAFFE, and of a Yeast set with fewer samples.
SIZES = {"few samples": (213, 20, 6), "many labels": (400, 24, 14)}


def simulated(samples, features, labels, seed):
    """Features, and distributions whose log weights are normal and linear in the features."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(samples, features))
    weights = 0.3 * generator.normal(size=(features, labels)) / np.sqrt(features)
    root = 0.35 * generator.normal(size=(labels, 2 * labels)) / np.sqrt(2 * labels)
    u = 0.2 * generator.normal(size=labels) + X @ weights
    u += generator.normal(size=(samples, 2 * labels)) @ root.T
    w = np.exp(u)
    return X, w / w.sum(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_intervals_hold_as_many_degrees_as_they_say(size):
    inside = []
    for seed in range(3):
        X, D = simulated(*SIZES[size], seed)
        L = binarise(D).astype(float)
        for training, test in KFold(3, shuffle=True, random_state=seed).split(X):
            decoder = PosteriorPCA(seed=seed, device="cpu").fit(X[training], L[training])
            low, high = decoder.credible_intervals(X[test], L[test], level=0.9)
            inside.append((low <= D[test]) & (D[test] <= high))
    assert 0.85 < np.concatenate(inside).mean() < 0.95
