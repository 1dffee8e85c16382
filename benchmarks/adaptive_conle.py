"""ConLE's reading and stop by the label posterior against the defaults, on simulated data.

    python benchmarks/adaptive_conle.py

Prints a table and writes benchmarks/adaptive_conle.csv. The scores of labels depend on ten
features, with noise; their softmax, after multiplication by the spread, is the true distribution.
Labels are made in three ways: by binarising at 0.5; as people with thresholds of their own would
choose them; or as the first one to three of each sample. For each way and spread, over sets of 3,
5, 8 and 18 labels and 300 samples: KL(true || recovered) as a multiple of the default
ConLE's (geometric mean), and the mean log likelihood of held-out relevant labels less the default's
(`conle.core.selection.compare`).
"""

import argparse
import itertools
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import track
from scipy.special import softmax

from conle.core.binarisation import binarise
from conle.core.measures import kl_divergence
from conle.core.selection import compare
from conle.methods.registry import make_enhancer

FEATURES = 10
WAYS = ("binarised", "own thresholds", "first labels")
SPREADS = (0.15, 0.5, 1.5)
LABELS = (3, 5, 8, 18)
SAMPLES = 300
DEFAULT = "double, agreement"
CANDIDATES = {
    DEFAULT: ("conle", {}),
    "softmax, agreement": ("conle", {"reading": "softmax"}),
    "raw, agreement": ("conle", {"reading": "raw"}),
    "double, label posterior": ("conle", {"stopping": "label_posterior"}),
    "adaptive": ("conle_adaptive", {}),
    "label posterior": ("label_posterior", {}),
}


def simulate(labels, spread, samples, way, seed):
    """Features, true distributions and logical labels."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(samples, FEATURES))
    weights = generator.normal(size=(FEATURES, labels)) / np.sqrt(FEATURES)
    noise = 0.66 * generator.normal(size=(samples, labels))
    scores = np.tanh(X @ weights) + noise + 0.5 * generator.normal(size=labels)
    D = softmax(spread * scores, axis=1)
    if way == "binarised":
        return X, D, binarise(D).astype(float)
    if way == "own thresholds":
        own = np.exp(0.3 * generator.normal(size=(samples, 1))) / labels
        first = D.max(axis=1, keepdims=True) == D
        return X, D, ((own < D) | first).astype(float)
    first = generator.integers(1, min(4, labels), size=(samples, 1))
    return X, D, ((-D).argsort(axis=1).argsort(axis=1) < first).astype(float)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--labels", type=int, nargs="+", default=LABELS)
    parser.add_argument("--samples", type=int, nargs="+", default=[SAMPLES])
    arguments = parser.parse_args()
    # Some candidates never agree with any row, and say so.
    warnings.simplefilter("ignore", UserWarning)
    grid = list(itertools.product(WAYS, SPREADS, arguments.labels, arguments.samples))
    rows = []
    for seed, (way, spread, labels, samples) in enumerate(track(grid)):
        X, D, L = simulate(labels, spread, samples, way, seed)
        enhancers = {name: make_enhancer(*given) for name, given in CANDIDATES.items()}
        compared = compare(X, L, enhancers).set_index("candidate")
        for name, enhancer in enhancers.items():
            rows.append(
                {
                    "labels made": way,
                    "spread": spread,
                    "candidate": name,
                    "log KL": np.log(kl_divergence(D, enhancer.fit_transform(X, L)).mean()),
                    "log likelihood": compared.loc[name, "log_likelihood"],
                }
            )
    table = pd.DataFrame(rows)
    means = table.groupby(["labels made", "spread", "candidate"], sort=False).mean()
    default = means.xs(DEFAULT, level="candidate")
    shown = (means - default.reindex(means.index.droplevel("candidate")).to_numpy()).reset_index()
    shown.insert(3, "KL ratio", np.exp(shown.pop("log KL")))
    shown.to_csv(Path(__file__).with_suffix(".csv"), index=False)
    print(shown.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
