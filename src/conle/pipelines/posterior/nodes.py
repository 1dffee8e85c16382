"""The representation of the posterior decoder, chosen by the logical labels, and its draws."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from conle.methods.registry import POSTERIORS
from conle.pipelines.recovery.nodes import cell_enhancer, named_errors

# Of all samples, for the likelihood and for the draws that are examined.
HELD_OUT_SHARE = 0.1
# Of what the start exceeds the floor by, for the chains that start apart.
LEVEL_FACTORS = (0.2, 1.0, 3.0, 9.0)
INTERVAL_LEVEL = 0.9
SAMPLES_WITH_DRAWS = 3


def choose_representation(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    threshold: float,
    device: str,
    seed: int,
    degree_floors: Mapping[str, float],
    *hyperparameters: Mapping[str, Any],
    dataset: str,
) -> dict[str, Any]:
    """Choose the posterior decoder that predicts held-out logical labels best.

    Each is fitted to nine tenths of all features and logical labels; the likelihood of the other
    logical labels is `PosteriorDecoder.log_likelihood`.

    Args:
        features: samples x features.
        logical_labels: samples x labels.
        threshold: T of the binarisation.
        device: "auto", "cpu" or "cuda".
        seed: of the split and of the decoders.
        degree_floors: of the datasets that declare one.
        hyperparameters: of each of `POSTERIORS`.
        dataset: its name.

    Returns:
        The dataset, the chosen method, and the mean log likelihood of every method.

    Raises:
        ParameterError: a decoder cannot be used with these logical labels or hyperparameters.
    """
    training, held_out = inner_split(len(features), seed)
    X, L = features.to_numpy(), logical_labels.to_numpy()
    likelihoods = {}
    for method, block in zip(POSTERIORS, hyperparameters, strict=True):
        decoder = cell_enhancer(dataset, method, block, threshold, device, seed, degree_floors)
        with named_errors(f"{dataset} {method}"):
            decoder.fit(X[training], L[training])
            likelihoods[method] = decoder.log_likelihood(X[held_out], L[held_out])
    return {
        "dataset": dataset,
        "chosen": max(likelihoods, key=likelihoods.get),
        "log_likelihood": likelihoods,
    }


def nothing_chosen(*_: Any, dataset: str, failure: str) -> tuple[dict[str, Any]]:
    """What `choose_representation` returns where a decoder has failed: no choice."""
    return ({"dataset": dataset, "chosen": None, "log_likelihood": {}, "failure": failure},)


def inner_split(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Nine tenths of all rows, in a random order, and the other tenth."""
    order = np.random.default_rng(seed).permutation(samples)
    held_out, training = np.split(order, [int(np.ceil(HELD_OUT_SHARE * samples))])
    return training, held_out


def draw_held_out(
    features: pd.DataFrame,
    logical_labels: pd.DataFrame,
    hyperparameters: Mapping[str, Any],
    threshold: float,
    device: str,
    seed: int,
    degree_floors: Mapping[str, float],
    *,
    dataset: str,
    method: str,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Draw distributions of held-out samples along independent chains, and see if these agree.

    One set of chains starts at the decoder's own level, one at different levels.

    Args:
        features: samples x features.
        logical_labels: samples x labels.
        hyperparameters: of the method.
        threshold: T of the binarisation.
        device: "auto", "cpu" or "cuda".
        seed: of the split and of the decoder.
        degree_floors: of the datasets that declare one.
        dataset: its name.
        method: one of `POSTERIORS`.

    Returns:
        R-hat and effective sample sizes (Vehtari et al., "Rank-normalization, folding, and
        localization", 2021) of every held-out degree: start_levels ("one" or "different"), sample,
        label, r_hat, bulk_ess, tail_ess; posterior means and credible intervals from the chains of
        one level: sample, label, logical, mean, low, high; and the draws of a few of the samples:
        sample, chain, draw and one column per label.

    Raises:
        ParameterError: the decoder cannot be used with these logical labels.
    """
    decoder = cell_enhancer(
        dataset, method, hyperparameters, threshold, device, seed, degree_floors
    )
    training, held_out = inner_split(len(features), seed)
    X, L = features.to_numpy(), logical_labels.to_numpy()
    level = decoder.effective_start_level
    lowest = 1.0 if decoder.degree_floor else 0.0
    apart = [lowest + factor * (level - lowest) for factor in LEVEL_FACTORS]
    with named_errors(f"{dataset} {method}"):
        one = decoder.sample_chains(X, L, (training, held_out), [level] * len(LEVEL_FACTORS))
        different = decoder.sample_chains(X, L, (training, held_out), apart)
    degrees = pd.MultiIndex.from_product(
        [held_out, logical_labels.columns], names=["sample", "label"]
    )
    return (
        pd.concat(
            [
                _agreement(draws).set_axis(degrees).reset_index().assign(start_levels=name)
                for name, draws in (("one", one), ("different", different))
            ],
            ignore_index=True,
        ),
        _intervals(one).set_axis(degrees).assign(logical=L[held_out].ravel()).reset_index(),
        _few_draws(one, held_out, list(logical_labels.columns)),
    )


def nothing_drawn(
    features: pd.DataFrame, logical_labels: pd.DataFrame, *_: Any, **__: Any
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """What `draw_held_out` returns, without rows: of a decoder that has failed."""
    columns = (
        ["sample", "label", "r_hat", "bulk_ess", "tail_ess", "start_levels"],
        ["sample", "label", "mean", "low", "high", "logical"],
        ["sample", "chain", "draw", *logical_labels.columns],
    )
    return tuple(pd.DataFrame(columns=own) for own in columns)


def _agreement(draws: np.ndarray) -> pd.DataFrame:
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
        intervals: as `draw_held_out` gives them.
        label_distributions: the true ones, samples x labels.
        dataset: its name.
        method: its name.

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
    """Take over what the chosen method recovered, and what it cost; nothing if none was chosen.

    Args:
        choice: as `choose_representation` gives it.
        outputs: recovered and cost of each of `POSTERIORS`.
    """
    if choice["chosen"] is None:
        return outputs[0][:0], {"failure": f"no representation was chosen: {choice['failure']}"}
    chosen = POSTERIORS.index(choice["chosen"])
    return outputs[2 * chosen], outputs[2 * chosen + 1]


def take_over(
    recovered: pd.DataFrame, cost: Mapping[str, float]
) -> tuple[pd.DataFrame, Mapping[str, float]]:
    """Take over what another cell with the same settings recovered, and what it cost."""
    return recovered, cost
