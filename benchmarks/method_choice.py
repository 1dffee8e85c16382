"""How well the choice of a method on logical labels alone agrees with the true distributions.

    python benchmarks/method_choice.py --data FOLDER [--datasets SJAFFE Movie] [--rows 700]
    python benchmarks/method_choice.py

Compares the candidates of `--pipeline=enhance` as it does (`conle.core.selection.compare`), on a
sample of each dataset's rows, and recovers these rows with each candidate. The true distributions
judge the choice afterwards. Printed, a line per dataset: Spearman's correlation of the KL to the
featureless posterior, of the log likelihood and of the average precision (the latter two negative)
with KL(true || recovered); the place of the chosen candidate by KL; and its KL as a multiple of the
least, beside that of the candidate with the largest log likelihood and that of the uniform
distribution; the geometric means of the multiples follow. Without a folder, the datasets are those
that `adaptive_conle.py` simulates, with a mean for each way of making labels. All candidates are
written to benchmarks/method_choice.csv.
"""

import argparse
import warnings
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import yaml
from adaptive_conle import LABELS, SAMPLES, SPREADS, WAYS, simulate
from rich.progress import track
from scipy.io import loadmat
from scipy.stats import gmean

from conle.core.binarisation import binarise
from conle.core.measures import kl_divergence
from conle.core.selection import compare
from conle.methods.contract import NotApplicableError
from conle.methods.registry import make_enhancer

CONFIGURED = Path(__file__).parents[1] / "conf" / "base" / "parameters_enhance.yml"


def candidates():
    """Unfitted enhancers by name, as configured."""
    configured = yaml.safe_load(CONFIGURED.read_text())["enhance"]["candidates"]
    found = {}
    for own in configured:
        settings = {"method": own} if isinstance(own, str) else dict(own)
        method = settings.pop("method")
        name = " ".join([method, *(f"{key}={value}" for key, value in settings.items())])
        found[name] = make_enhancer(method, settings)
    return found


def judged(dataset, X, D, L):
    """The comparison of the candidates on a dataset, with the KL of each."""
    table = compare(X, L, candidates())
    kl = {}
    for name, enhancer in candidates().items():
        # Its note in the comparison says why a candidate cannot be used with these labels.
        with suppress(NotApplicableError):
            kl[name] = kl_divergence(D, enhancer.fit_transform(X, L)).mean()
    return table.assign(dataset=dataset, kl=table["candidate"].map(kl)).dropna(subset="kl")


def loaded(path, rows):
    """Features, true distributions and logical labels of a sample of a dataset's rows."""
    variables = loadmat(path)
    X, D = variables["features"].astype(float), variables["labels"].astype(float)
    sample = np.sort(np.random.default_rng(0).permutation(len(X))[:rows])
    X, D = X[sample], D[sample]
    return X, D / D.sum(axis=1, keepdims=True), binarise(D).astype(float)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of the .mat files")
    parser.add_argument("--datasets", nargs="+", help="names; all files by default")
    parser.add_argument("--rows", type=int, default=700, help="largest number of rows")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    # A comparison has the warnings of its candidates in its table.
    warnings.simplefilter("ignore", UserWarning)
    if arguments.data is None:
        datasets = {
            f"{way}, spread {spread}, {labels} labels": partial(
                simulate, labels, spread, SAMPLES, way, seed
            )
            for seed, (way, spread, labels) in enumerate(product(WAYS, SPREADS, LABELS))
        }
    else:
        datasets = {
            path.stem: partial(loaded, path, arguments.rows)
            for path in sorted(arguments.data.glob("*.mat"))
            if not arguments.datasets or path.stem in arguments.datasets
        }
    tables = [judged(name, *load()) for name, load in track(datasets.items())]
    lines = []
    for own in tables:
        compared = own.dropna(subset="log_likelihood")
        place = compared["kl"].rank()[compared["chosen"]].item()
        multiples = compared["kl"] / compared["kl"].min()
        correlation = partial(compared["kl"].corr, method="spearman")
        lines.append(
            {
                "dataset": own["dataset"].iloc[0],
                "rows": own["rows"].iloc[0],
                "spearman_posterior": correlation(compared["kl_to_featureless"]),
                "spearman_log_likelihood": correlation(-compared["log_likelihood"]),
                "spearman_precision": correlation(-compared["average_precision"]),
                "chosen": compared.loc[compared["chosen"], "candidate"].item(),
                "place_by_kl": f"{place:.0f} of {len(compared)}",
                "multiple": multiples[compared["chosen"]].item(),
                "of_log_likelihood": multiples[compared["log_likelihood"].idxmax()],
                "of_uniform": multiples[compared["candidate"] == "uniform"].item(),
                "nearest": compared.loc[compared["kl"].idxmin(), "candidate"],
            }
        )
    pd.concat(tables).to_csv(Path(__file__).with_suffix(".csv"), index=False)
    table = pd.DataFrame(lines)
    print(table.round(2).to_string(index=False))
    way = "all" if arguments.data else table["dataset"].str.partition(",")[0]
    means = table.assign(way=way).groupby("way")
    print(means[["multiple", "of_log_likelihood", "of_uniform"]].agg(gmean).round(2).to_string())


if __name__ == "__main__":
    main()
