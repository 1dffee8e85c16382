import numpy as np
import pandas as pd
import pytest

from conle.reporting import statistics
from conle.reporting.tables import recovery_table

NOTHING = pd.DataFrame(
    columns=["dataset", "method", "measure", "published", "difference", "suspect"]
)


def recovery(values, measure="kl_divergence"):
    """Of a table datasets x (conle, lp, km)."""
    rows = [
        (f"D{number}", method, measure, value)
        for number, row in enumerate(values)
        for method, value in zip(("conle", "lp", "km"), row, strict=True)
    ]
    summary = pd.DataFrame(rows, columns=["dataset", "method", "measure", "mean"])
    summary = summary.assign(std=np.nan, folds=1, fitted_on="all")
    return recovery_table(summary, NOTHING, ("conle", "lp", "km"))


ALWAYS_IN_ORDER = [[0.1, 0.2, 0.3], [0.2, 0.4, 0.9], [0.1, 0.5, 0.6], [0.3, 0.4, 0.7]]


def test_friedman_of_methods_always_in_the_same_order():
    """12 n / (k (k + 1)) times the squared deviations of the mean ranks from 2: 2 n = 8."""
    table = statistics.friedman_table(recovery(ALWAYS_IN_ORDER))
    assert table["statistic"].tolist() == pytest.approx([8.0])
    # The chi-squared distribution with two degrees of freedom is exponential.
    assert table["p_value"].tolist() == pytest.approx([np.exp(-4.0)])
    assert table[["datasets", "methods"]].to_numpy().tolist() == [[4, 3]]


def test_wilcoxon_with_holm():
    """Four differences of one sign: p = 2 / 2^4, times three for the smallest of three, capped."""
    table = statistics.wilcoxon_table(recovery(ALWAYS_IN_ORDER))
    assert table[["method", "other"]].to_numpy().tolist() == [
        ["conle", "lp"],
        ["conle", "km"],
        ["lp", "km"],
    ]
    assert table["p_value"].tolist() == pytest.approx([3 / 8] * 3)
    assert table["better"].tolist() == ["conle", "conle", "lp"]


def test_larger_is_better_is_heeded():
    table = statistics.wilcoxon_table(recovery(ALWAYS_IN_ORDER, "cosine"))
    assert table["better"].tolist() == ["lp", "km", "km"]


def test_nemenyi():
    ranks = statistics.nemenyi(recovery(ALWAYS_IN_ORDER))
    mean_ranks, p_values = ranks["kl_divergence"]
    assert mean_ranks.to_dict() == {"ConLE*": 1, "LP*": 2, "KM*": 3}
    # The critical difference of 3 methods on 4 datasets at 5 % is 2.343 sqrt(3 4 / (6 4)) = 1.66.
    assert p_values.loc["ConLE*", "KM*"] < 0.05 < p_values.loc["ConLE*", "LP*"]


def test_too_few_datasets_make_no_test():
    few = recovery(ALWAYS_IN_ORDER[:2])
    assert "there are 2 and 3" in statistics.why_not(few)
    assert statistics.friedman_table(few).empty
    assert statistics.wilcoxon_table(few).empty
    assert statistics.nemenyi(few) == {}


def test_only_datasets_that_all_methods_recovered_count():
    table = recovery(ALWAYS_IN_ORDER)
    table = table[~((table["dataset"] == "D0") & (table["method"] == "km"))]
    assert statistics.friedman_table(table)["datasets"].tolist() == [3]
