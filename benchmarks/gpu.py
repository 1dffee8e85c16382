"""ConLE on a GPU: seconds of training at the paper's folds, memory, and agreement with the CPU.

    python benchmarks/gpu.py --data FOLDER [--datasets SJAFFE Movie] [--epochs 100]

FOLDER holds the benchmark's .mat files, of which all are taken without --datasets. 100 folds are
trained for as many epochs, the agreement off; the seconds are those of the training alone, with
the GPU waited for. Agreement is the largest difference of a recovered degree between GPU and CPU,
ten folds after 100 steps. Prints a table and writes benchmarks/gpu.csv.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.io import loadmat
from sklearn.model_selection import RepeatedKFold

from conle.core.binarisation import binarise
from conle.methods.conle import ConLE

STEPS_COMPARED = 100


class TimedConLE(ConLE):
    """Adds up the seconds of its training."""

    def _train(self, *arguments):
        torch.cuda.synchronize()
        start = time.perf_counter()
        curves = super()._train(*arguments)
        torch.cuda.synchronize()
        self.seconds = getattr(self, "seconds", 0.0) + time.perf_counter() - start
        return curves


def largest_difference(features, logical_labels, splits, tf32):
    recovered = [
        np.concatenate(
            ConLE(stopping="fixed", steps=STEPS_COMPARED, tf32=tf32, device=device)
            .recover_folds(features, logical_labels, splits)
            .recovered
        )
        for device in ("cuda", "cpu")
    ]
    return np.abs(recovered[0] - recovered[1]).max()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the .mat files")
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=2)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.datasets or sorted(path.stem for path in arguments.data.glob("*.mat")):
        variables = loadmat(arguments.data / f"{name}.mat")
        features, logical_labels = variables["features"], binarise(variables["labels"])
        splits = list(RepeatedKFold(n_splits=10, n_repeats=10, random_state=0).split(features))
        torch.cuda.reset_peak_memory_stats()
        seconds = []
        for _ in range(arguments.repetitions):
            enhancer = TimedConLE(stopping="fixed", epochs=arguments.epochs, steps=10**6)
            enhancer.recover_folds(features, logical_labels, splits)
            seconds.append(enhancer.seconds)
        peak = torch.cuda.max_memory_allocated() / 2**30
        rows.append(
            {
                "dataset": name,
                "seconds": min(seconds),
                "spread": max(seconds) / min(seconds) - 1,
                "fold-epochs a second": len(splits) * arguments.epochs / min(seconds),
                "peak GiB": peak,
                "difference to CPU": largest_difference(
                    features, logical_labels, splits[:10], tf32=False
                ),
                "with TF32": largest_difference(features, logical_labels, splits[:10], tf32=True),
            }
        )
        print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(table.to_string(index=False))
    print(f"all datasets: {table['seconds'].sum():.1f} s")
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
