import numpy as np
import pytest
import torch
from scipy.special import rel_entr

from conle.core.binarisation import binarise
from conle.methods.references import LabelPosterior
from conle.methods.training.layers import BatchedLinear
from conle.methods.training.stopping import (
    BestWeights,
    LabelPosteriorDivergence,
    agreement,
    binarises_to,
)


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
    best = BestWeights(layer, lowest=0.0)
    at_check = []
    for step, reached in ((10, [0.2, 0.5, 0.0]), (20, [0.6, 0.5, 0.0]), (30, [0.6, 0.1, 0.0])):
        with torch.no_grad():
            layer.weight += 1
        at_check.append(layer.weight.detach().clone())
        best.update(step, torch.tensor(reached))
    best.restore()
    expected = torch.stack([at_check[1][0], at_check[0][1], at_check[2][2]])
    assert torch.equal(layer.weight, expected)
    steps, values = best.scores()
    assert steps.tolist() == [10, 20, 30]
    np.testing.assert_allclose(values, [[0.2, 0.6, 0.6], [0.5, 0.5, 0.1], [0, 0, 0]])


def test_divergence_from_the_label_posterior_of_a_fold():
    generator = np.random.default_rng(0)
    L = binarise(generator.dirichlet(np.full(4, 3.0), size=50)).astype(float)
    # These rows say nothing.
    L[:2] = [[0, 0, 0, 0], [1, 1, 1, 1]]
    recovered = generator.dirichlet(np.ones(4), size=(2, 50))
    training = np.zeros((2, 50), dtype=bool)
    training[0, :30], training[1, 20:] = True, True
    divergence = LabelPosteriorDivergence(
        torch.from_numpy(L).expand(2, 50, 4), torch.from_numpy(training), 0.5, seed=0
    )
    wanted = []
    for own, rows in zip(recovered, training, strict=True):
        D = LabelPosterior().fit(L[rows], L[rows]).transform(L, L)
        counted = rows & (L.sum(axis=1) % 4 > 0)
        wanted.append(rel_entr(D, own).sum(axis=1)[counted].mean())
    assert divergence(torch.from_numpy(recovered)).tolist() == pytest.approx(wanted)
    assert wanted[0] != pytest.approx(wanted[1], rel=0.01)


def test_rows_that_say_nothing_leave_no_divergence():
    L = torch.ones(1, 5, 3, dtype=torch.float64)
    divergence = LabelPosteriorDivergence(L, torch.ones(1, 5, dtype=torch.bool), 0.5, seed=0)
    assert divergence(torch.tensor([[[0.7, 0.2, 0.1]] * 5], dtype=torch.float64)).item() == 0
