import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from conle.methods.registry import TITLES
from conle.reporting.grids import limit_grid
from conle.reporting.leaderboard import (
    SIX,
    gain_sentence,
    lead_sentence,
    leader_sentence,
    leaderboard,
    paired_difference,
    verdicts,
)
from conle.reporting.tables import limit_table, rank_table, recovery_table

NO_RANKS = pd.DataFrame(columns=["method", "measure", "average_rank"])
NOTHING_PUBLISHED = pd.DataFrame(
    columns=["dataset", "method", "measure", "compared_with", "published", "difference", "suspect"]
)
METHODS = ("conle", "lp", "label_posterior", "limit")


def board_of(values, folds=10):
    """The leaderboard of means by dataset and method, the same in every measure."""
    rows = [
        (dataset, method, "training_folds", measure, mean, 0.01, 10)
        for (dataset, method), mean in values.items()
        for measure in SIX
    ]
    columns = ["dataset", "method", "fitted_on", "measure", "mean", "std", "folds"]
    summary = pd.DataFrame(rows, columns=columns)
    recovery = recovery_table(summary, NOTHING_PUBLISHED, METHODS)
    return leaderboard(recovery, rank_table(recovery, NO_RANKS), folds)


def test_the_limit_is_apart():
    values = {
        ("A", "lp"): 0.2,
        ("A", "label_posterior"): 0.3,
        ("A", "limit"): 0.1,
        ("B", "lp"): 0.8,
        ("B", "label_posterior"): 0.9,
        ("B", "limit"): 0.1,
    }
    board = board_of(values).set_index("method")
    assert list(board.index) == ["lp", "label_posterior", "limit"]
    # There are two ranks, although the limit has the lowest means.
    assert board["average_rank"].tolist()[:2] == pytest.approx([4 / 3, 5 / 3])
    assert pd.isna(board.loc["limit", "average_rank"])
    assert pd.isna(board.loc["limit", "better_than_label_posterior"])
    assert board["multiple_of_limit"].tolist() == pytest.approx([4, 27**0.5, 1])
    assert leader_sentence(board.reset_index()).startswith("LP has the best average rank, 1.33")
    # A limit of some datasets is not compared.
    del values["B", "limit"]
    board = board_of(values)
    assert list(board["method"]) == ["lp", "label_posterior"]
    assert board["multiple_of_limit"].isna().all()


def test_kl_as_a_multiple_of_the_limit():
    rows = [
        ("B", "lp", 0.2),
        ("B", "limit", 0.1),
        ("A", "lp", 0.3),
        ("A", "conle", 0.6),
        ("A", "limit", 0.2),
        ("C", "lp", 0.3),
    ]
    recovery = pd.DataFrame(rows, columns=["dataset", "method", "mean"])
    table = limit_table(recovery.assign(measure="kl_divergence"))
    assert list(table.columns) == ["dataset", "limit", "lp", "conle"]
    # A dataset without the limit has no row.
    assert table["dataset"].tolist() == ["B", "A"]
    np.testing.assert_allclose(table["limit"], [0.1, 0.2])
    np.testing.assert_allclose(table[["lp", "conle"]], [[2, np.nan], [1.5, 3]])
    shown = limit_grid(table)
    assert shown.headings == ["dataset", TITLES["limit"], "LP", "ConLE"]
    assert [entry.text for entry in shown.rows[0]] == ["B", "0.1000", "2.00", "–"]
    assert [entry.best for entry in shown.rows[1]] == [False, False, True, False]
    assert limit_table(recovery[recovery["method"] == "lp"].assign(measure="clark")).empty


def test_one_row_per_method_with_means_over_the_datasets():
    board = board_of(
        {
            ("A", "lp"): 0.1,
            ("A", "conle"): 0.3,
            ("A", "label_posterior"): 0.2,
            ("Mine", "lp"): 0.2,
            ("Mine", "conle"): 0.1,
            ("Mine", "label_posterior"): 0.4,
        }
    ).set_index("method")
    # Cosine and intersection are better when they are larger, the four others when smaller.
    assert list(board.index) == ["lp", "conle", "label_posterior"]
    assert board["datasets"].tolist() == [2, 2, 2]
    assert board.loc["lp", "average_rank"] == pytest.approx((4 * 1 + 2 * 3 + 4 * 2 + 2 * 2) / 12)
    assert board["kl_divergence"].tolist() == pytest.approx([0.15, 0.2, 0.3])
    # Two datasets with the same error, of ten folds that share samples.
    error = 0.01 * np.sqrt(1 / 10 + 1 / 9)
    assert board["clark_error"].tolist() == pytest.approx([error / np.sqrt(2)] * 3)
    assert board.loc["lp", "better_than_label_posterior"] == 8
    assert board.loc["conle", "better_than_label_posterior"] == 2 + 4
    assert board["means"].tolist()[:2] == [12, 12]
    assert pd.isna(board.loc["label_posterior", "better_than_label_posterior"])


def test_the_leader_in_a_sentence():
    board = board_of({("A", "lp"): 0.1, ("A", "conle"): 0.3})
    assert leader_sentence(board) == (
        "LP has the best average rank, 1.33, of 2 methods over 1 dataset; next is ConLE, 1.67."
    )
    assert board["means"].isna().all()
    alone = board_of({("A", "conle"): 0.1, ("A", "label_posterior"): 0.2})
    assert leader_sentence(alone) == (
        "ConLE has the best average rank, 1.33, of 1 method over 1 dataset. The label posterior, a "
        "reference without features, has 1.67."
    )
    assert leader_sentence(board_of({})) is None


def results_of(values):
    rows = [
        ("A", method, 1, fold, "kl_divergence", value)
        for method, own in values.items()
        for fold, value in enumerate(own, 1)
    ]
    return pd.DataFrame(rows, columns=["dataset", "method", "repeat", "fold", "measure", "value"])


def test_the_interval_is_that_of_the_corrected_t_test():
    differences = pd.Series([0.1, 0.2, 0.3, 0.2])
    mean, low, high = paired_difference(differences, folds=4)
    width = t.ppf(0.975, 3) * differences.std() * np.sqrt(1 / 4 + 1 / 3)
    assert (mean, low, high) == pytest.approx((0.2, 0.2 - width, 0.2 + width))
    assert np.isnan(paired_difference(differences[:1], folds=4)[1])
    # With five methods, each end of the interval is wrong in half a percent of all cases.
    _, low, _ = paired_difference(differences, folds=4, methods=5)
    assert low == pytest.approx(0.2 - width * t.ppf(0.995, 3) / t.ppf(0.975, 3))


def test_the_gain_is_that_of_the_best_of_several_methods():
    values = {
        "lp": [0.1, 0.1, 0.1, 0.1],
        "km": [0.3, 0.2, 0.2, 0.3],
        "glle": [0.4, 0.4, 0.4, 0.4],
        "label_posterior": [0.5, 0.7, 0.6, 0.7],
    }
    row = verdicts(results_of(values), folds=4).to_dict("records")[0]
    gains = pd.Series([0.4, 0.6, 0.5, 0.6])
    assert (row["gain_over_label_posterior"], row["gain_low"], row["gain_high"]) == pytest.approx(
        paired_difference(gains, folds=4, methods=3)
    )


def test_who_is_best_by_how_much_and_whether_features_help():
    # LP varies more than its lead over KM; the references are no methods.
    table = verdicts(
        results_of(
            {
                "lp": [0.1, 0.3, 0.1, 0.3],
                "km": [0.3, 0.2, 0.2, 0.3],
                "label_posterior": [0.5, 0.7, 0.5, 0.7],
                "posterior_stacked": [0.0] * 4,
                "uniform": [0.0] * 4,
            }
        ),
        folds=4,
    )
    row = table.to_dict("records")[0]
    assert (row["best"], row["runner_up"]) == ("lp", "km")
    assert row["lead"] == pytest.approx(0.05)
    assert row["lead_low"] < 0 < row["lead_high"]
    assert lead_sentence(row) == (
        "LP is best by KL (0.2000), 0.0500 (20 %) below KM, not certain (95 % interval "
        f"{row['lead_low']:.4f} to {row['lead_high']:.4f})."
    )
    assert gain_sentence(row) == (
        "Features help: KL is 0.4000 below the label posterior's, certain (95 % interval 0.4000 to "
        "0.4000)."
    )


def test_a_method_that_is_worse_than_the_label_posterior():
    table = verdicts(results_of({"lp": [0.3, 0.4], "label_posterior": [0.1, 0.2]}), folds=2)
    row = table.to_dict("records")[0]
    assert lead_sentence(row) == "LP is best by KL (0.3500); no other method was recovered."
    assert gain_sentence(row) == (
        "It is not shown that features help: KL is 0.2000 above the label posterior's, certain "
        "(95 % interval 0.2000 to 0.2000)."
    )


def test_small_differences_keep_two_digits():
    table = verdicts(results_of({"lp": [0.3, 0.3], "km": [0.3, 0.300_09]}), folds=2)
    row = table.to_dict("records")[0]
    assert "0.000045 (0 %) below KM, not certain (95 % interval -0.00095 to 0.0010)" in (
        lead_sentence(row)
    )


def test_a_single_fold_has_no_interval():
    table = verdicts(results_of({"lp": [0.2], "km": [0.3]}), folds=2)
    row = table.to_dict("records")[0]
    assert lead_sentence(row).endswith("0.1000 (33 %) below KM, from a single fold.")
    assert gain_sentence(row) == (
        "The label posterior, which shows whether features help, is missing."
    )
    assert verdicts(results_of({}), folds=2).empty
    assert verdicts(results_of({"uniform": [0.1]}), folds=2).empty
