import logging
import mmap
import re
import time

import numpy as np
import pandas as pd
import pytest
from cells_for_tests import cell_of, parameters_with

from conle.cells import make_cell
from conle.core.folds import make_folds
from conle.cost import measured_cost
from conle.methods.conle import READINGS
from conle.methods.registry import (
    ABLATIONS,
    BASELINES,
    FLOORS,
    POSTERIORS,
    REFERENCES,
    make_enhancer,
)
from conle.pipelines.recovery.nodes import CURVE_COLUMNS, RECOVERED_COLUMNS, recover
from conle.pipelines.recovery.pipeline import create_pipeline

SHORT = {"steps": 20, "batch_size": 16}


@pytest.fixture
def tables(samples):
    features, logical_labels = samples
    labels = pd.DataFrame(logical_labels.astype("int8"), columns=["a", "b", "c", "d"])
    return pd.DataFrame(features), labels, make_folds(labels, repeats=2, folds=4, seed=0)


def run(tables, hyperparameters, protocol, method):
    cell = cell_of(method, hyperparameters, degree_floors={"Toy": 1.0})
    return recover(*tables, protocol, cell=cell)


def test_recovered_rows_belong_to_their_test_folds(tables):
    features, labels, folds = tables
    recovered, _ = run(tables, {}, "cross_validation", "softmax_labels")
    pd.testing.assert_frame_equal(recovered[["repeat", "fold", "sample"]], folds)
    assert set(recovered["protocol"]) == {"cross_validation"}
    assert set(recovered["fitted_on"]) == {"training_folds"}
    expected = make_enhancer("softmax_labels").fit_transform(features, labels).to_numpy()
    np.testing.assert_array_equal(recovered[["a", "b", "c", "d"]], expected[recovered["sample"]])


def test_cross_validation_fits_to_the_training_rows_of_each_fold(tables):
    features, labels, folds = tables
    recovered, _ = run(tables, {"draws": 200}, "cross_validation", "label_posterior")
    for _, test in folds.groupby(["repeat", "fold"]):
        training = np.setdiff1d(np.arange(60), test["sample"])
        enhancer = make_enhancer("label_posterior", {"draws": 200})
        enhancer.fit(features.loc[training], labels.loc[training])
        expected = enhancer.transform(features.loc[test["sample"]], labels.loc[test["sample"]])
        np.testing.assert_array_equal(recovered.loc[test.index, ["a", "b", "c", "d"]], expected)


def test_transductive_protocol_fits_once_to_all_rows(tables):
    features, labels, folds = tables
    recovered, _, weights, curves = run(tables, SHORT, "transductive", "conle")
    expected = make_enhancer("conle", SHORT, device="cpu").fit_transform(features, labels)
    expected = expected.to_numpy()
    np.testing.assert_allclose(
        recovered[["a", "b", "c", "d"]], expected[folds["sample"]], atol=1e-7
    )
    assert all(len(array) == 1 for array in weights.values())
    assert set(recovered["fitted_on"]) == {"all"}
    assert set(zip(curves["repeat"], curves["fold"], strict=True)) == {(0, 0)}


def test_weights_and_curves_of_every_fold_are_kept(tables):
    _, _, weights, curves = run(tables, SHORT, "cross_validation", "conle")
    assert all(len(array) == 8 for array in weights.values())
    loss = curves[curves["quantity"] == "loss"]
    assert len(loss) == 8 * 20
    assert list(loss["step"][:20]) == list(range(1, 21))
    agreement = curves[curves["quantity"] == "agreement"]
    assert sorted(agreement["step"].unique()) == [10, 20]
    assert agreement["value"].between(0, 1).all()
    folds = tables[2][["repeat", "fold"]].drop_duplicates()
    assert loss[["repeat", "fold"]].drop_duplicates().to_numpy().tolist() == folds.values.tolist()


def test_the_log_says_which_readings_the_folds_keep(tables, caplog):
    with caplog.at_level(logging.INFO):
        _, _, weights, _ = run(tables, SHORT, "cross_validation", "conle_adaptive")
        run(tables, SHORT, "cross_validation", "conle")
    kept = pd.Series([READINGS[number] for number in weights["reading"].ravel()])
    shown = ", ".join(f"{reading} {count}" for reading, count in kept.value_counts().items())
    (line,) = [message for message in caplog.messages if "readings" in message]
    assert line == f"Toy conle_adaptive: kept readings by number of folds: {shown}"
    assert kept.value_counts().sum() == 8


def test_cost_of_the_work():
    # New pages of 64 MiB: an array may lie in memory that the process keeps from earlier work.
    with measured_cost() as cost, mmap.mmap(-1, 64 * 2**20) as block:
        for start in range(0, len(block), mmap.PAGESIZE):
            block[start] = 1
        time.sleep(0.2)
    assert cost["seconds"] >= 0.2
    assert cost["peak_memory_mib"] >= cost["memory_before_mib"] + 50


def test_recovery_says_what_it_cost(tables):
    _, cost = run(tables, {}, "cross_validation", "uniform")
    assert set(cost) == {"seconds", "peak_memory_mib", "memory_before_mib"}


def test_transductive_methods_are_fitted_to_all_rows_in_any_protocol(tables):
    features, labels, folds = tables
    recovered, _ = run(tables, {}, "cross_validation", "lp")
    expected = make_enhancer("lp").fit_transform(features, labels).to_numpy()
    np.testing.assert_array_equal(recovered[["a", "b", "c", "d"]], expected[folds["sample"]])
    assert set(recovered["fitted_on"]) == {"all"}


def test_divergence_is_described_and_has_no_rows(tables, caplog):
    wild = {**SHORT, "reading": "raw", "reduction": "sum", "learning_rate": 1e6}
    recovered, cost, weights, curves = run(tables, wild, "cross_validation", "conle")
    assert set(cost) == {"failure"}
    assert re.fullmatch(r"ConLE diverged: .* not finite at step \d+.*", cost["failure"])
    assert recovered.empty
    assert list(recovered) == [*RECOVERED_COLUMNS, "a", "b", "c", "d"]
    assert weights == {}
    assert curves.empty
    assert list(curves) == CURVE_COLUMNS
    assert f"Toy conle failed, the others go on: {cost['failure']}" in caplog.text
    assert "Traceback" not in caplog.text


def test_overrides_take_precedence(tables):
    cell = make_cell(
        parameters_with(conle=SHORT, device="cpu"),
        "Toy",
        "conle",
        "conle_short",
        {"steps": 10, "stopping": "fixed"},
    )
    _, _, _, curves = recover(*tables, "cross_validation", cell=cell)
    assert curves["step"].max() == 10
    assert "agreement" not in set(curves["quantity"])


def test_a_dataset_has_the_floor_that_it_declares(tables):
    features, labels, _ = tables
    short = {"sweeps": 6, "burn_in": 2}
    recovered, _ = run(tables, short, "transductive", "posterior_featureless")
    expected = make_enhancer(
        "posterior_featureless", {**short, "degree_floor": 1.0}, seed=0, device="cpu"
    )
    rows = np.arange(60)
    expected = expected.recover_folds(features, labels, [(rows, rows)]).recovered[0]
    np.testing.assert_array_equal(recovered[["a", "b", "c", "d"]], expected[recovered["sample"]])


def test_labels_that_the_method_cannot_have_end_in_one_message(tables, caplog):
    features, labels, folds = tables
    labels = labels.copy()
    labels.loc[7] = 1
    recovered, cost = run((features, labels, folds), {}, "cross_validation", "posterior_pca")
    assert recovered.empty
    assert re.match(r"no distribution.*row 7 with 4", cost["failure"])
    assert "Toy posterior_pca failed, the others go on: no distribution" in caplog.text
    assert "Traceback" not in caplog.text


def test_nodes_say_what_they_need_of_a_machine():
    tagged = {"gpu": set(), "memory": set(), None: set()}
    matrices = {"fcm", "km", "lp", "glle", "lesc"}
    methods = ("conle", *ABLATIONS, *POSTERIORS, *FLOORS, *BASELINES, *REFERENCES)
    for node in create_pipeline(map(cell_of, methods)).nodes:
        (resource,) = node.tags & {"gpu", "memory"} or {None}
        tagged[resource].add(node.namespace.split(".")[1])
    assert tagged["gpu"] == {"conle", "levi_mlp", "lible", *ABLATIONS, *POSTERIORS, *FLOORS}
    assert tagged["memory"] == matrices
    assert tagged[None] == {"ml", *REFERENCES}
