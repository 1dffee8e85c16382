"""The representation of the posterior decoder, chosen without a look at the distributions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from conle.enhancers.base import NotApplicableError
from conle.enhancers.registry import POSTERIORS, make_enhancer
from conle.errors import ParameterError

# Of all samples, for the likelihood.
HELD_OUT_SHARE = 0.1


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
    order = np.random.default_rng(seed).permutation(len(features))
    held_out, training = np.split(order, [int(np.ceil(HELD_OUT_SHARE * len(order)))])
    X, L = features.to_numpy(), logical_labels.to_numpy()
    likelihoods = {}
    for method, block in zip(POSTERIORS, hyperparameters, strict=True):
        decoder = make_enhancer(
            method,
            block,
            threshold=threshold,
            device=device,
            seed=seed,
            degree_floor=degree_floors.get(dataset, 0.0),
        )
        try:
            decoder.fit(X[training], L[training])
            likelihoods[method] = decoder.log_likelihood(X[held_out], L[held_out])
        except NotApplicableError as error:
            raise ParameterError(f"{dataset} {method}: {error}") from error
    return {
        "dataset": dataset,
        "chosen": max(likelihoods, key=likelihoods.get),
        "log_likelihood": likelihoods,
    }


def take_chosen(
    choice: Mapping[str, Any], *outputs: pd.DataFrame | Mapping[str, float]
) -> tuple[pd.DataFrame, Mapping[str, float]]:
    """Take over what the chosen method recovered, and what it cost.

    Args:
        choice: as `choose_representation` gives it.
        outputs: recovered and cost of each of `POSTERIORS`.
    """
    chosen = POSTERIORS.index(choice["chosen"])
    return outputs[2 * chosen], outputs[2 * chosen + 1]
