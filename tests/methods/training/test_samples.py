import numpy as np
import torch

from conle.methods.training.samples import Samples


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
