import numpy as np
import pandas as pd
import pytest
from cells_for_tests import cell_of, parameters_with

from conle.core.binarisation import binarise
from conle.methods.posterior.variants import PosteriorPCA
from conle.methods.registry import CHOSEN, POSTERIORS
from conle.pipelines.posterior.nodes import (
    choose_representation,
    compare_intervals,
    draw_held_out,
    inner_split,
    take_chosen,
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


def choose(features, labels, **more):
    candidates = tuple(
        cell_of(method, {**SHORT, **more}, degree_floors={"Other": 1.0}) for method in POSTERIORS
    )
    chosen = cell_of(POSTERIORS[0], SHORT, name=CHOSEN)
    return choose_representation(features, labels, cell=chosen, candidates=candidates)


def test_features_are_chosen_where_they_decide_the_labels(tables):
    choice = choose(*tables)
    likelihood = choice["log_likelihood"]
    assert set(likelihood) == set(POSTERIORS)
    assert choice["chosen"] == max(likelihood, key=likelihood.get) == "posterior_pca"
    assert likelihood["posterior_pca"] > likelihood["posterior_featureless"] + 0.2
    # Nine tenths in a random order are fitted, the others predicted.
    features, labels = tables
    order = np.random.default_rng(0).permutation(200)
    decoder = PosteriorPCA(device="cpu", **SHORT)
    decoder.fit(features.loc[order[20:]], labels.loc[order[20:]])
    expected = decoder.log_likelihood(features.loc[order[:20]], labels.loc[order[:20]])
    assert likelihood["posterior_pca"] == expected


@pytest.mark.filterwarnings("ignore:.* the logical labels hardly say how far")
def test_nothing_is_chosen_without_a_threshold_model(tables, caplog):
    choice = choose(*tables, threshold_model=False)
    failure = choice["failure"]
    assert failure.startswith("without a threshold model")
    assert choice == {"dataset": "Toy", "chosen": None, "log_likelihood": {}, "failure": failure}
    assert f"Toy posterior_chosen failed, the others go on: {failure}" in caplog.text
    assert "Traceback" not in caplog.text
    recovered = pd.DataFrame({"sample": [1], "a": [0.5]})
    table, cost = take_chosen(choice, *[recovered, {"seconds": 1.0}] * 3)
    assert table.empty
    assert list(table) == ["sample", "a"]
    assert cost == {"failure": f"no representation was chosen: {failure}"}


def test_the_chosen_recovery_is_taken_over():
    outputs = [f"{method} {output}" for method in POSTERIORS for output in ("recovered", "cost")]
    taken = take_chosen({"chosen": "posterior_pca"}, *outputs)
    assert taken == ("posterior_pca recovered", "posterior_pca cost")


def draw(features, labels, floor=0.0):
    cell = cell_of("posterior_pca", SHORT, degree_floors={"Toy": floor})
    return draw_held_out(features, labels, cell=cell)


@pytest.mark.parametrize("floor", [0.0, 1.0])
def test_held_out_draws(tables, floor):
    features, labels = tables
    diagnostics, intervals, draws, cost = draw(features, labels, floor)
    assert set(cost) == {"seconds", "peak_memory_mib", "memory_before_mib"}
    _, held_out = inner_split(200, 0)
    assert len(held_out) == 20
    assert diagnostics.groupby("start_levels").size().to_dict() == {"one": 80, "different": 80}
    assert (diagnostics["r_hat"] > 0.9).all()
    # Four chains of 25 draws; antithetic ones are worth a little more.
    assert diagnostics["bulk_ess"].between(1, 300).all()
    assert intervals["sample"].unique().tolist() == held_out.tolist()
    assert (intervals["low"] < intervals["mean"]).all()
    assert (intervals["mean"] < intervals["high"]).all()
    expected = labels.loc[held_out].to_numpy().ravel()
    np.testing.assert_array_equal(intervals["logical"], expected)
    few = draws.groupby("sample", sort=False)
    assert draws["sample"].unique().tolist() == held_out[:3].tolist()
    assert (few.size() == 100).all()
    # The interval and the mean of a sample summarise its draws, which give back L.
    for sample, own in few:
        degrees = own[list("abcd")].to_numpy()
        interval = intervals[intervals["sample"] == sample]
        np.testing.assert_allclose(degrees.mean(axis=0), interval["mean"])
        np.testing.assert_allclose(np.quantile(degrees, 0.05, axis=0), interval["low"])
        np.testing.assert_array_equal(binarise(degrees), np.tile(labels.loc[sample], (100, 1)))


def test_chains_that_start_apart_with_a_floor_do_not_meet(tables):
    """With a floor, the sampler hardly forgets its start level, as `degree_floor` documents."""
    diagnostics, *_ = draw(*tables, floor=1.0)
    medians = diagnostics.groupby("start_levels")["r_hat"].median()
    assert medians["different"] > medians["one"]


def test_held_out_draws_that_fail_have_no_rows(tables):
    features, labels = tables
    made = draw(features, labels)
    impossible = labels.assign(**dict.fromkeys("abcd", 1))
    *empty, cost = draw(features, impossible)
    for table, own in zip(made[:3], empty, strict=True):
        assert own.empty
        assert list(own) == list(table)
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


def test_a_declared_floor_is_not_recovered_twice():
    parameters = parameters_with(degree_floors={"Rated": 1.0})
    nodes = {node.name: node for node in create_pipeline(["Toy", "Rated"], parameters).nodes}
    kinds = {
        (dataset, method): next(
            kind for kind in ("recover", "identity") if f"{dataset}.{method}.{kind}" in nodes
        )
        for dataset in ("Toy", "Rated")
        for method in ("conle_posterior_floor", "conle_posterior_no_floor")
    }
    assert kinds == {
        ("Toy", "conle_posterior_floor"): "recover",
        ("Toy", "conle_posterior_no_floor"): "identity",
        ("Rated", "conle_posterior_floor"): "identity",
        ("Rated", "conle_posterior_no_floor"): "recover",
    }
