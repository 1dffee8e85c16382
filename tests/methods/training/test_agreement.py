import numpy as np
import pytest
import torch

from conle.core.binarisation import binarise
from conle.methods.training.agreement import BestWeights, agreement, binarises_to
from conle.methods.training.layers import BatchedLinear


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
def test_binarises_to_agrees_with_binarise(threshold):
    generator = np.random.default_rng(0)
    distributions = generator.dirichlet(np.ones(4), size=2000)
    logical_labels = binarise(distributions, threshold)
    # Half of the rows get labels that some other row has.
    logical_labels[::2] = logical_labels[generator.permutation(2000)[::2]]
    expected = (binarise(distributions, threshold) == logical_labels).all(axis=1)
    assert 0.5 < expected.mean() < 0.9
    found = binarises_to(
        torch.from_numpy(distributions), torch.from_numpy(logical_labels).double(), threshold
    )
    assert found.tolist() == expected.tolist()


def test_agreement_is_the_share_of_training_rows():
    recovered = torch.tensor([[[0.7, 0.3], [0.2, 0.8], [0.9, 0.1]]] * 2)
    labels = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]] * 2)
    is_training = torch.tensor([[True, True, True], [True, True, False]])
    assert agreement(recovered, labels, is_training, 0.5).tolist() == pytest.approx([2 / 3, 0.5])


def test_weights_of_the_first_maximum_are_kept():
    """Fold 0 has its maximum at the second check, fold 1 at the first; fold 2 never agrees."""
    layer = BatchedLinear([torch.Generator().manual_seed(fold) for fold in range(3)], 2, 1)
    best = BestWeights(layer)
    at_check = []
    for step, reached in ((10, [0.2, 0.5, 0.0]), (20, [0.6, 0.5, 0.0]), (30, [0.6, 0.1, 0.0])):
        with torch.no_grad():
            layer.weight += 1
        at_check.append(layer.weight.detach().clone())
        best.update(step, torch.tensor(reached))
    best.restore()
    expected = torch.stack([at_check[1][0], at_check[0][1], at_check[2][2]])
    assert torch.equal(layer.weight, expected)
    steps, values = best.curves()["agreement"]
    assert steps.tolist() == [10, 20, 30]
    np.testing.assert_allclose(values, [[0.2, 0.6, 0.6], [0.5, 0.5, 0.1], [0, 0, 0]])
