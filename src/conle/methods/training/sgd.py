"""Stochastic gradient descent with momentum."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import torch
from torch import nn
from torch.optim.sgd import sgd


@runtime_checkable
class Optimizer(Protocol):
    """The methods of an optimiser that a training step calls."""

    def zero_grad(self) -> None:
        """Forget the gradients."""

    def step(self) -> None:
        """Change the weights by the gradients."""


class SGD:
    """Do the steps of `torch.optim.SGD` with torch's functional form.

    That class imports torch's compiler when it is made, which takes a second.

    Args:
        parameters: the weights.
        lr: learning rate, greater than 0.
        momentum: share of the former step that is added, at least 0.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, momentum: float) -> None:
        self._parameters = list(parameters)
        self._lr, self._momentum = lr, momentum
        self._buffers = [None] * len(self._parameters) if momentum else []

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    def step(self) -> None:
        """Change the weights by the gradients."""
        with torch.no_grad():
            sgd(
                self._parameters,
                [parameter.grad for parameter in self._parameters],
                self._buffers,
                fused=True,
                weight_decay=0.0,
                momentum=self._momentum,
                lr=self._lr,
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )
