"""Following ConLE's training epoch by epoch."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from conle.core.measures import score
from conle.methods.registry import make_enhancer
from conle.pipelines.evaluation.nodes import scores_of_all
from conle.pipelines.recovery.nodes import (
    curves_table,
    folds_of,
    named_errors,
    progress_bar,
    splits_of,
)

EPOCH_COLUMNS = ["repeat", "fold", "epoch"]
CONVERGENCE_COLUMNS = ["dataset", "quantity", "epoch", "mean", "std", "folds"]


def trace_training(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    folds: pd.DataFrame,
    hyperparameters: Mapping[str, Any],
    epochs: int,
    repeats: int,
    device: str,
    seed: int,
    *,
    dataset: str,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train ConLE for a fixed number of epochs and recover the test rows after each.

    Args:
        features: samples x features.
        logical_labels: samples x labels.
        folds: columns repeat, fold, sample.
        hyperparameters: of ConLE; stopping and steps are set here.
        epochs: to train.
        repeats: of the folds that are followed, from the first.
        device: "auto", "cpu" or "cuda".
        seed: of ConLE.
        dataset: its name, for the progress bar.

    Returns:
        Columns repeat, fold, epoch, sample and one per label: the recovered test rows after each
        epoch; and the terms of the objective, columns quantity, repeat, fold, epoch, value.

    Raises:
        ParameterError: the training diverged.
    """
    folds = folds[folds["repeat"] <= repeats]
    splits = splits_of(folds, len(features))
    batches = -(-len(splits[0][0]) // hyperparameters["batch_size"])
    enhancer = make_enhancer(
        "conle",
        {
            **hyperparameters,
            "stopping": "fixed",
            "steps": epochs * batches,
            "snapshot_every": batches,
        },
        device=device,
        seed=seed,
    )
    description = f"{dataset} convergence"
    with named_errors(description), progress_bar(description) as on_progress:
        recovery = enhancer.recover_folds(
            features.to_numpy(), logical_labels.to_numpy(), splits, on_progress
        )
    recovered = pd.concat(
        [
            pd.DataFrame(rows, columns=logical_labels.columns).assign(
                repeat=repeat, fold=fold, epoch=step // batches, sample=test
            )
            for (repeat, fold), (_, test), snapshots in zip(
                folds_of(folds), splits, recovery.snapshots, strict=True
            )
            for step, rows in snapshots.items()
        ],
        ignore_index=True,
    )
    curves = curves_table(recovery, folds_of(folds))
    curves["epoch"] = (curves.pop("step") - 1) // batches + 1
    keys = ["quantity", *EPOCH_COLUMNS]
    curves = curves.groupby(keys, sort=False, as_index=False)["value"].mean()
    return recovered[[*EPOCH_COLUMNS, "sample", *logical_labels.columns]], curves


def nothing_traced(
    features: pd.DataFrame, logical_labels: pd.DataFrame, *_: Any, **__: Any
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What `trace_training` returns, without rows: of a training that has failed."""
    recovered = pd.DataFrame(columns=[*EPOCH_COLUMNS, "sample", *logical_labels.columns])
    return recovered, pd.DataFrame(columns=["quantity", *EPOCH_COLUMNS, "value"])


def score_epochs(
    label_distributions: pd.DataFrame,
    recovered_by_epoch: pd.DataFrame,
    objective_by_epoch: pd.DataFrame,
    *,
    dataset: str,
) -> pd.DataFrame:
    """Put the measures of every epoch beside the terms of the objective.

    Args:
        label_distributions: the true ones, read for the scores alone.
        recovered_by_epoch: columns repeat, fold, epoch, sample and one per label.
        objective_by_epoch: columns quantity, repeat, fold, epoch, value.
        dataset: its name.

    Returns:
        Columns dataset, quantity (a term of the objective or a measure), epoch, mean, std, folds.
    """
    if recovered_by_epoch.empty:
        return pd.DataFrame(columns=CONVERGENCE_COLUMNS)
    labels = list(label_distributions.columns)
    scores = [
        {"quantity": measure, "epoch": epoch, "value": value}
        for (_, _, epoch), test in recovered_by_epoch.groupby(EPOCH_COLUMNS)
        for measure, value in score(
            label_distributions.loc[test["sample"], labels].to_numpy(), test[labels].to_numpy()
        ).items()
    ]
    table = pd.concat([objective_by_epoch, pd.DataFrame(scores)], ignore_index=True)
    values = table.groupby(["quantity", "epoch"], sort=False)["value"]
    summary = values.agg(mean="mean", std="std", folds="count").reset_index()
    return summary.assign(dataset=dataset)[CONVERGENCE_COLUMNS]


def collect_convergence(*tables: pd.DataFrame) -> pd.DataFrame:
    """Put the tables of all datasets into one."""
    return scores_of_all(tables)


def draw_convergence(convergence: pd.DataFrame) -> Any:
    """Draw the table.

    Returns:
        A Matplotlib figure.
    """
    # Imported where it is used: matplotlib takes long to load.
    from conle.reporting import figures

    return figures.convergence_curves(convergence)
