"""The contract of every label enhancer.

A label enhancer recovers label distributions D (samples x labels) from features X (samples x
features) and logical labels L (samples x labels, 0 or 1). It never sees the true D: no method of
the contract takes one.

A method is one class. Its hyperparameters are annotated fields (`conle.core.hyperparameters`). An
inductive method, which recovers samples it was not fitted to, works in `_fit` and `_transform`; a
transductive one works in `_fit_transform`. Learned attributes end in `_`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from conle.core.arrays import real_array
from conle.core.hyperparameters import Hyperparameters

Features = Float[np.ndarray, "samples features"]
LogicalLabels = Float[np.ndarray, "samples labels"]
Recovered = Float[np.ndarray, "samples labels"]
# Recovered rows of a fold; folds may differ in their number.
RecoveredRows = Float[np.ndarray, "_ labels"]
# Row numbers; any two arrays may differ in length.
Rows = Int[np.ndarray, " _"]
# beartype does not check typing.Self in a decorated method, so a type variable is used.
Enhancer = TypeVar("Enhancer", bound="LabelEnhancer")
# The training rows and the test rows.
Split = tuple[Rows, Rows]

# Methods work under NumPy's default settings, whatever their caller has set.
default_errstate = partial(np.errstate, all="warn", under="ignore")

# Distances and variances need the squares of features.
LARGEST_FEATURE = 1e100

# Quantities recorded in training, by name: the steps at which each was recorded, and its values.
Curves = dict[str, tuple[Int[np.ndarray, " _"], Float[np.ndarray, " _"]]]

# Called with the finished work, all work, and a short status text.
ProgressCallback = Callable[[int, int, str], None]
# What `fit` and `transform` call: they have no argument for it, as in scikit-learn.
progress: ContextVar[ProgressCallback | None] = ContextVar("progress", default=None)


@runtime_checkable
class Table(Protocol):
    """A pandas table, described without importing pandas."""

    index: Any
    columns: Any


@dataclass(frozen=True)
class FoldRecovery:
    """The results of a method over the folds of a cross-validation.

    Attributes:
        recovered: per fold the distributions of its test rows (test rows x labels, rows sum to 1).
        weights: learned arrays by name, the first axis runs over the folds; empty for methods
            that learn none.
        curves: per fold the quantities recorded in training; empty for methods that are not
            trained in steps.
        snapshots: per fold the test rows as recovered after some steps of the training, by step;
            empty for methods that take none.
    """

    recovered: list[RecoveredRows]
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    curves: list[Curves] = field(default_factory=list)
    snapshots: list[dict[int, RecoveredRows]] = field(default_factory=list)


class DivergenceError(ArithmeticError):
    """Training left the finite numbers; the message says where, and what to change."""


class NotApplicableError(ValueError):
    """A method cannot be used with these samples, labels or hyperparameters."""


class LabelEnhancer(Hyperparameters, ABC):
    """Base of all label enhancers: checks the input and leaves the method to the subclass.

    Subclass `InductiveEnhancer` or `TransductiveEnhancer`.

    Attributes:
        inductive: whether `transform` recovers samples that the method was not fitted to.
        n_features_in_, n_labels_in_: numbers of features and labels in `fit`.
        column_names_: names of features and labels in `fit`, None for those of a matrix.
    """

    inductive: ClassVar[bool]

    @default_errstate()
    def fit(self: Enhancer, features: ArrayLike, logical_labels: ArrayLike) -> Enhancer:
        """Learn from features and logical labels. A second call starts anew.

        Args:
            features: X, samples x features, finite numbers; a matrix or a pandas table.
            logical_labels: L, samples x labels, each 0 or 1 (any numeric type or bool).

        Returns:
            The fitted enhancer itself.

        Raises:
            ValueError: wrong shapes, values that are not finite, labels other than 0 and 1, or a
                hyperparameter out of its range.
            TypeError: the features have names of mixed types.
            DivergenceError: training left the finite numbers.
        """
        self.check_hyperparameters()
        checked_features, checked_labels = check_inputs(features, logical_labels)
        # Refuses names of mixed types before the training.
        validate_data(BaseEstimator(), features, skip_check_array=True)
        self._fit(checked_features, checked_labels)
        # Set last, so that a fit that fails leaves an earlier one as it was.
        validate_data(self, features, skip_check_array=True)
        self.n_labels_in_ = checked_labels.shape[1]
        self.column_names_ = _column_names(features, logical_labels)
        return self

    @abstractmethod
    def transform(self, features: ArrayLike, logical_labels: ArrayLike) -> Recovered | Table:
        """Recover the label distributions of any samples from their features and logical labels."""

    @abstractmethod
    def fit_transform(self, features: ArrayLike, logical_labels: ArrayLike) -> Recovered | Table:
        """Fit to samples and recover their distributions."""

    @default_errstate()
    def recover_folds(
        self,
        features: ArrayLike,
        logical_labels: ArrayLike,
        splits: Sequence[Split],
        on_progress: ProgressCallback | None = None,
    ) -> FoldRecovery:
        """Fit to the training rows of each fold and recover its test rows.

        Methods that train their folds together override this; here each is fitted alone.

        Args:
            features: X of all samples.
            logical_labels: L of all samples.
            splits: per fold the training rows and the test rows.
            on_progress: called as the work advances.

        Returns:
            The recovered test rows of each fold. The enhancer itself stays unfitted.

        Raises:
            TypeError: the method is transductive and a test row is not a training row.
        """
        features, logical_labels = check_inputs(features, logical_labels)
        recovered = []
        for number, (training, test) in enumerate(splits, start=1):
            recovered.append(clone(self)._recover_fold(features, logical_labels, training, test))
            if on_progress is not None:
                on_progress(number, len(splits), f"fit {number} of {len(splits)}")
        return FoldRecovery(recovered)

    def _refuse_not_finite(self, recovered: Float[np.ndarray, "*folds samples labels"]) -> None:
        """Raise DivergenceError where a recovered value is not a finite number."""
        if not np.isfinite(recovered).all():
            raise DivergenceError(
                f"{type(self).__name__} recovered values that are not finite: check its "
                "hyperparameters and the features"
            )

    @abstractmethod
    def _fit(self, features: Features, logical_labels: LogicalLabels) -> None:
        """Learn from checked arrays, which must not be written to.

        Learned attributes are set last, so that a fit that fails leaves an earlier one as it was.
        """

    @abstractmethod
    def _recover_fold(
        self, features: Features, logical_labels: LogicalLabels, training: Rows, test: Rows
    ) -> RecoveredRows:
        """Fit to some rows and recover others."""


class InductiveEnhancer(LabelEnhancer):
    """Base of the methods that are functions of (x, L) and recover any samples."""

    inductive: ClassVar[bool] = True

    @default_errstate()
    def transform(self, features: ArrayLike, logical_labels: ArrayLike) -> Recovered | Table:
        """Recover the label distributions of any samples from their features and logical labels.

        Args:
            features: X, samples x features, the features that the enhancer was fitted with.
            logical_labels: L, samples x labels.

        Returns:
            Recovered distributions, samples x labels: non-negative float64, rows sum to 1. For
            logical labels in a pandas table the result is a table with their index and columns.

        Raises:
            ValueError: as in `fit`, or numbers, names or the order of features or labels differ
                from those in `fit`.
            sklearn.exceptions.NotFittedError: `fit` was not called.
            DivergenceError: a recovered value would not be finite.
        """
        recovered = self._transform(*self._checked_for_transform(features, logical_labels))
        self._refuse_not_finite(recovered)
        return _named_as(recovered, logical_labels)

    def fit_transform(self, features: ArrayLike, logical_labels: ArrayLike) -> Recovered | Table:
        """Fit to samples and recover their distributions; see `fit` and `transform`."""
        return self.fit(features, logical_labels).transform(features, logical_labels)

    def _recover_fold(
        self, features: Features, logical_labels: LogicalLabels, training: Rows, test: Rows
    ) -> RecoveredRows:
        self.fit(features[training], logical_labels[training])
        return self.transform(features[test], logical_labels[test])

    def _checked_for_transform(
        self, features: ArrayLike, logical_labels: ArrayLike
    ) -> tuple[Features, LogicalLabels]:
        """Check that the enhancer is fitted and that the inputs match those of the fit."""
        check_is_fitted(self, "n_features_in_")
        checked_features, checked_labels = check_inputs(features, logical_labels)
        seen = (self.n_features_in_, self.n_labels_in_)
        given = (checked_features.shape[1], checked_labels.shape[1])
        if given != seen:
            raise ValueError(
                f"{type(self).__name__} was fitted with {seen[0]} features and {seen[1]} labels, "
                f"not {given[0]} and {given[1]}"
            )
        validate_data(self, features, reset=False, skip_check_array=True)
        for kind, names in _column_names(features, logical_labels).items():
            fitted = self.column_names_[kind]
            if None not in (names, fitted) and names != fitted:
                column = next(n for n, name in enumerate(names) if name != fitted[n])
                raise ValueError(
                    f"{kind} {column} is named {names[column]!r}, and {fitted[column]!r} in fit: "
                    "give the same columns in the same order"
                )
        return checked_features, checked_labels

    def get_weights(self) -> dict[str, np.ndarray]:
        """Return everything that `transform` needs of the fit, as arrays by name.

        Raises:
            sklearn.exceptions.NotFittedError: `fit` was not called.
        """
        check_is_fitted(self, "n_features_in_")
        return self._get_weights()

    def set_weights(
        self: Enhancer, weights: Mapping[str, np.ndarray], features: int, labels: int
    ) -> Enhancer:
        """Restore a fit: `transform` then recovers as the enhancer that had the weights.

        Args:
            weights: the result of `get_weights` of an enhancer with the same hyperparameters.
            features: number of features in that fit.
            labels: number of labels in that fit.

        Returns:
            The fitted enhancer itself.
        """
        self._set_weights(weights, features, labels)
        self.n_features_in_, self.n_labels_in_ = features, labels
        self.column_names_ = _column_names(None, None)
        vars(self).pop("feature_names_in_", None)
        return self

    @abstractmethod
    def _transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        """Recover the distributions of checked arrays, which must not be written to."""

    def _get_weights(self) -> dict[str, np.ndarray]:
        """Return the learned attributes that `_transform` reads, as arrays by name."""
        return {}

    def _set_weights(self, weights: Mapping[str, np.ndarray], features: int, labels: int) -> None:
        """Set the learned attributes from the result of `_get_weights`."""


class TransductiveEnhancer(LabelEnhancer):
    """Base of the methods that recover the samples they are fitted to, and no others.

    Attributes:
        recovered_: the recovered distributions of those samples.
    """

    inductive: ClassVar[bool] = False

    def transform(self, features: ArrayLike, logical_labels: ArrayLike) -> Recovered | Table:
        """Refuse: a transductive method recovers only the samples it is fitted to.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"{type(self).__name__} is transductive: it recovers the samples it is fitted to "
            "and no others. Use fit_transform(features, logical_labels)."
        )

    def fit_transform(self, features: ArrayLike, logical_labels: ArrayLike) -> Recovered | Table:
        """Fit to samples and recover their distributions; see `fit`."""
        recovered = self.fit(features, logical_labels).recovered_.copy()
        return _named_as(recovered, logical_labels)

    def _fit(self, features: Features, logical_labels: LogicalLabels) -> None:
        recovered = self._fit_transform(features, logical_labels)
        self._refuse_not_finite(recovered)
        self.recovered_ = recovered

    def _recover_fold(
        self, features: Features, logical_labels: LogicalLabels, training: Rows, test: Rows
    ) -> RecoveredRows:
        if not np.isin(test, training).all():
            raise TypeError(
                f"{type(self).__name__} is transductive: it recovers only the rows it is fitted "
                "to, so the test rows must be among the training rows"
            )
        recovered = np.empty_like(logical_labels)
        recovered[training] = self.fit_transform(features[training], logical_labels[training])
        return recovered[test]

    @abstractmethod
    def _fit_transform(self, features: Features, logical_labels: LogicalLabels) -> Recovered:
        """Recover the distributions of checked arrays, which must not be written to."""


def check_inputs(features: ArrayLike, logical_labels: ArrayLike) -> tuple[Features, LogicalLabels]:
    """Check features and logical labels and return them as float64 arrays.

    Args:
        features: samples x features.
        logical_labels: samples x labels, each 0 or 1.

    Returns:
        Both as float64 arrays, which may share memory with the arguments: do not write to them.

    Raises:
        ValueError: names the first wrong value, its row and its column.
    """
    _check_indices(features, logical_labels)
    features = _as_matrix(features, "features")
    logical_labels = _as_matrix(logical_labels, "logical_labels")
    # The extremes tell without a copy of the features.
    if max(features.max(), -features.min()) > LARGEST_FEATURE:
        row, column = np.argwhere(np.abs(features) > LARGEST_FEATURE)[0]
        raise ValueError(
            f"features must lie within {LARGEST_FEATURE:g} of 0, not be "
            f"{features[row, column]:g} (row {row}, column {column}): the squares of larger ones "
            "overflow"
        )
    if len(features) != len(logical_labels):
        raise ValueError(
            f"features have {len(features)} samples and logical_labels {len(logical_labels)}; "
            "both need one row per sample"
        )
    neither = (logical_labels != 0) & (logical_labels != 1)
    if neither.any():
        row, column = np.argwhere(neither)[0]
        raise ValueError(
            f"logical_labels must be 0 or 1, not {logical_labels[row, column]:g} "
            f"(row {row}, column {column}){minus_one_hint(logical_labels)}"
        )
    return features, logical_labels


def minus_one_hint(logical_labels: np.ndarray) -> str:
    """What a message about labels that are neither 0 nor 1 adds if all are -1 or 1."""
    if np.isin(logical_labels, (-1, 1)).all():
        return ": they are -1 and 1; write 0 for -1, which marks an irrelevant label"
    return ""


def _check_indices(features: ArrayLike, logical_labels: ArrayLike) -> None:
    if not isinstance(features, Table) or not isinstance(logical_labels, Table):
        return
    if len(features) == len(logical_labels) and not features.index.equals(logical_labels.index):
        row = int((features.index != logical_labels.index).argmax())
        # tolist makes Python's own numbers, which are shown as 3 and not as np.int64(3).
        names = [table.index[[row]].tolist()[0] for table in (features, logical_labels)]
        raise ValueError(
            f"the rows of features and logical_labels do not match: row {row} is "
            f"{names[0]!r} in one and {names[1]!r} in the other"
        )


def _column_names(
    features: ArrayLike | None, logical_labels: ArrayLike | None
) -> dict[str, list | None]:
    return {
        kind: list(values.columns) if isinstance(values, Table) else None
        for kind, values in (("feature", features), ("label", logical_labels))
    }


def _named_as(recovered: Recovered, logical_labels: ArrayLike) -> Recovered | Table:
    """Give the result the index and columns of logical labels in a pandas table."""
    if not isinstance(logical_labels, Table):
        return recovered
    return type(logical_labels)(
        recovered, index=logical_labels.index, columns=logical_labels.columns
    )


def _as_matrix(values: ArrayLike, name: str) -> Float[np.ndarray, "samples columns"]:
    # One memory layout is used, because sums round differently in another.
    matrix = np.ascontiguousarray(real_array(values, name))
    if np.ndim(values) != 2:
        raise ValueError(f"{name} must have two dimensions, not {np.ndim(values)}")
    if 0 in matrix.shape:
        raise ValueError(f"{name} must not be empty, its shape is {matrix.shape}")
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise ValueError(
            f"{name} must be finite, not {matrix[row, column]} (row {row}, column {column})"
        )
    return matrix
