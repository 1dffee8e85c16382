"""Trace ConLE's training epoch by epoch."""

from typing import Any

import pandas as pd

from conle.cells import Cell, on_failure
from conle.core.folds import folds_of, splits_of
from conle.core.measures import score
from conle.cost import measured_cost
from conle.pipelines.recovery.nodes import curves_table
from conle.progress import progress_bar
from conle.reporting.scores import scores_of_all

EPOCH_COLUMNS = ["repeat", "fold", "epoch"]
CONVERGENCE_COLUMNS = ["dataset", "quantity", "epoch", "mean", "std", "folds"]


def empty_trace(
    features: pd.DataFrame, logical_labels: pd.DataFrame, *_: Any, cell: Cell, failure: str
) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """The outputs of `trace_training` without rows; the cost holds why it failed."""
    recovered = pd.DataFrame(columns=[*EPOCH_COLUMNS, "sample", *logical_labels.columns])
    objective = pd.DataFrame(columns=["quantity", *EPOCH_COLUMNS, "value"])
    return recovered, objective, {"failure": failure}


@on_failure(empty_trace)
def trace_training(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    folds: pd.DataFrame,
    epochs: int,
    repeats: int,
    *,
    cell: Cell,
) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, float]]:
    """Train ConLE for a fixed number of epochs and recover the test rows after each.

    Args:
        features: samples x features.
        logical_labels: samples x labels, 0 or 1.
        folds: columns repeat, fold, sample.
        epochs: number of epochs.
        repeats: number of repeats that are traced, from the first.
        cell: ConLE's hyperparameters; stopping and steps are set here.

    Returns:
        Recovered test rows after each epoch: columns repeat, fold, epoch, sample and one per label.
        Terms of the objective: columns quantity, repeat, fold, epoch, value. The cost
        (`measured_cost`).

    Raises:
        ParameterError: the training diverged.
    """
    folds = folds[folds["repeat"] <= repeats]
    splits = splits_of(folds, len(features))
    batches = -(-len(splits[0][0]) // cell.make_enhancer().batch_size)
    enhancer = cell.make_enhancer(stopping="fixed", steps=epochs * batches, snapshot_every=batches)
    with measured_cost() as cost, progress_bar(cell.title) as on_progress:
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
    return recovered[[*EPOCH_COLUMNS, "sample", *logical_labels.columns]], curves, cost


def score_epochs(
    label_distributions: pd.DataFrame,
    recovered_by_epoch: pd.DataFrame,
    objective_by_epoch: pd.DataFrame,
    *,
    dataset: str,
) -> pd.DataFrame:
    """Put the measures of every epoch beside the terms of the objective.

    Args:
        label_distributions: the true distributions, used only for the scores.
        recovered_by_epoch: columns repeat, fold, epoch, sample and one per label.
        objective_by_epoch: columns quantity, repeat, fold, epoch, value.
        dataset: the value of the column dataset.

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
    """Draw the objective and the measures against the epoch.

    Returns:
        A Matplotlib figure.
    """
    # Imported here because matplotlib takes long to load.
    from conle.reporting import figures

    return figures.convergence_curves(convergence)
