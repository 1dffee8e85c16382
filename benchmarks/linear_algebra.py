"""The time of every method against that of the matrix products and decompositions in it.

    python benchmarks/linear_algebra.py --data FOLDER [--datasets SJAFFE Yeast_alpha]

FCM, GLLE and LESC are fitted to all rows; then the same products, decompositions and distances (of
FCM) are computed again, as often as the method did it. KM and LP take a second, for distances.
ConLE and LEVI-MLP are trained for ten epochs on ten folds, on one core, under PyTorch's profiler,
which counts batched products. "times" is all of the method's time by that of its linear algebra.
Prints a table and writes benchmarks/linear_algebra.csv.
"""

import argparse
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import torch
from scipy.io import loadmat
from sklearn.model_selection import KFold
from torch.profiler import ProfilerActivity, profile

from conle.core.binarisation import binarise
from conle.methods import fcm, graph_regression, lesc
from conle.methods.registry import make_enhancer

PRODUCTS = ("aten::bmm", "aten::baddbmm")
EPOCHS = 10


def seconds(work, times=1):
    start = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - start


def on_numpy(method, X, L):
    """Seconds of a method and of its linear algebra."""
    # What is kept of another method is pushed out: each computes all of its own.
    few = np.eye(2)
    graph_regression.kernel_design(few)
    lesc.low_rank_representation(few, 1.0, 1, 0.01, 1.5)
    evaluations = mock.Mock()
    minimize = graph_regression.minimize

    def counting(objective, *arguments, **named):
        evaluations.side_effect = objective
        return minimize(evaluations, *arguments, **named)

    with (
        mock.patch.object(graph_regression, "minimize", counting),
        mock.patch.object(
            lesc, "_shrink_singular_values", wraps=lesc._shrink_singular_values
        ) as shrinks,
        mock.patch.object(fcm, "cdist", wraps=fcm.cdist) as sweeps,
    ):
        enhancer = make_enhancer(method)
        whole = seconds(lambda: enhancer.fit_transform(X, L))
    n, (d, c) = len(X), (X.shape[1], L.shape[1])
    generator = np.random.default_rng(0)
    if method == "fcm":
        weights = generator.random((min(enhancer.clusters_per_label * c, n), n))
        return whole, seconds(lambda: fcm.cdist(X, weights @ X), sweeps.call_count)
    kernel = generator.random((n, n))
    algebra = seconds(lambda: X @ X.T)
    rows = np.ascontiguousarray(L.T)
    algebra += seconds(lambda: ((rows @ kernel.T), rows @ kernel), evaluations.call_count)
    if method == "lesc":
        basis = np.linalg.svd(X, full_matrices=False)[0][:, : min(n, d)]
        data = np.ascontiguousarray(basis.T)
        gram = data @ basis
        algebra += seconds(lambda: np.linalg.svd(X, full_matrices=False))
        algebra += seconds(
            lambda: (np.linalg.eigh(data @ basis), gram @ (gram.T @ data)), shrinks.call_count
        )
        algebra += seconds(
            lambda: ((rows @ basis) @ data, (rows @ basis) @ data), evaluations.call_count
        )
    return whole, algebra


def on_torch(method, X, L):
    torch.set_num_threads(1)
    splits = list(KFold(10, shuffle=True, random_state=0).split(X))
    steps = {"stopping": "fixed", "steps": 10**6} if method == "conle" else {}

    def train():
        make_enhancer(method, {"epochs": EPOCHS, **steps}, device="cpu").recover_folds(X, L, splits)

    train()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        train()
    events = profiled.key_averages()
    products = sum(event.self_cpu_time_total for event in events if event.key in PRODUCTS)
    return sum(event.self_cpu_time_total for event in events) / 1e6, products / 1e6


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--datasets", nargs="+", default=["SJAFFE", "SBU_3DFE", "Yeast_alpha", "Movie"]
    )
    arguments = parser.parse_args()
    rows = []
    for dataset in arguments.datasets:
        variables = loadmat(arguments.data / f"{dataset}.mat")
        X = variables["features"].astype(np.float64)
        L = binarise(variables["labels"] / variables["labels"].sum(axis=1, keepdims=True)).astype(
            float
        )
        make_enhancer("glle").fit_transform(X[:50], L[:50])
        for method in ("fcm", "glle", "lesc"):
            rows.append((dataset, method, *on_numpy(method, X, L)))
        threads = torch.get_num_threads()
        for method in ("levi_mlp", "conle"):
            rows.append((dataset, method, *on_torch(method, X, L)))
        torch.set_num_threads(threads)
    table = pd.DataFrame(rows, columns=["dataset", "method", "seconds", "linear_algebra"])
    table["times"] = table["seconds"] / table["linear_algebra"]
    print(table.round(2).to_string(index=False))
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
