"""KM, LP, GLLE and LESC against hand-computed cases and closed forms."""

import numpy as np
import pytest
from scipy.special import softmax

from conle.core.binarisation import binarise
from conle.methods.geometry import standardised
from conle.methods.glle import GLLE, graph_laplacian
from conle.methods.graph_regression import kernel_design
from conle.methods.km import KM
from conle.methods.lesc import LESC, low_rank_representation
from conle.methods.lp import LP


def test_km_of_two_samples_by_hand():
    """k = exp(-1/2). Label 1: both samples are (1 - k) / 2 from the centre, squared."""
    k = np.exp(-0.5)
    recovered = KM().fit_transform([[0.0], [1.0]], [[1, 0], [1, 1]])
    squared = (1 - k) / 2
    degree = 1 - np.sqrt(squared / (squared + 0.01))
    np.testing.assert_allclose(recovered, [[1, 0], [degree / (1 + degree), 1 / (1 + degree)]])


def test_km_gives_irrelevant_labels_exactly_zero(samples):
    features, logical_labels = samples
    recovered = KM().fit_transform(features, logical_labels)
    assert (recovered[logical_labels == 0] == 0).all()
    assert (recovered[logical_labels == 1] > 0).all()


def test_km_does_not_depend_on_its_blocks(samples, monkeypatch):
    whole = KM().fit_transform(*samples)
    monkeypatch.setattr("conle.methods.km.BLOCK", 7)
    np.testing.assert_allclose(KM().fit_transform(*samples), whole, rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9])
def test_lp_is_its_closed_form(samples, alpha):
    """F = (1 - alpha) (I - alpha P)^-1 L."""
    features, logical_labels = samples
    A = np.exp(-((features[:, None] - features) ** 2).sum(axis=2) / 2)
    np.fill_diagonal(A, 0)
    R = A.sum(axis=1)
    P = A / np.sqrt(R[:, None] * R)
    F = (1 - alpha) * np.linalg.solve(np.eye(60) - alpha * P, logical_labels)
    recovered = LP(alpha=alpha).fit_transform(features, logical_labels)
    np.testing.assert_allclose(recovered, F / F.sum(axis=1, keepdims=True), atol=1e-10)


def test_lp_of_a_sample_far_from_all_others_keeps_its_labels():
    features = [[0.0], [0.1], [1000.0]]
    recovered = LP().fit_transform(features, [[1, 0], [0, 1], [0, 1]])
    assert recovered[2].tolist() == [0, 1]


def test_graph_laplacian_by_hand():
    """Points 0, 1, 3, 7 and one neighbour each: the edges 0-1, 1-3 and 3-7."""
    laplacian = graph_laplacian(np.array([[0.0], [1.0], [3.0], [7.0]]), 2, 10.0).toarray()
    a, b, c = np.exp(-np.array([1, 4, 16]) / 200)
    np.testing.assert_allclose(
        laplacian, [[a, -a, 0, 0], [-a, a + b, -b, 0], [0, -b, b + c, -c], [0, 0, -c, c]]
    )


def test_kernel_design_by_hand():
    design = kernel_design(np.array([[0.0], [3.0], [4.0]]))
    w = 8 / 3
    a, b, c = np.exp(-np.array([9, 16, 1]) / (2 * w**2))
    np.testing.assert_allclose(design, [[1, a, b, 1], [a, 1, c, 1], [b, c, 1, 1]])


def test_glle_at_convergence_is_its_closed_form(samples, monkeypatch):
    """Phi W = (I + lambda G)^-1 L at the minimum; Phi = I lets L-BFGS get there."""
    monkeypatch.setattr("conle.methods.glle.kernel_design", lambda features: np.eye(60))
    features, logical_labels = samples
    G = graph_laplacian(standardised(features), 5, 10.0).toarray()
    expected = softmax(np.linalg.solve(np.eye(60) + 0.5 * G, logical_labels), axis=1)
    enhancer = GLLE(lambda_=0.5, iterations=1000, tolerance=1e-12)
    np.testing.assert_allclose(
        enhancer.fit_transform(features, logical_labels), expected, atol=1e-5
    )


def test_lesc_at_convergence_is_its_closed_form(samples, monkeypatch):
    """Phi W = (I + lambda (I - C) (I - C'))^-1 L at the minimum; Phi = I as above."""
    monkeypatch.setattr("conle.methods.lesc.kernel_design", lambda features: np.eye(60))
    features, logical_labels = samples
    basis, coefficients, _ = low_rank_representation(standardised(features), 1.0, 50, 0.01, 1.5)
    gap = np.eye(60) - basis @ coefficients
    expected = softmax(np.linalg.solve(np.eye(60) + 0.5 * gap @ gap.T, logical_labels), axis=1)
    enhancer = LESC(lambda_=0.5, iterations=1000, tolerance=1e-12)
    np.testing.assert_allclose(
        enhancer.fit_transform(features, logical_labels), expected, atol=1e-5
    )


@pytest.mark.parametrize(("samples_", "features", "rank"), [(80, 30, 4), (20, 50, 3), (40, 5, 5)])
def test_low_rank_representation_of_noise_free_data(samples_, features, rank):
    """C = V V', V the right singular vectors of X'; no error is left."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(samples_, rank)) @ generator.normal(size=(rank, features))
    basis, coefficients, residual = low_rank_representation(X, 10.0, 50, 0.01, 1.5)
    assert basis.shape == (samples_, rank)
    C = basis @ coefficients
    V = np.linalg.svd(X)[0][:, :rank]
    np.testing.assert_allclose(C, V @ V.T, atol=1e-6)
    np.testing.assert_allclose(X.T, X.T @ C, atol=1e-6 * np.abs(X).max())
    assert residual < 1e-6


def test_low_rank_representation_leaves_outliers_out():
    """One corrupted sample among many of rank 3: its error is kept, the others have none."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(100, 3)) @ generator.normal(size=(3, 40))
    X[17] += 3 * generator.normal(size=40)
    basis, coefficients, residual = low_rank_representation(X, 0.2, 50, 0.01, 1.5)
    error = np.linalg.norm(X.T - X.T @ basis @ coefficients, axis=0)
    assert residual < 1e-6
    assert error.argmax() == 17
    assert error[17] > 10 * np.delete(error, 17).max()


def test_low_rank_representation_minimises_its_objective():
    """Small moves of Z in random directions do not lower the objective."""
    generator = np.random.default_rng(1)
    X = generator.normal(size=(30, 6)) + 0.5
    basis, coefficients, _ = low_rank_representation(X, 0.3, 50, 0.01, 1.5)

    def objective(z):
        C = basis @ z
        error = np.linalg.norm(X.T - X.T @ C, axis=0).sum()
        return np.linalg.norm(C, ord="nuc") + 0.3 * error

    reached = objective(coefficients)
    for _ in range(50):
        move = generator.normal(size=coefficients.shape)
        for length in (1e-3, 1e-2, 1e-1):
            assert objective(coefficients + length * move) > reached - 1e-4


@pytest.mark.parametrize("enhancer", [GLLE, LESC])
@pytest.mark.parametrize("seed", range(5))
def test_sjaffe_is_recovered_with_any_seed(load_real, enhancer, seed):
    """The best-known public library returns NaN for some seeds."""
    features, distributions = load_real("SJAFFE")
    recovered = enhancer(seed=seed).fit_transform(features, binarise(distributions))
    assert np.isfinite(recovered).all()
