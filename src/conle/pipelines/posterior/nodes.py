"""The representation of the posterior decoder, chosen by the logical labels, and its draws."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from conle.cells import Cell, on_failure
from conle.cost import measured_cost
from conle.methods.registry import POSTERIORS

# This share of the samples is held out for the likelihood and the draws.
HELD_OUT_SHARE = 0.1
# Chains that start apart: multiples of the start level's distance from the lowest level.
LEVEL_FACTORS = (0.2, 1.0, 3.0, 9.0)
INTERVAL_LEVEL = 0.9
SAMPLES_WITH_DRAWS = 3


def no_choice(*_: Any, cell: Cell, failure: str, candidates: Sequence[Cell]) -> dict[str, Any]:
    """The output of `choose_representation` where a decoder failed."""
    return {"dataset": cell.dataset, "chosen": None, "log_likelihood": {}, "failure": failure}


@on_failure(no_choice)
def choose_representation(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    *,
    cell: Cell,
    candidates: Sequence[Cell],
) -> dict[str, Any]:
    """Choose the posterior decoder that predicts held-out logical labels best.

    Each decoder is fitted to the features and logical labels of nine tenths of the samples, and
    `PosteriorDecoder.log_likelihood` scores the logical labels of the others.

    Args:
        features: samples x features.
        logical_labels: samples x labels, 0 or 1.
        cell: the cell of the chosen posterior; its seed splits the samples.
        candidates: the cells of the decoders.

    Returns:
        The dataset, the chosen method, and the mean log likelihood of every method.

    Raises:
        ParameterError: a decoder cannot use these logical labels.
    """
    training, held_out = inner_split(len(features), cell.settings["seed"])
    X, L = features.to_numpy(), logical_labels.to_numpy()
    likelihoods = {}
    for candidate in candidates:
        decoder = candidate.make_enhancer().fit(X[training], L[training])
        likelihoods[candidate.method] = decoder.log_likelihood(X[held_out], L[held_out])
    return {
        "dataset": cell.dataset,
        "chosen": max(likelihoods, key=likelihoods.get),
        "log_likelihood": likelihoods,
    }


def inner_split(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Nine tenths of all rows, in a random order, and the other tenth."""
    order = np.random.default_rng(seed).permutation(samples)
    held_out, training = np.split(order, [int(np.ceil(HELD_OUT_SHARE * samples))])
    return training, held_out


def no_draws(
    features: pd.DataFrame, logical_labels: pd.DataFrame, *, cell: Cell, failure: str
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """The outputs of `draw_held_out` without rows; the cost holds why it failed."""
    columns = (
        ["sample", "label", "r_hat", "bulk_ess", "tail_ess", "start_levels"],
        ["sample", "label", "mean", "low", "high", "logical"],
        ["sample", "chain", "draw", *logical_labels.columns],
    )
    return *(pd.DataFrame(columns=own) for own in columns), {"failure": failure}


@on_failure(no_draws)
def draw_held_out(
    features: pd.DataFrame, logical_labels: pd.DataFrame, *, cell: Cell
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, dict[str, float]]:
    """Draw distributions of held-out samples along independent chains, and check their agreement.

    One set of chains starts at the decoder's own level, another at different levels.

    Args:
        features: samples x features.
        logical_labels: samples x labels, 0 or 1.
        cell: the decoder; its seed splits the samples.

    Returns:
        Diagnostics, R-hat and effective sample sizes (Vehtari et al., "Rank-normalization, folding,
        and localization", 2021) of every held-out degree: start_levels ("one" or "different"),
        sample, label, r_hat, bulk_ess, tail_ess. Posterior means and credible intervals from the
        chains of one level: sample, label, logical, mean, low, high. The draws of a few of the
        samples: sample, chain, draw and one column per label. The cost (`measured_cost`).

    Raises:
        ParameterError: the decoder cannot use these logical labels.
    """
    decoder = cell.make_enhancer()
    training, held_out = inner_split(len(features), cell.settings["seed"])
    X, L = features.to_numpy(), logical_labels.to_numpy()
    level = decoder.effective_start_level
    lowest = 1.0 if decoder.degree_floor else 0.0
    apart = [lowest + factor * (level - lowest) for factor in LEVEL_FACTORS]
    with measured_cost() as cost:
        one = decoder.sample_chains(X, L, (training, held_out), [level] * len(LEVEL_FACTORS))
        different = decoder.sample_chains(X, L, (training, held_out), apart)
    degrees = pd.MultiIndex.from_product(
        [held_out, logical_labels.columns], names=["sample", "label"]
    )
    return (
        pd.concat(
            [
                _diagnostics(draws).set_axis(degrees).reset_index().assign(start_levels=name)
                for name, draws in (("one", one), ("different", different))
            ],
            ignore_index=True,
        ),
        _intervals(one).set_axis(degrees).assign(logical=L[held_out].ravel()).reset_index(),
        _few_draws(one, held_out, list(logical_labels.columns)),
        cost,
    )


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
    low, high = np.quantile(
        draws, [(1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2], axis=(0, 1)
    )
    mean = draws.mean(axis=(0, 1))
    return pd.DataFrame({"mean": mean.ravel(), "low": low.ravel(), "high": high.ravel()})


def _few_draws(draws: np.ndarray, samples: np.ndarray, labels: list[str]) -> pd.DataFrame:
    few = min(SAMPLES_WITH_DRAWS, len(samples))
    chains, length = draws.shape[:2]
    index = pd.MultiIndex.from_product(
        [samples[:few], range(chains), range(length)], names=["sample", "chain", "draw"]
    )
    values = np.moveaxis(draws[:, :, :few], 2, 0).reshape(len(index), len(labels))
    return pd.DataFrame(values, index, labels).reset_index()


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


def take_chosen(
    choice: Mapping[str, Any], *outputs: pd.DataFrame | Mapping[str, float]
) -> tuple[pd.DataFrame, Mapping[str, float]]:
    """Take the recovery and the cost of the chosen method; without a choice, there are no rows.

    Args:
        choice: the output of `choose_representation`.
        outputs: recovered and cost of each of `POSTERIORS`.
    """
    if choice["chosen"] is None:
        return outputs[0][:0], {"failure": f"no representation was chosen: {choice['failure']}"}
    chosen = POSTERIORS.index(choice["chosen"])
    return outputs[2 * chosen], outputs[2 * chosen + 1]


def identity(
    recovered: pd.DataFrame, cost: Mapping[str, float]
) -> tuple[pd.DataFrame, Mapping[str, float]]:
    """Pass on the recovery and the cost of a cell with the same settings."""
    return recovered, cost
