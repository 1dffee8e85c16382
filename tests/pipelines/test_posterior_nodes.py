import numpy as np
import pandas as pd
import pytest
from cells_for_tests import cell_of, parameters_with
from sklearn.model_selection import KFold

from conle.core.binarisation import binarise
from conle.methods.posterior.variants import PosteriorPCA
from conle.methods.registry import POSTERIORS
from conle.pipelines.posterior.nodes import (
    average_recovered,
    compare_intervals,
    draw_held_out,
    stack_posteriors,
)
from conle.pipelines.posterior.pipeline import create_pipeline

SHORT = {"sweeps": 40, "burn_in": 15}


@pytest.fixture
def tables():
    """Three features, and logical labels that depend on them."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 3))
    u = features @ generator.normal(size=(3, 4)) + 0.1 * generator.normal(size=(200, 4))
    labels = binarise(np.exp(u) / np.exp(u).sum(axis=1, keepdims=True))
    return pd.DataFrame(features), pd.DataFrame(labels, columns=list("abcd"))


def draw(features, labels, method="posterior_pca", **more):
    cell = cell_of(method, {**SHORT, **more}, degree_floors={"Other": 1.0})
    return draw_held_out(features, labels, cell=cell)


def stack(features, labels, **more):
    probabilities = [draw(features, labels, method, **more)[3] for method in POSTERIORS]
    return stack_posteriors(*probabilities, dataset="Toy")


def test_features_have_weight_where_they_decide_the_labels(tables):
    stacking = stack(*tables)
    scores, weights = stacking["log_score"], stacking["weights"]
    assert set(scores) == set(weights) == set(POSTERIORS)
    assert sum(weights.values()) == pytest.approx(1)
    assert scores["posterior_pca"] > scores["posterior_featureless"] + 0.2
    assert weights["posterior_pca"] > 0.5
    assert weights["posterior_featureless"] < 0.1


@pytest.mark.filterwarnings("ignore:.* the logical labels hardly say how far")
def test_nothing_is_stacked_without_a_threshold_model(tables, caplog):
    stacking = stack(*tables, threshold_model=False)
    failure = stacking["failure"]
    assert failure.startswith("conle_posterior has no probabilities of held-out logical labels")
    assert stacking == {"dataset": "Toy", "weights": None, "log_score": {}, "failure": failure}
    assert f"Toy has no stacked posterior: {failure}" in caplog.text
    recovered = pd.DataFrame({"sample": [1], "a": [0.5]})
    table, cost = average_recovered(stacking, *[recovered, {"seconds": 1.0}] * 3)
    assert table.empty
    assert list(table) == ["sample", "a"]
    assert cost == {"failure": f"nothing was stacked: {failure}"}


def test_recoveries_are_averaged_by_weight():
    keys = {"protocol": "cross_validation", "fitted_on": "training_folds", "repeat": 1, "fold": 1}
    tables = [pd.DataFrame([{**keys, "sample": 3, "a": a, "b": 1 - a}]) for a in (0.1, 0.5, 0.9)]
    costs = [
        {"seconds": s, "memory_before_mib": 10.0 * s, "peak_memory_mib": 20.0 * s}
        for s in (1.0, 2.0, 3.0)
    ]
    outputs = [part for own in zip(tables, costs, strict=True) for part in own]
    weights = dict(zip(POSTERIORS, (0.5, 0.25, 0.25), strict=True))
    # A decoder may recover nothing after it has drawn held-out samples.
    failed = [*outputs[:4], tables[2][:0], {"failure": "the training diverged"}]
    rows, failure = average_recovered({"weights": weights}, *failed)
    assert rows.empty
    assert failure == {"failure": "nothing was stacked: the training diverged"}
    mean, cost = average_recovered({"weights": weights}, *outputs)
    assert mean[["a", "b"]].to_numpy().tolist() == [pytest.approx([0.4, 0.6])]
    assert mean["sample"].tolist() == [3]
    assert cost == {"seconds": 6.0, "memory_before_mib": 10.0, "peak_memory_mib": 60.0}


@pytest.mark.parametrize("floor", [0.0, 1.0])
def test_held_out_draws(tables, floor):
    features, labels = tables
    cell = cell_of("posterior_pca", SHORT, degree_floors={"Toy": floor})
    diagnostics, intervals, draws, probabilities, cost = draw_held_out(features, labels, cell=cell)
    assert set(cost) == {"seconds", "peak_memory_mib", "memory_before_mib"}
    # Every sample is held out once.
    assert sorted(intervals["sample"]) == list(np.repeat(range(200), 4))
    assert len(diagnostics) == 800
    assert (diagnostics["r_hat"] > 0.9).all()
    # Four chains of 25 draws; antithetic ones are worth a little more.
    assert diagnostics["bulk_ess"].between(1, 300).all()
    assert (intervals["low"] < intervals["mean"]).all()
    assert (intervals["mean"] < intervals["high"]).all()
    own = intervals.pivot(index="sample", columns="label", values="logical")
    np.testing.assert_array_equal(own.to_numpy(), labels.to_numpy())
    few = draws.groupby("sample", sort=False)
    _, first = next(KFold(5, shuffle=True, random_state=0).split(features))
    assert draws["sample"].unique().tolist() == first[:3].tolist()
    assert (few.size() == 100).all()
    # The mean of a sample is four fifths its draws', which give back L, and one the labels'.
    decoder = PosteriorPCA(degree_floor=floor, device="cpu", **SHORT)
    training = np.setdiff1d(np.arange(200), first)
    decoder.fit(features.loc[training], labels.loc[training])
    by_labels = decoder.label_posterior_.transform(labels.loc[first], labels.loc[first])
    for number, (sample, own) in enumerate(few):
        degrees = own[list("abcd")].to_numpy()
        interval = intervals[intervals["sample"] == sample]
        expected = 0.8 * degrees.mean(axis=0) + 0.2 * by_labels.to_numpy()[number]
        np.testing.assert_allclose(interval["mean"], expected, atol=0.02)
        np.testing.assert_array_equal(binarise(degrees), np.tile(labels.loc[sample], (100, 1)))
    probabilities = probabilities.set_index("sample")
    assert list(probabilities) == ["count", *"abcd"]
    predicted = decoder.label_probabilities(features.loc[first], labels.loc[first])
    np.testing.assert_allclose(probabilities.loc[first], predicted)


def test_chains_that_start_apart_with_a_floor_do_not_meet(tables):
    """With a floor, the sampler hardly forgets its start level, as `start_level` documents."""
    medians = [
        draw_held_out(*tables, cell=cell_of("posterior_pca", SHORT, degree_floors={"Toy": floor}))[
            0
        ]["r_hat"].median()
        for floor in (0.0, 1.0)
    ]
    assert medians[1] > medians[0]


def test_held_out_draws_that_fail_have_no_rows(tables):
    features, labels = tables
    made = draw(features, labels)
    impossible = labels.assign(**dict.fromkeys("abcd", 1))
    *empty, cost = draw(features, impossible)
    for table, own in zip(made[:4], empty, strict=True):
        assert own.empty
        assert set(own) == set(table)
    assert cost["failure"].startswith("no distribution")
    beside = compare_intervals(empty[1], labels, dataset="Toy", method="posterior_pca")
    assert beside.empty
    full = compare_intervals(made[1], labels, dataset="Toy", method="posterior_pca")
    assert list(beside) == list(full)


def test_intervals_beside_true_degrees():
    intervals = pd.DataFrame(
        {"sample": [4, 4, 1, 1], "label": list("abab"), "low": 0.1, "high": 0.5, "mean": 0.3}
    )
    true = pd.DataFrame({"a": [0.0, 0.2, 0.9, 0.3, 0.7], "b": [1.0, 0.8, 0.1, 0.7, 0.3]})
    beside = compare_intervals(intervals, true, dataset="Toy", method="posterior_pca")
    assert beside["true"].tolist() == [0.7, 0.3, 0.2, 0.8]
    assert set(beside["dataset"]) == {"Toy"}


def test_without_a_declared_floor_nothing_is_recovered_twice():
    parameters = parameters_with(degree_floors={"Rated": 1.0})
    nodes = {node.name: node for node in create_pipeline(["Toy", "Rated"], parameters).nodes}
    kinds = {
        dataset: next(
            kind
            for kind in ("recover", "identity")
            if f"{dataset}.conle_posterior_no_floor.{kind}" in nodes
        )
        for dataset in ("Toy", "Rated")
    }
    assert kinds == {"Toy": "identity", "Rated": "recover"}
