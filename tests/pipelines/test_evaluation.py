import numpy as np
import pandas as pd
import pytest

from conle.errors import DataError
from conle.pipelines.evaluation.nodes import (
    collect_dataset,
    collect_results,
    draw_recovery,
    draw_training_curves,
    score_folds,
)
from conle.reporting.scores import (
    RESULT_COLUMNS,
    collect_scores,
    compare_with_published,
    summarise,
)

TRUE = pd.DataFrame([[0.5, 0.5], [1.0, 0.0], [0.2, 0.8], [0.6, 0.4]], columns=["a", "b"])
CELLS = (("Toy", "uniform"), ("Toy", "conle"))
LOGICAL = pd.DataFrame([[1, 1], [1, 0], [0, 1], [1, 0]], columns=["a", "b"])
RECOVERED = pd.DataFrame(
    {
        "protocol": "cross_validation",
        "fitted_on": "training_folds",
        "repeat": [1, 1, 1, 1],
        "fold": [1, 1, 2, 2],
        "sample": [2, 0, 1, 3],
        "a": [0.4, 0.5, 0.9, 0.2],
        "b": [0.6, 0.5, 0.1, 0.8],
    }
)


def collected(*scores):
    """The results table and its summary, from the scores of `CELLS`."""
    return collect_results(collect_dataset(*scores, cells=CELLS))


def test_folds_are_scored_against_their_own_samples():
    scores = score_folds(TRUE, LOGICAL, RECOVERED, dataset="Toy", method="uniform")
    assert list(scores.columns) == RESULT_COLUMNS
    chebyshev = scores[scores["measure"] == "chebyshev"]
    # Fold 1: samples 2 and 0, differences .2 and 0; fold 2: samples 1 and 3, .1 and .4.
    assert chebyshev["value"].tolist() == pytest.approx([0.1, 0.25])
    assert chebyshev["fold"].tolist() == [1, 2]
    assert set(scores["fitted_on"]) == {"training_folds"}


def test_what_was_fitted_is_taken_from_the_recovery():
    fitted = RECOVERED.assign(protocol="transductive", fitted_on="all")
    scores = score_folds(TRUE, LOGICAL, fitted, dataset="Toy", method="uniform")
    assert set(scores["fitted_on"]) == {"all"}
    assert set(scores["protocol"]) == {"transductive"}


@pytest.mark.parametrize(
    "other",
    [
        {"protocol": "transductive"},
        {"fold": [1, 1, 1, 1]},
        # These scores have the folds of another seed.
        {"sample": [2, 1, 0, 3]},
    ],
)
def test_runs_that_do_not_compare_are_refused(other):
    scores = [
        score_folds(TRUE, LOGICAL, RECOVERED, dataset="Toy", method="uniform"),
        score_folds(TRUE, LOGICAL, RECOVERED.assign(**other), dataset="Toy", method="conle"),
    ]
    with pytest.raises(
        DataError, match="Toy: the catalog holds scores of runs that do not compare"
    ):
        collected(*scores)


def test_scores_on_other_logical_labels_do_not_compare():
    others = LOGICAL.assign(b=1)
    scores = [
        score_folds(TRUE, LOGICAL, RECOVERED, dataset="Toy", method="uniform"),
        score_folds(TRUE, others, RECOVERED, dataset="Toy", method="conle"),
    ]
    with pytest.raises(DataError, match="seed and threshold too"):
        collected(*scores)


def test_cells_without_scores_are_missing_for_a_reason():
    scores = score_folds(TRUE, LOGICAL, RECOVERED, dataset="Toy", method="uniform")
    cells = {("Toy", name): scores[:0] for name in ("conle", "lp", "km")}
    cells |= {("Toy", "uniform"): scores, ("Toy", "fcm"): None}
    results, missing = collect_scores(
        cells, {("Toy", "conle"): {"failure": "too wide"}, ("Toy", "lp"): None}
    )
    pd.testing.assert_frame_equal(results, scores)
    assert missing.to_numpy().tolist() == [
        ["Toy", "conle", "failed: too wide"],
        ["Toy", "lp", "failed: the log says why"],
        ["Toy", "km", "failed: the log says why"],
        ["Toy", "fcm", "no run of this protocol has recovered them"],
    ]


def test_results_without_a_cell_say_so(caplog):
    scores = score_folds(TRUE, LOGICAL, RECOVERED, dataset="Toy", method="uniform")
    results, _ = collected(scores, None)
    assert set(results["method"]) == {"uniform"}
    assert (
        "Not in the results, no run of this protocol has recovered them: Toy: conle" in caplog.text
    )


def test_nothing_recovered_is_an_error():
    scores = score_folds(TRUE, LOGICAL, RECOVERED, dataset="Toy", method="uniform")[:0]
    with pytest.raises(DataError, match="nothing was recovered"):
        collected(scores, None)


def test_summary_is_mean_and_standard_deviation_over_folds():
    scores = [
        score_folds(TRUE, LOGICAL, RECOVERED, dataset="Toy", method=method)
        for method in ("uniform", "conle")
    ]
    results, summary = collected(*scores)
    assert len(results) == 2 * 2 * 7
    pd.testing.assert_frame_equal(summary, summarise(results))
    summary = summary.set_index(["method", "measure"])
    row = summary.loc[("conle", "chebyshev")]
    assert row["mean"] == pytest.approx(0.175)
    assert row["std"] == pytest.approx(np.std([0.1, 0.25], ddof=1))
    assert row["folds"] == 2


def test_summary_of_a_single_fold_has_no_deviation():
    one = RECOVERED.assign(fold=1)
    scores = score_folds(TRUE, LOGICAL, one, dataset="Toy", method="uniform")
    assert summarise(scores)["std"].isna().all()


def test_a_failed_recovery_has_no_scores():
    scores = score_folds(
        TRUE, LOGICAL, RECOVERED[:0], {"failure": "too wide"}, dataset="Toy", method="conle"
    )
    assert list(scores.columns) == RESULT_COLUMNS
    assert scores.empty


def test_datasets_stand_in_the_results_one_after_the_other():
    first, second = (
        score_folds(TRUE, LOGICAL, RECOVERED, dataset=dataset, method="uniform")
        for dataset in ("Toy", "Other")
    )
    results, summary = collect_results(first, second[:0], second)
    assert results["dataset"].tolist() == ["Toy"] * len(first) + ["Other"] * len(second)
    assert results.index.tolist() == list(range(len(results)))
    assert summary["dataset"].unique().tolist() == ["Toy", "Other"]


def test_published_cells_stand_beside_measured_ones():
    """KM's divergences were published reversed; ConLE's are compared as the paper defines them."""
    summary = pd.DataFrame(
        [
            ("SJAFFE", "km", "all", "kl_divergence", 4.0),
            ("SJAFFE", "km", "all", "kl_divergence_reversed", 0.56),
            ("SJAFFE", "km", "all", "cosine", 0.8304),
            ("SJAFFE", "conle", "training_folds", "kl_divergence", 0.0305),
            ("SJAFFE", "conle", "training_folds", "kl_divergence_reversed", 0.0265),
            ("Mine", "km", "all", "cosine", 0.5),
        ],
        columns=["dataset", "method", "fitted_on", "measure", "mean"],
    )
    published = pd.DataFrame(
        [
            ("SJAFFE", "km", "kl_divergence", 0.558, "odd"),
            ("SJAFFE", "km", "cosine", 0.830, None),
            ("SJAFFE", "conle", "kl_divergence", 0.028, None),
            ("SJAFFE", "lp", "cosine", 0.941, None),
        ],
        columns=["dataset", "method", "measure", "value", "suspect"],
    )
    comparison = compare_with_published(summary, published)
    assert comparison["compared_with"].tolist() == [
        "kl_divergence_reversed",
        "cosine",
        "kl_divergence",
    ]
    assert comparison["difference"].tolist() == pytest.approx([0.002, 0.0004, 0.0025])
    assert comparison["at_least_as_good"].tolist() == [False, True, False]
    assert comparison["suspect"].iloc[0] == "odd"
    assert compare_with_published(summary[summary["dataset"] == "Mine"], published).empty


def recovered_table(distributions):
    rows = pd.DataFrame({"repeat": 1, "fold": 1, "sample": np.arange(len(distributions))})
    names = [f"label_{j + 1}" for j in range(distributions.shape[1])]
    return rows.join(pd.DataFrame(distributions, columns=names)).sample(frac=1, random_state=0)


@pytest.mark.parametrize(
    ("features", "axis"), [(1, "feature 1"), (3, "feature 1"), (6, "principal component 1")]
)
def test_three_labels_are_drawn_as_colours(features, axis):
    generator = np.random.default_rng(0)
    true = generator.dirichlet(np.ones(3), size=50)
    figure = draw_recovery(
        pd.DataFrame(generator.normal(size=(50, features))),
        pd.DataFrame(true, columns=["label_1", "label_2", "label_3"]),
        recovered_table(true)[["repeat", "fold", "sample"]],
        recovered_table(true),
        recovered_table(np.full((50, 3), 1 / 3)),
        dataset="Toy",
        methods=("conle", "uniform"),
    )
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["true", "ConLE", "uniform"]
    assert {axes.get_xlabel() for axes in figure.axes} == {axis}
    colours = [axes.collections[0].get_facecolors()[:, :3] for axes in figure.axes]
    stretched = (true - true.min(0)) / (true.max(0) - true.min(0))
    np.testing.assert_allclose(colours[0], stretched)
    # The recovered rows are put back into the order of the samples.
    np.testing.assert_allclose(colours[1], stretched)
    assert len(np.unique(colours[2], axis=0)) == 1


@pytest.mark.parametrize("samples", [1, 3, 50])
def test_other_numbers_of_labels_are_drawn_as_bars(samples):
    true = np.random.default_rng(0).dirichlet(np.ones(5), size=samples)
    figure = draw_recovery(
        pd.DataFrame(np.zeros((samples, 2))),
        pd.DataFrame(true, columns=[f"label_{j}" for j in range(1, 6)]),
        recovered_table(true)[["repeat", "fold", "sample"]],
        recovered_table(true),
        dataset="Toy",
        methods=("conle",),
    )
    heights = [[bar.get_height() for bar in axes.patches[:5]] for axes in figure.axes]
    shown = np.unique(np.linspace(0, samples - 1, 6).astype(int))
    np.testing.assert_allclose(heights, true[shown])


# The agreement is largest in the last check, where the divergence is largest too.
@pytest.mark.parametrize(
    ("checked", "kept"), [("agreement", 20), ("kl_to_featureless", 10), (None, None)]
)
def test_training_curves(checked, kept):
    steps = np.arange(1, 21)
    curves = pd.DataFrame(
        [("loss", 1, fold, step, fold / step) for fold in (1, 2) for step in steps]
        + [(checked, 1, fold, step, step / 40) for fold in (1, 2) for step in (10, 20)]
        * (checked is not None),
        columns=["quantity", "repeat", "fold", "step", "value"],
    )
    figure = draw_training_curves(curves, dataset="Toy", method="conle")
    loss = figure.axes[0].lines[0]
    np.testing.assert_allclose(loss.get_ydata(), 1.5 / steps)
    if checked is None:
        assert len(figure.axes) == 1
        return
    _, values, folds = figure.axes
    assert values.lines[0].get_ydata().tolist() == [0.25, 0.5]
    bars = {bar.get_x() + bar.get_width() / 2: bar.get_height() for bar in folds.patches}
    assert bars == {kept: 1.0}
