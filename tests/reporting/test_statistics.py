import numpy as np
import pandas as pd
import pytest

from conle.reporting import statistics
from conle.reporting.tables import recovery_table

NOTHING = pd.DataFrame(
    columns=["dataset", "method", "compared_with", "published", "difference", "suspect"]
)


def recovery(values, measure="kl_divergence"):
    """Table 3 of means, datasets x (conle, lp, km)."""
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
    # q / sqrt(2) = 2.343 (Demsar's Table 5a), times sqrt(3 4 / (6 4)).
    assert table["critical_difference"].tolist() == pytest.approx([2.343 * 0.5**0.5], abs=1e-3)
    assert table["f_statistic"].tolist() == [np.inf]


def test_friedman_by_hand():
    """Sums of ranks 5, 7 and 12: 12 / (4 3 4) (25 + 49 + 144) - 3 4 4 = 6.5.

    F = 3 6.5 / (4 2 - 6.5).
    """
    table = statistics.friedman_table(recovery([*ALWAYS_IN_ORDER[:3], [0.4, 0.3, 0.7]]))
    assert table["statistic"].tolist() == pytest.approx([6.5])
    assert table["f_statistic"].tolist() == pytest.approx([13.0])


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


def test_the_better_one_is_that_of_the_test():
    """ConLE is better on one dataset by more than LP is on two together, by ranks: 1 + 2 = 3."""
    even = [[0.1, 0.9, 1.0], [0.3, 0.2, 1.0], [0.5, 0.3, 1.0]]
    better = statistics.wilcoxon_table(recovery(even))["better"]
    assert better.isna().tolist() == [True, False, False]
    assert better.tolist()[1:] == ["conle", "lp"]
    three = [*even, [0.1, 0.8, 1.0], [0.5, 0.25, 1.0]]
    # Ranks 5 + 4 for ConLE, which is behind on three of five, and 1 + 2 + 3 for LP.
    assert statistics.wilcoxon_table(recovery(three))["better"].tolist()[0] == "conle"


def test_nemenyi():
    ranks = statistics.nemenyi(recovery(ALWAYS_IN_ORDER))
    mean_ranks, p_values = ranks["kl_divergence"]
    assert mean_ranks.to_dict() == {"ConLE*": 1, "LP*": 2, "KM*": 3}
    # The critical difference of 3 methods on 4 datasets at 5 % is 2.343 sqrt(3 4 / (6 4)) = 1.66.
    assert p_values.loc["ConLE*", "KM*"] < 0.05 < p_values.loc["ConLE*", "LP*"]


def test_too_few_datasets_make_no_test():
    few = recovery(ALWAYS_IN_ORDER[:2])
    assert "there are datasets: 2, methods: 3" in statistics.why_not(few)
    assert statistics.friedman_table(few).empty
    assert statistics.wilcoxon_table(few).empty
    assert statistics.nemenyi(few) == {}


def test_only_datasets_that_all_methods_recovered_count():
    table = recovery(ALWAYS_IN_ORDER)
    table = table[~((table["dataset"] == "D0") & (table["method"] == "km"))]
    assert statistics.friedman_table(table)["datasets"].tolist() == [3]
    assert statistics.left_out(table) == []


def test_a_method_tried_on_one_dataset_does_not_take_the_others_out():
    table = recovery(ALWAYS_IN_ORDER)
    tried = table[(table["method"] == "lp") & (table["dataset"] == "D0")].assign(method="glle")
    table = pd.concat([table, tried])
    assert statistics.friedman_table(table)[["datasets", "methods"]].to_numpy().tolist() == [[4, 3]]
    assert statistics.left_out(table) == ["glle"]
    more = table[table["dataset"] == "D0"].query("method == 'lp'").assign(dataset="E")
    assert statistics.left_out(pd.concat([table, more])) == ["glle"]


def test_what_repeats_another_method_is_not_compared():
    table = recovery(ALWAYS_IN_ORDER)
    names = {"lp": "conle_posterior_no_floor", "km": "posterior_stacked"}
    again = table[table["method"].isin(names)].replace({"method": names})
    assert statistics.left_out(pd.concat([table, again])) == [*names.values()]
    assert statistics.left_out(table[:0]) == []
