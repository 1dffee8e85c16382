import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import softmax
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_info

from conle.core.binarisation import binarise
from conle.core.learners import SABFGS
from conle.core.measures import kl_divergence
from conle.core.selection import (
    CLASSIFIER,
    NORMALISED_LABELS,
    compare,
    entropies,
    helps,
    log_likelihoods,
    noted,
    pairs_in_order,
)
from conle.methods.contract import DivergenceError, NotApplicableError, TransductiveEnhancer
from conle.methods.lp import LP
from conle.methods.posterior.variants import PosteriorFeatureless
from conle.methods.references import LabelPosterior, SoftmaxLabels, Uniform


class Recovers(TransductiveEnhancer):
    """Recovers rows of a known table, which its features name by number."""

    table: object = None

    def _fit_transform(self, features, logical_labels):
        return self.table[features[:, 0].astype(int)]


class Fails(TransductiveEnhancer):
    """Raises an error."""

    error: object = None

    def _fit_transform(self, features, logical_labels):
        raise self.error


def made(rows=90, noise=3.0):
    """Features, distributions that are a softmax of them, and their logical labels."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(rows, 6))
    X = np.column_stack([np.arange(rows), X])
    D = softmax(X[:, 1:5] * 0.7, axis=1)
    noisy = softmax(np.log(D) + noise * generator.normal(size=D.shape), axis=1)
    return X, D, binarise(noisy)


def test_the_linear_algebra_of_a_comparison_has_one_thread(two_threads, monkeypatch):
    """Threads of PyTorch are the methods' own business."""
    counted = []

    def fit_transform(self, features, logical_labels):
        blas = {own["num_threads"] for own in threadpool_info() if own["user_api"] == "blas"}
        counted.append((torch.get_num_threads(), blas))
        return logical_labels + 1.0

    monkeypatch.setattr(LP, "_fit_transform", fit_transform)
    X, _, L = made(30)
    compare(X, L, {"own": LP()})
    assert counted
    assert all(own == (2, {1}) for own in counted)
    assert torch.get_num_threads() == 2


def test_the_measures_of_a_candidate():
    X, D, L = made()
    table = compare(X, L, {"own": Recovers(table=D)}).set_index("candidate")
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    expected = np.empty(D.shape)
    all_rows = [(training, np.arange(len(X))) for training, _ in folds]
    of_all = PosteriorFeatureless().recover_folds(X, L, all_rows).recovered
    for (_, test), own in zip(folds, of_all, strict=True):
        expected[test] = own[test]

    def predictions(teachers, l2):
        predicted = np.empty(D.shape)
        for (training, test), own in zip(folds, teachers, strict=True):
            predicted[test] = SABFGS(l2=l2).fit(X[training], own[training]).predict(X[test])
        return predicted

    divergences = {
        l2: kl_divergence(expected, predictions(of_all, l2)).mean() for l2 in (1, 10, 100, 1000)
    }
    l2 = min(divergences, key=divergences.get)
    assert l2 > 1
    predicted = predictions([D] * 3, l2)
    shares = predictions([L / L.sum(axis=1, keepdims=True)] * 3, l2)
    own, base = (
        np.array([np.log(p[r == 1]).mean() for p, r in zip(degrees, L, strict=True)])
        for degrees in (predicted, shares)
    )
    row = table.loc["own"]
    assert row["log_likelihood"] == pytest.approx(own.mean())
    assert table.loc[NORMALISED_LABELS, "log_likelihood"] == pytest.approx(base.mean())
    assert row["lead"] == pytest.approx((own - base).mean())
    # 1 + folds * (test rows / training rows) = 1 + 3 / 2.
    error = np.sqrt(2.5) * (own - base).std(ddof=1) / np.sqrt(90)
    assert row["lead_error"] == pytest.approx(error)
    divergence = kl_divergence(expected, predicted).mean()
    assert row["kl_to_featureless"] == pytest.approx(divergence)
    assert row["kl_error"] == 0
    first = predicted.argmax(axis=1)
    assert row["one_error"] == pytest.approx((L[np.arange(90), first] == 0).mean())
    # Each row is a training row of two folds.
    assert row["entropy"] == pytest.approx(entropies(D).mean())
    assert row["chosen"]
    assert list(table.index) == ["own", NORMALISED_LABELS, CLASSIFIER]
    assert np.isnan(table.loc[CLASSIFIER, "log_likelihood"])
    assert 0 < table.loc[CLASSIFIER, "average_precision"] <= 1


def test_without_a_featureless_posterior_the_label_posterior_stands_for_it():
    """No distribution of four labels binarised at 1/2 makes all of them relevant."""
    X, _, L = made()
    L[:5] = 1
    table = compare(X, L, {"own": LabelPosterior()})
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    fitted = [LabelPosterior().fit(X[training], L[training]) for training, _ in splits]
    expected, predicted = np.empty(L.shape), np.empty((4, *L.shape))
    for (training, test), own in zip(splits, fitted, strict=True):
        expected[test] = own.transform(X[test], L[test])
        teacher = own.transform(X[training], L[training])
        for number, l2 in enumerate((1, 10, 100, 1000)):
            predicted[number][test] = SABFGS(l2=l2).fit(X[training], teacher).predict(X[test])
    # The candidate recovers what decides the penalty.
    least = min(kl_divergence(expected, own).mean() for own in predicted)
    assert table["kl_to_featureless"][0] == pytest.approx(least)


def test_the_true_distributions_help_where_labels_are_noisy():
    X, D, L = made(400, noise=2)
    table = compare(X, L, {"uniform": Uniform(), "true": Recovers(table=D), "again": Uniform()})
    assert helps(table)
    assert table["lead"].idxmax() == 1


def test_the_true_distributions_are_chosen():
    X, D, L = made(noise=0)
    table = compare(X, L, {"uniform": Uniform(), "true": Recovers(table=D), "again": Uniform()})
    assert table.loc[table["chosen"], "candidate"].item() == "true"


def test_nothing_helps_where_the_labels_say_everything():
    X, _, _ = made()
    L = (np.arange(4) == X[:, 1:5].argmax(axis=1)[:, None]).astype(int)
    assert not helps(compare(X, L, {"uniform": Uniform(), "softmax": SoftmaxLabels()}))


def test_the_flattest_of_the_candidates_within_the_standard_error_is_chosen():
    X, D, L = made(300, noise=0)
    powers = {"true": D, "flat": D**0.9, "flatter": D**0.5}
    candidates = {
        name: Recovers(table=table / table.sum(axis=1, keepdims=True))
        for name, table in powers.items()
    }
    table = compare(X, L, {"uniform": Uniform(), **candidates}).set_index("candidate")
    excess = table["kl_to_featureless"] - table["kl_to_featureless"]["flat"]
    is_equal = excess <= table["kl_error"]
    assert is_equal[["uniform", "true", "flat", "flatter"]].tolist() == [False, False, True, True]
    assert table["chosen"]["flatter"]


def test_the_threshold_of_the_featureless_posterior():
    X, D, L = made()
    candidates = {"true": Recovers(table=D)}
    half, less = (compare(X, L, candidates, threshold=own) for own in (0.5, 0.3))
    assert half["kl_to_featureless"][0] != less["kl_to_featureless"][0]


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        (["", "why", ""], [["why", "b"]]),
        (["", "", ""], []),
        (["why", "how", "why"], [["why", "a, c"], ["how", "b"]]),
    ],
)
def test_each_note_is_there_once_also_of_a_comparison_in_a_file(tmp_path, notes, expected):
    table = pd.DataFrame({"candidate": ["a", "b", "c"], "note": notes})
    table.to_csv(tmp_path / "table.csv", index=False)
    for own in (table, pd.read_csv(tmp_path / "table.csv")):
        assert noted(own)[["note", "candidate"]].to_numpy().tolist() == expected


def test_of_equal_candidates_the_first_is_chosen():
    X, _, L = made()
    table = compare(X, L, {"one": SoftmaxLabels(), "two": SoftmaxLabels()})
    assert table["chosen"].tolist() == [True, False, False, False]
    assert table["lead"][0] == table["lead"][1]


def test_candidates_that_fail_have_a_row_with_the_reason(caplog):
    X, _, L = made()
    errors = {
        "labels": NotApplicableError("not these labels"),
        "training": DivergenceError("it diverged"),
        "fault": RuntimeError("a fault"),
    }
    candidates = {name: Fails(error=error) for name, error in errors.items()}
    seen = []
    table = compare(
        X, L, {**candidates, "uniform": Uniform()}, on_progress=lambda *own: seen.append(own)
    )
    assert table["note"].tolist()[:4] == [
        "not these labels",
        "it diverged",
        "RuntimeError: a fault",
        "",
    ]
    assert table["lead"].isna().tolist() == [True, True, True, False, True, True]
    assert table["chosen"].tolist() == [False, False, False, True, False, False]
    # Only a fault has a traceback in the log.
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert seen == [(0, 4, "labels"), (1, 4, "training"), (2, 4, "fault"), (3, 4, "uniform")]
    with pytest.raises(NotApplicableError, match="no method can be compared here: labels: not"):
        compare(X, L, candidates)


def test_a_large_table_is_compared_on_a_sample():
    X, _, L = made()
    candidates = {"softmax": SoftmaxLabels(), "lp": LP()}
    table = compare(X, L, candidates, rows=60, seed=1)
    # A transductive method would have to recover all rows.
    assert table["note"][1].startswith("it recovers only the rows that it is fitted to")
    assert table["lead"].isna().tolist() == [False, True, True, True]
    assert set(table["rows"]) == {60}
    assert set(table["all_rows"]) == {90}
    costs = ["seconds"]
    pd.testing.assert_frame_equal(
        table.drop(columns=costs),
        compare(X, L, candidates, rows=60, seed=1).drop(columns=costs),
    )
    other = compare(X, L, candidates, rows=60, seed=2)
    assert other["log_likelihood"][0] != table["log_likelihood"][0]


def test_labels_of_any_kind_are_compared():
    X, _, L = made()
    # Rows without a relevant label, and with all; a label of every row, and one of none.
    L[:5], L[5:9] = 0, 1
    L = np.column_stack([L, np.ones(90), np.zeros(90)])
    L[:5] = 0
    table = compare(X, L, {"softmax": SoftmaxLabels()})
    assert np.isfinite(table["lead"][0])
    assert np.isfinite(table["lead_error"][0])


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [(5, [1, 0], "^5 rows, 5 of them"), (30, [0, 0], "^30 rows, 0 of them with a relevant")],
)
def test_too_little_to_compare(rows, labels, message):
    X = np.random.default_rng(0).normal(size=(rows, 2))
    with pytest.raises(NotApplicableError, match=message):
        compare(X, np.tile(labels, (rows, 1)), {"uniform": Uniform()})


def test_log_likelihoods_of_rows():
    degrees = np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    L = np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]])
    expected = [(np.log(0.5) + np.log(0.25)) / 2, np.log(0.7), np.nan]
    np.testing.assert_allclose(log_likelihoods(degrees, L), expected)


def test_pairs_in_order():
    D = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [1.0, 0.0, 0.0]])
    # The second row has both pairs in the wrong order, the third has none.
    assert pairs_in_order(D, np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]])) == (2, 4)
