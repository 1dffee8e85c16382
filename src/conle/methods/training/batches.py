"""The batches of every fold, step by step."""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from conle.methods.contract import Rows

# Rows of each fold, and which of them are samples and not padding (None where all are).
Batch = tuple[Int[Tensor, "folds batch"], Bool[Tensor, "folds batch"] | None]

BATCHES_UPLOADED = 64


def fold_batches(
    training_rows: Sequence[Rows],
    batch_size: int,
    steps: int,
    generators: Sequence[np.random.Generator],
    equally_wide: bool = False,
) -> Iterator[Batch]:
    """Draw the batches of every fold, step by step.

    Each fold goes through its own training rows in a new random order every epoch, in as few
    batches of at most `batch_size` as possible. Their sizes differ by at most one, because a
    contrastive loss depends on the size of its batch. Where folds have batches of different sizes
    in a step, the shorter ones are padded.

    Args:
        training_rows: training rows of every fold.
        batch_size: largest number of samples in a batch.
        steps: number of batches.
        generators: one per fold.
        equally_wide: pad the batches of all steps to one width.

    Yields:
        Row numbers, and which of them are samples and not padding. The latter is None where all
        are samples, unless `equally_wide`.
    """
    numbers = [-(-len(rows) // batch_size) for rows in training_rows]
    widest = max(
        -(-len(rows) // number) for rows, number in zip(training_rows, numbers, strict=True)
    )

    def epochs(rows: Rows, number: int, generator: np.random.Generator) -> Iterator[tuple]:
        sizes = np.full(number, len(rows) // number)
        sizes[: len(rows) % number] += 1
        # Padding repeats the first row of a batch.
        columns = np.arange(widest)
        starts = np.cumsum(sizes) - sizes
        position = starts[:, None] + np.where(columns < sizes[:, None], columns, 0)
        while True:
            yield from zip(generator.permutation(rows)[position], sizes, strict=True)

    streams = [epochs(*fold) for fold in zip(training_rows, numbers, generators, strict=True)]
    for _ in range(steps):
        batches, sizes = zip(*(next(stream) for stream in streams), strict=True)
        sizes = np.array(sizes)
        width = widest if equally_wide else sizes.max()
        present = None
        if equally_wide or (sizes < width).any():
            present = torch.from_numpy(np.arange(width) < sizes[:, None])
        yield torch.from_numpy(np.stack(batches)[:, :width]), present


def on_device(batches: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    """Bring batches to a GPU, many at a time and without waiting for it; a CPU takes them as is.

    Args:
        batches: equally wide for a GPU.
        device: where the samples are.
    """
    if device.type == "cpu":
        yield from batches
        return
    while uploaded := list(islice(batches, BATCHES_UPLOADED)):
        rows, present = (
            torch.stack(parts).pin_memory().to(device, non_blocking=True)
            for parts in zip(*uploaded, strict=True)
        )
        yield from zip(rows, present, strict=True)
