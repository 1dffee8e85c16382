"""Training the folds of a cross-validation as one program of stacked tensors.

Every parameter has a leading fold axis, every product is a batched one, and the losses of the
folds are added up. No fold has a term in another fold's loss, so each is trained as if it were
alone. Each fold has random generators of its own.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor, nn

from conle.core.hyperparameters import NonNegativeInt, PositiveFloat, PositiveInt
from conle.methods.contract import (
    Curves,
    DivergenceError,
    Features,
    FoldRecovery,
    InductiveEnhancer,
    LogicalLabels,
    ProgressCallback,
    Recovered,
    RecoveredRows,
    Rows,
    Split,
    check_inputs,
    progress,
)
from conle.methods.seeds import fold_seeds, spawned
from conle.methods.training.batches import fold_batches
from conle.methods.training.cuda_graphs import tensor_float_32
from conle.methods.training.default_settings import default_settings
from conle.methods.training.loop import ObjectiveTerms, TrainingLoop
from conle.methods.training.optimizers import Adam, Optimizer
from conle.methods.training.samples import Samples
from conle.methods.training.scaling import FeatureScaling
from conle.methods.training.scheduling import (
    ROWS_ON_CPU,
    StepCounter,
    fold_chunks,
    on_all_cores,
    resolve_device,
    threads_for,
)


@dataclass(frozen=True)
class _TrainedFold:
    recovered: RecoveredRows
    weights: dict[str, np.ndarray]
    curves: Curves
    snapshots: dict[int, RecoveredRows]


class BatchedEnhancer(InductiveEnhancer):
    """Base of the network methods, whose folds are trained together.

    A subclass has the hyperparameters `batch_size`, `tf32`, `device` and `seed`. It says what its
    networks are, what they minimise and how they recover.

    Attributes:
        weights_: learned arrays by name, their first axis of length one.
        curves_: the terms of the objective, and other recorded quantities, by step.
    """

    @abstractmethod
    def _steps(self, training_rows: int) -> int:
        """Number of steps for a fold with this number of training rows."""

    @abstractmethod
    def _scaling(self, features: Features, splits: Sequence[Split]) -> FeatureScaling:
        """Learn the scaling of the features of each fold from its training rows."""

    @abstractmethod
    def _networks(
        self, generators: Sequence[torch.Generator], features: int, labels: int
    ) -> nn.Module:
        """Make the networks, one of each per generator, which draws the initial weights."""

    @abstractmethod
    def _optimizer(self, parameters: Iterator[nn.Parameter]) -> Optimizer:
        """Make the optimiser of all folds' parameters; it must update each element alone."""

    @abstractmethod
    def _objective(
        self, networks: nn.Module, batch: Samples, generators: Sequence[torch.Generator]
    ) -> ObjectiveTerms:
        """Compute "loss", which is minimised, and its terms, for each fold."""

    @abstractmethod
    def _recovered(
        self, networks: nn.Module, samples: Samples
    ) -> Float[Tensor, "folds samples labels"]:
        """Recover distributions with the networks."""

    def _train(self, networks: nn.Module, loop: TrainingLoop) -> None:
        """Train the networks in place; a subclass may choose among the weights of the steps."""
        optimizer = self._optimizer(networks.parameters())
        for _ in loop.descend(networks, optimizer, self._objective):
            pass

    def _warn(self, curves: Sequence[Curves]) -> None:
        """Warn of folds whose training is in doubt, given the curves of all folds."""

    def check_hyperparameters(self) -> None:
        """Check the hyperparameters and whether the device exists; see `Hyperparameters`."""
        super().check_hyperparameters()
        resolve_device(self.device)

    @default_settings()
    def recover_folds(
        self,
        features: ArrayLike,
        logical_labels: ArrayLike,
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

        counter = StepCounter(count)

        def train(chunk: Rows) -> dict[int, _TrainedFold]:
            with counter.attempt(len(chunk)) as count_step, tensor_float_32(self.tf32, device):
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
        for part in on_all_cores(train, chunks, device, counter.stop):
            parts |= part
        ordered = [parts[fold] for fold in range(len(splits))]
        self._warn([fold.curves for fold in ordered])
        return FoldRecovery(
            recovered=[fold.recovered for fold in ordered],
            weights={
                name: np.stack([fold.weights[name] for fold in ordered])
                for name in ordered[0].weights
            },
            curves=[fold.curves for fold in ordered],
            snapshots=[fold.snapshots for fold in ordered],
        )

    def trained_networks(
        self, weights: Mapping[str, np.ndarray], labels: int
    ) -> tuple[nn.Module, FeatureScaling]:
        """Make the networks and the scaling of one fold from its weights.

        Args:
            weights: learned arrays by name, their first axis of length one.
            labels: number of labels c.
        """
        scaling = FeatureScaling.from_weights(weights)
        networks = self._networks([torch.Generator()], scaling.shift.shape[1], labels)
        networks.load_state_dict(
            {name: torch.from_numpy(weights[name]) for name in networks.state_dict()}
        )
        return networks, scaling

    def _fit(self, features: Features, logical_labels: LogicalLabels) -> None:
        rows = np.arange(len(features))
        recovery = self.recover_folds(features, logical_labels, [(rows, rows[:0])], progress.get())
        self.weights_, self.curves_ = recovery.weights, recovery.curves[0]

    @default_settings()
    def _transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        device = resolve_device(self.device)
        networks, scaling = self.trained_networks(self.weights_, logical_labels.shape[1])
        scaled = scaling.apply(features, device)
        samples = Samples.of_dataset(scaled, logical_labels, self.batch_size)
        with self._threads(networks, len(features), device):
            return self._recover_all(networks.to(device), samples)[0]

    def _threads(
        self, networks: nn.Module, samples: int, device: torch.device
    ) -> AbstractContextManager[None]:
        """The threads for steps with so many samples; see `threads_for`."""
        weights = sum(values.numel() for values in networks.parameters())
        return threads_for(weights * min(self.batch_size, samples), device)

    def _get_weights(self) -> dict[str, np.ndarray]:
        return dict(self.weights_)

    def _set_weights(self, weights: Mapping[str, np.ndarray], features: int, labels: int) -> None:
        self.weights_, self.curves_ = dict(weights), {}

    @torch.no_grad()
    def _recovered_in_parts(
        self, networks: nn.Module, samples: Samples
    ) -> Float[Tensor, "folds samples labels"]:
        """Recover distributions; a CPU takes as many samples at a time as its cache holds."""
        on_cpu = samples.features.device.type == "cpu"
        parts = samples.split(ROWS_ON_CPU if on_cpu else samples.features.shape[1])
        return torch.cat([self._recovered(networks, part) for part in parts], dim=1)

    def _recover_all(
        self, networks: nn.Module, samples: Samples
    ) -> Float[np.ndarray, "folds samples labels"]:
        """Recover distributions as float64 with rows that sum to 1 in this precision."""
        networks.eval()
        # The recovery uses full precision here, as in `transform`.
        with tensor_float_32(False, samples.features.device):
            recovered = self._recovered_in_parts(networks, samples)
        recovered = recovered.cpu().numpy().astype(np.float64)
        # No loss is computed after the last step, which may have made the weights infinite.
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
    ) -> list[_TrainedFold]:
        """Train the folds of a chunk and recover their test rows."""
        scaling = self._scaling(features, splits)
        scaled = scaling.apply(features, device)
        samples = Samples.of_dataset(scaled, logical_labels, self.batch_size)
        is_training = torch.zeros(scaled.shape[:2], dtype=torch.bool)
        for fold, (training, _) in enumerate(splits):
            is_training[fold, training] = True

        # Each fold has a seed for its weights, for the order of its samples, and for its noise.
        of_weights, of_order, of_noise = zip(*(spawned(seed, 3) for seed in seeds), strict=True)
        networks = self._networks(
            [_torch_generator(seed) for seed in of_weights],
            features.shape[1],
            logical_labels.shape[1],
        ).to(device)
        batches = fold_batches(
            [training for training, _ in splits],
            self.batch_size,
            steps,
            [np.random.default_rng(seed) for seed in of_order],
            equally_wide=device.type == "cuda",
        )
        loop = TrainingLoop(
            type(self).__name__,
            splits,
            samples,
            is_training.to(device),
            batches,
            steps,
            [_torch_generator(seed) for seed in of_noise],
            on_step,
        )
        with self._threads(networks, max(len(training) for training, _ in splits), device):
            self._train(networks, loop)
            recovered = self._recover_all(networks, samples)
        weights = {name: value.cpu().numpy() for name, value in networks.state_dict().items()}
        weights |= scaling.get_weights()
        return [
            _TrainedFold(
                recovered[fold][test],
                {name: values[fold] for name, values in weights.items()},
                {name: (taken, values[fold]) for name, (taken, values) in loop.curves.items()},
                loop.snapshots[fold],
            )
            for fold, (_, test) in enumerate(splits)
        ]


class AdamEnhancer(BatchedEnhancer):
    """Base of the network methods that Adam trains for a number of epochs."""

    learning_rate: PositiveFloat = 1e-3
    """Learning rate of Adam."""
    epochs: PositiveInt = 50
    """Passes over the training rows."""
    batch_size: PositiveInt = 256
    """Largest number of samples in a step."""
    tf32: bool = True
    """Let a GPU round the factors of matrix products in training to ten bits: faster."""
    device: str = "auto"
    """Device: "auto" (the GPU where there is one), "cpu" or "cuda"."""
    seed: NonNegativeInt = 0
    """Seed of the initial weights, the order of the samples, and the noise."""

    def _steps(self, training_rows: int) -> int:
        return self.epochs * -(-training_rows // self.batch_size)

    def _optimizer(self, parameters: Iterator[nn.Parameter]) -> Adam:
        return Adam(parameters, self.learning_rate)


def _torch_generator(seed: np.random.SeedSequence) -> torch.Generator:
    # manual_seed takes 63 bits.
    return torch.Generator().manual_seed(int(seed.generate_state(1, np.uint64)[0] >> 1))
