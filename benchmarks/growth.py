"""Time and memory of ConLE and of the posterior decoder against the size of the data.

    python benchmarks/growth.py [--most 100000]

Made-up samples: n from 1,000 up with 50 features and 6 labels; then features, then labels, with
5,000 samples. ConLE is trained for five epochs, the decoder (on principal components) runs its 120
sweeps with four chains; both recover all samples. Every size has a process of its own. "growth" is
the exponent of the seconds between two sizes, 1 where they grow linearly. Prints a table and writes
benchmarks/growth.csv.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd

from conle.core.artificial import make_artificial
from conle.core.binarisation import binarise
from conle.cost import measured_cost

SIZES = {
    "samples": [(n, 50, 6) for n in (1000, 3000, 10_000, 30_000, 100_000)],
    "features": [(5000, d, 6) for d in (10, 50, 250, 1250)],
    "labels": [(5000, 50, c) for c in (3, 6, 12, 24, 48)],
}


def made_up(samples, features, labels):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(samples, features))
    u = X @ generator.normal(size=(features, labels)) / features**0.5
    u += 0.5 * generator.normal(size=u.shape)
    return X, binarise(np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)).astype(float)


def measure(method, size):
    from conle.methods.conle import ConLE
    from conle.methods.posterior.variants import PosteriorPCA

    enhancers = {
        "conle": ConLE(stopping="fixed", epochs=5, steps=10**6, device="cpu"),
        "posterior_pca": PosteriorPCA(device="cpu"),
    }
    enhancer = enhancers[method]
    # What is done once, such as the choice of kernels, is not counted.
    type(enhancer)(device="cpu").fit_transform(*make_small())
    X, L = made_up(*size)
    with measured_cost() as cost:
        enhancer.fit_transform(X, L)
    return cost


def make_small():
    features, true = make_artificial()
    return features[::20], binarise(true[::20]).astype(float)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--most", type=int, default=100_000, help="samples")
    arguments = parser.parse_args()
    rows = []
    for method in ("conle", "posterior_pca"):
        for against, sizes in SIZES.items():
            before = None
            for size in (s for s in sizes if s[0] <= arguments.most):
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                    cost = pool.submit(measure, method, size).result()
                grown = size[list(SIZES).index(against)]
                growth = np.nan
                if before is not None:
                    growth = np.log(cost["seconds"] / before[1]) / np.log(grown / before[0])
                before = grown, cost["seconds"]
                memory = cost["peak_memory_mib"] - cost["memory_before_mib"]
                rows.append((method, against, *size, cost["seconds"], growth, memory))
                print(*rows[-1], flush=True)
    columns = ["method", "against", "n", "d", "c", "seconds", "growth", "MiB"]
    table = pd.DataFrame(rows, columns=columns)
    print(table.to_string(index=False, float_format="{:.2f}".format))
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
