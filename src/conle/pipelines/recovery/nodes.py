"""Recovering label distributions with a method, fold by fold."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from conle.errors import ParameterError
from conle.methods.contract import (
    DivergenceError,
    FoldRecovery,
    LabelEnhancer,
    NotApplicableError,
    ProgressCallback,
    Split,
)
from conle.methods.registry import METHODS, make_enhancer
from conle.pipelines.recovery.cost import measured_cost

# Of the recovered rows, before one column per label.
RECOVERED_COLUMNS = ["protocol", "fitted_on", "repeat", "fold", "sample"]
CURVE_COLUMNS = ["quantity", "repeat", "fold", "step", "value"]
# Repeat and fold of a fit to all rows, which belongs to no fold.
ALL_ROWS = (0, 0)


def recover(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    folds: pd.DataFrame,
    hyperparameters: Mapping[str, Any],
    protocol: str,
    threshold: float,
    device: str,
    seed: int,
    degree_floors: Mapping[str, float],
    *,
    dataset: str,
    method: str,
    overrides: Mapping[str, Any] | None = None,
) -> tuple:
    """Recover the distributions of every test fold.

    Args:
        features: samples x features.
        logical_labels: samples x labels.
        folds: columns repeat, fold, sample.
        hyperparameters: of the method.
        protocol: "cross_validation" fits inductive methods to the training rows of each fold,
            "transductive" every method once to all rows.
        threshold: T of the binarisation.
        device: for methods that can use a GPU.
        seed: of the method's random choices.
        degree_floors: of the datasets that declare one.
        dataset: its name.
        method: its name.
        overrides: hyperparameters that take precedence.

    Returns:
        Columns protocol, fitted_on ("training_folds" or "all"), repeat, fold, sample and one per
        label: the recovered rows of each test fold; what it cost (`measured_cost`); and, for a
        method that is trained, its weights by name, their first axis over the folds, and its
        curves with the columns quantity, repeat, fold, step, value (repeat and fold are 0 for a
        fit to all rows).

    Raises:
        ParameterError: the training diverged, or the method cannot be used with these logical
            labels.
    """
    recovered, cost, recovery = _recover(
        features,
        logical_labels,
        folds,
        protocol,
        cell_enhancer(
            dataset,
            method,
            {**hyperparameters, **(overrides or {})},
            threshold,
            device,
            seed,
            degree_floors,
        ),
        f"{dataset} {method}",
    )
    if not METHODS[method].trained:
        return recovered, cost
    fitted = [ALL_ROWS] if protocol == "transductive" else folds_of(folds)
    return recovered, cost, recovery.weights, curves_table(recovery, fitted)


def nothing_recovered(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    *_: Any,
    failure: str,
    method: str,
    **__: Any,
) -> tuple:
    """What `recover` returns, without rows: of a method that has failed, and why."""
    recovered = pd.DataFrame(columns=[*RECOVERED_COLUMNS, *logical_labels.columns])
    cost = {"failure": failure}
    if not METHODS[method].trained:
        return recovered, cost
    return recovered, cost, {}, pd.DataFrame(columns=CURVE_COLUMNS)


def cell_enhancer(
    dataset: str,
    method: str,
    hyperparameters: Mapping[str, Any],
    threshold: float,
    device: str,
    seed: int,
    degree_floors: Mapping[str, float],
) -> LabelEnhancer:
    """The enhancer of a method for a dataset, which may declare a floor of its degrees."""
    return make_enhancer(
        method,
        hyperparameters,
        threshold=threshold,
        device=device,
        seed=seed,
        degree_floor=degree_floors.get(dataset, 0.0),
    )


@contextmanager
def named_errors(description: str) -> Iterator[None]:
    """Say of which dataset and method it is that training diverged, or labels cannot be used."""
    try:
        yield
    except (DivergenceError, NotApplicableError) as error:
        raise ParameterError(f"{description}: {error}") from error


def splits_of(folds: pd.DataFrame, samples: int) -> list[Split]:
    """Training rows and test rows of every fold, in their order."""
    everything = np.arange(samples)
    return [
        (np.delete(everything, test), test.to_numpy())
        for _, test in folds.groupby(["repeat", "fold"], sort=False)["sample"]
    ]


def folds_of(folds: pd.DataFrame) -> list[tuple[int, int]]:
    """Repeat and fold of every test fold, in their order."""
    return list(folds[["repeat", "fold"]].drop_duplicates().itertuples(index=False, name=None))


def curves_table(recovery: FoldRecovery, fitted: list[tuple[int, int]]) -> pd.DataFrame:
    """What was followed in training, with the columns quantity, repeat, fold, step, value."""
    curves = [
        (quantity, *fold, *curve)
        for fold, followed in zip(fitted, recovery.curves, strict=True)
        for quantity, curve in followed.items()
    ]
    quantities, repeats, folds, steps, values = zip(*curves, strict=True)
    lengths = [len(curve) for curve in steps]
    columns = [np.repeat(names, lengths) for names in (quantities, repeats, folds)]
    columns += [np.concatenate(steps), np.concatenate(values).astype(np.float64)]
    return pd.DataFrame(dict(zip(CURVE_COLUMNS, columns, strict=True)))


def _recover(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    folds: pd.DataFrame,
    protocol: str,
    enhancer: LabelEnhancer,
    description: str,
) -> tuple[pd.DataFrame, dict[str, float], FoldRecovery]:
    X, L = features.to_numpy(), logical_labels.to_numpy()
    splits = splits_of(folds, len(X))
    with (
        named_errors(description),
        measured_cost() as cost,
        progress_bar(description) as on_progress,
    ):
        recovery, rows = _recover_tests(enhancer, X, L, splits, protocol, on_progress)
    on_all = protocol == "transductive" or not enhancer.inductive
    recovered = folds[["repeat", "fold", "sample"]].reset_index(drop=True)
    recovered.insert(0, "protocol", protocol)
    recovered.insert(1, "fitted_on", "all" if on_all else "training_folds")
    recovered[list(logical_labels.columns)] = np.concatenate(rows)
    return recovered, cost, recovery


def _recover_tests(
    enhancer: LabelEnhancer,
    X: np.ndarray,
    L: np.ndarray,
    splits: list[Split],
    protocol: str,
    on_progress: ProgressCallback,
) -> tuple[FoldRecovery, list[np.ndarray]]:
    if protocol == "transductive" or not enhancer.inductive:
        everything = np.arange(len(X))
        recovery = enhancer.recover_folds(X, L, [(everything, everything)], on_progress)
        return recovery, [recovery.recovered[0][test] for _, test in splits]
    recovery = enhancer.recover_folds(X, L, splits, on_progress)
    return recovery, recovery.recovered


@contextmanager
def progress_bar(description: str) -> Iterator[ProgressCallback]:
    """A progress bar on the terminal; nothing where there is none."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as progress:
        task = progress.add_task(description, status="")
        yield lambda done, total, status: progress.update(
            task, completed=done, total=total, status=status
        )
