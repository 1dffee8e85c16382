"""How many true degrees the 90 % intervals of the posterior decoder hold.

    python benchmarks/coverage.py --data FOLDER [--datasets SJAFFE SBU_3DFE] [--replicas 1]

Prints a line per dataset and writes benchmarks/coverage.csv. The decoder is that on principal
components, with the floors of `conf/base`. Of all samples, each held out once in ten folds: the
share of the degrees in their intervals, also of the relevant and of the irrelevant labels alone.
Then the same where the model holds: a decoder is fitted to the dataset, distributions of its
samples are drawn with one W and Sigma of the fit, their logical labels are made by binarising, and
all is fitted to these anew. There the ranks of the degrees among their draws are uniform if the
draws are right (simulation-based calibration, Talts et al. 2018): of the ten tenths of the ranks,
the last columns have the least and the most frequent one, in units of its expected frequency.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import yaml
from rich.progress import track
from scipy.io import loadmat
from sklearn.model_selection import KFold

from conle.core.binarisation import binarise
from conle.methods.posterior.inference import with_intercept
from conle.methods.posterior.sampler import by_sweep
from conle.methods.posterior.variants import PosteriorPCA

PARAMETERS = Path(__file__).parents[1] / "conf" / "base" / "parameters_posterior.yml"
LEVEL = 0.9


def held_out(X, D, L, floor, folds):
    """Whether each held-out degree is in its interval, and its rank among its draws, 0 to 1."""
    inside, ranks = np.empty(D.shape, dtype=bool), np.empty(D.shape)
    for training, test in KFold(folds, shuffle=True, random_state=0).split(X):
        decoder = PosteriorPCA(degree_floor=floor, device="cpu").fit(X[training], L[training])
        draws = decoder.sample(X[test], L[test])
        # Those of `credible_intervals`.
        low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        inside[test] = (low <= D[test]) & (D[test] <= high)
        ranks[test] = (draws < D[test]).mean(axis=0)
    return inside, ranks


def simulate(X, L, floor, seed):
    """Distributions and logical labels of samples as the model of a fit draws them."""
    decoder = PosteriorPCA(degree_floor=floor, device="cpu").fit(X, L)
    *_, present = by_sweep(decoder.coefficients_)
    columns = with_intercept([decoder.representation_(X)])[0].numpy()
    generator = np.random.default_rng(seed)
    # A chain that started in the middle.
    chain = decoder.chains // 2
    u = columns @ present.weights[chain].numpy()
    u += np.linalg.solve(
        present.inverse_root[chain].numpy().T, generator.standard_normal(L.T.shape)
    ).T
    w = floor + np.exp(u)
    D = w / w.sum(axis=1, keepdims=True)
    return D, binarise(D).astype(float)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the .mat files")
    parser.add_argument("--datasets", nargs="+", help="names; all files by default")
    parser.add_argument("--replicas", type=int, default=1, help="simulated datasets of each size")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    floors = yaml.safe_load(PARAMETERS.read_text())["degree_floors"]
    paths = [
        path
        for path in sorted(arguments.data.glob("*.mat"))
        if not arguments.datasets or path.stem in arguments.datasets
    ]
    rows = []
    for path in track(paths):
        variables = loadmat(path)
        X, D = variables["features"].astype(float), variables["labels"].astype(float)
        L = binarise(D).astype(float)
        D = D / D.sum(axis=1, keepdims=True)
        floor = floors.get(path.stem, 0.0)
        inside, _ = held_out(X, D, L, floor, folds=10)
        simulated, ranks = zip(
            *(
                held_out(X, *simulate(X, L, floor, seed), floor, folds=3)
                for seed in range(arguments.replicas)
            ),
            strict=True,
        )
        frequencies = np.histogram(ranks, bins=10, range=(0, 1))[0] / np.size(ranks) * 10
        rows.append(
            {
                "dataset": path.stem,
                "coverage": inside.mean(),
                "of relevant labels": inside[L == 1].mean(),
                "of irrelevant labels": inside[L == 0].mean(),
                "simulated": np.mean(simulated),
                "least frequent": frequencies.min(),
                "most frequent": frequencies.max(),
            }
        )
    table = pd.DataFrame(rows)
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False)
    print(table.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
