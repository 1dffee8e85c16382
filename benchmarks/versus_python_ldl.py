"""ConLE of python-ldl against ours: training epochs a second on one core, in one run.

    pip install python-ldl==0.1.2
    python benchmarks/versus_python_ldl.py --data FOLDER [--datasets SJAFFE Yeast_alpha]

Both train on nine tenths of the samples; every training row counts. python-ldl (keras on torch)
takes one fold at a time, each batch all rows, as it does by default. Ours trains a hundred folds
with batches of 128, or of all rows where there are fewer than 200. Seconds of an epoch of
python-ldl are the difference between a longer and a shorter training, so that its start does not
count. Rates are means over the repetitions, with (largest - smallest) / mean as their spread.

"protocol": ten times ten folds at each one's defaults, 1,000 epochs for python-ldl: extrapolated
from its seconds per epoch. Ours is run. Prints tables and writes benchmarks/versus_python_ldl.csv.
"""

import argparse
import os
import time
from importlib.metadata import version
from pathlib import Path

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
import pandas as pd
import torch
from pyldl.algorithms import ConLE as TheirConLE
from scipy.io import loadmat
from sklearn.model_selection import RepeatedKFold

from conle.core.binarisation import binarise
from conle.methods.conle import ConLE

FULL_BATCH_BELOW = 200
BATCH = 128
OUR_EPOCHS = 10
THEIR_DEFAULT_EPOCHS = 1000


def seconds_of(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def their_seconds_an_epoch(features, logical_labels, epochs):
    """An epoch of one fold."""

    def train(number):
        return seconds_of(
            lambda: TheirConLE(random_state=0).fit(
                features, logical_labels, epochs=number, verbose=0
            )
        )

    return (train(2 * epochs) - train(epochs)) / epochs


def our_seconds_an_epoch(features, logical_labels, splits, batch_size):
    """An epoch of one fold, many folds at once."""
    enhancer = ConLE(
        batch_size=batch_size, stopping="fixed", epochs=OUR_EPOCHS, steps=10**6, device="cpu"
    )
    taken = seconds_of(lambda: enhancer.recover_folds(features, logical_labels, splits))
    return taken / OUR_EPOCHS / len(splits)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the .mat files")
    parser.add_argument("--datasets", nargs="+", default=["SJAFFE", "SBU_3DFE", "Yeast_alpha"])
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in arguments.datasets:
        variables = loadmat(arguments.data / f"{name}.mat")
        features, logical_labels = variables["features"], binarise(variables["labels"])
        splits = list(RepeatedKFold(n_splits=10, n_repeats=10, random_state=0).split(features))
        training = splits[0][0]
        full = len(training) < FULL_BATCH_BELOW
        theirs, ours = [], []
        for _ in range(arguments.repetitions):
            theirs.append(
                their_seconds_an_epoch(
                    features[training],
                    logical_labels[training].astype(float),
                    200 if full else 20,
                )
            )
            ours.append(
                our_seconds_an_epoch(
                    features, logical_labels, splits, len(training) if full else BATCH
                )
            )
        protocol = seconds_of(
            lambda features=features, labels=logical_labels, splits=splits: ConLE(
                device="cpu"
            ).recover_folds(features, labels, splits)
        )
        theirs, ours = np.array(theirs), np.array(ours)
        ratio = theirs / ours
        rows.append(
            {
                "dataset": name,
                "epochs/s, theirs": (1 / theirs).mean(),
                "epochs/s, ours": (1 / ours).mean(),
                "ratio": ratio.mean(),
                "spread": (ratio.max() - ratio.min()) / ratio.mean(),
                "protocol, theirs (extrapolated) s": theirs.mean() * THEIR_DEFAULT_EPOCHS * 100,
                "protocol, ours s": protocol,
                "protocol ratio": theirs.mean() * THEIR_DEFAULT_EPOCHS * 100 / protocol,
            }
        )
        print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    print(f"one core, torch {torch.__version__}, python-ldl {version('python-ldl')}")
    print(table.to_string(index=False, float_format="{:.2f}".format))
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
