import pandas as pd
import pytest

from conle.methods.registry import POSTERIORS
from conle.reporting.posterior import (
    contribution_table,
    examination_table,
    mean_contributions,
)


def test_examination():
    stacking = {
        "dataset": "A",
        "weights": {"conle_posterior": 0.25, "posterior_pca": 0.75},
        "log_score": {"conle_posterior": -2.0, "posterior_pca": -1.0},
    }
    diagnostics = pd.DataFrame(
        {
            "r_hat": [1.0, 1.1, 1.3],
            "bulk_ess": [100.0, 50.0, 10.0],
            "tail_ess": [90.0, 40.0, 20.0],
        }
    )
    coverage = pd.DataFrame(
        {
            "true": [0.1, 0.2, 0.3, 0.4],
            "low": [0.1, 0.3, 0.2, 0.0],
            "high": [0.2, 0.4, 0.4, 0.4],
            "logical": [1, 1, 0, 0],
        }
    )
    cells = {("A", "conle_posterior"): diagnostics, ("A", "posterior_pca"): diagnostics}
    cells |= {("B", "conle_posterior"): diagnostics, ("C", "conle_posterior"): None}
    cells |= {("D", "conle_posterior"): diagnostics}
    coverages = dict.fromkeys(cells, coverage)
    failed = {"weights": None, "log_score": {}, "failure": "posterior_pca has no probabilities"}
    table = examination_table(
        {"A": stacking, "B": None, "C": stacking, "D": failed}, cells, coverages
    )
    # B has no weights, C has no draws, and the stacking of D has failed.
    assert table[["dataset", "method", "log_score", "weight"]].to_numpy().tolist() == [
        ["A", "conle_posterior", -2.0, 0.25],
        ["A", "posterior_pca", -1.0, 0.75],
    ]
    row = table.iloc[0]
    assert row["r_hat_median":"tail_ess_median"].tolist() == [1.1, 1.3, 50.0, 40.0]
    # The limits count as inside; .2 is below its interval.
    assert row["covered":"covered_irrelevant"].tolist() == [0.75, 0.5, 1.0]
    assert row["interval_width"] == pytest.approx((0.1 + 0.1 + 0.2 + 0.4) / 4)


def recovery(kl):
    return pd.DataFrame(
        [
            (dataset, method, measure, value, 0.03 if method == "conle" else None)
            for dataset, values in kl.items()
            for method, value in values.items()
            for measure in ("kl_divergence", "clark")
        ],
        columns=["dataset", "method", "measure", "mean", "published"],
    )


def test_contributions_of_features():
    names = ("conle", "label_posterior", "posterior_featureless", "posterior_pca")
    full = dict(zip((*names, "conle_posterior"), (0.05, 0.04, 0.02, 0.01, 0.016), strict=True))
    other = dict(zip((*names, "conle_posterior"), (0.05, 0.04, 0.02, 0.02, 0.025), strict=True))
    partial = {"conle": 0.1, "posterior_pca": 0.1}
    table = contribution_table(recovery({"B": full, "A": other, "C": partial}))
    assert table["dataset"].tolist() == ["B", "A"]
    assert table.loc[0, "published"] == 0.03
    assert table.loc[0, "label_posterior"] == 0.04
    assert table["lower_with_posterior_pca"].tolist() == pytest.approx([0.5, 0.0])
    assert table["lower_with_conle_posterior"].tolist() == pytest.approx([0.2, -0.25])
    means = mean_contributions(table)
    assert means["posterior_pca"] == pytest.approx(1 - 0.5**0.5)
    assert means["conle_posterior"] == pytest.approx(0.0)
    assert set(means) == set(POSTERIORS) - {"posterior_featureless"}


def test_nothing_recovered():
    empty = recovery({})
    assert contribution_table(empty).empty
    assert mean_contributions(contribution_table(empty)) == {}
