"""CUDA graphs: training steps on a GPU without the cost of launching each operation."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor | None], Tensor]

# Steps before the capture make the optimiser's state and choose kernels.
STEPS_BEFORE_CAPTURE = 3


class CUDAGraphStep:
    """A training step that is captured as a CUDA graph and then replayed.

    A step of small networks has some two hundred operations, and a GPU runs each in less time than
    a CPU needs to launch it. A captured step must have inputs of one shape, draw no random
    numbers, and never wait for the GPU.

    Args:
        step: takes the rows of the batch and which of them are samples; changes the weights in
            place and returns a tensor.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self._calls = 0
        self._side = torch.cuda.Stream()

    def __call__(self, rows: Tensor, present: Tensor) -> Tensor:
        """Do one step. The next call overwrites the result."""
        self._calls += 1
        if self._calls <= STEPS_BEFORE_CAPTURE:
            # Like the capture, the first steps use another stream than the default one.
            self._side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._side):
                output = self._step(rows, present)
            torch.cuda.current_stream().wait_stream(self._side)
            return output
        if self._calls == STEPS_BEFORE_CAPTURE + 1:
            self._rows, self._present = rows.clone(), present.clone()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._output = self._step(self._rows, self._present)
        self._rows.copy_(rows)
        self._present.copy_(present)
        self._graph.replay()
        return self._output


@contextmanager
def tensor_float_32(allowed: bool, device: torch.device) -> Iterator[None]:
    """Allow or forbid a GPU to round the factors of matrix products to TF32 (10 bits).

    The former setting returns at the end of the context. On a CPU nothing changes.
    """
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
