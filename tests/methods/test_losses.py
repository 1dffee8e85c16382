import math

import pytest
import torch

from conle.methods.losses import contrastive_loss, distance_loss, threshold_loss
from conle.methods.training.fused_contrast import fused_contrastive_loss

# Cosines of these are 0 or 1, so that the loss can be written down.
Z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
Q = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
E = math.e

# The formula, and the faster form that trains ConLE.
both_contrastive_losses = pytest.mark.parametrize(
    "contrastive_loss", [contrastive_loss, fused_contrastive_loss]
)

RECOVERED = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.4, 0.3, 0.3]])
LABELS = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])


def padded(tensor):
    """The batch of three with two rows of padding, full of values that must not matter."""
    return torch.cat([tensor, torch.full((2, tensor.shape[1]), 7.0)])


PRESENT = torch.tensor([True, True, True, False, False])


@both_contrastive_losses
def test_contrastive_loss_of_a_batch_of_three(contrastive_loss):
    """At tau = 1, per sample: log of the sum over both other samples, minus h(Z_m, Q_m)."""
    l_z = [math.log(2 + 2 * E) - 1, math.log(3 + E), math.log(1 + 3 * E)]
    l_q = [math.log(2 + 2 * E) - 1, math.log(1 + 3 * E), math.log(3 + E)]
    expected = (sum(l_z) + sum(l_q)) / 3
    assert contrastive_loss(Z, Q, temperature=1.0).item() == pytest.approx(expected, rel=1e-6)


@both_contrastive_losses
def test_contrastive_loss_divides_cosines_by_the_temperature(contrastive_loss):
    """Two samples at right angles, tau = 0.5: log(1 + 1) - 2 for each of l_Z and l_Q."""
    z = torch.eye(2)
    expected = 2 * (math.log(2) - 2)
    assert contrastive_loss(z, z, temperature=0.5).item() == pytest.approx(expected, rel=1e-6)


@both_contrastive_losses
def test_contrastive_loss_is_the_written_formula_on_random_batches(contrastive_loss):
    generator = torch.Generator().manual_seed(0)
    z, q = torch.randn(2, 6, 4, generator=generator, dtype=torch.float64)
    tau = 0.5

    def h(a, b):
        return math.exp(torch.nn.functional.cosine_similarity(a, b, dim=0) / tau)

    total = 0.0
    for m in range(6):
        for own, other in ((z, q), (q, z)):
            negatives = sum(h(own[m], own[s]) + h(own[m], other[s]) for s in range(6) if s != m)
            total -= math.log(h(own[m], other[m]) / negatives)
    assert contrastive_loss(z, q, tau).item() == pytest.approx(total / 6, rel=1e-12)


@both_contrastive_losses
@pytest.mark.parametrize("present", [None, [[True] * 5, [True, False, True, True, False]]])
def test_gradient_of_the_contrastive_loss(contrastive_loss, present):
    generator = torch.Generator().manual_seed(1)
    z, q = torch.randn(2, 2, 5, 3, generator=generator, dtype=torch.float64)
    mask = None if present is None else torch.tensor(present)
    z.requires_grad_()
    q.requires_grad_()
    assert torch.autograd.gradcheck(lambda z, q: contrastive_loss(z, q, 0.4, mask), (z, q))
    loss = contrastive_loss(z, q, 0.4, mask).sum()
    again = [torch.autograd.grad(loss, (z, q), retain_graph=True) for _ in range(2)]
    assert all(map(torch.equal, *again))
    if present is not None:
        assert again[0][0][1, [1, 4]].abs().max() == 0


@pytest.mark.parametrize("temperature", [0.5, 0.05, 0.02])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("patterns", [1, 4, 40])
def test_contrastive_loss_of_patterns_is_that_of_their_samples(patterns, padded, temperature):
    """The gradient of a pattern is the sum over its samples, in float32 and in float64."""
    generator = torch.Generator().manual_seed(5)
    z = torch.randn(3, 30, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    q = torch.randn(3, patterns, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    pattern = torch.randint(patterns, (3, 30), generator=generator)
    present = torch.arange(30) < torch.tensor([[30], [17], [1]]) if padded else None

    def of(loss):
        return loss.detach().double(), *torch.autograd.grad(loss.sum(), (z, q))

    q_of_sample = q[torch.arange(3)[:, None], pattern]
    expected = of(contrastive_loss(z, q_of_sample, temperature, present))
    exact = of(fused_contrastive_loss(z, q, temperature, present, pattern))
    rounded = of(fused_contrastive_loss(z.float(), q.float(), temperature, present, pattern))
    for ours, single, theirs in zip(exact, rounded, expected, strict=True):
        size = theirs.abs().max().item()
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13 * size)
        torch.testing.assert_close(single, theirs, rtol=0, atol=1e-5 * size)


def test_contrastive_loss_of_two_samples_of_one_pattern():
    """At tau = 1, Z at right angles, the pattern's Q along the first.

    l_Z: log(1 + e) - 1 and log(1 + 1) - 0; l_Q: log(e + 1) - 1 and log(e + e) - 0.
    """
    z, q = torch.eye(2), torch.tensor([[2.0, 0.0]])
    expected = (2 * (math.log(1 + E) - 1) + math.log(2) + math.log(2 * E)) / 2
    loss = fused_contrastive_loss(z, q, 1.0, pattern=torch.tensor([0, 0]))
    assert loss.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("pattern", [None, torch.tensor([0, 1, 0])])
def test_padding_has_no_gradient_at_the_smallest_temperature(pattern):
    """The padding is the first sample again: its pair with it is e^50."""
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]], requires_grad=True)
    q = torch.tensor([[0.0, 1.0], [-1.0, 0.0], [0.0, 1.0]])
    present = torch.tensor([True, True, False])
    fused_contrastive_loss(z, q, 0.02, present, pattern).backward()
    assert torch.isfinite(z.grad).all()
    assert z.grad[2].tolist() == [0, 0]


@both_contrastive_losses
def test_contrastive_loss_exchanges_z_and_q(contrastive_loss):
    assert contrastive_loss(Z, Q).item() == pytest.approx(contrastive_loss(Q, Z).item())


@both_contrastive_losses
def test_contrastive_loss_of_one_sample_has_no_term(contrastive_loss):
    z = torch.ones(1, 3, requires_grad=True)
    loss = contrastive_loss(z, z * 2)
    loss.backward()
    assert loss.item() == 0
    assert z.grad.tolist() == [[0, 0, 0]]


@both_contrastive_losses
def test_contrastive_loss_of_a_zero_row_is_finite(contrastive_loss):
    z = Z.clone()
    z[1] = 0
    z.requires_grad_()
    loss = contrastive_loss(z, Q)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(z.grad).all()


@both_contrastive_losses
@pytest.mark.parametrize("temperature", [0.0, -1.0, 0.01, float("nan")])
def test_contrastive_loss_refuses_a_temperature_it_cannot_take(contrastive_loss, temperature):
    with pytest.raises(ValueError, match=r"at least 0\.02"):
        contrastive_loss(Z, Q, temperature)


@both_contrastive_losses
def test_contrastive_loss_at_its_smallest_temperature(contrastive_loss):
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    loss = contrastive_loss(z, z.detach(), temperature=0.02)
    loss.backward()
    assert loss.item() == pytest.approx(2 * (math.log(2) - 50 - 50), rel=1e-5)
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize(("reduction", "expected"), [("sum", 2.56), ("mean", 2.56 / 3)])
def test_distance_loss_of_a_batch_of_three(reduction, expected):
    """.25 + .09 + .04 = .38, .04 + .64 + .16 = .84 and .36 + .49 + .49 = 1.34."""
    assert distance_loss(RECOVERED, LABELS, reduction).item() == pytest.approx(expected)


def test_distance_loss_refuses_other_reductions():
    with pytest.raises(ValueError, match='"mean" or "sum"'):
        distance_loss(RECOVERED, LABELS, "median")


def test_threshold_loss_of_a_batch_of_three():
    """.3 - .5 + .25 = .05; .2 - .2 + .25 = .25; all relevant: no term."""
    expected = (0.05 + 0.25 + 0.0) / 3
    assert threshold_loss(RECOVERED, LABELS, epsilon=0.25).item() == pytest.approx(expected)


def test_threshold_loss_is_zero_where_the_margin_holds():
    assert threshold_loss(RECOVERED[:1], LABELS[:1], epsilon=0.1).item() == 0


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_threshold_loss_of_all_or_no_relevant_labels(label):
    recovered = RECOVERED.clone().requires_grad_()
    loss = threshold_loss(recovered, torch.full((3, 3), label))
    loss.backward()
    assert loss.item() == 0
    assert recovered.grad.abs().sum().item() == 0


LOSSES = [
    pytest.param(contrastive_loss, (Z, Q), id="contrastive"),
    pytest.param(fused_contrastive_loss, (Z, Q), id="contrastive-fused"),
    pytest.param(distance_loss, (RECOVERED, LABELS), id="distance"),
    pytest.param(
        lambda *arguments, **options: distance_loss(*arguments, reduction="sum", **options),
        (RECOVERED, LABELS),
        id="distance-sum",
    ),
    pytest.param(threshold_loss, (RECOVERED, LABELS), id="threshold"),
]


@pytest.mark.parametrize(("loss", "batch"), LOSSES)
def test_padding_takes_no_part(loss, batch):
    inputs = [padded(tensor).requires_grad_() for tensor in batch]
    value = loss(*inputs, present=PRESENT)
    value.backward()
    assert value.item() == pytest.approx(loss(*batch).item())
    assert inputs[0].grad[3:].abs().sum().item() == 0


@pytest.mark.parametrize(("loss", "batch"), LOSSES)
def test_folds_are_independent(loss, batch):
    folds = [torch.stack([tensor, tensor.flip(-1)]).requires_grad_() for tensor in batch]
    values = loss(*folds)
    assert values.shape == (2,)
    assert values[0].item() == pytest.approx(loss(*batch).item())
    values[0].backward()
    assert folds[0].grad[1].abs().sum().item() == 0


@pytest.mark.parametrize(("loss", "batch"), LOSSES)
def test_gradients(loss, batch):
    generator = torch.Generator().manual_seed(1)
    first = torch.rand(batch[0].shape, generator=generator, dtype=torch.float64) + 0.1
    assert torch.autograd.gradcheck(lambda x: loss(x, batch[1].double()), (first.requires_grad_(),))


EDGES = {
    "zeros": lambda x: torch.zeros_like(x),
    "ties": lambda x: torch.full_like(x, 0.25),
    "ties in a row": lambda x: x[:1].expand_as(x).clone(),
    "huge": lambda x: x * 1e15,
    "tiny": lambda x: x * 1e-15,
    "opposite": lambda x: torch.where(torch.arange(len(x))[:, None] % 2 == 0, x, -x),
    "batch of two": lambda x: x[:2],
}
LABELS_OF_EDGES = {
    "one relevant": lambda L: torch.eye(L.shape[1], dtype=L.dtype)[torch.zeros(len(L)).long()],
    "all relevant": lambda L: torch.ones_like(L),
    "none relevant": lambda L: torch.zeros_like(L),
    "mixed": lambda L: L,
}


@pytest.mark.parametrize(
    ("loss", "labels"),
    [(contrastive_loss, "mixed"), (fused_contrastive_loss, "mixed")]
    + [(loss, labels) for loss in (distance_loss, threshold_loss) for labels in LABELS_OF_EDGES],
)
@pytest.mark.parametrize("edge", EDGES)
def test_edges_are_finite_and_float32_is_near_float64(loss, edge, labels):
    generator = torch.Generator().manual_seed(2)
    first = EDGES[edge](torch.randn(6, 4, generator=generator, dtype=torch.float64))
    mixed = (torch.arange(24).reshape(6, 4) % 3 == 0).double()
    second = LABELS_OF_EDGES[labels](mixed)[: len(first)]
    values, gradients = [], []
    for kind in (torch.float32, torch.float64):
        x = first.to(kind).requires_grad_()
        value = loss(x, second.to(kind))
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(x.grad).all()
        values.append(value.item())
        gradients.append(x.grad.double())
    assert values[0] == pytest.approx(values[1], rel=1e-5, abs=1e-6)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5 * gradients[1].abs().max().item())


@pytest.mark.parametrize("margin", [0.0, 0.1, 2.0])
def test_gradient_of_the_threshold_loss(margin):
    """The gradient exists away from ties and from the margin."""
    generator = torch.Generator().manual_seed(3)
    recovered = torch.rand(5, 4, generator=generator, dtype=torch.float64).softmax(dim=-1)
    labels = (torch.arange(20).reshape(5, 4) % 3 == 0).double()
    assert torch.autograd.gradcheck(
        lambda x: threshold_loss(x, labels, epsilon=margin), (recovered.requires_grad_(),)
    )


def test_default_margin_and_temperature_are_those_documented():
    assert threshold_loss(RECOVERED[:1], LABELS[:1]).item() == pytest.approx(0)
    assert threshold_loss(RECOVERED[1:2], LABELS[1:2]).item() == pytest.approx(0.1)
    for loss in (contrastive_loss, fused_contrastive_loss):
        assert loss(Z, Q).item() == pytest.approx(loss(Z, Q, 0.5).item())


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("kind", ["contrastive", "fused", "distance", "threshold"])
def test_folds_with_other_numbers_of_samples(kind, reduction):
    """Each fold has the loss of its own samples alone, even with a single sample."""
    if kind == "distance":

        def loss(*batch, present=None):
            return distance_loss(*batch, reduction, present)
    else:
        loss = {
            "contrastive": contrastive_loss,
            "fused": fused_contrastive_loss,
            "threshold": threshold_loss,
        }[kind]
    generator = torch.Generator().manual_seed(4)
    first = torch.rand(4, 5, 3, generator=generator, dtype=torch.float64)
    second = (torch.rand(4, 5, 3, generator=generator) > 0.5).double()
    # Only the lowest degree is relevant, so that no loss of this sample is 0.
    second[3, 0] = torch.nn.functional.one_hot(first[3, 0].argmin(), 3)
    counts = torch.tensor([5, 3, 2, 1])
    present = torch.arange(5) < counts[:, None]
    values = loss(first, second, present=present)
    alone = [loss(x[:n], y[:n]) for x, y, n in zip(first, second, counts, strict=True)]
    torch.testing.assert_close(values, torch.stack(alone))
    assert (loss(first, second)[0] - values[0]).abs() < 1e-12
