"""Held-out draws of the posterior decoders, and their mean, weighted by logical labels."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from conle.cells import Cell, on_failure
from conle.cost import measured_cost
from conle.methods.contract import LabelEnhancer
from conle.methods.registry import POSTERIORS
from conle.pipelines.recovery.nodes import RECOVERED_COLUMNS

logger = logging.getLogger(__name__)

# Every sample is held out once, in so many folds.
FOLDS = 5
INTERVAL_LEVEL = 0.9
SAMPLES_WITH_DRAWS = 3
# Diagnostics take a millisecond for each degree.
SAMPLES_WITH_DIAGNOSTICS = 50


def no_draws(
    features: pd.DataFrame, logical_labels: pd.DataFrame, *, cell: Cell, failure: str
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """The outputs of `draw_held_out` without rows; the cost holds why it failed."""
    columns = (
        ["sample", "label", "r_hat", "bulk_ess", "tail_ess"],
        ["sample", "label", "mean", "low", "high", "logical"],
        ["sample", "chain", "draw", *logical_labels.columns],
        ["sample", "count", *logical_labels.columns],
    )
    return *(pd.DataFrame(columns=own) for own in columns), {"failure": failure}


@on_failure(no_draws)
def draw_held_out(
    features: pd.DataFrame, logical_labels: pd.DataFrame, *, cell: Cell
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, dict[str, float]]:
    """Draw the distributions of every sample as it is held out, and check the chains' agreement.

    Args:
        features: samples x features.
        logical_labels: samples x labels, 0 or 1.
        cell: the decoder; its seed splits the samples.

    Returns:
        Diagnostics of the independent chains, R-hat and effective sample sizes (Vehtari et al.,
        "Rank-normalization, folding, and localization", 2021) of the degrees of 50 samples of each
        fold: sample, label, r_hat, bulk_ess, tail_ess. Posterior means and credible intervals:
        sample, label, logical, mean, low, high. The draws of a few of the samples: sample, chain,
        draw and one column per label. What the decoder predicts from the features alone: sample,
        the probability of its number of relevant labels (count) and that of its value of each
        label; no rows without a threshold model. The cost (`measured_cost`).

    Raises:
        ParameterError: the decoder cannot use these logical labels.
    """
    from sklearn.model_selection import KFold

    X, L, labels = features.to_numpy(), logical_labels.to_numpy(), list(logical_labels.columns)
    parts = []
    splits = KFold(min(FOLDS, len(X)), shuffle=True, random_state=cell.settings["seed"])
    with measured_cost() as cost:
        for training, held_out in splits.split(X):
            decoder = cell.make_enhancer().fit(X[training], L[training])
            chains = decoder.sample_chains(X[held_out], L[held_out])
            intervals = _intervals(decoder.with_label_posterior(chains, L[held_out]))
            few = slice(SAMPLES_WITH_DIAGNOSTICS)
            parts.append(
                (
                    _of_degrees(_diagnostics(chains[:, :, few]), held_out[few], labels),
                    _of_degrees(intervals.assign(logical=L[held_out].ravel()), held_out, labels),
                    _few_draws(chains, held_out, labels),
                    _label_probabilities(decoder, X, L, held_out, labels),
                )
            )
    diagnostics, intervals, draws, probabilities = zip(*parts, strict=True)
    return (
        pd.concat(diagnostics, ignore_index=True),
        pd.concat(intervals, ignore_index=True),
        draws[0],
        pd.concat(probabilities, ignore_index=True),
        cost,
    )


def _of_degrees(table: pd.DataFrame, samples: np.ndarray, labels: list[str]) -> pd.DataFrame:
    """Put the columns sample and label before those of a table with a row for every degree."""
    degrees = pd.MultiIndex.from_product([samples, labels], names=["sample", "label"])
    return table.set_axis(degrees).reset_index()


def _diagnostics(draws: np.ndarray) -> pd.DataFrame:
    """R-hat and effective sample sizes of chains x draws x samples x labels."""
    from arviz_stats.base import array_stats

    axes = {"chain_axis": 0, "draw_axis": 1}
    return pd.DataFrame(
        {
            "r_hat": array_stats.rhat(draws, **axes).ravel(),
            "bulk_ess": array_stats.ess(draws, **axes, method="bulk").ravel(),
            "tail_ess": array_stats.ess(draws, **axes, method="tail", prob=INTERVAL_LEVEL).ravel(),
        }
    )


def _intervals(draws: np.ndarray) -> pd.DataFrame:
    """Means and intervals of draws x samples x labels."""
    low, high = np.quantile(draws, [(1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2], axis=0)
    mean = draws.mean(axis=0)
    return pd.DataFrame({"mean": mean.ravel(), "low": low.ravel(), "high": high.ravel()})


def _few_draws(draws: np.ndarray, samples: np.ndarray, labels: list[str]) -> pd.DataFrame:
    few = min(SAMPLES_WITH_DRAWS, len(samples))
    chains, length = draws.shape[:2]
    index = pd.MultiIndex.from_product(
        [samples[:few], range(chains), range(length)], names=["sample", "chain", "draw"]
    )
    values = np.moveaxis(draws[:, :, :few], 2, 0).reshape(len(index), len(labels))
    return pd.DataFrame(values, index, labels).reset_index()


def _label_probabilities(
    decoder: LabelEnhancer,
    X: np.ndarray,
    L: np.ndarray,
    held_out: np.ndarray,
    labels: list[str],
) -> pd.DataFrame:
    if not decoder.threshold_model:
        return pd.DataFrame(columns=["sample", "count", *labels])
    probabilities = decoder.label_probabilities(X[held_out], L[held_out])
    return pd.DataFrame(probabilities, columns=["count", *labels]).assign(sample=held_out)


def compare_intervals(
    intervals: pd.DataFrame, label_distributions: pd.DataFrame, *, dataset: str, method: str
) -> pd.DataFrame:
    """Put the true degrees beside the credible intervals.

    Args:
        intervals: the intervals of `draw_held_out`.
        label_distributions: the true distributions, samples x labels.
        dataset: the value of the column dataset.
        method: the value of the column method.

    Returns:
        The intervals with the columns dataset, method and true.
    """
    if intervals.empty:
        return pd.DataFrame(columns=["dataset", "method", *intervals.columns, "true"])
    true = label_distributions.rename_axis("sample").reset_index()
    true = true.melt("sample", var_name="label", value_name="true")
    beside = intervals.merge(true, on=["sample", "label"], how="left", validate="one_to_one")
    beside.insert(0, "dataset", dataset)
    beside.insert(1, "method", method)
    return beside


def stack_posteriors(*probabilities: pd.DataFrame, dataset: str) -> dict[str, Any]:
    """Weight the decoders by how well they predict held-out logical labels from the features.

    Args:
        probabilities: the label probabilities of `draw_held_out`, of each of `POSTERIORS`.
        dataset: its name.

    Returns:
        The dataset, the weight of every decoder (`conle.core.stacking`) and its log score. Where a
        decoder has no label probabilities, weights is None, and failure says why.
    """
    from conle.core.stacking import log_score, stacking_weights

    for method, own in zip(POSTERIORS, probabilities, strict=True):
        if own.empty:
            failure = (
                f"{method} has no probabilities of held-out logical labels: it failed, or its "
                "threshold_model is false"
            )
            logger.warning("%s has no stacked posterior: %s", dataset, failure)
            return {"dataset": dataset, "weights": None, "log_score": {}, "failure": failure}
    stacked = np.stack(
        [own.sort_values("sample").drop(columns="sample").to_numpy() for own in probabilities]
    )
    weights = stacking_weights(stacked)
    return {
        "dataset": dataset,
        "weights": dict(zip(POSTERIORS, weights.tolist(), strict=True)),
        "log_score": dict(zip(POSTERIORS, map(log_score, stacked), strict=True)),
    }


def average_recovered(
    stacking: Mapping[str, Any], *outputs: pd.DataFrame | Mapping[str, float]
) -> tuple[pd.DataFrame, Mapping[str, float]]:
    """The weighted mean of the decoders' recoveries, and their cost in all.

    Args:
        stacking: the output of `stack_posteriors`; if it or a decoder failed, there are no rows.
        outputs: recovered and cost of each of `POSTERIORS`.
    """
    recovered, costs = outputs[::2], outputs[1::2]
    failures = [own["failure"] for own in (stacking, *costs) if "failure" in own]
    if failures:
        return recovered[0][:0], {"failure": f"nothing was stacked: {failures[0]}"}
    labels = [name for name in recovered[0] if name not in RECOVERED_COLUMNS]
    rows = sum(
        stacking["weights"][method] * own[labels].to_numpy()
        for method, own in zip(POSTERIORS, recovered, strict=True)
    )
    mean = recovered[0].copy()
    mean[labels] = rows / rows.sum(axis=1, keepdims=True)
    return mean, {
        "seconds": sum(cost["seconds"] for cost in costs),
        "memory_before_mib": min(cost["memory_before_mib"] for cost in costs),
        "peak_memory_mib": max(cost["peak_memory_mib"] for cost in costs),
    }


def identity(
    recovered: pd.DataFrame, cost: Mapping[str, float]
) -> tuple[pd.DataFrame, Mapping[str, float]]:
    """Pass on the recovery and the cost of a cell with the same settings."""
    return recovered, cost
