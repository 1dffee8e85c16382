"""Scaling of the features of each fold, learned from its training rows."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from conle.methods.contract import Features, Split
from conle.methods.training.scheduling import ROWS_ON_CPU
from conle.methods.training.sparse_rows import SparseRows, columns_of_values

Statistics = tuple[Float[np.ndarray, " features"], Float[np.ndarray, " features"]]


class FeatureScaling:
    """An affine map of the features for each fold, and limits that its values are clipped to.

    Attributes:
        shift, scale: folds x features; (x - shift) / scale. The scale of a column that is
            constant on the training rows is infinite, so that the column becomes zero.
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
        """Return the scaling as arrays by name."""
        return {
            "feature_shift": self.shift,
            "feature_scale": self.scale,
            "feature_limits": self.limits,
        }

    @classmethod
    def from_weights(cls, weights: Mapping[str, np.ndarray]) -> "FeatureScaling":
        """Restore a scaling from the result of `get_weights`, which may hold other arrays too."""
        return cls(*(weights[f"feature_{name}"] for name in ("shift", "scale", "limits")))

    @classmethod
    def standard(cls, features: Features, splits: Sequence[Split], clip: float) -> "FeatureScaling":
        """Mean 0 and standard deviation 1 on the training rows, clipped to +-`clip`."""
        return cls._learned(features, splits, _mean_and_deviation, (-clip, clip))

    @classmethod
    def min_max(cls, features: Features, splits: Sequence[Split]) -> "FeatureScaling":
        """From 0 to 1 on the training rows; other rows are clipped to this range."""
        return cls._learned(features, splits, _minimum_and_range, (0.0, 1.0))

    @classmethod
    def _learned(
        cls,
        features: Features,
        splits: Sequence[Split],
        statistics: Callable[[Features], Statistics],
        limits: tuple[float, float],
    ) -> "FeatureScaling":
        shifts, scales = [], []
        for training, _ in splits:
            rows = features[training]
            # Values are compared exactly: the deviation of a constant column may round to above 0.
            equal = rows.max(axis=0) == rows.min(axis=0)
            shift, scale = statistics(rows)
            constant = equal | (scale == 0)
            shifts.append(shift)
            scales.append(np.where(constant, np.inf, scale))
        return cls(np.stack(shifts), np.stack(scales), np.tile(limits, (len(splits), 1)))

    def apply(
        self, features: Features, device: torch.device
    ) -> Float[Tensor, "folds samples features"] | SparseRows:
        """Scale all rows for each fold in float64, and bring them to the device as float32.

        On a CPU the result is sparse where nearly all features are zero and stay zero.
        """
        columns = None
        if device.type == "cpu" and self._keeps_zeros():
            columns = columns_of_values(features)
        width = features.shape[1] if columns is None else columns.shape[1]
        scaled = torch.empty((len(self.shift), len(features), width), dtype=torch.float32)
        for fold in range(len(scaled)):
            # Small parts stay in the cache from one operation to the next.
            for start in range(0, len(features), ROWS_ON_CPU):
                part = slice(start, start + ROWS_ON_CPU)
                values = self.scale_for(fold, features[part])
                if columns is not None:
                    values = np.take_along_axis(values, columns[part], axis=1)
                scaled[fold, part] = torch.from_numpy(values)
        if columns is None:
            return scaled.to(device)
        shared = torch.from_numpy(columns).expand(scaled.shape)
        return SparseRows(shared, scaled, features.shape[1])

    def _keeps_zeros(self) -> bool:
        zeros = np.zeros_like(self.shift[:1])
        return not any(self.scale_for(fold, zeros).any() for fold in range(len(self.shift)))

    def scale_for(self, fold: int, features: Features, copy: bool = True) -> Features:
        """Scale samples as those of one fold, in float64; without a copy, overwrite them."""
        scaled = np.subtract(features, self.shift[fold], out=None if copy else features)
        scaled /= self.scale[fold]
        return scaled.clip(*self.limits[fold], out=scaled)


def _mean_and_deviation(rows: Features) -> Statistics:
    """Mean and standard deviation of every column; overwrites `rows` to save memory."""
    mean = rows.mean(axis=0)
    rows -= mean
    np.square(rows, out=rows)
    return mean, np.sqrt(rows.mean(axis=0))


def _minimum_and_range(rows: Features) -> Statistics:
    minimum = rows.min(axis=0)
    return minimum, rows.max(axis=0) - minimum
