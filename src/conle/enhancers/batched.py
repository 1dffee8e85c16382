"""Training the folds of a cross-validation as one program of stacked tensors.

The seam between the mathematics of a network method and its speed: every parameter has a leading
fold axis, every product is a batched one, and the losses of the folds are added up. No fold has
a term in another fold's loss, so each is trained as if it were alone. Random numbers come from
one generator per fold.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from conle.enhancers.base import Features, Split

# Rows of each fold, and which of them are samples and not padding (None where all are).
Batch = tuple[Int[Tensor, "folds batch"], Bool[Tensor, "folds batch"] | None]

# Of the standardised features of one chunk of folds, in bytes.
CHUNK_BYTES = 2**30
# On a CPU, more folds at once than this fall out of the cache: at 10, a step costs each fold
# half of what it costs at 100.
CHUNK_FOLDS_ON_CPU = 10


def resolve_device(device: str) -> torch.device:
    """The device of a name; "auto" is the GPU where there is one and the CPU elsewhere.

    Raises:
        ValueError: the name is unknown, or there is no such device on this machine.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
    # PyTorch raises AssertionError where it was built without support for a device.
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f'device {device!r} cannot be used on this machine; choose "auto", "cpu" or, with a '
            'GPU, "cuda"'
        ) from error
    return resolved


def fold_seeds(seed: int, folds: int) -> list[np.random.SeedSequence]:
    """One independent seed for each fold. That of a fold does not depend on how many there are."""
    return np.random.SeedSequence(seed).spawn(folds)


def fold_chunks(folds: int, samples: int, features: int, device: torch.device) -> list[range]:
    """Split the folds into chunks that are trained one after the other, sizes nearly equal."""
    most = max(1, CHUNK_BYTES // (4 * samples * features))
    if device.type == "cpu":
        most = min(most, CHUNK_FOLDS_ON_CPU)
    bounds = np.linspace(0, folds, -(-folds // most) + 1).round().astype(int)
    return [range(start, stop) for start, stop in pairwise(bounds)]


class Standardization:
    """Features of each fold with mean 0 and standard deviation 1 on its training rows.

    Values are clipped to +-`clip`; a column that is constant on the training rows becomes zero.

    Attributes:
        mean, scale: folds x features. The scale of a constant column is infinite.
    """

    def __init__(
        self,
        mean: Float[np.ndarray, "folds features"],
        scale: Float[np.ndarray, "folds features"],
        clip: float,
    ) -> None:
        self.mean, self.scale, self.clip = mean, scale, clip

    @classmethod
    def fit(cls, features: Features, splits: Sequence[Split], clip: float) -> "Standardization":
        """Take mean and standard deviation of each fold's training rows."""
        # Imported here: only training needs scikit-learn's preprocessing.
        from sklearn.preprocessing import StandardScaler

        scalers = [StandardScaler().fit(features[training]) for training, _ in splits]
        # StandardScaler gives a constant column the scale 1, which lets other values through.
        scale = [
            np.where(
                features[training].min(axis=0) == features[training].max(axis=0), np.inf, s.scale_
            )
            for (training, _), s in zip(splits, scalers, strict=True)
        ]
        return cls(np.stack([s.mean_ for s in scalers]), np.stack(scale), clip)

    def apply(
        self, features: Features, device: torch.device
    ) -> Float[Tensor, "folds samples features"]:
        """Standardise all rows for each fold; float32 on the device."""
        standardised = torch.empty((len(self.mean), *features.shape), dtype=torch.float32)
        for fold, (mean, scale) in enumerate(zip(self.mean, self.scale, strict=True)):
            values = ((features - mean) / scale).clip(-self.clip, self.clip)
            standardised[fold] = torch.from_numpy(values)
        return standardised.to(device)


class BatchedLinear(nn.Module):
    """A linear layer per fold: x (folds x batch x in) to x W + b (folds x batch x out).

    Initialised as torch.nn.Linear is: uniform on +-1/sqrt(in).
    """

    def __init__(self, generators: Sequence[torch.Generator], inputs: int, outputs: int) -> None:
        super().__init__()
        bound = inputs**-0.5

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(
                torch.stack([(torch.rand(shape, generator=g) * 2 - 1) * bound for g in generators])
            )

        self.weight, self.bias = drawn(inputs, outputs), drawn(1, outputs)

    def forward(self, x: Float[Tensor, "folds batch in"]) -> Float[Tensor, "folds batch out"]:
        """Apply each fold's layer to its batch."""
        return torch.baddbmm(self.bias, x, self.weight)


def batched_mlp(
    generators: Sequence[torch.Generator], inputs: int, hidden: int, outputs: int
) -> nn.Sequential:
    """Linear, LeakyReLU, Linear for each fold."""
    return nn.Sequential(
        BatchedLinear(generators, inputs, hidden),
        nn.LeakyReLU(),
        BatchedLinear(generators, hidden, outputs),
    )


def fold_batches(
    training_rows: Sequence[Int[np.ndarray, " rows"]],
    batch_size: int,
    steps: int,
    generators: Sequence[np.random.Generator],
) -> Iterator[Batch]:
    """Draw the batches of every fold, step by step.

    Each fold goes through its own training rows in a new random order every epoch, in as few
    batches of at most `batch_size` as will do. Their sizes differ by at most one: what a
    contrastive loss measures depends on the size of its batch. Where folds have batches of
    different sizes in a step, the shorter ones are padded.

    Yields:
        Row numbers, and which of them are samples and not padding (None where all are).
    """

    def epochs(rows: np.ndarray, generator: np.random.Generator) -> Iterator[np.ndarray]:
        while True:
            yield from np.array_split(generator.permutation(rows), -(-len(rows) // batch_size))

    streams = [epochs(*fold) for fold in zip(training_rows, generators, strict=True)]
    for _ in range(steps):
        batches = [next(stream) for stream in streams]
        sizes = np.array([len(batch) for batch in batches])
        width = sizes.max()
        rows = np.stack([np.resize(batch, width) for batch in batches])
        present = None
        if (sizes < width).any():
            present = torch.from_numpy(np.arange(width) < sizes[:, None])
        yield torch.from_numpy(rows), present
