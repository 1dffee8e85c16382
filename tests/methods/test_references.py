import numpy as np
import pytest

from conle.core.binarisation import binarise
from conle.core.measures import score
from conle.methods import references
from conle.methods.references import LabelPosterior, SoftmaxLabels, Uniform


def test_uniform():
    recovered = Uniform().fit_transform(np.zeros((2, 1)), [[1, 0, 0, 0], [1, 1, 1, 1]])
    assert recovered.tolist() == [[0.25] * 4] * 2


def test_softmax_of_labels():
    e = np.e
    recovered = SoftmaxLabels().fit_transform(np.zeros((2, 1)), [[1, 0, 0], [1, 1, 0]])
    np.testing.assert_allclose(
        recovered,
        [np.array([e, 1, 1]) / (e + 2), np.array([e, e, 1]) / (2 * e + 1)],
    )


def test_label_posterior_of_two_labels_in_closed_form():
    """c = 2: k is always 1, so a is the smallest tried; at a = 1, M_1 = E[max(U, 1 - U)] = 3/4."""
    enhancer = LabelPosterior(
        draws=200_000, smallest_concentration=1.0, largest_concentration=2.0, concentrations=2
    )
    recovered = enhancer.fit_transform(np.zeros((3, 1)), [[1, 0], [0, 1], [1, 0]])
    assert enhancer.concentration_ == 1.0
    np.testing.assert_allclose(recovered[0], [0.75, 0.25], atol=2e-3)
    np.testing.assert_allclose(recovered[1], [0.25, 0.75], atol=2e-3)


def test_label_posterior_of_three_labels_in_closed_form():
    """a = 1, c = 3: k = 1 where the largest degree exceeds 1/2, which has probability 3/4.

    E[largest | k = 1] = 2/3, the smallest then is a quarter of the rest, 1/12. E[smallest] = 1/9
    = 3/4 x 1/12 + 1/4 E[smallest | k = 2], so that is 7/36 and M_2 = 29/36.
    """
    enhancer = LabelPosterior(
        draws=200_000, smallest_concentration=1.0, largest_concentration=1.0001, concentrations=2
    )
    labels = [[1, 0, 0]] * 3 + [[1, 1, 0]]
    recovered = enhancer.fit_transform(np.zeros((4, 1)), labels)
    np.testing.assert_allclose(recovered[0], [2 / 3, 1 / 6, 1 / 6], atol=3e-3)
    np.testing.assert_allclose(recovered[3], [29 / 72, 29 / 72, 7 / 36], atol=3e-3)


def test_label_posterior_finds_the_concentration_of_its_own_model():
    generator = np.random.default_rng(3)
    for concentration in (1.0, 5.0, 30.0):
        distributions = generator.dirichlet(np.full(8, concentration), size=4000)
        enhancer = LabelPosterior().fit(np.zeros((4000, 1)), binarise(distributions))
        assert enhancer.concentration_ == pytest.approx(concentration, rel=0.35)
        k = binarise(distributions).sum(axis=1)
        for count in np.unique(k, return_counts=True)[0]:
            if (k == count).sum() < 300:
                continue
            mass = (distributions * binarise(distributions)).sum(axis=1)[k == count].mean()
            assert enhancer.relevant_mass_[count] == pytest.approx(mass, abs=0.01)


def test_label_posterior_without_information_takes_the_uniform_dirichlet():
    """Two labels: one is relevant whatever a is."""
    enhancer = LabelPosterior(draws=1000).fit(np.zeros((3, 1)), [[1, 0], [0, 1], [1, 0]])
    assert enhancer.concentration_ == pytest.approx(1.0)


@pytest.mark.parametrize("row", [[0, 0, 0, 0], [1, 1, 1, 1]])
def test_label_posterior_of_labels_that_say_nothing(row):
    labels = [[1, 0, 0, 0]] * 5 + [row]
    recovered = LabelPosterior(draws=500).fit_transform(np.zeros((6, 1)), labels)
    assert recovered[-1].tolist() == [0.25] * 4


def test_label_posterior_of_a_count_that_binarising_does_not_produce():
    """Four of five labels cannot be relevant at T = 0.5: the row carries no information."""
    labels = [[1, 0, 0, 0, 0]] * 5 + [[1, 1, 1, 1, 0]]
    recovered = LabelPosterior(draws=500).fit_transform(np.zeros((6, 1)), labels)
    np.testing.assert_allclose(recovered[-1], 0.2)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
def test_label_posterior_counts_what_binarising_its_draws_gives(monkeypatch, threshold):
    # Draws are made 200 at once, the last 100 alone.
    monkeypatch.setattr(references, "DEGREES_AT_ONCE", 1000)
    counts, masses = references._drawn_relevant_counts(5, threshold, 500, (0.4, 3.0), seed=7)
    generator = np.random.default_rng(7)
    for row, concentration in enumerate((0.4, 3.0)):
        degrees = generator.dirichlet(np.full(5, concentration), size=500)
        relevant = binarise(degrees, threshold)
        for k in range(6):
            own = relevant.sum(axis=1) == k
            assert counts[row, k] == own.sum()
            assert masses[row, k] == pytest.approx((degrees * relevant)[own].sum(), rel=1e-13)


def test_label_posterior_refuses_an_empty_range_of_concentrations():
    with pytest.raises(ValueError, match="must be below"):
        LabelPosterior(smallest_concentration=2.0, largest_concentration=1.0).fit([[0]], [[1, 0]])


@pytest.mark.parametrize(
    ("name", "kl_divergence"),
    [("Yeast_alpha", 0.0028), ("SBU_3DFE", 0.0357), ("SJAFFE", 0.0280)],
)
def test_label_posterior_on_the_benchmark(load_real, name, kl_divergence):
    """The expected values were measured once; on Yeast-alpha the published ConLE has 0.005."""
    features, distributions = load_real(name)
    recovered = LabelPosterior().fit_transform(features, binarise(distributions))
    assert score(distributions, recovered)["kl_divergence"] == pytest.approx(
        kl_divergence, abs=3e-4
    )


def test_uniform_on_yeast_dtt(load_real):
    """Uniform beats the published ConLE there, 0.0066 against 0.009."""
    features, distributions = load_real("Yeast_dtt")
    recovered = Uniform().fit_transform(features, binarise(distributions))
    assert score(distributions, recovered)["kl_divergence"] == pytest.approx(0.0066, abs=5e-5)


def test_draws_of_the_label_posterior_give_back_the_labels_and_have_its_mean():
    generator = np.random.default_rng(0)
    labels = binarise(generator.dirichlet(np.full(5, 2.0), size=400)).astype(float)
    posterior = LabelPosterior().fit(labels, labels)
    few = labels[:6]
    draws = posterior.sample(few, 4000, np.random.default_rng(1))
    assert draws.shape == (4000, 6, 5)
    np.testing.assert_allclose(draws.sum(axis=2), 1)
    np.testing.assert_array_equal(binarise(draws.reshape(-1, 5)), np.tile(few, (4000, 1)))
    np.testing.assert_allclose(draws.mean(axis=0), posterior.transform(few, few), atol=0.01)


def test_draws_of_a_count_that_binarising_does_not_produce_are_its_mean():
    labels = np.array([[1.0, 0, 0, 0, 0]] * 5 + [[1, 1, 1, 1, 0]])
    draws = (
        LabelPosterior(draws=500)
        .fit(labels, labels)
        .sample(labels[-1:], 3, np.random.default_rng(0))
    )
    np.testing.assert_allclose(draws, 0.2)
