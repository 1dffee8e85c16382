import torch

from conle.methods.training.layers import BatchedLinear


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
