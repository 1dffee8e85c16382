import numpy as np
import pytest

from conle.measures import MEASURES, score

TRUE = np.array([[0.5, 0.25, 0.25]])
RECOVERED = np.array([[0.25, 0.5, 0.25]])


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("kl_divergence", 0.25 * np.log(2)),  # .5 ln 2 + .25 ln .5
        ("kl_divergence_reversed", 0.25 * np.log(2)),
        ("chebyshev", 0.25),
        ("clark", np.sqrt(2 / 9)),  # twice (1/3)^2
        ("canberra", 2 / 3),
        ("cosine", 0.3125 / 0.375),
        ("intersection", 0.75),
    ],
)
def test_hand_computed_row(measure, expected):
    assert MEASURES[measure].function(TRUE, RECOVERED) == pytest.approx([expected])
    assert score(TRUE, RECOVERED)[measure] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        # The zero in the true row adds nothing, that in the recovered row is clipped at 1e-12.
        ("kl_divergence", 0.5 * np.log(0.5 / 0.75) + 0.5 * np.log(0.5 / 1e-12)),
        ("kl_divergence_reversed", 0.75 * np.log(0.75 / 0.5) + 0.25 * np.log(0.25 / 1e-12)),
        ("chebyshev", 0.5),
        ("clark", np.sqrt(0.2**2 + 1 + 1)),
        ("canberra", 0.2 + 1 + 1),
        ("cosine", 0.375 / np.sqrt(0.5 * 0.625)),
        ("intersection", 0.5),
    ],
)
def test_hand_computed_row_with_zeros(measure, expected):
    true = np.array([[0.5, 0.5, 0.0, 0.0]])
    recovered = np.array([[0.75, 0.0, 0.25, 0.0]])
    assert MEASURES[measure].function(true, recovered) == pytest.approx([expected])


@pytest.mark.parametrize("measure", MEASURES)
def test_equal_distributions_are_best(measure):
    best = 1.0 if MEASURES[measure].larger_is_better else 0.0
    distributions = np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
    assert MEASURES[measure].function(distributions, distributions) == pytest.approx([best, best])


def test_score_is_the_mean_over_samples():
    true, recovered = np.vstack([TRUE, TRUE]), np.vstack([TRUE, RECOVERED])
    assert score(true, recovered)["chebyshev"] == pytest.approx(0.125)


@pytest.mark.parametrize("measure", MEASURES)
def test_permuting_labels_changes_nothing(measure):
    generator = np.random.default_rng(0)
    true, recovered = generator.dirichlet(np.ones(5), size=(2, 20))
    order = generator.permutation(5)
    function = MEASURES[measure].function
    assert function(true[:, order], recovered[:, order]) == pytest.approx(function(true, recovered))


@pytest.mark.parametrize(
    "wrong", [np.ones((2, 3)) / 3, np.ones(3) / 3, np.empty((0, 3)), np.array([[np.nan, 0, 1]])]
)
def test_score_refuses(wrong):
    with pytest.raises(ValueError, match="true and recovered"):
        score(TRUE, wrong)
