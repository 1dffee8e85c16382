"""The sampler against brute force, simulated truth and Geweke's joint test."""

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp, kstest

from conle.core.binarisation import binarise
from conle.methods.posterior.sampler import (
    Coefficients,
    CoefficientUpdates,
    LatentDegrees,
    fit_coefficients,
    sample_distributions,
    sweep_seeds,
    uniforms,
)
from conle.methods.posterior.threshold_model import start_ratios

CPU = torch.device("cpu")


def coefficients_of(weights, covariance):
    inverse_root = np.linalg.inv(np.linalg.cholesky(covariance)).T
    variance = np.trace(covariance) / len(covariance)
    return Coefficients(
        *(
            torch.from_numpy(np.asarray(value, dtype=np.float64))[None]
            for value in (weights, inverse_root, variance, 1.0)
        )
    )


def root_of(coefficients):
    """G of Sigma = G G'."""
    return torch.linalg.inv(coefficients.inverse_root).mT


def degrees_of(logical_labels, threshold, floor=0.0, copies=1):
    ratios = start_ratios(logical_labels.astype(float), threshold)
    rows = np.repeat(logical_labels, copies, axis=0)
    start = np.repeat(ratios, copies, axis=0) * (2 * floor or 1.0)
    return LatentDegrees(
        torch.from_numpy(rows.T[None] == 1).contiguous(),
        torch.from_numpy(start.T[None]).contiguous(),
        floor,
        threshold,
    )


def draws_of(degrees, means, coefficients, sweeps, burn_in, seed=0):
    """D of every sweep: draws x samples x labels."""
    states = sweep_seeds([np.random.SeedSequence(seed)], sweeps)
    kept = []
    for sweep in range(sweeps):
        drawn = uniforms(states[sweep], *degrees.u.shape[1:], CPU)
        degrees.sweep(means, coefficients, drawn)
        if sweep >= burn_in:
            kept.append(degrees.distributions()[0].T.numpy().copy())
    return np.stack(kept)


# Only slow tests use the other thresholds, which find the same mistakes.
THRESHOLDS = [0.5, *(pytest.param(other, marks=pytest.mark.slow) for other in (0.3, 0.7))]


def random_covariance(generator, labels):
    root = generator.normal(size=(labels, labels)) / np.sqrt(labels)
    return root @ root.T + 0.2 * np.eye(labels)


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize(("labels", "floor"), [(3, 0.0), (4, 0.0), (4, 1.0)])
def test_posterior_moments_against_rejection(labels, floor, threshold):
    """With W and Sigma fixed: draw D from the prior and keep those that binarise to L."""
    generator = np.random.default_rng(labels)
    mean, covariance = generator.normal(size=labels) * 0.5, random_covariance(generator, labels)
    u = generator.multivariate_normal(mean, covariance, size=400_000)
    w = floor + np.exp(u)
    prior = w / w.sum(axis=1, keepdims=True)
    given = binarise(prior, threshold)
    rows, number = np.unique(given, axis=0, return_counts=True)
    rows = rows[number > 4000]
    assert len(rows) >= 3
    copies = 400
    degrees = degrees_of(rows, threshold, floor, copies)
    means = torch.from_numpy(np.tile(mean[:, None], (1, len(rows) * copies))[None])
    draws = draws_of(degrees, means, coefficients_of(mean[None], covariance), 90, 30)
    draws = draws.reshape(-1, len(rows), copies, labels).transpose(1, 0, 2, 3)
    for row, own in zip(rows, draws, strict=True):
        kept = prior[(given == row).all(axis=1)]
        chains = own.mean(axis=0)
        error = np.hypot(chains.std(axis=0) / np.sqrt(copies), kept.std(0) / np.sqrt(len(kept)))
        assert (np.abs(chains.mean(axis=0) - kept.mean(axis=0)) < 4.5 * error).all()
        np.testing.assert_allclose(
            own.reshape(-1, labels).std(axis=0), kept.std(axis=0), rtol=0.06, atol=1e-3
        )


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_intervals_cover_simulated_distributions(threshold):
    """D from W and Sigma, 5,000 of them: 90 % intervals hold 88 to 92 % of the degrees."""
    generator = np.random.default_rng(5)
    samples, labels = 5000, 4
    features = np.column_stack([np.ones(samples), generator.normal(size=(samples, 2))])
    weights, covariance = generator.normal(size=(3, labels)) * 0.6, random_covariance(generator, 4)
    u = features @ weights + generator.multivariate_normal(np.zeros(4), covariance, size=samples)
    true = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
    degrees = degrees_of(binarise(true, threshold), threshold)
    means = torch.from_numpy((features @ weights).T[None].copy())
    draws = draws_of(degrees, means, coefficients_of(weights, covariance), 330, 30)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    covered = ((low <= true) & (true <= high)).mean(axis=0)
    assert ((covered > 0.88) & (covered < 0.92)).all(), covered


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_every_draw_binarises_to_its_labels(threshold):
    """The cumulative sum may be off by 1e-12; the chain also moves the scale."""
    generator = np.random.default_rng(3)
    features = generator.normal(size=(80, 2))
    scores = features @ generator.normal(size=(2, 6)) + generator.normal(size=(80, 6))
    rows = binarise(np.exp(scores) / np.exp(scores).sum(1, keepdims=True), threshold)
    columns = torch.from_numpy(np.column_stack([np.ones(80), features]))[None]
    training = degrees_of(rows, threshold)
    seeds = [np.random.SeedSequence(1)]
    variances = torch.full((1,), 0.1)
    fitted = fit_coefficients(training, columns, 1.0, variances, seeds, 60, lambda: None)
    degrees = degrees_of(rows, threshold)
    number = 0
    for drawn in sample_distributions(degrees, columns, fitted, seeds, 60, 0, lambda: None):
        for distributions in (drawn[0].T.numpy(), training.distributions()[0].T.numpy()):
            relevant = np.where(rows == 1, distributions, np.inf).min(axis=1)
            irrelevant = np.where(rows == 1, 0, distributions).max(axis=1)
            mass = (distributions * rows).sum(axis=1)
            assert (relevant >= irrelevant - 1e-12).all()
            assert (mass > threshold - 1e-12).all()
            assert (mass - relevant <= threshold + 1e-12).all()
        number += 1
    assert number == 60


CHAINS = 3000


def prior_draws(generators, labels, columns, scale_prior):
    """lambda, Sigma and W from their prior, one for each generator.

    Sigma is an inverse Wishart draw with 2 c degrees of freedom that is scaled to a half-normal
    overall deviation. Flat in the scale, the draws would have equal densities in it, so the shape
    of Sigma and its scale are independent.
    """
    drawn = []
    for generator in generators:
        precision = generator.gamma(0.5, 1 / 0.5)
        factor = np.tril(generator.standard_normal((labels, labels)), -1) + np.diag(
            np.sqrt(generator.chisquare(2 * labels - np.arange(labels)))
        )
        root = np.linalg.inv(factor).T
        deviation = abs(generator.normal(scale=scale_prior))
        root *= deviation / np.sqrt((root**2).sum() / labels)
        ridge = np.r_[0.01, np.full(columns - 1, precision)]
        noise = generator.standard_normal((columns, labels)) / np.sqrt(ridge)[:, None]
        drawn.append((noise @ root.T, np.linalg.inv(root).T, deviation**2, precision))
    return Coefficients(*(torch.from_numpy(np.stack(part)) for part in zip(*drawn, strict=True)))


def statistics_of(coefficients):
    root = root_of(coefficients)
    covariance = root @ root.mT
    weights = coefficients.weights
    return {
        "lambda": coefficients.precision,
        "deviation": coefficients.variance.sqrt(),
        "first variance": covariance[:, 0, 0],
        "covariance": covariance[:, 0, 1],
        "intercept": weights[:, 0, 0],
        "weight": weights[:, 1, 1],
        "size of the weights": (weights[:, 1:] ** 2).sum(dim=(1, 2)),
    }


def test_geweke_joint_test():
    """Chains that start at the prior stay there if u is drawn anew after every update.

    The test covers the draws of a, of (Sigma, W) and of lambda, and the scale moves.
    """
    labels, samples, cycles, threshold = 3, 6, 8, 0.5
    scale_prior = 0.8
    seeds = np.random.SeedSequence(11).spawn(3)
    generators = [np.random.default_rng(seed) for seed in seeds[0].spawn(CHAINS)]
    noise = np.random.default_rng(seeds[1])
    features = noise.normal(size=(samples, 2))
    columns = torch.from_numpy(np.column_stack([np.ones(samples), features]))
    columns = columns.expand(CHAINS, -1, -1)
    present = prior_draws(generators, labels, 3, scale_prior)
    updates = CoefficientUpdates(columns, labels, scale_prior, generators, cycles)
    moved = torch.zeros(CHAINS)
    for cycle in range(cycles):
        errors = torch.from_numpy(noise.standard_normal((CHAINS, samples, labels)))
        u = (columns @ present.weights + errors @ root_of(present).mT).mT.contiguous()
        d = u.softmax(dim=1).mT.reshape(-1, labels).numpy()
        rows = binarise(d, threshold).reshape(CHAINS, samples, labels)
        relevant = torch.from_numpy(rows == 1).mT.contiguous()
        degrees = LatentDegrees(relevant, u.exp(), 0.0, threshold)
        # Some draws of a vague prior have weights that overflow.
        degrees.u = u
        present = updates.draw(cycle, degrees.u, present)
        before = present.variance
        present = updates.move_scale(cycle, degrees, present)
        moved += present.variance != before
    assert moved.mean() > 1
    fresh = prior_draws(
        [np.random.default_rng(seed) for seed in seeds[2].spawn(CHAINS)], labels, 3, scale_prior
    )
    expected = statistics_of(fresh)
    for name, values in statistics_of(present).items():
        p_value = ks_2samp(values.numpy(), expected[name].numpy()).pvalue
        assert p_value > 1e-3, name
    # The distribution of lambda has a closed form.
    assert kstest(present.precision.numpy(), "gamma", args=(0.5, 0, 2)).pvalue > 1e-3


def test_folds_do_not_depend_on_what_they_are_batched_with():
    generator = np.random.default_rng(0)
    columns = torch.from_numpy(
        np.concatenate([np.ones((3, 30, 1)), generator.normal(size=(3, 30, 2))], axis=2)
    )
    rows = binarise(generator.dirichlet(np.ones(4), size=90)).reshape(3, 30, 4)

    def fitted(folds):
        relevant = torch.from_numpy(rows[folds] == 1).mT.contiguous()
        start = start_ratios(rows[folds].reshape(-1, 4).astype(float), 0.5)
        start = torch.from_numpy(start.reshape(len(folds), 30, 4)).mT.contiguous()
        own = [np.random.SeedSequence(0).spawn(3)[fold] for fold in folds]
        *_, last = fit_coefficients(
            LatentDegrees(relevant, start, 0.0, 0.5),
            columns[folds],
            1.0,
            torch.full((len(folds),), 0.1, dtype=torch.float64),
            own,
            20,
            lambda: None,
        )
        return last.weights

    together = fitted([0, 1, 2])
    for fold in range(3):
        torch.testing.assert_close(fitted([fold])[0], together[fold], rtol=1e-8, atol=1e-10)
