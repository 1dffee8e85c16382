import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

from conle.core.binarisation import binarise
from conle.methods.conle import READINGS, ConLE
from conle.methods.contract import DivergenceError
from conle.methods.levi_mlp import LEVIMLP
from conle.methods.losses import contrastive_loss, distance_loss, threshold_loss
from conle.methods.references import LabelPosterior
from conle.methods.training import scheduling
from conle.methods.training.samples import Samples


def splits_of(samples, folds):
    rows = np.arange(samples)
    return [(np.setdiff1d(rows, test), test) for test in np.array_split(rows, folds)]


def test_batched_training_is_training_each_fold_alone(samples, monkeypatch):
    """61 samples in 4 folds: training sets of 45 and 46, so that batches are padded too."""
    features, logical_labels = (np.vstack([array, array[:1]]) for array in samples)
    enhancer = ConLE(steps=100, stopping="fixed", batch_size=16, device="cpu")
    splits = splits_of(61, 4)
    together = enhancer.recover_folds(features, logical_labels, splits)
    monkeypatch.setattr(scheduling, "CHUNK_FOLDS_ON_CPU", 1)
    alone = enhancer.recover_folds(features, logical_labels, splits)
    for name, weights in together.weights.items():
        np.testing.assert_allclose(weights, alone.weights[name], atol=1e-5, err_msg=name)
    for ours, theirs in zip(together.recovered, alone.recovered, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("patterns", ["shared", "of few"])
def test_training_is_that_of_plain_networks(samples, patterns):
    """Three plain networks are trained from the same start on full batches by PyTorch's SGD."""
    features, logical_labels = samples
    if patterns == "of few":
        # Sixty samples with sixty different logical labels.
        logical_labels = (np.arange(1, 61)[:, None] >> np.arange(6)) % 2.0
    labels = logical_labels.shape[1]
    whole = Samples.of_dataset(torch.zeros(1, 60, 5), logical_labels, 60)
    assert (whole.pattern is not None) == (patterns == "shared")
    steps = 100
    fit = {"stopping": "fixed", "batch_size": 60, "device": "cpu"}
    start = ConLE(steps=1, learning_rate=1e-30, **fit).fit(features, logical_labels).weights_
    trained = ConLE(steps=steps, **fit).fit(features, logical_labels)

    networks = nn.ModuleDict(
        {
            "f1": nn.Sequential(nn.Linear(5, 64), nn.LeakyReLU(), nn.Linear(64, 64)),
            "f2": nn.Sequential(nn.Linear(labels, 64), nn.LeakyReLU(), nn.Linear(64, 64)),
            "f3": nn.Sequential(nn.Linear(128, 64), nn.LeakyReLU(), nn.Linear(64, labels)),
        }
    )
    with torch.no_grad():
        for name, parameter in networks.named_parameters():
            parameter.copy_(torch.from_numpy(start[name][0]).T.reshape(parameter.shape))
    X = torch.tensor((features - features.mean(0)) / features.std(0), dtype=torch.float32)
    X = X.clip(-5, 5)
    L = torch.tensor(logical_labels, dtype=torch.float32)
    optimizer = torch.optim.SGD(networks.parameters(), lr=0.01, momentum=0.9)
    for _ in range(steps):
        z, q = networks["f1"](X), networks["f2"](L)
        recovered = networks["f3"](torch.cat([z, q], dim=1)).softmax(dim=1)
        loss = (
            contrastive_loss(z, q, 0.5)
            + 0.5 * distance_loss(recovered, L)
            + threshold_loss(recovered, L, 0.1)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for name, parameter in networks.named_parameters():
        ours = torch.from_numpy(trained.weights_[name][0]).T.reshape(parameter.shape)
        torch.testing.assert_close(ours, parameter.detach(), atol=1e-4, rtol=0, msg=name)


def test_a_fold_is_not_influenced_by_its_neighbours(samples):
    """Fold 0 beside folds with other training rows, and with rows of its test fold changed."""
    features, logical_labels = samples
    splits = splits_of(60, 3)
    enhancer = ConLE(steps=60, batch_size=16, device="cpu")
    first = enhancer.recover_folds(features, logical_labels, splits)
    others = enhancer.recover_folds(features, logical_labels, [splits[0], splits[2], splits[1]])
    changed = features.copy()
    changed[splits[0][1]] += 1000.0
    elsewhere = enhancer.recover_folds(changed, logical_labels, splits)
    for name, weights in first.weights.items():
        np.testing.assert_allclose(others.weights[name][0], weights[0], atol=1e-6)
        np.testing.assert_allclose(elsewhere.weights[name][0], weights[0], atol=1e-6)


def test_recover_folds_recovers_as_a_fitted_enhancer_does(samples):
    """The first fold's seed is that of a fit to its training rows alone."""
    features, logical_labels = samples
    training, test = splits_of(60, 3)[0]
    enhancer = ConLE(steps=50, batch_size=16, device="cpu", seed=4)
    recovery = enhancer.recover_folds(features, logical_labels, [(training, test)])
    enhancer.fit(features[training], logical_labels[training])
    np.testing.assert_allclose(
        recovery.recovered[0],
        enhancer.transform(features[test], logical_labels[test]),
        atol=1e-6,
    )


@pytest.mark.parametrize(
    ("reading", "softmaxes_in_loss", "softmaxes_on_recovery"),
    [("raw", 0, 1), ("softmax", 1, 1), ("double", 1, 2)],
)
def test_readings(samples, reading, softmaxes_in_loss, softmaxes_on_recovery):
    features, logical_labels = samples
    enhancer = ConLE(
        steps=1,
        learning_rate=1e-30,
        stopping="fixed",
        batch_size=60,
        reading=reading,
        device="cpu",
    ).fit(features, logical_labels)
    weights = {name: torch.from_numpy(array[0]) for name, array in enhancer.weights_.items()}

    def network(name, x):
        hidden = nn.functional.leaky_relu(
            x @ weights[f"{name}.0.weight"] + weights[f"{name}.0.bias"]
        )
        return hidden @ weights[f"{name}.2.weight"] + weights[f"{name}.2.bias"]

    X = torch.tensor((features - features.mean(0)) / features.std(0), dtype=torch.float32)
    L = torch.tensor(logical_labels, dtype=torch.float32)
    outputs = network("f3", torch.cat([network("f1", X.clip(-5, 5)), network("f2", L)], dim=1))

    def softmaxed(times):
        result = outputs
        for _ in range(times):
            result = result.softmax(dim=1)
        return result

    np.testing.assert_allclose(
        enhancer.transform(features, logical_labels), softmaxed(softmaxes_on_recovery), atol=1e-6
    )
    _, values = enhancer.curves_["distance_loss"]
    expected = distance_loss(softmaxed(softmaxes_in_loss), L).item()
    assert values[0] == pytest.approx(expected, rel=1e-5)


def test_loss_is_the_weighted_sum_of_its_terms(samples):
    enhancer = ConLE(steps=5, stopping="fixed", lambda1=0.3, lambda2=2.0, device="cpu").fit(
        *samples
    )
    curves = {name: values for name, (_, values) in enhancer.curves_.items()}
    np.testing.assert_allclose(
        curves["loss"],
        curves["contrastive_loss"] + 0.3 * curves["distance_loss"] + 2.0 * curves["threshold_loss"],
        rtol=1e-5,
    )


@pytest.mark.parametrize(
    ("switch", "absent"),
    [("use_contrastive_loss", "contrastive_loss"), ("use_threshold_loss", "threshold_loss")],
)
def test_ablations_leave_out_a_loss(samples, switch, absent):
    enhancer = ConLE(steps=5, stopping="fixed", device="cpu", **{switch: False}).fit(*samples)
    terms = {"contrastive_loss", "distance_loss", "threshold_loss"}
    assert terms & set(enhancer.curves_) == terms - {absent}


def test_agreement_keeps_its_first_maximum(samples):
    """The recovered training rows give back L as often as the best check says."""
    features, logical_labels = samples
    enhancer = ConLE(steps=100, check_every=10, batch_size=16, device="cpu")
    enhancer.fit(features, logical_labels)
    steps, agreement = enhancer.curves_["agreement"]
    assert steps.tolist() == list(range(10, 101, 10))
    recovered = enhancer.transform(features, logical_labels)
    share = (binarise(recovered) == logical_labels).all(axis=1).mean()
    assert share == pytest.approx(agreement.max())

    first_best = steps[agreement.argmax()]
    stopped = ConLE(steps=int(first_best), stopping="fixed", batch_size=16, device="cpu")
    np.testing.assert_allclose(
        recovered, stopped.fit_transform(features, logical_labels), atol=1e-6
    )


def test_label_posterior_keeps_the_weights_nearest_to_it(samples):
    features, logical_labels = samples
    settings = {"reading": "softmax", "batch_size": 16, "device": "cpu"}
    enhancer = ConLE(steps=100, stopping="label_posterior", **settings)
    recovered = enhancer.fit_transform(features, logical_labels)
    steps, divergence = enhancer.curves_["kl_to_featureless"]
    assert steps.tolist() == list(range(10, 101, 10))
    # The minimum lies between the first and the last check.
    assert 0 < divergence.argmin() < 9
    expected = LabelPosterior().fit_transform(features, logical_labels)
    some = ~logical_labels.all(axis=1)
    kl = (expected * np.log(expected / recovered)).sum(axis=1)[some].mean()
    assert kl == pytest.approx(divergence.min(), abs=1e-6)

    stopped = ConLE(steps=int(steps[divergence.argmin()]), stopping="fixed", **settings)
    np.testing.assert_allclose(
        recovered, stopped.fit_transform(features, logical_labels), atol=1e-6
    )


# Near-uniform distributions, and peaked ones.
@pytest.mark.parametrize(("spread", "kept"), [(0.05, "double"), (1.5, "raw")])
def test_the_reading_nearest_to_the_label_posterior_is_kept(spread, kept):
    generator = np.random.default_rng(1)
    features = generator.normal(size=(200, 4))
    scores = features @ generator.normal(size=(4, 5)) + generator.normal(size=(200, 5))
    logical_labels = binarise(softmax(spread * scores, axis=1)).astype(float)
    settings = {"stopping": "label_posterior", "steps": 60, "device": "cpu"}
    enhancer = ConLE(reading="auto", **settings)
    recovered = enhancer.fit_transform(features, logical_labels)
    single = {
        reading: ConLE(reading=reading, **settings).fit(features, logical_labels)
        for reading in READINGS
    }
    least = {name: own.curves_["kl_to_featureless"][1].min() for name, own in single.items()}
    assert min(least, key=least.get) == kept
    assert READINGS[enhancer.weights_["reading"].item()] == kept
    np.testing.assert_array_equal(recovered, single[kept].transform(features, logical_labels))
    np.testing.assert_array_equal(recovered, enhancer.transform(features, logical_labels))
    assert enhancer.curves_.keys() == single[kept].curves_.keys()


def test_each_fold_keeps_its_own_reading():
    """The labels of one half are those of near-uniform distributions, of the other of peaked."""
    generator = np.random.default_rng(2)
    features = generator.normal(size=(120, 3))
    scores = features @ generator.normal(size=(3, 6))
    spread = np.repeat([0.05, 3.0], 60)[:, None]
    logical_labels = binarise(softmax(spread * scores, axis=1)).astype(float)
    splits = [(np.arange(60), np.arange(60, 80)), (np.arange(60, 120), np.arange(20))]
    settings = {"stopping": "label_posterior", "steps": 60, "snapshot_every": 60, "device": "cpu"}
    reports = []
    recovery = ConLE(reading="auto", **settings).recover_folds(
        features, logical_labels, splits, lambda *report: reports.append(report)
    )
    kept = [READINGS[number] for number in recovery.weights["reading"].ravel()]
    assert kept[0] != kept[1]
    for fold, reading in enumerate(kept):
        alone = ConLE(reading=reading, **settings).recover_folds(features, logical_labels, splits)
        np.testing.assert_array_equal(recovery.recovered[fold], alone.recovered[fold])
        np.testing.assert_array_equal(recovery.snapshots[fold][60], alone.snapshots[fold][60])
        np.testing.assert_array_equal(
            recovery.weights["f1.0.weight"][fold], alone.weights["f1.0.weight"][fold]
        )
    # Two folds of 60 steps, with three readings.
    done = [own for own, _, _ in reports]
    assert done == sorted(done)
    assert reports[-1] == (360, 360, "360 of 360 steps")


def test_a_reading_that_diverges_is_left_out(samples):
    """Without a softmax, the output and the loss are unbounded."""
    settings = {"stopping": "label_posterior", "reduction": "sum", "learning_rate": 5.0}
    settings |= {"steps": 20, "device": "cpu"}
    with pytest.raises(DivergenceError):
        ConLE(reading="raw", **settings).fit(*samples)
    with pytest.warns(UserWarning, match="^ConLE: the reading raw is left out: ConLE diverged: "):
        adaptive = ConLE(reading="auto", **settings).fit(*samples)
    divergences = {}
    for reading in ("double", "softmax"):
        alone = ConLE(reading=reading, **settings).fit(*samples)
        divergences[reading] = alone.curves_["kl_to_featureless"][1].min()
        if reading == adaptive.kept_reading_:
            np.testing.assert_array_equal(adaptive.transform(*samples), alone.transform(*samples))
    assert adaptive.kept_reading_ == min(divergences, key=divergences.get)


def test_all_readings_that_diverge_are_an_error(samples):
    settings = {"stopping": "label_posterior", "learning_rate": 1e30, "steps": 20, "device": "cpu"}
    with pytest.raises(DivergenceError, match=r"^ConLE diverged: .*no reading trains without"):
        ConLE(reading="auto", **settings).fit(*samples)


def test_the_kept_reading_is_an_attribute_of_the_adaptive_method_alone(samples):
    settings = {"stopping": "label_posterior", "steps": 10, "device": "cpu"}
    adaptive = ConLE(reading="auto", **settings)
    assert not hasattr(adaptive, "kept_reading_")
    adaptive.fit(*samples)
    assert adaptive.kept_reading_ == READINGS[adaptive.weights_["reading"].item()]
    assert ConLE(reading="raw", **settings).fit(*samples).kept_reading_ is None


def test_relevant_labels_end_above_irrelevant_ones(samples):
    features, logical_labels = samples
    recovered = ConLE(steps=200, device="cpu").fit_transform(features, logical_labels)
    relevant = np.where(logical_labels == 1, recovered, np.inf).min(axis=1)
    irrelevant = np.where(logical_labels == 0, recovered, -np.inf).max(axis=1)
    assert (relevant > irrelevant).mean() > 0.95


def test_loss_falls(samples):
    enhancer = ConLE(steps=200, device="cpu").fit(*samples)
    _, values = enhancer.curves_["loss"]
    assert values[-1] < values[0] - 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"learning_rate": 0}, "ConLE: learning_rate must be greater than 0, not 0$"),
        ({"learning_rate": "fast"}, "ConLE: learning_rate must be a valid number, not 'fast'$"),
        ({"lambda1": -1}, "lambda1 must be greater than or equal to 0, not -1"),
        ({"momentum": 1.0}, r"momentum must be less than 1, not 1\.0"),
        ({"threshold": 1.0}, r"threshold must be less than 1, not 1\.0"),
        ({"temperature": 0.001}, r"temperature must be greater than or equal to 0\.02, not 0\.001"),
        ({"reading": "twice"}, "reading must be 'raw', 'softmax', 'double' or 'auto', not 'twice'"),
        (
            {"stopping": "early"},
            "stopping must be 'agreement', 'label_posterior' or 'fixed', not 'early'",
        ),
        ({"reduction": "max"}, "reduction must be 'mean' or 'sum', not 'max'"),
        ({"hidden": 0, "steps": 2.5}, "hidden must .*, not 0; steps must be a valid integer"),
        ({"steps": 5, "check_every": 10}, "must not exceed steps"),
        ({"reading": "auto"}, "'auto' needs stopping 'label_posterior', not 'agreement'"),
        ({"epochs": 5}, r"5 epochs of 60 training rows are 5 steps, fewer than check_every \(10\)"),
        ({"device": "tpu"}, "cannot be used on this machine"),
        ({"seed": -1}, "seed must be greater than or equal to 0, not -1"),
    ],
)
def test_hyperparameters_out_of_range(samples, parameters, message):
    with pytest.raises(ValueError, match=message):
        ConLE(**parameters).fit(*samples)


def test_snapshots_are_what_a_shorter_training_recovers(samples):
    features, logical_labels = samples
    splits = splits_of(60, 3)
    fixed = {"stopping": "fixed", "batch_size": 16, "device": "cpu"}
    recovery = ConLE(steps=30, snapshot_every=10, **fixed).recover_folds(
        features, logical_labels, splits
    )
    assert [list(fold) for fold in recovery.snapshots] == [[10, 20, 30]] * 3
    shorter = ConLE(steps=20, **fixed).recover_folds(features, logical_labels, splits)
    for fold in range(3):
        np.testing.assert_array_equal(recovery.snapshots[fold][20], shorter.recovered[fold])
        np.testing.assert_array_equal(recovery.snapshots[fold][30], recovery.recovered[fold])


def test_labels_that_no_recovery_can_give_back_keep_the_last_weights():
    """Four of five labels are relevant; binarising the softmax of a softmax never gives that."""
    features = np.random.default_rng(0).normal(size=(30, 3))
    logical_labels = np.tile([1.0, 1, 1, 1, 0], (30, 1))
    settings = {"steps": 20, "device": "cpu"}
    with pytest.warns(UserWarning, match="in 1 of 1 folds no recovered training row"):
        recovered = ConLE(**settings).fit_transform(features, logical_labels)
    fixed = ConLE(stopping="fixed", **settings).fit_transform(features, logical_labels)
    np.testing.assert_array_equal(recovered, fixed)


def test_folds_without_agreement_are_counted_once(monkeypatch):
    """The folds are trained in chunks; the labels of the second half can be given back."""
    monkeypatch.setattr("conle.methods.training.scheduling.CHUNK_FOLDS_ON_CPU", 2)
    features = np.random.default_rng(0).normal(size=(40, 3))
    logical_labels = np.tile([1.0, 1, 1, 1, 0], (40, 1))
    logical_labels[20:, 2:] = 0
    rows = np.arange(40)
    splits = [(rows[:20], rows[20:])] * 4 + [(rows[20:], rows[:20])]
    with pytest.warns(UserWarning, match="no recovered training row ever binarised") as caught:
        ConLE(steps=20, device="cpu").recover_folds(features, logical_labels, splits)
    (warning,) = caught
    assert str(warning.message).startswith("ConLE: in 4 of 5 folds ")


def test_divergence_is_an_error(samples):
    wild = ConLE(reading="raw", reduction="sum", learning_rate=1e6, steps=20, device="cpu")
    with pytest.raises(DivergenceError, match="1 of 1 folds is not finite at step"):
        wild.fit(*samples)


@pytest.mark.parametrize(
    "wild",
    [
        ConLE(steps=1, stopping="fixed", learning_rate=1e30, device="cpu"),
        LEVIMLP(epochs=1, learning_rate=1e38, device="cpu"),
    ],
    ids=lambda enhancer: type(enhancer).__name__,
)
def test_divergence_in_the_last_step_is_an_error(samples, wild):
    """No later step has a loss that would show the divergence."""
    with pytest.raises(DivergenceError, match="diverged: what it recovers is not finite"):
        wild.recover_folds(*samples, splits_of(60, 3))
    with pytest.raises(DivergenceError, match="diverged: what it recovers is not finite"):
        wild.fit(*samples)
