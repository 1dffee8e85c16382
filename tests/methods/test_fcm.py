import numpy as np
import pytest

from conle.methods.fcm import FCM, associate, fuzzy_c_means


def test_one_iteration_by_hand():
    """Centres 0.5 and 3.5; the first sample is 0.5 and 3.5 away: 1 / (1 + (1/7)^2) = 49/50."""
    features = np.array([[0.0], [1.0], [3.0], [4.0]])
    start = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    memberships = fuzzy_c_means(features, start, 2.0, iterations=1, tolerance=0.0)
    expected = [[49 / 50, 1 / 50], [25 / 26, 1 / 26], [1 / 26, 25 / 26], [1 / 50, 49 / 50]]
    np.testing.assert_allclose(memberships, expected)


@pytest.mark.parametrize("composition", ["max_min", "max_product", "sum_product"])
def test_four_samples_by_hand(composition):
    """Two pairs of equal samples, two clusters: memberships 0 and 1.

    The association is [[2, 0], [1, 2]]; its columns divided by 3 and 2 give
    [[2/3, 0], [1/3, 1]], its rows then divided by 2/3 and 4/3 [[1, 0], [1/4, 3/4]].
    """
    features = np.array([[0.0], [0.0], [1.0], [1.0]])
    logical_labels = np.array([[1, 0], [1, 1], [0, 1], [0, 1]])
    enhancer = FCM(clusters_per_label=1, composition=composition, tolerance=1e-12)
    recovered = enhancer.fit_transform(features, logical_labels)
    np.testing.assert_allclose(recovered, [[0.8, 0.2], [0.8, 0.2], [0, 1], [0, 1]], atol=1e-6)


@pytest.mark.parametrize(
    ("composition", "first"),
    [
        ("max_min", [0.6, 0.4]),
        ("max_product", [0.36, 0.24]),
        ("sum_product", [0.36 + 0.16, 0.24 + 0.24]),
    ],
)
def test_compositions_by_hand(composition, first):
    """Memberships (.6, .4) and (.4, .6), one label each: the association equals the memberships.

    For the first sample, label 1 has .6 and .4 against its own .6 and .4, label 2 .4 and .6.
    """
    memberships = np.array([[0.6, 0.4], [0.4, 0.6]])
    recovered = associate(memberships, np.eye(2), composition)
    np.testing.assert_allclose(recovered[0], np.array(first) / sum(first))
    np.testing.assert_allclose(recovered[1], recovered[0][::-1])


def test_memberships_are_those_of_the_final_centres():
    features = np.random.default_rng(0).normal(size=(40, 2))
    start = np.random.default_rng(1).dirichlet(np.ones(3), size=40)
    memberships = fuzzy_c_means(features, start, 2.0, iterations=1000, tolerance=1e-13)
    centres = (memberships**2).T @ features / (memberships**2).sum(axis=0)[:, None]
    inverse = 1 / ((features[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_allclose(memberships, inverse / inverse.sum(axis=1, keepdims=True), atol=1e-9)


def test_a_sample_at_a_centre_belongs_to_it():
    features = np.array([[0.0], [0.0], [5.0]])
    start = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    memberships = fuzzy_c_means(features, start, 2.0, iterations=3, tolerance=0.0)
    assert memberships.tolist() == start.tolist()


def test_a_cluster_without_members_stays_where_it_is():
    """The second has none: its weighted centre would be 0 / 0."""
    features = np.array([[1.0], [3.0]])
    start = np.array([[1.0, 0.0], [1.0, 0.0]])
    memberships = fuzzy_c_means(features, start, 2.0, iterations=1, tolerance=0.0)
    # Centres 2 and 0, where it starts.
    np.testing.assert_allclose(memberships, [[0.5, 0.5], [0.9, 0.1]])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", [1, 4, 5])
def test_fewer_different_samples_than_clusters(seed):
    generator = np.random.default_rng(seed)
    features = generator.integers(0, 2, (500, 3)).astype(float)
    logical_labels = generator.integers(0, 2, (500, 4))
    recovered = FCM(seed=seed).fit_transform(features, logical_labels)
    assert np.isfinite(recovered).all()
    assert np.ptp(recovered, axis=1).max() > 0.01


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("fuzzifier", [1.001, 1000.0])
def test_extreme_fuzzifiers(samples, fuzzifier):
    recovered = FCM(fuzzifier=fuzzifier).fit_transform(*samples)
    assert np.isfinite(recovered).all()
    assert np.ptp(recovered, axis=1).max() > 0.01
