"""Seconds per fold-epoch of ConLE: folds trained together against one by one, in one run.

    python benchmarks/batched_training.py --data FOLDER [--datasets SJAFFE Yeast_alpha]

Prints a table and writes benchmarks/batched_training.csv. One by one is the same program with
one fold in it. Training is without agreement checks, and the time that of 40 steps less that of
20, so that scaling the features does not count; best of the repetitions, and their spread as
(slowest - fastest) / fastest.
"""

import argparse
import time
from pathlib import Path

import pandas as pd
import torch
from scipy.io import loadmat
from sklearn.model_selection import RepeatedKFold

from conle.core.binarisation import binarise
from conle.methods.conle import ConLE
from conle.methods.training import scheduling

STEPS = 20
FOLDS_AT_ONCE = (1, 10, 25, 50)


def seconds(features, logical_labels, splits, folds_at_once):
    scheduling.CHUNK_FOLDS_ON_CPU = folds_at_once
    taken = []
    for steps in (STEPS, 2 * STEPS):
        enhancer = ConLE(steps=steps, stopping="fixed", device="cpu")
        start = time.perf_counter()
        enhancer.recover_folds(features, logical_labels, splits)
        taken.append(time.perf_counter() - start)
    return taken[1] - taken[0]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the .mat files")
    parser.add_argument("--datasets", nargs="+", default=["SJAFFE", "SBU_3DFE", "Yeast_alpha"])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = []
    for dataset in arguments.datasets:
        variables = loadmat(arguments.data / f"{dataset}.mat")
        features, logical_labels = variables["features"], binarise(variables["labels"])
        splits = list(RepeatedKFold(n_splits=10, n_repeats=10, random_state=0).split(features))
        training_rows = len(splits[0][0])
        epochs = STEPS / -(-training_rows // 256)
        seconds(features, logical_labels, splits[:1], 1)
        times = {size: [] for size in FOLDS_AT_ONCE}
        for _ in range(arguments.repetitions):
            for size in FOLDS_AT_ONCE:
                times[size].append(seconds(features, logical_labels, splits, size))
        alone = min(times[1])
        for size, taken in times.items():
            rows.append(
                {
                    "dataset": dataset,
                    "folds at once": size,
                    "seconds per fold-epoch": min(taken) / len(splits) / epochs,
                    "times faster than one by one": alone / min(taken),
                    "spread": max(taken) / min(taken) - 1,
                }
            )
    table = pd.DataFrame(rows)
    print(f"{arguments.threads} threads, torch {torch.__version__}")
    print(table.to_string(index=False, float_format="{:.4f}".format))
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
