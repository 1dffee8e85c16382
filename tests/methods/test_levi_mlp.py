import numpy as np
import pytest
import torch

from conle.methods.levi_mlp import LEVIMLP, Dropout
from conle.methods.training import scheduling


def splits_of(samples, folds):
    rows = np.arange(samples)
    return [(np.setdiff1d(rows, test), test) for test in np.array_split(rows, folds)]


def test_objective_falls_and_labels_are_reconstructed(samples):
    features, logical_labels = samples
    enhancer = LEVIMLP(epochs=300, batch_size=16, alpha=0.1, device="cpu")
    recovered = enhancer.fit_transform(features, logical_labels)
    loss = enhancer.curves_["loss"][1]
    assert loss[-20:].mean() < 0.5 * loss[:20].mean()
    # The softmax of a sigmoid: above the middle where the label is more likely than not.
    middle = (recovered.max(axis=1) + recovered.min(axis=1)) / 2
    assert ((recovered > middle[:, None]) == logical_labels).mean() > 0.95


def test_degrees_are_the_softmax_of_probabilities(samples):
    recovered = LEVIMLP(epochs=5, device="cpu").fit_transform(*samples)
    assert (recovered.max(axis=1) / recovered.min(axis=1) <= np.e + 1e-6).all()


def test_loss_is_the_weighted_sum_of_its_terms(samples):
    enhancer = LEVIMLP(epochs=3, alpha=0.3, beta=2.0, device="cpu").fit(*samples)
    values = {name: curve for name, (_, curve) in enhancer.curves_.items()}
    np.testing.assert_allclose(
        values["loss"],
        values["label_loss"] + 0.3 * values["prior_loss"] + 2.0 * values["feature_loss"],
        rtol=1e-5,
    )


def test_first_prior_loss_is_the_divergence_of_torch(samples):
    """The loss of the first step is computed from the initial weights, without dropout."""
    features, logical_labels = samples
    settings = {"epochs": 1, "dropout": 0.0, "learning_rate": 1e-30, "device": "cpu"}
    enhancer = LEVIMLP(**settings).fit(features, logical_labels)
    weights = {name: torch.from_numpy(array[0]) for name, array in enhancer.weights_.items()}
    span = features.max(axis=0) - features.min(axis=0)
    x = np.column_stack([(features - features.min(axis=0)) / span, logical_labels])
    x = torch.tensor(x, dtype=torch.float32)
    for layer in ("encoder.0", "encoder.1"):
        x = (x @ weights[f"{layer}.weight"] + weights[f"{layer}.bias"]).relu()
    mean, spread = (x @ weights["moments.weight"] + weights["moments.bias"]).split(36, dim=1)
    posterior = torch.distributions.Normal(mean, torch.nn.functional.softplus(spread))
    prior = torch.distributions.Normal(0.0, 1.0)
    expected = torch.distributions.kl_divergence(posterior, prior).sum(dim=1).mean().item()
    assert enhancer.curves_["prior_loss"][1][0] == pytest.approx(expected, rel=1e-4)


def test_batched_training_is_training_each_fold_alone(samples, monkeypatch):
    """Noise and dropout included; 61 samples in 4 folds, so that batches are padded too."""
    features, logical_labels = (np.vstack([array, array[:1]]) for array in samples)
    enhancer = LEVIMLP(epochs=25, batch_size=16, device="cpu")
    splits = splits_of(61, 4)
    together = enhancer.recover_folds(features, logical_labels, splits)
    monkeypatch.setattr(scheduling, "CHUNK_FOLDS_ON_CPU", 1)
    alone = enhancer.recover_folds(features, logical_labels, splits)
    for ours, theirs in zip(together.recovered, alone.recovered, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def dropped(rate, counts, units):
    """Apply dropout to ones in folds with different seeds and sizes; return outputs by seed."""
    generators = [torch.Generator().manual_seed(seed) for seed in counts]
    dropout = Dropout(rate, generators, list(counts.values()), 4001, torch.device("cpu"))
    x = torch.ones(len(counts), 4001, units, requires_grad=True)
    y = dropout.relu(x)
    y.sum().backward()
    assert torch.equal(x.grad, y)
    assert not dropout.relu(-x).any()
    return {seed: y[fold, :count].detach() for fold, (seed, count) in enumerate(counts.items())}


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.25, 0.75])
@pytest.mark.parametrize("units", [5, 8])
def test_dropout_keeps_the_mean_and_its_share(rate, units):
    together = dropped(rate, {0: 4001, 1: 3001}, units)
    for y in together.values():
        assert (y == 0).float().mean().item() == pytest.approx(rate, abs=0.015)
        assert y.mean().item() == pytest.approx(1.0, abs=0.05)
        # Units, and the parts of a drawn number, are independent.
        assert y.mean(dim=0).numpy() == pytest.approx(1.0, abs=0.1)
        assert y[y > 0].numpy() == pytest.approx(1 / (1 - rate))
    assert torch.equal(dropped(rate, {1: 3001}, units)[1], together[1])


def test_dropout_of_nearly_everything():
    assert dropped(1 - 1e-9, {0: 1000}, 1)[0].count_nonzero() <= 1


def test_nothing_is_dropped_in_recovery(samples):
    enhancer = LEVIMLP(epochs=2, dropout=0.9, device="cpu").fit(*samples)
    np.testing.assert_array_equal(enhancer.transform(*samples), enhancer.transform(*samples))


def test_folds_with_other_numbers_of_steps(samples):
    """33 and 32 training rows in batches of 16: three and two steps an epoch."""
    features, logical_labels = samples
    splits = [(np.arange(33), np.arange(33, 60)), (np.arange(32), np.arange(32, 60))]
    recovery = LEVIMLP(epochs=2, batch_size=16, device="cpu").recover_folds(
        features, logical_labels, splits
    )
    assert [len(curves["loss"][1]) for curves in recovery.curves] == [6, 4]
    assert [len(rows) for rows in recovery.recovered] == [27, 28]
