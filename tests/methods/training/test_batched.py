import numpy as np
import pytest
import torch

from conle.methods.conle import ConLE
from conle.methods.levi_mlp import LEVIMLP
from conle.methods.posterior.decoder import PosteriorFeatureless
from conle.methods.seeds import fold_seeds, spawned
from conle.methods.training.batched import (
    BatchedLinear,
    FeatureScaling,
    Samples,
    StepCounter,
    StoppedError,
    fold_batches,
    fold_chunks,
    on_all_cores,
    resolve_device,
)

CPU = torch.device("cpu")


def generators(*seeds):
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def test_batched_linear_is_a_linear_layer_per_fold():
    layer = BatchedLinear(generators(0, 1), 3, 2)
    x = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(2))
    for fold in range(2):
        expected = torch.nn.functional.linear(
            x[fold], layer.weight[fold].T, layer.bias[fold].squeeze(0)
        )
        torch.testing.assert_close(layer(x)[fold], expected)


def test_batched_linear_starts_from_each_folds_own_generator():
    both, second = BatchedLinear(generators(0, 1), 3, 2), BatchedLinear(generators(1), 3, 2)
    torch.testing.assert_close(both.weight[1], second.weight[0], rtol=0, atol=0)
    assert not torch.equal(both.weight[0], both.weight[1])
    assert both.weight.abs().max() <= 3**-0.5


def test_samples_taken_and_split_are_those_of_their_rows():
    features = torch.arange(24.0).reshape(2, 4, 3)
    labels = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    whole = Samples.of_dataset(features, labels, batch_size=4)
    assert whole.patterns[1].tolist() == [[0, 1], [1, 0]]
    assert whole.pattern.tolist() == [[1, 0, 1, 0]] * 2
    rows, present = torch.tensor([[2, 1], [3, 3]]), torch.tensor([[True, True], [True, False]])
    batch = whole.take(rows, present)
    assert batch.features.tolist() == [[[6, 7, 8], [3, 4, 5]], [[21, 22, 23], [21, 22, 23]]]
    assert batch.logical_labels.tolist() == [[[1, 0], [0, 1]], [[0, 1], [0, 1]]]
    assert (batch.patterns, batch.present) == (whole.patterns, present)
    assert batch.pattern.tolist() == [[1, 0], [0, 0]]
    first, second = whole.split(3)
    assert first.features.shape == (2, 3, 3)
    assert second.features.tolist() == [[[9, 10, 11]], [[21, 22, 23]]]
    assert second.pattern.tolist() == [[0], [0]]
    assert second.logical_labels.tolist() == [[[0, 1]]] * 2


def test_samples_have_patterns_where_a_batch_has_two_of_each():
    features, labels = torch.zeros(1, 4, 3), np.eye(2)[[0, 1, 0, 1]]
    assert Samples.of_dataset(features, labels, batch_size=4).patterns.shape == (1, 2, 2)
    for few in (
        Samples.of_dataset(features, labels, 3),
        Samples.of_dataset(features, np.eye(4), 9),
    ):
        assert few.patterns is None
        assert few.pattern is None
        assert few.take(torch.tensor([[0, 2]]), None).pattern is None


def test_batches_go_through_every_training_row_once_an_epoch():
    rows = [np.arange(10, 21), np.arange(100, 111)]
    batches = list(fold_batches(rows, 4, 6, [np.random.default_rng(s) for s in (0, 1)]))
    for fold, own in enumerate(rows):
        for epoch in (batches[:3], batches[3:]):
            seen = np.concatenate([batch[fold] for batch, _ in epoch])
            assert sorted(seen) == list(own)
        assert batches[0][0][fold].tolist() != batches[3][0][fold].tolist()
    assert [batch.shape[1] for batch, _ in batches[:3]] == [4, 4, 3]
    assert all(present is None for _, present in batches)


def test_folds_of_different_sizes_are_padded():
    rows = [np.arange(5), np.arange(50, 54)]
    (batch, present), *_ = fold_batches(rows, 8, 1, [np.random.default_rng(s) for s in (0, 1)])
    assert batch.shape == (2, 5)
    assert present.tolist() == [[True] * 5, [True] * 4 + [False]]
    assert sorted(batch[1][present[1]].tolist()) == [50, 51, 52, 53]


def test_batches_of_a_fold_do_not_depend_on_the_others():
    rows = [np.arange(30), np.arange(40, 71), np.arange(7)]
    seeds = (0, 1, 2)
    together = fold_batches(rows, 8, 12, [np.random.default_rng(s) for s in seeds])
    alone = fold_batches(rows[1:2], 8, 12, [np.random.default_rng(1)])
    for (batch, present), (own, _) in zip(together, alone, strict=True):
        taken = batch[1] if present is None else batch[1][present[1]]
        assert taken.tolist() == own[0].tolist()


def test_standard_scaling_takes_its_statistics_from_the_training_rows():
    features = np.array([[1.0, 5.0], [3.0, 5.0], [100.0, 6.0]])
    splits = [(np.array([0, 1]), np.array([2])), (np.array([0, 1, 2]), np.array([]))]
    standardised = FeatureScaling.standard(features, splits, clip=5.0).apply(features, CPU).numpy()
    # Mean 2, standard deviation 1; the test row is clipped, the constant column is zero.
    np.testing.assert_allclose(standardised[0], [[-1, 0], [1, 0], [5, 0]])
    np.testing.assert_allclose(standardised[1].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(standardised[1].std(axis=0), 1, atol=1e-6)


def test_standard_scaling_of_large_offsets_keeps_small_differences():
    features = 1e9 + np.arange(4.0)[:, None]
    rows = np.arange(4)
    standardised = FeatureScaling.standard(features, [(rows, rows)], clip=5.0).apply(features, CPU)
    np.testing.assert_allclose(
        standardised[0, :, 0], (np.arange(4) - 1.5) / np.arange(4).std(), rtol=1e-6
    )


def test_min_max_scaling_takes_its_limits_from_the_training_rows():
    features = np.array([[1.0, 5.0], [3.0, 5.0], [100.0, 6.0], [2.0, 5.0]])
    splits = [(np.array([0, 1, 3]), np.array([2]))]
    scaled = FeatureScaling.min_max(features, splits).apply(features, CPU).numpy()
    np.testing.assert_allclose(scaled[0], [[0, 0], [1, 0], [1, 0], [0.5, 0]])


@pytest.mark.parametrize("cores", [1, 2, 4, 8])
@pytest.mark.parametrize("folds", [1, 7, 10, 11, 100])
def test_chunks_cover_all_folds_once(folds, cores, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    chunks = fold_chunks([200] * folds, fold_bytes=1000, device=CPU)
    assert np.concatenate(chunks).tolist() == list(range(folds))
    assert max(map(len, chunks)) <= 25
    assert max(map(len, chunks)) - min(map(len, chunks)) <= 1
    # No core waits for another's last chunk.
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


def test_a_chunk_that_fails_stops_the_others():
    """The others would go on for ever."""
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


def test_fold_seeds_do_not_depend_on_the_number_of_folds():
    few, many = fold_seeds(3, 2), fold_seeds(3, 5)
    assert [s.generate_state(2).tolist() for s in many[:2]] == [
        s.generate_state(2).tolist() for s in few
    ]


def test_seeds_of_parts_are_the_same_again():
    seed = fold_seeds(3, 2)[1]
    first, again = spawned(seed, 3), spawned(seed, 3)
    for one, other, usual in zip(first, again, seed.spawn(3), strict=True):
        assert one.generate_state(4).tolist() == other.generate_state(4).tolist()
        assert one.generate_state(4).tolist() == usual.generate_state(4).tolist()


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
    """With the same results; told by PyTorch's own error, here without a GPU."""
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
    monkeypatch.setattr("conle.methods.training.batched.fold_chunks", lambda *_: [np.arange(7)])
    with pytest.warns(UserWarning, match="not enough memory for 7 folds"):
        found = enhancer.recover_folds(
            features, logical_labels, splits, lambda *progress: counts.append(progress[:2])
        )
    assert too_many == [7, 4, 3]
    np.testing.assert_allclose(found.recovered, expected.recovered, atol=1e-6)
    # Steps of no use do not count.
    done, whole = counts[-1]
    assert done == whole == max(done for done, _ in counts)
