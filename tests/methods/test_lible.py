import numpy as np
import pytest
import torch
from scipy.special import expit, log_softmax, softmax

from conle.core.binarisation import binarise
from conle.core.measures import kl_divergence
from conle.methods.lible import LIBLE, LIBLENetworks
from conle.methods.references import Uniform
from conle.methods.training import scheduling
from conle.methods.training.samples import Samples

SMALLEST = 1e-3


def generators(*seeds):
    return [torch.Generator().manual_seed(seed) for seed in seeds]


@pytest.fixture
def networks():
    return LIBLENetworks(generators(1, 2), features=5, labels=4, hidden=6, latent=3)


@pytest.fixture
def batch(samples):
    """Eight samples of one fold, and five and padding of another."""
    features, logical_labels = (torch.from_numpy(array).float() for array in samples)
    present = torch.ones(2, 8, dtype=torch.bool)
    present[1, 5:] = False
    return Samples(
        features[:16].unflatten(0, (2, 8)),
        logical_labels[:16].unflatten(0, (2, 8)),
        present,
        None,
        None,
    )


def perceptron(weights, name, fold, x):
    layers = [key for key in weights if key.startswith(name) and key.endswith("weight")]
    for number, key in enumerate(layers):
        x = expit(x) if number else x
        x = x @ weights[key][fold] + weights[key.replace("weight", "bias")][fold]
    return x


def softplus(x):
    return np.logaddexp(0, x) + SMALLEST


def test_objective_by_numpy(networks, batch):
    weights = {name: value.double().numpy() for name, value in networks.state_dict().items()}
    enhancer = LIBLE(alpha=0.3, beta=0.7, latent=3)
    terms = enhancer._objective(networks, batch, generators(11, 12))
    for fold, (seed, count) in enumerate([(11, 8), (12, 5)]):
        x, labels = (
            array[fold, :count].double().numpy() for array in (batch.features, batch.logical_labels)
        )
        moments = perceptron(weights, "encoder", fold, x)
        mean, deviation = moments[:, :3], softplus(moments[:, 3:])
        h = mean + deviation * torch.randn((count, 3), generator=generators(seed)[0]).numpy()
        logits = perceptron(weights, "assignment", fold, h)
        assignment = -(labels * log_softmax(logits, axis=1)).sum(axis=1)
        prior = ((mean**2 + deviation**2 - 1) / 2 - np.log(deviation)).sum(axis=1)
        sigma = softplus(perceptron(weights, "gap", fold, h))
        gap = labels - perceptron(weights, "degrees", fold, h)
        density = np.exp(-(gap**2) / (2 * sigma**2)) / np.sqrt(2 * np.pi * sigma**2)
        likelihood = -np.log(density).mean(axis=1) - np.log(2 * np.pi) / 2
        expected = {
            "loss": assignment.mean() + 0.7 * prior.mean() + 0.3 * likelihood.mean(),
            "assignment_loss": assignment.mean(),
            "prior_loss": prior.mean(),
            "gap_loss": likelihood.mean(),
        }
        for name, value in expected.items():
            assert terms[name][fold].item() == pytest.approx(value, rel=1e-5), name


def test_gradients_flow_to_every_weight(networks, batch):
    enhancer = LIBLE(latent=3)
    enhancer._objective(networks, batch, generators(11, 12))["loss"].sum().backward()
    for name, weight in networks.named_parameters():
        assert torch.isfinite(weight.grad).all()
        assert (weight.grad.flatten(1) != 0).any(dim=1).all(), name


def test_a_fold_has_no_part_in_the_gradient_of_another(networks, batch):
    enhancer = LIBLE(latent=3)
    enhancer._objective(networks, batch, generators(11, 12))["loss"][0].backward()
    assert not any(weight.grad[1].any() for weight in networks.parameters())


@pytest.fixture(scope="module")
def simulated():
    """Distributions that are a smooth function of the features, and their logical labels."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(400, 6))
    distributions = softmax(features @ generator.normal(size=(6, 5)), axis=1)
    return features, distributions, binarise(distributions)


@pytest.mark.slow
def test_better_than_uniform_on_simulated_data(simulated):
    features, distributions, logical_labels = simulated
    training, test = np.arange(300), np.arange(300, 400)
    enhancer = LIBLE(epochs=200, device="cpu")
    (recovered,) = enhancer.recover_folds(features, logical_labels, [(training, test)]).recovered
    uniform = Uniform().fit_transform(features[test], logical_labels[test])
    reached = kl_divergence(distributions[test], recovered).mean()
    assert reached < 0.7 * kl_divergence(distributions[test], uniform).mean()


@pytest.mark.slow
def test_a_narrow_bottleneck_leaves_nothing_but_the_frequencies_of_labels(simulated):
    features, _, logical_labels = simulated
    enhancer = LIBLE(beta=100.0, epochs=200, device="cpu")
    recovered = enhancer.fit_transform(features, logical_labels)
    assert enhancer.curves_["prior_loss"][1][-1] < 0.01
    frequencies = softmax(logical_labels.mean(axis=0))
    np.testing.assert_allclose(recovered, np.tile(frequencies, (400, 1)), atol=0.03)


def test_logical_labels_of_new_samples_are_not_read(samples):
    features, logical_labels = samples
    enhancer = LIBLE(epochs=3, device="cpu").fit(features, logical_labels)
    np.testing.assert_array_equal(
        enhancer.transform(features, logical_labels),
        enhancer.transform(features, 1 - logical_labels),
    )


@pytest.mark.slow
def test_loss_falls(samples):
    enhancer = LIBLE(epochs=200, batch_size=20, device="cpu").fit(*samples)
    loss = enhancer.curves_["loss"][1]
    assert loss[-20:].mean() < 0.8 * loss[:20].mean()


def test_batched_training_is_training_each_fold_alone(samples, monkeypatch):
    """61 samples in 4 folds, so that batches are padded too."""
    features, logical_labels = (np.vstack([array, array[:1]]) for array in samples)
    enhancer = LIBLE(epochs=25, batch_size=16, device="cpu")
    rows = np.arange(61)
    splits = [(np.setdiff1d(rows, test), test) for test in np.array_split(rows, 4)]
    together = enhancer.recover_folds(features, logical_labels, splits)
    monkeypatch.setattr(scheduling, "CHUNK_FOLDS_ON_CPU", 1)
    alone = enhancer.recover_folds(features, logical_labels, splits)
    for ours, theirs in zip(together.recovered, alone.recovered, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
