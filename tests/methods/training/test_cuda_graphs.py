import numpy as np
import pytest
import torch
from sklearn.base import clone

from conle.methods.conle import ConLE
from conle.methods.levi_mlp import LEVIMLP
from conle.methods.lible import LIBLE
from conle.methods.training import batches as batches_module
from conle.methods.training import enhancer as enhancer_module
from conle.methods.training.batches import fold_batches, on_device
from conle.methods.training.cuda_graphs import tensor_float_32

CPU = torch.device("cpu")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def batches(**options):
    rows = [np.arange(11), np.arange(20, 29)]
    generators = [np.random.default_rng(seed) for seed in (0, 1)]
    return fold_batches(rows, 4, 7, generators, **options)


def test_batches_of_one_width_are_the_others_padded():
    for (rows, present), (padded, mask) in zip(batches(), batches(equally_wide=True), strict=True):
        assert padded.shape == mask.shape == (2, 4)
        for fold in range(2):
            own = rows[fold] if present is None else rows[fold][present[fold]]
            assert padded[fold][mask[fold]].tolist() == own.tolist()


@pytest.mark.parametrize(
    "enhancer",
    [
        ConLE(batch_size=16, steps=100, stopping="fixed", device="cpu"),
        LEVIMLP(batch_size=16, epochs=20, device="cpu"),
        LIBLE(batch_size=16, epochs=20, device="cpu"),
    ],
    ids=lambda enhancer: type(enhancer).__name__,
)
def test_padding_every_batch_changes_nothing_but_rounding(samples, monkeypatch, enhancer):
    """Batches for a GPU have one width; here every step runs without a graph."""
    features, logical_labels = samples
    rows = np.arange(60)
    splits = [(np.setdiff1d(rows, test), test) for test in np.array_split(rows, 7)]
    usual = enhancer.recover_folds(features, logical_labels, splits).recovered
    monkeypatch.setattr(
        enhancer_module,
        "fold_batches",
        lambda *given, equally_wide: fold_batches(*given, equally_wide=not equally_wide),
    )
    padded = enhancer.recover_folds(features, logical_labels, splits).recovered
    for one, other in zip(usual, padded, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_processor_gets_the_batches_as_they_are():
    for (rows, present), (same_rows, same) in zip(
        batches(), on_device(batches(), CPU), strict=True
    ):
        assert torch.equal(rows, same_rows)
        assert present is same is None or torch.equal(present, same)


def test_a_gpu_gets_the_same_batches_many_at_a_time(monkeypatch):
    """The transfers themselves need a GPU and are replaced."""
    moved = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(
        torch.Tensor, "to", lambda tensor, *_, **__: moved.append(len(tensor)) or tensor
    )
    monkeypatch.setattr(batches_module, "BATCHES_UPLOADED", 5)
    gpu = on_device(batches(equally_wide=True), torch.device("cuda"))
    for one, other in zip(gpu, batches(equally_wide=True), strict=True):
        assert all(map(torch.equal, one, other))
    assert moved == [5, 5, 2, 2]


def test_precision_is_left_alone_on_a_processor():
    before = torch.get_float32_matmul_precision()
    with tensor_float_32(True, CPU):
        assert torch.get_float32_matmul_precision() == before


@needs_gpu
@pytest.mark.parametrize(("tf32", "accuracy"), [(False, 1e-4), (True, 1e-2)])
@pytest.mark.parametrize(
    "enhancer",
    [
        ConLE(batch_size=16, steps=100, stopping="fixed"),
        LEVIMLP(batch_size=16, epochs=20),
        LIBLE(batch_size=16, epochs=20),
    ],
    ids=lambda enhancer: type(enhancer).__name__,
)
def test_a_gpu_recovers_what_a_processor_does(samples, enhancer, tf32, accuracy):
    features, logical_labels = samples
    rows = np.arange(60)
    splits = [(np.setdiff1d(rows, test), test) for test in np.array_split(rows, 7)]
    recovered = [
        clone(enhancer)
        .set_params(device=device, tf32=tf32)
        .recover_folds(features, logical_labels, splits)
        .recovered
        for device in ("cuda", "cpu")
    ]
    for one, other in zip(*recovered, strict=True):
        np.testing.assert_allclose(one, other, atol=accuracy)
    assert torch.get_float32_matmul_precision() == "highest"
