import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial import distance

from conle.core.measures import MEASURES, score

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
    with pytest.raises(ValueError, match=r"^true and recovered"):
        score(TRUE, wrong)


# Degrees of which some are zero and some are equal, and rows with a single degree.
DEGREES = st.lists(
    st.sampled_from([0.0, 0.0, 1e-9, 0.1, 0.25, 0.25, 0.5, 1.0]), min_size=5, max_size=5
)
ROWS = st.lists(DEGREES.filter(any), min_size=4, max_size=4).map(
    lambda rows: np.array(rows) / np.sum(rows, axis=1, keepdims=True)
)


def clark_alone(true, recovered):
    terms = [((d - p) / (d + p)) ** 2 for d, p in zip(true, recovered, strict=True) if d + p]
    return np.sqrt(sum(terms))


INDEPENDENT = {
    "kl_divergence": lambda d, p: stats.entropy(d, p),
    "kl_divergence_reversed": lambda d, p: stats.entropy(p, d),
    "chebyshev": distance.chebyshev,
    "clark": clark_alone,
    "canberra": distance.canberra,
    "cosine": lambda d, p: 1 - distance.cosine(d, p),
    "intersection": lambda d, p: 1 - distance.cityblock(d, p) / 2,
}


@pytest.mark.parametrize("measure", MEASURES)
@given(true=ROWS, recovered=ROWS)
def test_measures_are_scipys(measure, true, recovered):
    if "kl" in measure:
        # SciPy returns infinity where ours is clipped: only rows without such zeros compare.
        true, recovered = (0.9 * rows + 0.02 for rows in (true, recovered))
    expected = [INDEPENDENT[measure](d, p) for d, p in zip(true, recovered, strict=True)]
    assert MEASURES[measure].function(true, recovered) == pytest.approx(expected, abs=1e-12)
    assert score(true, recovered)[measure] == pytest.approx(np.mean(expected), abs=1e-12)
    in_float32 = MEASURES[measure].function(true, recovered.astype(np.float32))
    assert in_float32 == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("measure", "title", "larger_is_better"),
    [
        ("kl_divergence", "KL", False),
        ("kl_divergence_reversed", "KL reversed", False),
        ("chebyshev", "Chebyshev", False),
        ("clark", "Clark", False),
        ("canberra", "Canberra", False),
        ("cosine", "Cosine", True),
        ("intersection", "Intersection", True),
    ],
)
def test_titles_and_directions(measure, title, larger_is_better):
    assert MEASURES[measure].title == title
    assert MEASURES[measure].arrow == ("↑" if larger_is_better else "↓")


def test_cosine_of_a_row_of_zeros():
    assert MEASURES["cosine"].function(TRUE, np.zeros((1, 3))) == pytest.approx([0.0])


def test_float32_is_taken_as_its_values():
    single = np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 20)).astype(np.float32)
    assert score(*single) == score(*single.astype(np.float64))
    assert score(*single.tolist()) == score(*single.astype(np.float64))
