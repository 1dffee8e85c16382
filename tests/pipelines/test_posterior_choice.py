import numpy as np
import pandas as pd
import pytest

from conle.binarisation import binarise
from conle.enhancers.posterior import PosteriorPCA
from conle.enhancers.registry import POSTERIORS
from conle.errors import ParameterError
from conle.pipelines.posterior.nodes import choose_representation, take_chosen

SHORT = {"sweeps": 40, "burn_in": 15}


@pytest.fixture
def tables():
    """Logical labels that three features decide."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 3))
    u = features @ generator.normal(size=(3, 4)) + 0.1 * generator.normal(size=(200, 4))
    labels = binarise(np.exp(u) / np.exp(u).sum(axis=1, keepdims=True))
    return pd.DataFrame(features), pd.DataFrame(labels, columns=list("abcd"))


def choose(features, labels, **more):
    blocks = ({**SHORT, **more}, {**SHORT, **more}, {**SHORT, **more})
    settings = (0.5, "cpu", 0, {"Other": 1.0})
    return choose_representation(features, labels, *settings, *blocks, dataset="Toy")


def test_features_are_chosen_where_they_decide_the_labels(tables):
    choice = choose(*tables)
    likelihood = choice["log_likelihood"]
    assert set(likelihood) == set(POSTERIORS)
    assert choice["chosen"] == max(likelihood, key=likelihood.get) == "posterior_pca"
    assert likelihood["posterior_pca"] > likelihood["posterior_featureless"] + 0.2
    # Nine tenths in a random order are fitted, the others predicted.
    features, labels = tables
    order = np.random.default_rng(0).permutation(200)
    decoder = PosteriorPCA(device="cpu", **SHORT)
    decoder.fit(features.loc[order[20:]], labels.loc[order[20:]])
    expected = decoder.log_likelihood(features.loc[order[:20]], labels.loc[order[:20]])
    assert likelihood["posterior_pca"] == expected


@pytest.mark.filterwarnings("ignore:.* the logical labels hardly say how far")
def test_nothing_is_chosen_without_a_threshold_model(tables):
    with pytest.raises(ParameterError, match="Toy conle_posterior: without a threshold model"):
        choose(*tables, threshold_model=False)


def test_the_chosen_recovery_is_taken_over():
    outputs = [f"{method} {output}" for method in POSTERIORS for output in ("recovered", "cost")]
    taken = take_chosen({"chosen": "posterior_pca"}, *outputs)
    assert taken == ("posterior_pca recovered", "posterior_pca cost")
