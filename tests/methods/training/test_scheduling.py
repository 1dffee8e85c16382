from contextlib import suppress

import numpy as np
import pytest
import torch

from conle.methods.conle import ConLE
from conle.methods.levi_mlp import LEVIMLP
from conle.methods.lible import LIBLE
from conle.methods.posterior.variants import PosteriorFeatureless
from conle.methods.training.scheduling import (
    StepCounter,
    StoppedError,
    fold_chunks,
    on_all_cores,
    resolve_device,
    threads_for,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize("cores", [1, 2, 4, 8])
@pytest.mark.parametrize("folds", [1, 7, 10, 11, 100])
def test_chunks_cover_all_folds_once(folds, cores, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    chunks = fold_chunks([200] * folds, fold_bytes=1000, device=CPU)
    assert np.concatenate(chunks).tolist() == list(range(folds))
    assert max(map(len, chunks)) <= 25
    assert max(map(len, chunks)) - min(map(len, chunks)) <= 1
    # No core waits while another works on a last chunk.
    assert len(chunks) % min(cores, -(-folds // 5)) == 0


def test_chunks_shrink_where_the_features_are_large():
    chunks = fold_chunks([200] * 10, fold_bytes=800_000_000, device=CPU)
    assert [len(chunk) for chunk in chunks] == [1] * 10


def test_chunks_side_by_side_come_in_their_order():
    chunks = [np.array([number]) for number in range(20)]
    threads = torch.get_num_threads()
    done = list(on_all_cores(lambda chunk: int(chunk[0]), chunks, CPU, lambda: None))
    assert done == list(range(20))
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("multiply_adds", "device", "threads"),
    [
        (10_000_000, "cpu", 1),
        (299_999_999, "cpu", 1),
        (300_000_000, "cpu", 2),
        (10_000_000, "cuda", 2),
    ],
)
def test_only_large_steps_are_shared_among_threads(two_threads, multiply_adds, device, threads):
    with suppress(KeyboardInterrupt), threads_for(multiply_adds, torch.device(device)):
        assert torch.get_num_threads() == threads
        raise KeyboardInterrupt
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("features", "threads"), [(300, 1), (20_000, 2)])
@pytest.mark.parametrize(
    "enhancer",
    [ConLE(steps=10, device="cpu"), LEVIMLP(epochs=1, device="cpu")],
    ids=lambda enhancer: type(enhancer).__name__,
)
@pytest.mark.filterwarnings("ignore:ConLE. in 1 of 1 folds no recovered training row")
def test_a_fit_has_the_threads_of_its_size(two_threads, monkeypatch, enhancer, features, threads):
    """20,000 features, 256 rows in a batch and 64 or more hidden units are 330 million products."""
    seen = []
    recovered = type(enhancer)._recovered

    def recording(self, *arguments):
        seen.append(torch.get_num_threads())
        return recovered(self, *arguments)

    monkeypatch.setattr(type(enhancer), "_recovered", recording)
    generator = np.random.default_rng(0)
    X, L = generator.normal(size=(256, features)), np.eye(4)[generator.integers(0, 4, 256)]
    enhancer.fit(X, L)
    enhancer.transform(X, L)
    assert set(seen) == {threads}
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    "enhancer",
    [
        ConLE(steps=20, device="cpu"),
        LEVIMLP(epochs=2, device="cpu"),
        LIBLE(epochs=2, device="cpu"),
        PosteriorFeatureless(sweeps=10, burn_in=5, threshold_model=False, device="cpu"),
    ],
    ids=lambda enhancer: type(enhancer).__name__,
)
@pytest.mark.filterwarnings("ignore:ConLE. in 1 of 1 folds no recovered training row")
@pytest.mark.filterwarnings("ignore:.* the logical labels hardly say how far")
def test_a_small_fit_does_not_depend_on_the_threads(two_threads, enhancer):
    """Products over 2,000 features have other last bits when threads share them."""
    generator = np.random.default_rng(0)
    X, L = generator.normal(size=(300, 2000)), np.eye(4)[generator.integers(0, 4, 300)]
    with_two = enhancer.fit(X, L).transform(X, L)
    torch.set_num_threads(1)
    assert enhancer.fit(X, L).transform(X, L).tobytes() == with_two.tobytes()


def test_a_chunk_that_fails_stops_the_others():
    """Without `stop`, the other chunks would never end."""
    counter = StepCounter(lambda done: None)

    def work(chunk):
        if chunk[0] == 0:
            raise KeyboardInterrupt
        while True:
            counter(1)

    threads = torch.get_num_threads()
    with pytest.raises(KeyboardInterrupt):
        list(on_all_cores(work, [np.array([n]) for n in range(5)], CPU, counter.stop))
    assert torch.get_num_threads() == threads
    with pytest.raises(StoppedError):
        counter(1)


def test_steps_are_counted():
    counts = []
    counter = StepCounter(counts.append)
    counter(2)
    counter(3)
    assert counts == [2, 5]


def test_folds_of_a_chunk_are_trained_equally_long(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    chunks = fold_chunks([20, 22, 20, 22, 22], fold_bytes=1000, device=CPU)
    assert [chunk.tolist() for chunk in chunks] == [[0, 2], [1, 3, 4]]


@pytest.mark.parametrize("device", ["tpu", "cuda:99", "nonsense"])
def test_devices_that_are_not_there(device):
    with pytest.raises(ValueError, match="cannot be used on this machine"):
        resolve_device(device)


def test_auto_is_the_gpu_where_there_is_one():
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize(
    "enhancer",
    [
        ConLE(steps=10, device="cpu"),
        LEVIMLP(epochs=5, device="cpu"),
        PosteriorFeatureless(sweeps=10, burn_in=5, threshold_model=False, device="cpu"),
    ],
    ids=lambda enhancer: type(enhancer).__name__,
)
@pytest.mark.filterwarnings("ignore:.* the logical labels hardly say how far")
def test_a_gpu_without_memory_takes_fewer_folds_at_a_time(samples, monkeypatch, enhancer):
    """The results are the same. PyTorch's own error is raised here without a GPU."""
    features, logical_labels = samples
    splits = [(np.arange(40), np.arange(40, 60))] * 7
    expected = enhancer.recover_folds(features, logical_labels, splits)
    count, too_many, counts = StepCounter.__call__, [], []

    def with_little_memory(self, folds):
        count(self, folds)
        if folds > 2:
            too_many.append(folds)
            raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(StepCounter, "__call__", with_little_memory)
    monkeypatch.setattr("conle.methods.training.enhancer.fold_chunks", lambda *_: [np.arange(7)])
    with pytest.warns(UserWarning, match="not enough memory for 7 folds"):
        found = enhancer.recover_folds(
            features, logical_labels, splits, lambda *progress: counts.append(progress[:2])
        )
    assert too_many == [7, 4, 3]
    np.testing.assert_allclose(found.recovered, expected.recovered, atol=1e-6)
    # Steps of a failed attempt do not count.
    done, whole = counts[-1]
    assert done == whole == max(done for done, _ in counts)
