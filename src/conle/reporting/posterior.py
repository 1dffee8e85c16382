"""Tables of the posterior decoders: choice, convergence, coverage and the use of features."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from conle.methods.registry import POSTERIORS, REFERENCES

CONTRIBUTION_MEASURE = "kl_divergence"
FEATURELESS = "posterior_featureless"
EXAMINATION_COLUMNS = [
    "dataset",
    "method",
    "log_likelihood",
    "chosen",
    "r_hat_median",
    "r_hat_largest",
    "r_hat_median_levels_apart",
    "r_hat_largest_levels_apart",
    "bulk_ess_median",
    "tail_ess_median",
    "covered",
    "interval_width",
]


def examination_table(
    choices: Mapping[str, Mapping[str, Any] | None],
    diagnostics: Mapping[tuple[str, str], pd.DataFrame | None],
    coverages: Mapping[tuple[str, str], pd.DataFrame | None],
) -> pd.DataFrame:
    """Choice by likelihood, convergence, and coverage of the intervals, for held-out samples.

    Args:
        choices: by dataset; chosen (a decoder, or None where the choice has failed) and
            log_likelihood by decoder.
        diagnostics: by dataset and decoder; columns start_levels, r_hat, bulk_ess and tail_ess.
        coverages: by dataset and decoder; columns low, high and true.

    Returns:
        Columns dataset, method, log_likelihood (of held-out logical labels), chosen ("yes" or
        empty), r_hat_median and r_hat_largest over the degrees for chains that start at one level
        and (`_levels_apart`) at different ones, bulk_ess_median and tail_ess_median for those of
        one level, covered (share of the true degrees in their 90 % intervals) and interval_width.
        Cells that no run has made, or that have failed, have no row.
    """
    rows = []
    for (dataset, method), own in diagnostics.items():
        coverage, choice = coverages[dataset, method], choices[dataset]
        if any(table is None or table.empty for table in (own, coverage)):
            continue
        if choice is None or not choice["chosen"]:
            continue
        one = own[own["start_levels"] == "one"]
        different = own[own["start_levels"] == "different"]
        inside = (coverage["low"] <= coverage["true"]) & (coverage["true"] <= coverage["high"])
        rows.append(
            (
                dataset,
                method,
                choice["log_likelihood"][method],
                "yes" if choice["chosen"] == method else "",
                one["r_hat"].median(),
                one["r_hat"].max(),
                different["r_hat"].median(),
                different["r_hat"].max(),
                one["bulk_ess"].median(),
                one["tail_ess"].median(),
                inside.mean(),
                (coverage["high"] - coverage["low"]).mean(),
            )
        )
    return pd.DataFrame(rows, columns=EXAMINATION_COLUMNS)


def contribution_table(recovery: pd.DataFrame) -> pd.DataFrame:
    """Mean KL of the decoders without features, with principal components and with Z.

    Args:
        recovery: Table 3 in tidy form.

    Returns:
        Columns dataset, published (ConLE's), label_posterior, one per decoder, and
        lower_with_<decoder>: the share by which its KL is below that without features. Only
        datasets that all decoders recovered have a row.
    """
    rows = recovery[recovery["measure"] == CONTRIBUTION_MEASURE]
    means = rows.pivot(index="dataset", columns="method", values="mean")
    published = rows[rows["method"] == "conle"].set_index("dataset")["published"]
    with_features = [name for name in POSTERIORS if name != FEATURELESS]
    columns = [REFERENCES[-1], FEATURELESS, *with_features]
    table = means.reindex(columns=columns).dropna(subset=columns[1:])
    table.insert(0, "published", published.reindex(table.index).astype(float))
    for name in with_features:
        table[f"lower_with_{name}"] = 1 - table[name] / table[FEATURELESS]
    order = [name for name in dict.fromkeys(recovery["dataset"]) if name in table.index]
    return table.loc[order].rename_axis(columns=None).reset_index()


def mean_contributions(contributions: pd.DataFrame) -> dict[str, float]:
    """The share by which the KL of each decoder is below that without features, geometric mean."""
    prefix = "lower_with_"
    return {
        name.removeprefix(prefix): float(1 - np.exp(np.log(1 - contributions[name]).mean()))
        for name in contributions
        if name.startswith(prefix) and len(contributions)
    }
