import warnings

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.decomposition import PCA

from conle.core.binarisation import binarise
from conle.core.stacking import log_score
from conle.methods.conle import ConLE
from conle.methods.contract import progress
from conle.methods.posterior import decoder, inference
from conle.methods.posterior.label_checks import warn_of_climbing_deviation
from conle.methods.posterior.representations import ContrastiveLearner, PrincipalComponentsLearner
from conle.methods.posterior.sampler import (
    Coefficients,
    by_sweep,
    collected,
    fit_coefficients,
)
from conle.methods.posterior.variants import ConLEPosterior, PosteriorFeatureless, PosteriorPCA

SHORT = {"sweeps": 30, "burn_in": 10, "device": "cpu"}


@pytest.fixture(scope="module")
def simulated():
    """Features, true distributions and logical labels of 300 samples and 4 labels."""
    generator = np.random.default_rng(4)
    features = generator.normal(size=(300, 3))
    u = features @ generator.normal(size=(3, 4)) + 0.4 * generator.normal(size=(300, 4))
    true = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
    return features, true, binarise(true).astype(float)


def error(true, recovered):
    return np.abs(true - recovered).sum(axis=1).mean()


def test_features_help_where_degrees_depend_on_them(simulated):
    features, true, logical_labels = simulated
    errors = {
        own: error(true, own(**SHORT).fit_transform(features, logical_labels))
        for own in (PosteriorFeatureless, PosteriorPCA, ConLEPosterior)
    }
    assert errors[PosteriorPCA] < 0.75 * errors[PosteriorFeatureless]
    assert errors[ConLEPosterior] < 0.95 * errors[PosteriorFeatureless]


@pytest.mark.parametrize("floor", [0.0, 1.0])
def test_samples_and_intervals(simulated, floor):
    features, _, logical_labels = simulated
    decoder = PosteriorPCA(degree_floor=floor, **SHORT).fit(features, logical_labels)
    few = (features[:9], logical_labels[:9])
    draws = decoder.sample(*few)
    chains = decoder.sample_chains(*few)
    assert chains.shape == (4, 20, 9, 4)
    np.testing.assert_array_equal(draws[: 4 * 20], chains.reshape(-1, 9, 4))
    # The label posterior is a fifth of 100 draws.
    assert draws.shape == (100, 9, 4)
    np.testing.assert_allclose(draws.sum(axis=2), 1)
    by_labels = decoder.label_posterior_.transform(few[1], few[1])
    mean = 0.8 * chains.mean(axis=(0, 1)) + 0.2 * by_labels
    np.testing.assert_allclose(decoder.transform(*few), mean, atol=1e-12)
    # Every draw gives back the logical labels.
    for drawn in draws:
        np.testing.assert_array_equal(binarise(drawn), few[1])
    low, high = decoder.credible_intervals(*few, level=0.5)
    np.testing.assert_allclose(low, np.quantile(draws, 0.25, axis=0))
    np.testing.assert_allclose(high, np.quantile(draws, 0.75, axis=0))
    with pytest.raises(ValueError, match="level must lie between 0 and 1, not 90"):
        decoder.credible_intervals(*few, level=90.0)


def test_folds_together_are_folds_alone(simulated):
    """The first fold has the seed of a single fit."""
    features, _, logical_labels = simulated
    rows = np.arange(300)
    splits = [(np.setdiff1d(rows, test), test) for test in np.array_split(rows, 7)]
    decoder = PosteriorFeatureless(**SHORT)
    recovered = decoder.recover_folds(features, logical_labels, splits).recovered
    training, test = splits[0]
    alone = decoder.fit(features[training], logical_labels[training])
    np.testing.assert_allclose(
        recovered[0], alone.transform(features[test], logical_labels[test]), atol=1e-9
    )


def test_without_a_share_there_are_the_chains_alone(simulated):
    features, _, logical_labels = simulated
    decoder = PosteriorPCA(label_posterior_share=0.0, **SHORT).fit(features, logical_labels)
    draws = decoder.sample(features, logical_labels)
    assert len(draws) == 4 * 20
    recovered = decoder.transform(features, logical_labels)
    np.testing.assert_allclose(draws.mean(axis=0), recovered, atol=1e-12)


def test_chains_are_independent_and_start_apart(simulated):
    features, _, logical_labels = simulated
    decoder = PosteriorPCA(chain_rows=100, degree_floor=1.0, sweeps=60, burn_in=20, device="cpu")
    decoder.fit(features, logical_labels)
    first, *_, last = by_sweep(decoder.coefficients_)
    assert first.weights.shape[0] == 4
    # The intercepts follow the levels 1.25, 1.5, 2 and 3 of the start; the floor is 1.
    levels = first.weights[:, 0].mean(dim=1).numpy()
    assert (np.diff(levels) > 0.3).all()
    # Each chain has rows of its own, so that none is a copy of another.
    means = decoder.sample_chains(features, logical_labels).mean(axis=1)
    for one in range(4):
        for other in range(one):
            assert np.abs(means[one] - means[other]).mean() > 1e-3
            assert not torch.equal(last.inverse_root[one], last.inverse_root[other])


def test_a_chain_sees_no_more_rows_than_chain_rows(simulated, monkeypatch):
    features, _, logical_labels = simulated
    rows = []
    monkeypatch.setattr(
        inference,
        "fit_coefficients",
        lambda degrees, columns, *own: (
            rows.append(columns.shape) or fit_coefficients(degrees, columns, *own)
        ),
    )
    PosteriorPCA(chain_rows=50, **SHORT).fit(features, logical_labels)
    PosteriorPCA(**SHORT).fit(features, logical_labels)
    assert rows == [(4, 50, 4), (4, 300, 4)]


def test_an_overall_deviation_that_climbs_is_announced():
    """s of two folds with two chains each: both chains of the first fold climb by a tenth."""
    inference = PosteriorFeatureless(sweeps=12, burn_in=2, chains=2)._inference()
    rise = np.exp(0.11)

    level, risen = torch.ones(4), torch.tensor([rise, rise, rise, 1.0]) ** 2
    climbing = inference.is_climbing([level] * 7 + [risen] * 5)
    assert climbing.tolist() == [True, False]
    # Half of the folds are not most of them.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_climbing_deviation("PosteriorPCA", climbing)
    with pytest.warns(UserWarning, match="PosteriorPCA: the overall deviation .* still climbs"):
        warn_of_climbing_deviation("PosteriorPCA", climbing[:1])


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_threads(simulated):
    features, _, logical_labels = simulated
    rows = np.arange(300)
    splits = [(np.setdiff1d(rows, test), test) for test in np.array_split(rows, 6)]
    threads = torch.get_num_threads()
    try:
        recovered = []
        for number in (1, 2):
            torch.set_num_threads(number)
            recovery = PosteriorPCA(**SHORT).recover_folds(features, logical_labels, splits)
            recovered.append(np.concatenate(recovery.recovered).tobytes())
            assert torch.get_num_threads() == number
    finally:
        torch.set_num_threads(threads)
    assert recovered[0] == recovered[1]


def test_labels_that_no_distribution_gives_are_named(samples):
    features, logical_labels = samples
    logical_labels = logical_labels.copy()
    logical_labels[3], logical_labels[8] = 0, 1
    message = r"of 2 rows \(row 3 with 0, row 8 with 4 relevant\).*threshold_model to false"
    with pytest.raises(ValueError, match=message):
        PosteriorFeatureless(**SHORT).fit(features, logical_labels)
    ordered = PosteriorFeatureless(threshold_model=False, **SHORT)
    with pytest.warns(UserWarning, match="the prior"):
        recovered = ordered.fit_transform(features, logical_labels)
    relevant = np.where(logical_labels == 1, recovered, np.inf).min(axis=1)
    irrelevant = np.where(logical_labels == 1, 0, recovered).max(axis=1)
    assert (relevant > irrelevant).all()


def test_labels_that_only_a_uniform_distribution_gives(samples):
    """At T = 1/2, only the uniform distribution makes three of four labels relevant."""
    features, logical_labels = samples
    logical_labels = logical_labels.copy()
    logical_labels[5] = [1, 1, 1, 0]
    with pytest.warns(UserWarning, match="1 rows have 3 relevant labels"):
        recovered = PosteriorFeatureless(**SHORT).fit_transform(features, logical_labels)
    assert recovered[5, :3].min() > recovered[5, 3]


def test_a_scale_that_the_labels_do_not_say_is_announced(samples):
    features, _ = samples
    one = np.eye(4)[np.arange(60) % 4]
    with pytest.warns(UserWarning, match=r"100.0% of the samples have 1 of 4.*METHOD.scale_prior="):
        PosteriorFeatureless(**SHORT).fit(features, one)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PosteriorFeatureless(**SHORT).fit(*samples)


def test_probabilities_of_labels_against_their_closed_form():
    """Two labels at T = 1/2: the larger is relevant, P = Phi((m1 - m2) / sd of the difference)."""
    decoder = PosteriorFeatureless(**SHORT)
    features, logical_labels = np.zeros((40, 1)), np.tile([1.0, 0.0], (40, 1))
    with pytest.warns(UserWarning, match="the prior"):
        decoder.set_params(chains=1).fit(features, logical_labels)
    mean, root = np.array([[0.6, 0.1]]), np.array([[0.8, 0.0], [0.3, 0.5]])
    tensors = [torch.from_numpy(array)[None] for array in (mean, np.linalg.inv(root).T)]
    present = Coefficients(*tensors, torch.ones(1), torch.ones(1))
    decoder.coefficients_ = collected([present] * decoder.sweeps, decoder.sweeps)
    difference = root @ root.T
    deviation = np.sqrt(difference[0, 0] + difference[1, 1] - 2 * difference[0, 1])
    expected = np.log(norm.cdf(0.5 / deviation))
    probabilities = decoder.label_probabilities(features, logical_labels, draws=4000)
    # One label is always relevant: its number has probability 1.
    np.testing.assert_allclose(probabilities[:, 0], 4000.5 / 4001)
    assert log_score(probabilities) == pytest.approx(expected + np.log(4000.5 / 4001), abs=3e-3)


def test_probabilities_of_labels_need_the_threshold_model(samples):
    decoder = PosteriorFeatureless(threshold_model=False, **SHORT)
    with pytest.warns(UserWarning, match="the prior"):
        decoder.fit(*samples)
    with pytest.raises(ValueError, match="without a threshold model"):
        decoder.label_probabilities(*samples)


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        ({"sweeps": 10, "burn_in": 10}, r"burn_in \(10\) must be below sweeps \(10\)"),
        ({"degree_floor": 1.0, "start_level": 1.0}, r"start_level \(1\) must exceed 1"),
        ({"chains": 0}, "chains"),
        ({"chain_rows": 0}, "chain_rows"),
        ({"label_posterior_share": 1.0}, "label_posterior_share"),
        ({"scale_prior": 0.0}, "scale_prior"),
    ],
)
def test_hyperparameters(hyperparameters, message):
    with pytest.raises(ValueError, match=message):
        PosteriorFeatureless(**hyperparameters).check_hyperparameters()


def test_principal_components_are_those_of_the_training_rows(simulated):
    features, _, logical_labels = simulated
    training, test = np.arange(200), np.arange(200, 300)
    (learned,) = PrincipalComponentsLearner(2, 5.0, 0)(features, logical_labels, [(training, test)])
    rows = features[training]
    scaled = ((features - rows.mean(0)) / rows.std(0)).clip(-5, 5)
    pca = PCA(2).fit(scaled[training])
    scores = pca.transform(scaled)
    expected = scores / pca.transform(scaled[training]).std(axis=0).mean()
    np.testing.assert_allclose(learned(features), expected, atol=1e-9)
    # Other test rows do not change the result.
    changed = features.copy()
    changed[test] = 9.0
    (again,) = PrincipalComponentsLearner(2, 5.0, 0)(changed, logical_labels, [(training, test)])
    np.testing.assert_array_equal(again.components, learned.components)


def test_contrastive_embedding_is_centred_on_the_training_rows(simulated):
    features, _, logical_labels = simulated
    training, test = np.arange(250), np.arange(250, 300)
    conle = ConLE(stopping="fixed", steps=5, device="cpu")
    (learned,) = ContrastiveLearner(conle)(features, logical_labels, [(training, test)])
    z = learned(features[training])
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-12)
    assert z.std() == pytest.approx(1)
    lengths = np.linalg.norm(z * learned.divisor + learned.centre, axis=1)
    np.testing.assert_allclose(lengths, 1)


def test_epochs_limit_the_steps():
    conle = ConLE(epochs=11, steps=100)
    assert [conle._steps(rows) for rows in (190, 2218, 6980)] == [11, 99, 100]


def test_many_samples_are_recovered_in_chunks(samples, monkeypatch):
    features, logical_labels = samples
    fitted = PosteriorPCA(sweeps=20, burn_in=5).fit(features, logical_labels)
    at_once = fitted.transform(features, logical_labels)
    calls = []
    # The decoder recovers 25 of the 60 samples at once.
    monkeypatch.setattr(decoder, "CHUNK_DEGREES", 25 * 4 * logical_labels.shape[1])
    token = progress.set(lambda *own: calls.append(own))
    chunked = fitted.transform(features, logical_labels)
    progress.reset(token)
    np.testing.assert_array_equal(chunked[:25], at_once[:25])
    np.testing.assert_allclose(chunked, at_once, atol=0.1)
    assert np.abs(chunked[25:] - at_once[25:]).max() > 1e-6
    np.testing.assert_array_equal(binarise(chunked), logical_labels)
    assert calls[-1] == (60, 60, "60 of 60 sweeps")


def test_folds_share_the_cores_only_if_there_is_much_to_sample():
    """Four chains of at most 1000 rows; the folds of a chunk have equal sizes."""
    own = PosteriorFeatureless(device="cpu")._inference()

    def chunks(*sizes):
        splits = [(np.arange(training), np.arange(test)) for training, test in sizes]
        side_by_side = inference.chunks_of_folds(splits, own)
        return [[chunk.tolist() for chunk in together] for together in side_by_side]

    assert chunks() == []
    assert chunks((90, 10), (91, 9), (90, 10)) == [[[0, 2]], [[1]]]
    # 4 x (1000 + 250) samples in each fold: ten of them are 50,000.
    assert chunks(*[(2250, 250)] * 10) == [[[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]]
    # So do the folds of a comparison of 2500 rows, whose training rows are recovered too.
    assert chunks((1666, 1666), (1667, 1667), (1667, 1667)) == [[[0], [1, 2]]]
    # Two sizes are two chunks, one for each core.
    halves = [(2250, 250), (2249, 251)] * 5
    assert chunks(*halves) == [[[1, 3, 5, 7, 9], [0, 2, 4, 6, 8]]]
    # No more than 40,000 samples of training are drawn at once.
    assert [len(own) for own in chunks(*[(2250, 250)] * 30)[0]] == [10, 10, 10]
