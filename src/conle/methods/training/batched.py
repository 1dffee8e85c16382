"""Training the folds of a cross-validation as one program of stacked tensors.

The seam between the mathematics of a network method and its speed: every parameter has a leading
fold axis, every product is a batched one, and the losses of the folds are added up. No fold has
a term in another fold's loss, so each is trained as if it were alone. Random numbers come from
generators of each fold's own.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from conle.methods.contract import (
    Curves,
    DivergenceError,
    Features,
    FoldRecovery,
    InductiveEnhancer,
    LogicalLabels,
    ProgressCallback,
    Recovered,
    Rows,
    Split,
    check_inputs,
)
from conle.methods.seeds import fold_seeds, spawned
from conle.methods.training.cuda_graphs import ReplayedStep, tensor_float_32

# Rows of each fold, and which of them are samples and not padding (None where all are).
Batch = tuple[Int[Tensor, "folds batch"], Bool[Tensor, "folds batch"] | None]
Result = TypeVar("Result")
ObjectiveTerms = dict[str, Float[Tensor, " folds"]]

# Of the scaled features of the folds that are trained at a time, in bytes.
CHUNK_BYTES = 2**30
# On a CPU: of fewer, calls take most of the time; more fall out of the cache.
CHUNK_FOLDS_ON_CPU = 25
# Fewer folds than this are not split among more cores.
SMALLEST_CHUNK = 5
# Samples of each fold that are recovered at a time.
ROWS_ON_CPU = 256
# Of a GPU's free memory, for the scaled features; the rest is for the temporaries of a step.
SHARE_OF_FREE_MEMORY = 0.25
BATCHES_UPLOADED = 64
# A little less than 32 MiB.
LARGE_BLOCK = 2**25 - 2**16


class BatchedEnhancer(InductiveEnhancer):
    """A network method whose folds are trained together.

    A subclass has the hyperparameters `batch_size`, `tf32`, `device` and `seed`, and says what its
    networks are, what they minimise and how they recover; here they are trained, for all folds
    of a chunk at once.

    Attributes:
        weights_: learned arrays by name, their first axis of length one.
        curves_: the terms of the objective by step, and what else was followed.
    """

    def check_hyperparameters(self) -> None:
        """See `LabelEnhancer.check_hyperparameters`."""
        super().check_hyperparameters()
        resolve_device(self.device)

    def recover_folds(
        self,
        features: Features,
        logical_labels: LogicalLabels,
        splits: Sequence[Split],
        on_progress: ProgressCallback | None = None,
    ) -> FoldRecovery:
        """Train the folds together, chunk by chunk; see `LabelEnhancer.recover_folds`."""
        self.check_hyperparameters()
        features, logical_labels = check_inputs(features, logical_labels)
        if not splits:
            return FoldRecovery([])
        device = resolve_device(self.device)
        seeds = fold_seeds(self.seed, len(splits))
        steps = [self._steps(len(training)) for training, _ in splits]
        whole = sum(steps)

        def count(done: int) -> None:
            if on_progress is not None:
                on_progress(done, whole, f"{done} of {whole} steps")

        report = StepCounter(count)

        def train(chunk: Rows) -> dict[int, _TrainedFold]:
            with report.attempt(len(chunk)) as count_step, tensor_float_32(self.tf32, device):
                trained = self._recover_chunk(
                    features,
                    logical_labels,
                    [splits[fold] for fold in chunk],
                    [seeds[fold] for fold in chunk],
                    steps[chunk[0]],
                    device,
                    count_step,
                )
            return dict(zip(chunk.tolist(), trained, strict=True))

        parts: dict[int, _TrainedFold] = {}
        chunks = fold_chunks(steps, features.nbytes // 2, device)
        for part in on_all_cores(train, chunks, device, report.stop):
            parts |= part
        ordered = [parts[fold] for fold in range(len(splits))]
        return FoldRecovery(
            recovered=[fold.recovered for fold in ordered],
            weights={
                name: np.stack([fold.weights[name] for fold in ordered])
                for name in ordered[0].weights
            },
            curves=[fold.curves for fold in ordered],
            snapshots=[fold.snapshots for fold in ordered],
        )

    @abstractmethod
    def _steps(self, training_rows: int) -> int:
        """How many steps a fold is trained."""

    @abstractmethod
    def _scaling(self, features: Features, splits: Sequence[Split]) -> "FeatureScaling":
        """How the features of each fold are scaled, from its training rows."""

    @abstractmethod
    def _networks(
        self, generators: Sequence[torch.Generator], features: int, labels: int
    ) -> nn.Module:
        """The networks, one of each per generator, their initial weights drawn from it."""

    @abstractmethod
    def _optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of all folds' parameters; it must treat every element alone."""

    @abstractmethod
    def _objective(
        self,
        networks: nn.Module,
        batch: "Samples",
        generators: Sequence[torch.Generator],
    ) -> ObjectiveTerms:
        """What is minimised, "loss", and its terms, for each fold."""

    @abstractmethod
    def _recovered(
        self,
        networks: nn.Module,
        samples: "Samples",
    ) -> Float[Tensor, "folds samples labels"]:
        """The recovered distributions."""

    def _replayed_on(self, device: torch.device) -> bool:
        """Whether steps are recorded and replayed on this device (see `ReplayedStep`)."""
        return False

    def _snapshot_every(self) -> int | None:
        """Steps between two recoveries of the test rows that are kept."""
        return None

    def _check_every(self) -> int | None:
        """Steps between two checks of the agreement of the recovered training rows with L.

        A subclass that checks has a method `_agreement`, which gives one value per fold; the
        weights of its first maximum are kept.
        """
        return None

    def _fit(self, features: Features, logical_labels: LogicalLabels) -> None:
        rows = np.arange(len(features))
        recovery = self.recover_folds(features, logical_labels, [(rows, rows[:0])])
        self.weights_, self.curves_ = recovery.weights, recovery.curves[0]

    def _transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        device = resolve_device(self.device)
        networks, scaling = self.trained_networks(self.weights_, logical_labels.shape[1])
        scaled = scaling.apply(features, device)
        samples = Samples.of_dataset(scaled, logical_labels, self.batch_size)
        return self._recover_all(networks.to(device), samples)[0]

    def _get_weights(self) -> dict[str, np.ndarray]:
        return dict(self.weights_)

    def _set_weights(self, weights: Mapping[str, np.ndarray], features: int, labels: int) -> None:
        self.weights_, self.curves_ = dict(weights), {}

    def trained_networks(
        self, weights: Mapping[str, np.ndarray], labels: int
    ) -> tuple[nn.Module, "FeatureScaling"]:
        """The networks and the scaling of one fold's weights.

        Args:
            weights: by name, their first axis of length one.
            labels: c.
        """
        scaling = FeatureScaling.from_weights(weights)
        networks = self._networks([torch.Generator()], scaling.shift.shape[1], labels)
        networks.load_state_dict(
            {name: torch.from_numpy(weights[name]) for name in networks.state_dict()}
        )
        return networks, scaling

    def _recovered_in_parts(
        self, networks: nn.Module, samples: "Samples"
    ) -> Float[Tensor, "folds samples labels"]:
        """The recovered distributions, on a CPU of so few samples at a time as its cache holds."""
        on_cpu = samples.features.device.type == "cpu"
        parts = samples.split(ROWS_ON_CPU if on_cpu else samples.features.shape[1])
        return torch.cat([self._recovered(networks, part) for part in parts], dim=1)

    def _recover_all(self, networks: nn.Module, samples: "Samples"):
        """Recovered distributions as float64, rows that sum to 1 to its precision."""
        networks.eval()
        # In full precision, as `transform` recovers.
        with torch.no_grad(), tensor_float_32(False, samples.features.device):
            recovered = self._recovered_in_parts(networks, samples)
        recovered = recovered.cpu().numpy().astype(np.float64)
        # The last step's weights have no loss that would show it.
        if not np.isfinite(recovered).all():
            raise DivergenceError(
                f"{type(self).__name__} diverged: what it recovers is not finite; lower the "
                "learning rate"
            )
        return recovered / recovered.sum(axis=-1, keepdims=True)

    def _recover_chunk(
        self,
        features: Features,
        logical_labels: LogicalLabels,
        splits: Sequence[Split],
        seeds: Sequence[np.random.SeedSequence],
        steps: int,
        device: torch.device,
        on_step: Callable[[], None],
    ) -> list["_TrainedFold"]:
        scaling = self._scaling(features, splits)
        scaled = scaling.apply(features, device)
        samples = Samples.of_dataset(scaled, logical_labels, self.batch_size)
        is_training = torch.zeros(scaled.shape[:2], dtype=torch.bool)
        for fold, (training, _) in enumerate(splits):
            is_training[fold, training] = True

        # Of each fold: initial weights, order of the samples, noise in training.
        streams = list(zip(*(spawned(seed, 3) for seed in seeds), strict=True))
        networks = self._networks(
            [_torch_generator(seed) for seed in streams[0]],
            features.shape[1],
            logical_labels.shape[1],
        ).to(device)
        batches = fold_batches(
            [training for training, _ in splits],
            self.batch_size,
            steps,
            [np.random.default_rng(seed) for seed in streams[1]],
            equally_wide=device.type == "cuda",
        )
        snapshots: list[dict[int, Recovered]] = [{} for _ in splits]

        def take_snapshot(step: int) -> None:
            recovered = self._recover_all(networks, samples)
            for fold, (_, test) in enumerate(splits):
                snapshots[fold][step] = recovered[fold][test]

        curves = self._train(
            networks,
            batches,
            steps,
            samples,
            is_training.to(device),
            [_torch_generator(seed) for seed in streams[2]],
            take_snapshot,
            on_step,
        )
        recovered = self._recover_all(networks, samples)
        weights = {name: value.cpu().numpy() for name, value in networks.state_dict().items()}
        weights |= scaling.get_weights()
        return [
            _TrainedFold(
                recovered[fold][test],
                {name: values[fold] for name, values in weights.items()},
                {name: (taken, values[fold]) for name, (taken, values) in curves.items()},
                snapshots[fold],
            )
            for fold, (_, test) in enumerate(splits)
        ]

    def _train(
        self,
        networks: nn.Module,
        batches: Iterator[Batch],
        steps: int,
        samples: "Samples",
        is_training: Bool[Tensor, "folds samples"],
        generators: Sequence[torch.Generator],
        take_snapshot: Callable[[int], None],
        on_step: Callable[[], None],
    ) -> dict[str, tuple[Int[np.ndarray, " steps"], Float[np.ndarray, "folds steps"]]]:
        """Train all folds at once and leave the weights to keep in `networks`."""
        optimizer = self._optimizer(networks.parameters())
        folds, device = len(samples.features), samples.features.device
        names: list[str] = []

        def train(rows: Tensor, present: Tensor | None) -> Float[Tensor, "terms folds"]:
            terms = self._objective(networks, samples.take(rows, present), generators)
            optimizer.zero_grad()
            terms["loss"].sum().backward()
            optimizer.step()
            names[:] = terms
            return torch.stack([term.detach() for term in terms.values()])

        if self._replayed_on(device):
            train = ReplayedStep(train)
        check_every, snapshot_every = self._check_every(), self._snapshot_every()
        # In one place: small results between the large temporaries would fragment the memory.
        values = torch.empty(0)
        checks, agreement_by_check = [], []
        best = torch.full((folds,), -1.0, device=device)
        kept = {name: weights.clone() for name, weights in networks.state_dict().items()}
        for step, (rows, present) in enumerate(on_device(batches, device), start=1):
            networks.train()
            terms = train(rows, present)
            if step == 1:
                values = torch.empty(len(terms), steps, folds, device=device)
            values[:, step - 1] = terms

            if check_every is not None and step % check_every == 0:
                agreement = self._agreement(networks, samples, is_training)
                checks.append(step)
                agreement_by_check.append(agreement)
                improved = agreement > best
                best = torch.where(improved, agreement, best)
                for name, weights in networks.state_dict().items():
                    # Without a boolean index, for which a GPU would have to be waited for.
                    torch.where(improved[:, None, None], weights, kept[name], out=kept[name])
            if snapshot_every is not None and step % snapshot_every == 0:
                take_snapshot(step)
            on_step()

        values = values.mT.cpu().numpy()
        self._refuse_divergence(values[0])
        taken = np.arange(1, steps + 1)
        curves = {name: (taken, values[index]) for index, name in enumerate(names)}
        if checks:
            for name, weights in networks.state_dict().items():
                # Where no row ever agreed the agreement chooses nothing.
                kept[name][best == 0] = weights[best == 0]
            networks.load_state_dict(kept)
            self._warn_of_no_agreement(best)
            agreement = torch.stack(agreement_by_check, dim=-1).cpu().numpy()
            curves["agreement"] = (np.array(checks), agreement)
        return curves

    def _refuse_divergence(self, loss: Float[np.ndarray, "folds steps"]) -> None:
        finite = np.isfinite(loss)
        if not finite.all():
            step = int((~finite).any(axis=0).argmax()) + 1
            raise DivergenceError(
                f"{type(self).__name__} diverged: the loss of {(~finite[:, step - 1]).sum()} of "
                f"{len(loss)} folds is not finite at step {step}; lower the learning rate"
            )

    def _warn_of_no_agreement(self, best: Float[Tensor, " folds"]) -> None:
        never = int((best == 0).sum())
        if never:
            warnings.warn(
                f"{type(self).__name__}: in {never} of {len(best)} folds no recovered training row "
                "ever binarised to its logical labels; their last weights are kept",
                stacklevel=2,
            )


@dataclass(frozen=True)
class Samples:
    """Samples of each fold.

    Attributes:
        features: theirs, scaled.
        logical_labels: theirs.
        present: which are samples and not padding; None where all are.
        patterns: the logical labels that samples of the dataset have, each once; None where there
            are more than half as many as samples in a batch. Those of no sample in a batch add
            exactly nothing to a step.
        pattern: which of them a sample has.
    """

    features: Float[Tensor, "folds samples features"]
    logical_labels: Float[Tensor, "folds samples labels"]
    present: Bool[Tensor, "folds samples"] | None
    patterns: Float[Tensor, "folds patterns labels"] | None
    pattern: Int[Tensor, "folds samples"] | None

    @classmethod
    def of_dataset(
        cls,
        features: Float[Tensor, "folds samples features"],
        logical_labels: LogicalLabels,
        batch_size: int,
    ) -> "Samples":
        """All samples of a dataset, their features as they are scaled for each fold."""

        def for_each_fold(values: np.ndarray) -> Tensor:
            shared = torch.from_numpy(values).to(features.device)
            return shared.expand(len(features), *shared.shape)

        labels = logical_labels.astype(np.float32)
        patterns, pattern = np.unique(labels, axis=0, return_inverse=True)
        shared = 2 * len(patterns) <= min(batch_size, len(labels))
        return cls(
            features,
            for_each_fold(labels),
            None,
            for_each_fold(patterns) if shared else None,
            for_each_fold(pattern.ravel()) if shared else None,
        )

    def split(self, size: int) -> "Iterator[Samples]":
        """Parts of `size` samples of each fold, the last one smaller."""
        for start in range(0, self.features.shape[1], size):
            part = slice(start, start + size)
            yield Samples(
                self.features[:, part],
                self.logical_labels[:, part],
                None if self.present is None else self.present[:, part],
                self.patterns,
                None if self.pattern is None else self.pattern[:, part],
            )

    def take(
        self, rows: Int[Tensor, "folds batch"], present: Bool[Tensor, "folds batch"] | None
    ) -> "Samples":
        """Samples of a whole dataset, for each fold those of other rows."""
        folds, samples = self.features.shape[:2]
        row_in_all = rows + samples * torch.arange(folds, device=rows.device)[:, None]

        def taken(table: Tensor, numbers: Tensor) -> Tensor:
            # On a processor in a fifth of the time that table[numbers] takes.
            return table.index_select(0, numbers.flatten()).unflatten(0, rows.shape)

        return Samples(
            taken(self.features.flatten(0, 1), row_in_all),
            taken(self.logical_labels[0], rows),
            present,
            self.patterns,
            None if self.pattern is None else taken(self.pattern[0], rows),
        )


@dataclass(frozen=True)
class _TrainedFold:
    recovered: Recovered
    weights: dict[str, np.ndarray]
    curves: Curves
    snapshots: dict[int, Recovered]


class StoppedError(Exception):
    """Ends the work of a thread whose results nobody waits for."""


class StepCounter:
    """Counts the steps of all folds that are done, in whichever thread, and can stop them."""

    def __init__(self, on_count: Callable[[int], None]) -> None:
        self._on_count, self._done, self._stopped = on_count, 0, False
        self._lock = Lock()

    def __call__(self, steps: int) -> None:
        """Steps were done.

        Raises:
            StoppedError: the work is to end.
        """
        with self._lock:
            if self._stopped:
                raise StoppedError
            self._done += steps
            self._on_count(self._done)

    @contextmanager
    def attempt(self, folds: int) -> Iterator[Callable[[], None]]:
        """A function to call after each step of some folds; steps of no use are taken back.

        Of no use is what was done before the memory was too small for so many folds.
        """
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1
            self(folds)

        try:
            yield step
        except torch.OutOfMemoryError:
            self(-steps * folds)
            raise

    def stop(self) -> None:
        """End the work of every thread at its next step."""
        self._stopped = True


class FeatureScaling:
    """An affine map of the features for each fold, and limits that its values are clipped to.

    Attributes:
        shift, scale: folds x features; (x - shift) / scale. The scale of a column that is
            constant on the training rows is infinite, so that it becomes zero.
        limits: folds x 2.
    """

    def __init__(
        self,
        shift: Float[np.ndarray, "folds features"],
        scale: Float[np.ndarray, "folds features"],
        limits: Float[np.ndarray, "folds 2"],
    ) -> None:
        self.shift, self.scale, self.limits = shift, scale, limits

    def get_weights(self) -> dict[str, np.ndarray]:
        """The map as arrays by name."""
        return {
            "feature_shift": self.shift,
            "feature_scale": self.scale,
            "feature_limits": self.limits,
        }

    @classmethod
    def from_weights(cls, weights: Mapping[str, np.ndarray]) -> "FeatureScaling":
        """The map that had the weights, which may hold others beside them."""
        return cls(*(weights[f"feature_{name}"] for name in ("shift", "scale", "limits")))

    @classmethod
    def standard(cls, features: Features, splits: Sequence[Split], clip: float) -> "FeatureScaling":
        """Mean 0 and standard deviation 1 on the training rows, clipped to +-`clip`."""
        return cls._of_training_rows(features, splits, _mean_and_deviation, (-clip, clip))

    @classmethod
    def min_max(cls, features: Features, splits: Sequence[Split]) -> "FeatureScaling":
        """From 0 to 1 on the training rows; other rows are clipped to that."""
        return cls._of_training_rows(
            features,
            splits,
            lambda rows: (rows.min(axis=0), rows.max(axis=0) - rows.min(axis=0)),
            (0.0, 1.0),
        )

    @classmethod
    def _of_training_rows(cls, features, splits, statistics, limits) -> "FeatureScaling":
        shifts, scales = [], []
        for training, _ in splits:
            rows = features[training]
            # Compared exactly: the deviation of a constant column need not be exactly zero.
            equal = (rows == rows[0]).all(axis=0)
            shift, scale = statistics(rows)
            constant = equal | (scale == 0)
            shifts.append(shift)
            scales.append(np.where(constant, np.inf, scale))
        return cls(np.stack(shifts), np.stack(scales), np.tile(limits, (len(splits), 1)))

    def apply(
        self, features: Features, device: torch.device
    ) -> Float[Tensor, "folds samples features"]:
        """Scale all rows for each fold, in float64; float32 on the device."""
        scaled = torch.empty((len(self.shift), *features.shape), dtype=torch.float32)
        for fold in range(len(scaled)):
            # In parts, which stay in the cache from one operation to the next.
            for start in range(0, len(features), ROWS_ON_CPU):
                part = slice(start, start + ROWS_ON_CPU)
                scaled[fold, part] = torch.from_numpy(self.of_fold(features[part], fold))
        return scaled.to(device)

    def of_fold(self, features: Features, fold: int) -> Features:
        """Scale samples as those of one fold."""
        return ((features - self.shift[fold]) / self.scale[fold]).clip(*self.limits[fold])


def _mean_and_deviation(rows: Features) -> tuple[np.ndarray, np.ndarray]:
    """Of every column. As `rows.std`, but in the memory of the rows, which are lost."""
    mean = rows.mean(axis=0)
    rows -= mean
    np.square(rows, out=rows)
    return mean, np.sqrt(rows.mean(axis=0))


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


def resolve_device(device: str) -> torch.device:
    """The device of a name; "auto" is the GPU where there is one and the CPU elsewhere.

    Raises:
        ValueError: the name is unknown, or there is no such device on this machine.
    """
    # Asked without touching a GPU: a process that has used one cannot fork workers that do.
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return torch.device("cuda" if gpus else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError:
        resolved = None
    if resolved is not None and (
        resolved.type == "cpu" or (resolved.type == "cuda" and (resolved.index or 0) < gpus)
    ):
        return resolved
    raise ValueError(
        f'device {device!r} cannot be used on this machine; choose "auto", "cpu" or, with a GPU, '
        '"cuda"'
    )


def on_all_cores(
    work: Callable[[Rows], Result],
    chunks: Sequence[Rows],
    device: torch.device,
    stop: Callable[[], None],
) -> Iterator[Result]:
    """Do the chunks of folds side by side, a thread on each core; a GPU takes one after another.

    The operations of a chunk are too small to be shared among cores themselves. One chunk alone
    has all cores. A chunk that does not fit into a GPU's memory is halved until it does.

    Args:
        work: on a chunk; no fold's result depends on the others of its chunk.
        chunks: numbers of folds.
        device: "cpu" has the threads.
        stop: called where a chunk fails or the work is interrupted; makes the others end soon.
    """
    if device.type == "cpu":
        _keep_freed_memory()
    if device.type != "cpu" or len(chunks) == 1:
        # Streams and graphs are of the present GPU, wherever the tensors are.
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            for chunk in chunks:
                yield from _as_memory_allows(work, chunk)
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(work, chunks)
    except BaseException:
        stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _keep_freed_memory() -> None:
    """Let the C library keep what a step frees for the next step.

    glibc gives back to the system what is free beyond twice the largest block that was ever freed
    (up to 32 MiB), and to get the temporaries of a step again page by page takes up to a quarter
    of its time. So a large block is freed.
    """
    torch.empty(LARGE_BLOCK, dtype=torch.uint8)


def _as_memory_allows(work: Callable[[Rows], Result], chunk: Rows) -> Iterator[Result]:
    """The result of a chunk, or those of its halves where a GPU has not enough memory for it."""
    try:
        result = work(chunk)
    except torch.OutOfMemoryError:
        if len(chunk) == 1:
            raise
    else:
        yield result
        return
    # Not where the error is handled, which keeps what was in the memory.
    warnings.warn(
        f"the GPU has not enough memory for {len(chunk)} folds at a time: going on with half",
        stacklevel=2,
    )
    torch.cuda.empty_cache()
    for half in np.array_split(chunk, 2):
        yield from _as_memory_allows(work, half)


def fold_chunks(steps: Sequence[int], fold_bytes: int, device: torch.device) -> list[Rows]:
    """Split the folds into chunks, sizes nearly equal, as many for each core of a CPU.

    Args:
        steps: of each fold; the folds of a chunk have the same.
        fold_bytes: memory that the scaled features of one fold take.
        device: that they are trained on.

    Returns:
        The numbers of the folds of each chunk.
    """
    if device.type == "cpu":
        at_a_time = min(torch.get_num_threads(), -(-len(steps) // SMALLEST_CHUNK))
        most = min(CHUNK_BYTES // at_a_time // fold_bytes, CHUNK_FOLDS_ON_CPU)
    else:
        at_a_time = 1
        free, _ = torch.cuda.mem_get_info(device)
        most = min(CHUNK_BYTES, int(SHARE_OF_FREE_MEMORY * free)) // fold_bytes
    chunks = []
    for number in np.unique(steps):
        folds = np.flatnonzero(np.asarray(steps) == number)
        rounds = -(-len(folds) // (max(1, most) * at_a_time))
        chunks += np.array_split(folds, min(rounds * at_a_time, len(folds)))
    return chunks


def fold_batches(
    training_rows: Sequence[Rows],
    batch_size: int,
    steps: int,
    generators: Sequence[np.random.Generator],
    equally_wide: bool = False,
) -> Iterator[Batch]:
    """Draw the batches of every fold, step by step.

    Each fold goes through its own training rows in a new random order every epoch, in as few
    batches of at most `batch_size` as will do. Their sizes differ by at most one: what a
    contrastive loss measures depends on the size of its batch. Where folds have batches of
    different sizes in a step, the shorter ones are padded.

    Args:
        training_rows: of every fold.
        batch_size: samples of a batch at most.
        steps: how many batches.
        generators: one per fold.
        equally_wide: pad the batches of all steps to one width.

    Yields:
        Row numbers, and which of them are samples and not padding (None where all are, unless
        they are to be equally wide).
    """
    numbers = [-(-len(rows) // batch_size) for rows in training_rows]
    widest = max(
        -(-len(rows) // number) for rows, number in zip(training_rows, numbers, strict=True)
    )

    def epochs(rows: Rows, number: int, generator: np.random.Generator) -> Iterator[tuple]:
        sizes = np.full(number, len(rows) // number)
        sizes[: len(rows) % number] += 1
        # What is beyond a batch repeats its first row.
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
    """Bring batches, there equally wide, to a GPU, many at a time and without waiting for it."""
    if device.type == "cpu":
        yield from batches
        return
    while uploaded := list(islice(batches, BATCHES_UPLOADED)):
        rows, present = (
            torch.stack(parts).pin_memory().to(device, non_blocking=True)
            for parts in zip(*uploaded, strict=True)
        )
        yield from zip(rows, present, strict=True)


def _torch_generator(seed: np.random.SeedSequence) -> torch.Generator:
    # manual_seed takes 63 bits.
    return torch.Generator().manual_seed(int(seed.generate_state(1, np.uint64)[0] >> 1))
