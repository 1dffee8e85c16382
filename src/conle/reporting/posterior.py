"""Tables of the posterior decoders: weights, convergence, coverage and the use of features."""

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
    "log_score",
    "weight",
    "r_hat_median",
    "r_hat_largest",
    "bulk_ess_median",
    "tail_ess_median",
    "covered",
    "covered_relevant",
    "covered_irrelevant",
    "interval_width",
]


def examination_table(
    stackings: Mapping[str, Mapping[str, Any] | None],
    diagnostics: Mapping[tuple[str, str], pd.DataFrame | None],
    coverages: Mapping[tuple[str, str], pd.DataFrame | None],
) -> pd.DataFrame:
    """Score on held-out logical labels, convergence, and coverage of the intervals.

    Args:
        stackings: by dataset; log_score and weights by decoder (None where the stacking failed).
        diagnostics: by dataset and decoder; columns r_hat, bulk_ess and tail_ess.
        coverages: by dataset and decoder; columns low, high, true and logical.

    Returns:
        Columns dataset, method, log_score (of held-out logical labels), weight (in the stacked
        posterior), r_hat_median and r_hat_largest over the degrees, bulk_ess_median and
        tail_ess_median, covered (share of the true degrees in their 90 % intervals, all, of
        relevant and of irrelevant labels) and interval_width. Cells that no run has made, or that
        have failed, have no row.
    """
    rows = []
    for (dataset, method), own in diagnostics.items():
        coverage, stacking = coverages[dataset, method], stackings[dataset]
        if any(table is None or table.empty for table in (own, coverage)):
            continue
        if stacking is None or not stacking["weights"]:
            continue
        inside = (coverage["low"] <= coverage["true"]) & (coverage["true"] <= coverage["high"])
        rows.append(
            (
                dataset,
                method,
                stacking["log_score"][method],
                stacking["weights"][method],
                own["r_hat"].median(),
                own["r_hat"].max(),
                own["bulk_ess"].median(),
                own["tail_ess"].median(),
                inside.mean(),
                inside[coverage["logical"] == 1].mean(),
                inside[coverage["logical"] == 0].mean(),
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
