"""The posterior decoder against a NumPy loop of the same sampler, one fold after the other.

    python benchmarks/posterior.py --data FOLDER [--datasets SJAFFE Yeast_spo5] [--folds 100]

FOLDER holds the benchmark's .mat files, of which all are taken without --datasets. Both sample one
chain of the featureless decoder, fitted to all training rows, on the same folds and in one process;
times are of one call each. Prints
a table and writes benchmarks/posterior.csv.
"""

import argparse
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import loadmat
from scipy.linalg import solve_triangular
from scipy.special import ndtr, ndtri
from sklearn.model_selection import RepeatedKFold

from conle.core.binarisation import binarise
from conle.methods.posterior.threshold_model import start_ratios
from conle.methods.posterior.variants import PosteriorFeatureless

THRESHOLD, SWEEPS, BURN_IN = 0.5, 120, 40


def gibbs_sweep(u, relevant, mean, root_inverse, generator):
    """One sweep over the labels of some samples (samples x labels), T = 0.5, no floor."""
    precision = root_inverse @ root_inverse.T
    w = np.exp(u)
    for label in range(u.shape[1]):
        others = np.arange(u.shape[1]) != label
        own, rest = relevant[:, label], relevant[:, others]
        r = (w[:, others] * rest).sum(axis=1)
        i = (w[:, others] * ~rest).sum(axis=1)
        smallest = np.where(rest, w[:, others], np.inf).min(axis=1)
        largest = np.where(rest, -np.inf, w[:, others]).max(axis=1)
        low = np.where(own, np.maximum(largest, np.abs(r - i)), r - i - 2 * smallest)
        high = np.where(own, 2 * smallest + i - r, np.minimum(smallest, r - i))
        with np.errstate(divide="ignore"):
            low, high = np.log(np.maximum(low, 0)), np.log(np.maximum(high, 0))
        shift = (u - mean)[:, others] @ precision[others, label] / precision[label, label]
        centre, deviation = mean[label] - shift, precision[label, label] ** -0.5
        a, b = (low - centre) / deviation, (high - centre) / deviation
        sign = np.where(a + b > 0, -1.0, 1.0)
        left, right = np.minimum(a * sign, b * sign), np.maximum(a * sign, b * sign)
        below = ndtr(left)
        share = below + generator.random(len(u)) * (ndtr(right) - below)
        x = np.clip(ndtri(share), left, right) * sign
        u[:, label] = np.clip(centre + deviation * x, np.minimum(low, high), high)
        w[:, label] = np.exp(u[:, label])


def feasible(u, relevant):
    w = np.exp(u)
    smallest = np.where(relevant, w, np.inf).min(axis=1)
    surplus = np.where(relevant, w, -w).sum(axis=1) / 2
    ordered = smallest > np.where(relevant, -np.inf, w).max(axis=1)
    return (ordered & (surplus > 0) & (surplus <= smallest)).all()


def numpy_fold(training, test, seed):
    """Fit to the logical labels of some samples and recover others."""
    generator = np.random.default_rng(seed)
    n, c = training.shape
    relevant, relevant_test = training == 1, test == 1
    u = np.log(start_ratios(training, THRESHOLD))
    held_out = np.log(start_ratios(test, THRESHOLD))
    mean, root = u.mean(axis=0), np.sqrt(0.1) * np.eye(c)
    inverse_root = np.eye(c) / np.sqrt(0.1)
    total = np.zeros(held_out.shape)
    for sweep in range(SWEEPS):
        gibbs_sweep(u, relevant, mean, inverse_root, generator)
        ridge_mean = u.sum(axis=0) / (n + 0.01)
        scale = 2 * generator.standard_gamma(c**2 + 0.5) / (inverse_root**2).sum()
        scatter = u.T @ u - np.outer(ridge_mean, u.sum(axis=0)) + scale * np.eye(c)
        lower = np.linalg.cholesky(scatter)
        bartlett = np.tril(generator.standard_normal((c, c)), -1)
        bartlett += np.diag(np.sqrt(generator.chisquare(n + 2 * c - np.arange(c))))
        proposed = solve_triangular(bartlett, lower.T, lower=True).T
        variance, old = (proposed**2).sum() / c, (root**2).sum() / c
        if np.log(generator.random()) < (old - variance) / 2:
            root = proposed
            inverse_root = solve_triangular(lower.T, bartlett)
            mean = ridge_mean + root @ generator.standard_normal(c) / np.sqrt(n + 0.01)
        for size in (0.3, 0.03, 0.003):
            log_g = size * generator.standard_normal()
            g, variance = np.exp(log_g), (root**2).sum() / c
            if np.log(generator.random()) < log_g + variance * (1 - g**2) / 2 and feasible(
                g * u, relevant
            ):
                u, mean, root, inverse_root = g * u, g * mean, g * root, inverse_root / g
        gibbs_sweep(held_out, relevant_test, mean, inverse_root, generator)
        if sweep >= BURN_IN:
            w = np.exp(held_out)
            total += w / w.sum(axis=1, keepdims=True)
    return total / (SWEEPS - BURN_IN)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the .mat files")
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--folds", type=int, default=100, help="of ten-fold splits, from the first")
    parser.add_argument("--numpy-folds", type=int, default=3, help="of them for the loop")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.datasets or sorted(path.stem for path in arguments.data.glob("*.mat")):
        true = loadmat(arguments.data / f"{name}.mat")["labels"]
        logical_labels = binarise(true).astype(float)
        folds = RepeatedKFold(n_splits=10, n_repeats=10, random_state=0)
        splits = list(islice(folds.split(true), arguments.folds))
        start = time.perf_counter()
        features = np.zeros((len(true), 1))
        decoder = PosteriorFeatureless(
            device="cpu",
            sweeps=SWEEPS,
            burn_in=BURN_IN,
            chains=1,
            chain_rows=len(true),
            label_posterior_share=0.0,
        )
        recovered = decoder.recover_folds(features, logical_labels, splits)
        ours = (time.perf_counter() - start) / len(splits)
        differences = []
        start = time.perf_counter()
        for fold, (training, test) in enumerate(splits[: arguments.numpy_folds]):
            again = numpy_fold(logical_labels[training], logical_labels[test], fold)
            differences.append(np.abs(again - recovered.recovered[fold]).max())
        theirs = (time.perf_counter() - start) / len(differences)
        rows.append((name, ours, theirs, theirs / ours, max(differences)))
        print(f"{name:12s} {ours:8.3f} s {theirs:8.3f} s a fold, {theirs / ours:5.1f} times")
    columns = ["dataset", "seconds_a_fold", "numpy_seconds_a_fold", "ratio", "largest_difference"]
    table = pd.DataFrame(rows, columns=columns)
    print(table.to_string(index=False, float_format="%.3f"))
    total = table["numpy_seconds_a_fold"].sum() / table["seconds_a_fold"].sum()
    print(f"summed over the datasets: {total:.1f} times")
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
