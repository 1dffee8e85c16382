"""The posterior decoder's prior of Sigma and its share of the label posterior, by simulation.

    python benchmarks/posterior_prior.py --data FOLDER [--datasets SJAFFE SBU_3DFE] [--rows 500]

The features are those of a sample of a dataset's rows. Their distributions are simulated in two
ways: as the decoder's own model draws them after a fit to the dataset ("model", with the floors of
`conf/base`), and as Dirichlet distributions whose means follow the features ("Dirichlet"). Logical
labels are made by binarising. In three folds the decoder on principal components is fitted to them
with several degrees of freedom of the prior of Sigma. Printed, for several shares of the label
posterior: the mean KL of held-out rows and the coverage of their 90 % intervals; and the log score
of held-out logical labels. Writes benchmarks/posterior_prior.csv.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import yaml
from coverage import PARAMETERS, simulate
from rich.progress import track
from scipy.io import loadmat
from sklearn.model_selection import KFold

from conle.core.binarisation import binarise
from conle.core.measures import kl_divergence
from conle.core.stacking import log_score
from conle.methods.posterior import sampler
from conle.methods.posterior.variants import PosteriorPCA

DEGREES_PER_LABEL = (1.2, 2, 4, 10)
SHARES = (0.0, 0.2, 0.33, 0.5)


def simulate_dirichlet(X, labels, seed):
    """Distributions around means that are softmax-linear in the features, and logical labels."""
    generator = np.random.default_rng(seed)
    scaled = ((X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)).clip(-3, 3)
    weights = generator.normal(size=(X.shape[1], labels)) / np.sqrt(X.shape[1])
    w = np.maximum(generator.gamma(5 * np.exp(0.5 * scaled @ weights)), 1e-6)
    D = w / w.sum(axis=1, keepdims=True)
    return D, binarise(D).astype(float)


def measured(X, D, L, floor):
    """KL, coverage and log score of held-out rows, for every share."""
    kl, inside, scores = ({share: [] for share in SHARES} for _ in range(3))
    for training, test in KFold(3, shuffle=True, random_state=0).split(X):
        decoder = PosteriorPCA(degree_floor=floor, device="cpu").fit(X[training], L[training])
        chains = decoder.sample_chains(X[test], L[test])
        score = log_score(decoder.label_probabilities(X[test], L[test]))
        for share in SHARES:
            decoder.label_posterior_share = share
            draws = decoder.with_label_posterior(chains, L[test])
            mean = draws.mean(axis=0)
            low, high = np.quantile(draws, [0.05, 0.95], axis=0)
            kl[share].append(kl_divergence(D[test], mean / mean.sum(axis=1, keepdims=True)))
            inside[share].append((low <= D[test]) & (D[test] <= high))
            scores[share].append(score)
    return [
        (
            share,
            np.concatenate(kl[share]).mean(),
            np.concatenate(inside[share]).mean(),
            np.mean(scores[share]),
        )
        for share in SHARES
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the .mat files")
    parser.add_argument("--datasets", nargs="+", help="names; all files by default")
    parser.add_argument("--rows", type=int, default=500, help="largest number of rows")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    floors = yaml.safe_load(PARAMETERS.read_text())["degree_floors"]
    rows = []
    for path in track(sorted(arguments.data.glob("*.mat"))):
        if arguments.datasets and path.stem not in arguments.datasets:
            continue
        variables = loadmat(path)
        X, L = variables["features"].astype(float), binarise(variables["labels"]).astype(float)
        sample = np.random.default_rng(1).permutation(len(X))[: arguments.rows]
        X, L = X[sample], L[sample]
        floor = floors.get(path.stem, 0.0)
        made = {
            "model": (*simulate(X, L, floor, 0), floor),
            "Dirichlet": (*simulate_dirichlet(X, L.shape[1], 0), 0.0),
        }
        for way, (D, labels, own_floor) in made.items():
            for degrees in DEGREES_PER_LABEL:
                sampler.DEGREES_PER_LABEL = degrees
                found = measured(X, D, labels, own_floor)
                rows += [(path.stem, way, degrees, *own) for own in found]
            sampler.DEGREES_PER_LABEL = 2
    columns = ["dataset", "simulated by", "degrees per label", "share", "KL", "coverage", "score"]
    table = pd.DataFrame(rows, columns=columns)
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False)
    print(table.round(5).to_string(index=False))


if __name__ == "__main__":
    main()
