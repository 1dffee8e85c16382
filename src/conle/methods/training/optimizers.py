"""Stochastic gradient descent with momentum, and Adam.

They do the steps of `torch.optim.SGD` and `torch.optim.Adam` with torch's functional forms. Those
classes import torch's compiler when they are made, which takes a second and 70 MB.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd


class Optimizer(ABC):
    """Changes weights by their gradients.

    Args:
        parameters: the weights.
        lr: learning rate, greater than 0.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        self._parameters, self._lr = list(parameters), lr

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change the weights by the gradients."""
        self._step([parameter.grad for parameter in self._parameters])

    @abstractmethod
    def _step(self, gradients: list[torch.Tensor]) -> None:
        """Change the weights, of which torch follows no gradients here."""


class SGD(Optimizer):
    """Stochastic gradient descent.

    Args:
        parameters: the weights.
        lr: learning rate, greater than 0.
        momentum: share of the former step that is added, at least 0.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, momentum: float) -> None:
        super().__init__(parameters, lr)
        self._momentum = momentum
        self._buffers = [None] * len(self._parameters) if momentum else []

    def _step(self, gradients: list[torch.Tensor]) -> None:
        sgd(
            self._parameters,
            gradients,
            self._buffers,
            fused=True,
            weight_decay=0.0,
            momentum=self._momentum,
            lr=self._lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )


class Adam(Optimizer):
    """Adam with torch's default moments.

    Source: Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, lr)
        self._means, self._squares = (
            [torch.zeros_like(own) for own in self._parameters] for _ in range(2)
        )
        self._steps = [
            torch.zeros((), dtype=torch.float32, device=own.device) for own in self._parameters
        ]

    def _step(self, gradients: list[torch.Tensor]) -> None:
        adam(
            self._parameters,
            gradients,
            self._means,
            self._squares,
            [],
            self._steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._lr,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )
