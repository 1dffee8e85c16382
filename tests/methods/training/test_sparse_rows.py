import numpy as np
import pytest
import torch

from conle.methods.levi_mlp import LEVIMLP
from conle.methods.training import sparse_rows
from conle.methods.training.layers import BatchedLinear
from conle.methods.training.samples import Samples
from conle.methods.training.scaling import FeatureScaling
from conle.methods.training.sparse_rows import SparseRows, columns_of_values

CPU = torch.device("cpu")


@pytest.fixture
def table():
    """120 samples with three to five of 200 features, one of them common; see `splits`."""
    generator = np.random.default_rng(0)
    features = np.zeros((120, 200))
    for row in features:
        chosen = generator.permutation(199)[: generator.integers(2, 5)]
        row[chosen] = generator.uniform(0.5, 3, len(chosen))
    # Only the first row has a zero here, so that the fold that tests it has a positive minimum.
    features[1:, 199] = generator.uniform(1, 2, 119)
    return features


@pytest.fixture
def splits():
    rows = np.arange(120)
    return [(np.setdiff1d(rows, test), test) for test in np.array_split(rows, 2)]


@pytest.fixture
def folds(table, splits):
    """The scaled table of two folds, stored sparse and dense."""
    scaling = FeatureScaling.min_max(table, splits)
    sparse = scaling.apply(table, CPU)
    dense = np.stack([scaling.scale_for(fold, table) for fold in range(2)])
    return sparse, torch.tensor(dense, dtype=torch.float32)


def test_nearly_empty_features_become_sparse(folds):
    sparse, dense = folds
    assert isinstance(sparse, SparseRows)
    assert sparse.shape == dense.shape
    assert sparse.columns.shape[-1] == 5
    identity = torch.eye(200).expand(2, 200, 200)
    torch.testing.assert_close(sparse.times(identity), dense, rtol=0, atol=0)


def test_dense_features_and_scalings_that_move_zero_stay_dense(table, splits):
    assert columns_of_values(np.ones((3, 200))) is None
    assert isinstance(FeatureScaling.standard(table, splits, 5.0).apply(table, CPU), torch.Tensor)
    table[:, 0] -= 1
    assert isinstance(FeatureScaling.min_max(table, splits).apply(table, CPU), torch.Tensor)


def test_a_table_of_zeros():
    columns = torch.from_numpy(columns_of_values(np.zeros((4, 100))))[None]
    rows = SparseRows(columns, torch.zeros(1, 4, 1), 100)
    assert not rows.times(torch.ones(1, 100, 3)).any()


def test_products_and_gradients_are_those_of_dense_rows(folds):
    results = []
    for features in folds:
        layer = BatchedLinear([torch.Generator().manual_seed(s) for s in (1, 2)], 200, 7)
        inner = BatchedLinear([torch.Generator().manual_seed(s) for s in (3, 4)], 7, 200)
        hidden = layer(features).tanh()
        error = inner.squared_error(hidden, features)
        error.sum().backward()
        results.append([error.detach(), *(p.grad for m in (layer, inner) for p in m.parameters())])
    for sparse, dense in zip(*results, strict=True):
        torch.testing.assert_close(sparse, dense, rtol=1e-4, atol=1e-4)


def test_columns_beside(folds):
    sparse, dense = folds
    more = torch.rand(2, 120, 3, generator=torch.Generator().manual_seed(0))
    weights = torch.rand(2, 203, 4, generator=torch.Generator().manual_seed(1))
    expected = torch.cat([dense, more], dim=-1) @ weights
    torch.testing.assert_close(sparse.beside(more).times(weights), expected)


def test_a_batch_has_the_chosen_rows_of_each_fold(folds):
    sparse, dense = folds
    labels = np.tile([1.0, 0.0], (120, 1))
    rows = torch.tensor([[3, 0, 110], [119, 3, 3]])
    identity = torch.eye(200).expand(2, 200, 200)
    batch = Samples.of_dataset(sparse, labels, 16).take(rows, None)
    torch.testing.assert_close(
        batch.features.times(identity),
        Samples.of_dataset(dense, labels, 16).take(rows, None).features,
    )
    parts = [
        part.features.times(identity) for part in Samples.of_dataset(sparse, labels, 16).split(50)
    ]
    torch.testing.assert_close(torch.cat(parts, dim=1), dense)


def test_levi_mlp_recovers_the_same_from_sparse_and_dense(table, splits, monkeypatch):
    labels = (table[:, :4] > 0).astype(float)
    labels[:, 0] = 1
    enhancer = LEVIMLP(epochs=5, batch_size=16, device="cpu")
    sparse = enhancer.recover_folds(table, labels, splits)
    monkeypatch.setattr(sparse_rows, "COST_OF_VALUE", np.inf)
    dense = enhancer.recover_folds(table, labels, splits)
    np.testing.assert_allclose(sparse.recovered, dense.recovered, rtol=1e-3)
    for name, (_, values) in sparse.curves[0].items():
        np.testing.assert_allclose(values, dense.curves[0][name][1], rtol=1e-3, err_msg=name)
