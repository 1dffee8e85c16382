"""Tests that every method must pass. A new method in the registry runs through all of them."""

import numpy as np
import pandas as pd
import pytest
from short_training import SHORT
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conle.methods.contract import DivergenceError
from conle.methods.registry import FLOORS, METHODS, POSTERIORS, make_enhancer

DECODERS = {*POSTERIORS, *FLOORS}

# These methods draw random numbers at their start in the order of the labels, or of the samples.
FOLLOW_THE_ORDER_OF_LABELS = {
    "conle",
    "conle_adaptive",
    "conle_h",
    "conle_l",
    "levi_mlp",
    "lible",
    "glle",
    "lesc",
    *DECODERS,
}
FOLLOW_THE_ORDER_OF_SAMPLES = {"fcm", "levi_mlp", "lible", "glle", "lesc", *DECODERS}

EXTREMES = {
    "huge": lambda X, L: (X * 1e30, L),
    "tiny": lambda X, L: (X * 1e-30, L),
    "smallest": lambda X, L: (X * 1e-200, L),
    "huge and tiny": lambda X, L: (X * [1e30, 1e-30, 1, 1, 1], L),
    "one huge value": lambda X, L: (with_value(X, 1e99), L),
    "far from 0": lambda X, L: (X + 1e8, L),
    "all equal": lambda X, L: (np.ones_like(X), L),
    "one feature": lambda X, L: (X[:, :1], L),
    "more features than samples": lambda X, L: (np.tile(X, 20), L),
    "int8": lambda X, L: ((10 * X).astype(np.int8), L),
    "bool": lambda X, L: (X > 0, L),
    "read-only": lambda X, L: (np.frombuffer(X.tobytes()).reshape(X.shape), L),
    "one label": lambda X, L: (X, L[:, :1]),
    "no relevant label": lambda X, L: (X, 0 * L),
    "all labels relevant": lambda X, L: (X, 0 * L + 1),
    "the same labels": lambda X, L: (X, np.tile(L[0], (60, 1))),
}

pytestmark = [
    pytest.mark.parametrize(
        "name",
        [
            # Variants of a class differ only in hyperparameters.
            pytest.param(name, marks=pytest.mark.slow)
            if method.role in ("ablation", "floor")
            else name
            for name, method in METHODS.items()
        ],
    ),
    pytest.mark.filterwarnings("ignore:.* the logical labels hardly say how far"),
    pytest.mark.filterwarnings("ignore:.* still climbs at the end of the sweeps"),
]


def make(name, seed=0):
    return make_enhancer(name, SHORT.get(METHODS[name].parameters), seed=seed, device="cpu")


def assert_distributions(recovered, shape):
    assert recovered.shape == shape
    assert recovered.dtype == np.float64
    assert np.isfinite(recovered).all()
    assert (recovered >= 0).all()
    np.testing.assert_allclose(recovered.sum(axis=1), 1, atol=1e-12)


def test_recovers_distributions(name, samples):
    features, logical_labels = samples
    assert_distributions(make(name).fit_transform(features, logical_labels), (60, 4))


def test_fit_transform_is_fit_and_transform(name, samples):
    recovered = make(name).fit_transform(*samples)
    fitted = make(name).fit(*samples)
    again = fitted.transform(*samples) if fitted.inductive else fitted.recovered_
    np.testing.assert_array_equal(recovered, again)


def test_transform_recovers_the_samples_it_is_given(name, samples):
    features, logical_labels = samples
    enhancer = make(name)
    if not enhancer.inductive:
        enhancer.fit(features, logical_labels)
        with pytest.raises(TypeError, match="transductive"):
            enhancer.transform(features[:7], logical_labels[:7])
        return
    enhancer.fit(features[20:], logical_labels[20:])
    few = enhancer.transform(features[:7], logical_labels[:7])
    assert_distributions(few, (7, 4))
    everything = enhancer.transform(features, logical_labels)
    np.testing.assert_allclose(few, everything[:7], atol=1e-6)


def test_same_seed_same_bytes(name, samples):
    first, second = make(name).fit_transform(*samples), make(name).fit_transform(*samples)
    assert first.tobytes() == second.tobytes()


def test_global_random_state_is_neither_read_nor_changed(name, samples):
    torch = pytest.importorskip("torch")

    def state():
        return np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes()  # noqa: NPY002

    before = state()
    first = make(name).fit_transform(*samples)
    assert state() == before
    torch.manual_seed(99)
    assert make(name).fit_transform(*samples).tobytes() == first.tobytes()


def test_second_fit_starts_anew(name, samples):
    features, logical_labels = samples
    enhancer = make(name)
    enhancer.fit(features[:, :2], logical_labels[:, :3])
    again = enhancer.fit_transform(features, logical_labels)
    assert again.tobytes() == make(name).fit_transform(features, logical_labels).tobytes()


def test_a_fit_that_fails_leaves_an_earlier_one(name, samples):
    features, logical_labels = samples
    enhancer = make(name).fit(features, logical_labels)
    with pytest.raises(ValueError, match="finite"):
        enhancer.fit(np.full((5, 2), np.nan), logical_labels[:5])
    assert (enhancer.n_features_in_, enhancer.n_labels_in_) == (5, 4)
    if enhancer.inductive:
        expected = make(name).fit_transform(features, logical_labels)
        np.testing.assert_array_equal(enhancer.transform(features, logical_labels), expected)


def test_input_arrays_are_left_alone(name, samples):
    features, logical_labels = (array.copy() for array in samples)
    features.setflags(write=False)
    logical_labels.setflags(write=False)
    make(name).fit_transform(features, logical_labels)
    np.testing.assert_array_equal(features, samples[0])
    np.testing.assert_array_equal(logical_labels, samples[1])


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int8, np.float32])
def test_types_of_labels(name, samples, kind):
    features, logical_labels = samples
    np.testing.assert_array_equal(
        make(name).fit_transform(features, logical_labels.astype(kind)),
        make(name).fit_transform(features, logical_labels),
    )


def test_lists_and_memory_layouts(name, samples):
    features, logical_labels = samples
    expected = make(name).fit_transform(features, logical_labels)
    for X, L in (
        (features.tolist(), logical_labels.tolist()),
        (np.asfortranarray(features), np.asfortranarray(logical_labels)),
        (np.repeat(features, 2, axis=0)[::2], np.repeat(logical_labels, 2, axis=0)[::2]),
    ):
        np.testing.assert_array_equal(make(name).fit_transform(X, L), expected)


def test_tables_keep_their_names(name, samples):
    features, logical_labels = samples
    index = [f"row {number}" for number in range(60)][::-1]
    X = pd.DataFrame(features, index=index, columns=list("pqrst"))
    L = pd.DataFrame(logical_labels, index=index, columns=["sky", "sea", "sun", "fog"])
    recovered = make(name).fit_transform(X, L)
    assert isinstance(recovered, pd.DataFrame)
    assert recovered.index.equals(L.index)
    assert recovered.columns.equals(L.columns)
    np.testing.assert_array_equal(recovered, make(name).fit_transform(*samples))
    with pytest.raises(ValueError, match="row 0 is 'row 0' in one and 'row 59' in the other"):
        make(name).fit_transform(X[::-1], L)
    enhancer = make(name).fit(X, L)
    if not enhancer.inductive:
        return
    with pytest.raises(ValueError, match="feature names"):
        enhancer.transform(X[list("qprst")], L)
    with pytest.raises(ValueError, match="label 1 is named 'sun', and 'sea' in fit: give the same"):
        enhancer.transform(X, L[["sky", "sun", "sea", "fog"]])
    with pytest.raises(ValueError, match="label 0 is named 0, and 'sky' in fit"):
        enhancer.transform(X, L.set_axis(range(4), axis=1))
    # A matrix has no names.
    np.testing.assert_array_equal(enhancer.transform(X, logical_labels), recovered)
    numbered = X.set_axis(range(5), axis=1)
    enhancer.fit(numbered, L)
    with pytest.raises(ValueError, match="feature 0 is named 1, and 0 in fit"):
        enhancer.transform(numbered[[1, 0, 2, 3, 4]], L)
    enhancer.set_weights(enhancer.get_weights(), 5, 4)
    assert_distributions(
        enhancer.transform(X, L.set_axis(list("abcd"), axis=1)).to_numpy(), (60, 4)
    )


def test_names_of_mixed_types_are_refused_before_any_work(name, samples, monkeypatch):
    features, logical_labels = samples
    enhancer = make(name)
    monkeypatch.setattr(type(enhancer), "_fit", lambda *_: pytest.fail("it is fitted"))
    with pytest.raises(TypeError, match="all input features have string names"):
        enhancer.fit(pd.DataFrame(features, columns=["p", "q", "r", "s", 4]), logical_labels)


def test_a_fit_can_be_restored_from_its_weights(name, samples):
    features, logical_labels = samples
    enhancer = make(name)
    if not enhancer.inductive:
        pytest.skip("has no transform")
    with pytest.raises(NotFittedError):
        enhancer.get_weights()
    weights = enhancer.fit(features, logical_labels).get_weights()
    assert all(isinstance(value, np.ndarray) for value in weights.values())
    restored = make(name).set_weights(weights, 5, 4)
    # Sums over arrays of another layout may round differently.
    np.testing.assert_allclose(
        restored.transform(features[:9], logical_labels[:9]),
        enhancer.transform(features[:9], logical_labels[:9]),
        atol=1e-9,
    )
    with pytest.raises(ValueError, match="5 features and 4 labels"):
        restored.transform(features[:, :4], logical_labels)


def test_in_a_pipeline(name, samples):
    features, logical_labels = samples
    pipeline = make_pipeline(StandardScaler(), make(name))
    expected = make(name).fit_transform(StandardScaler().fit_transform(features), logical_labels)
    np.testing.assert_array_equal(pipeline.fit_transform(features, logical_labels), expected)


def test_float32_features_are_taken_as_their_values(name, samples):
    features, logical_labels = samples[0].astype(np.float32), samples[1]
    np.testing.assert_array_equal(
        make(name).fit_transform(features, logical_labels),
        make(name).fit_transform(features.astype(np.float64), logical_labels),
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.filterwarnings("ignore:.* the logical labels hardly say how far")
@pytest.mark.filterwarnings("ignore:.* still climbs at the end of the sweeps")
def test_degenerate_samples(name, samples):
    """Constant columns, duplicate rows, rows of zeros, all and no labels relevant."""
    features, logical_labels = (array.copy() for array in samples)
    features[:, 1] = 3.0
    features[:, 2] = 0.0
    features[10] = features[11]
    features[12] = 0.0
    logical_labels[13], logical_labels[14] = 1, 0
    logical_labels[:, 3] = 0
    logical_labels[13, 3] = 1
    assert_distributions(make(name).fit_transform(features, logical_labels), (60, 4))


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.filterwarnings("ignore:ConLE. in .* folds no recovered")
@pytest.mark.filterwarnings("error")
def test_extreme_samples(name, samples, extreme):
    features, logical_labels = EXTREMES[extreme](*samples)
    recovered = make(name).fit_transform(features, logical_labels)
    assert_distributions(recovered, logical_labels.shape)


@pytest.mark.filterwarnings("ignore:ConLE. in .* folds no recovered")
@pytest.mark.parametrize("rows", [1, 2])
def test_hardly_any_samples(name, samples, rows):
    features, logical_labels = samples
    recovered = make(name).fit_transform(features[:rows], logical_labels[:rows])
    assert_distributions(recovered, (rows, 4))


def test_permuting_samples_permutes_the_result(name, samples):
    """ConLE's samples fit into one batch, so that no order of batches matters."""
    if name in FOLLOW_THE_ORDER_OF_SAMPLES:
        pytest.skip("its random start follows the order of the samples")
    features, logical_labels = samples
    order = np.random.default_rng(1).permutation(60)
    np.testing.assert_allclose(
        make(name).fit_transform(features[order], logical_labels[order]),
        make(name).fit_transform(features, logical_labels)[order],
        atol=1e-6,
    )


def test_permuting_labels_permutes_the_result(name, samples):
    if name in FOLLOW_THE_ORDER_OF_LABELS:
        pytest.skip("its random start follows the order of the labels")
    features, logical_labels = samples
    order = np.random.default_rng(2).permutation(4)
    np.testing.assert_allclose(
        make(name).fit_transform(features, logical_labels[:, order]),
        make(name).fit_transform(features, logical_labels)[:, order],
        atol=1e-6,
    )


@pytest.mark.filterwarnings("ignore:ConLE. in .* folds no recovered")
@pytest.mark.filterwarnings("error")
def test_one_more_sample_after_equal_ones(name, samples):
    features, logical_labels = samples
    features = np.ones_like(features)
    features[59] = samples[0][59]
    enhancer = make(name)
    if not enhancer.inductive:
        pytest.skip("has no transform")
    enhancer.fit(features[:59], logical_labels[:59])
    assert_distributions(enhancer.transform(features[:1], logical_labels[:1]), (1, 4))
    assert_distributions(enhancer.transform(features[59:], logical_labels[59:]), (1, 4))


def test_what_is_not_finite_is_refused(name, samples, monkeypatch):
    enhancer = make(name)
    work = "_transform" if enhancer.inductive else "_fit_transform"
    monkeypatch.setattr(
        type(enhancer), work, lambda self, X, L: np.where(X[:, :1] > 0, np.nan, L / 4)
    )
    with pytest.raises(DivergenceError, match=f"{type(enhancer).__name__} recovered values that"):
        enhancer.fit_transform(*samples)


def test_no_folds(name, samples):
    assert make(name).recover_folds(*samples, []).recovered == []


def test_recover_folds_recovers_each_test_fold(name, samples):
    features, logical_labels = samples
    rows = np.arange(60)
    splits = [(np.setdiff1d(rows, test), test) for test in np.array_split(rows, 4)]
    enhancer = make(name)
    if not enhancer.inductive:
        splits = [(rows, rows)]
    steps = []
    recovery = enhancer.recover_folds(
        features, logical_labels, splits, lambda *progress: steps.append(progress)
    )
    for (_, test), recovered in zip(splits, recovery.recovered, strict=True):
        assert_distributions(recovered, (len(test), 4))
    assert [done for done, *_ in steps] == sorted(done for done, *_ in steps)
    assert steps[-1][0] == steps[-1][1]
    assert not hasattr(enhancer, "n_features_in_")


def test_clone_and_parameters(name):
    enhancer = make(name, seed=3)
    assert clone(enhancer).get_params() == enhancer.get_params()


def test_transform_before_fit(name, samples):
    enhancer = make(name)
    with pytest.raises((NotFittedError, TypeError), match=r"fit"):
        enhancer.transform(*samples)


def test_other_numbers_of_features_or_labels(name, samples):
    features, logical_labels = samples
    enhancer = make(name).fit(features, logical_labels)
    if not enhancer.inductive:
        pytest.skip("has no transform")
    with pytest.raises(ValueError, match="5 features and 4 labels, not 4 and 4"):
        enhancer.transform(features[:, :4], logical_labels)
    with pytest.raises(ValueError, match="5 features and 4 labels, not 5 and 3"):
        enhancer.transform(features, logical_labels[:, :3])


def with_value(matrix, value):
    matrix = matrix.copy()
    matrix[3, 2] = value
    return matrix


def test_names_of_rows_are_shown_as_they_are(name, samples):
    X, L = (pd.DataFrame(matrix).set_axis(np.arange(60) * 3) for matrix in samples)
    L = L.rename(index={9: -1})
    with pytest.raises(ValueError, match=r"row 3 is 9 in one and -1 in the other"):
        make(name).fit(X, L)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, L: (X[:-1], L), "59 samples and logical_labels 60"),
        (lambda X, L: (X[:, 0], L), "features must have two dimensions, not 1"),
        (lambda X, L: (X, L[..., None]), "logical_labels must have two dimensions, not 3"),
        (lambda X, L: (X[:0], L[:0]), "features must not be empty"),
        (lambda X, L: (with_value(X, np.nan), L), r"features must be finite, not nan \(row 3, co"),
        (lambda X, L: (with_value(X, np.inf), L), r"features must be finite, not inf \(row 3, co"),
        (lambda X, L: (with_value(X, -1e200), L), r"within 1e\+100 of 0, not be -1e\+200 \(row 3"),
        (lambda X, L: (X, with_value(L, np.nan)), "logical_labels must be finite"),
        (lambda X, L: (X, with_value(L, 0.5)), r"must be 0 or 1, not 0.5 \(row 3, column 2\)"),
        (lambda X, L: (X, with_value(L, -1)), r"must be 0 or 1, not -1 \(row 3, column 2\)$"),
        (lambda X, L: (X, 2 * L - 1), "0 or 1, not -1 .*: they are -1 and 1; write 0 for -1"),
        (lambda X, L: (np.ma.masked_less(X, -1), L), r"features has \d+ masked values"),
        (lambda X, L: (X + 1j, L), "features must be a matrix of real numbers: .* complex128"),
        (lambda X, L: ([["a"] * 5] * 60, L), "features must be a matrix of real numbers"),
        (lambda X, L: ([[1.0], [1.0, 2.0]], L), "features must be a matrix of real numbers"),
    ],
)
def test_bad_input_ends_in_a_clear_message(name, samples, spoil, message):
    with pytest.raises(ValueError, match=message):
        make(name).fit_transform(*spoil(*samples))
