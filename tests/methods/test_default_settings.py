"""Methods give the same bytes under any settings of torch and NumPy, which they do not change."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from short_training import SHORT

from conle.methods.registry import METHODS, make_enhancer
from conle.methods.training.default_settings import default_settings

pytestmark = pytest.mark.filterwarnings("ignore:.* the logical labels hardly say how far")

PRODUCTS = torch.backends.mkldnn.matmul


@contextmanager
def changed(get, change, value):
    before = get()
    change(value)
    try:
        yield
    finally:
        change(before)


def precision(value=None):
    if value is None:
        return PRODUCTS.fp32_precision
    PRODUCTS.fp32_precision = value
    return value


def default_device(value):
    return changed(lambda: None, torch.set_default_device, value)


SETTINGS = {
    "float64": lambda: changed(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "no gradients": lambda: changed(torch.is_grad_enabled, torch.set_grad_enabled, False),
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "default device": lambda: default_device("meta"),
    "device": lambda: torch.device("meta"),
    "deterministic": lambda: changed(
        torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, 1
    ),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "products of bfloat16": lambda: changed(precision, precision, "bf16"),
    "errors of NumPy": lambda: np.errstate(all="raise"),
}


def state():
    return (
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_device(),
        torch.get_deterministic_debug_mode(),
        torch.is_autocast_enabled("cpu"),
        PRODUCTS.fp32_precision,
        np.geterr(),
    )


def recovered(name, features, logical_labels):
    """The bytes of all ways in which a method recovers distributions."""

    def make():
        block = dict(SHORT.get(METHODS[name].parameters, {}))
        if "threshold_model" in block:
            block["threshold_model"] = True
        return make_enhancer(name, block, seed=0, device="cpu")

    enhancer, rows = make(), np.arange(60)
    results = [enhancer.fit_transform(features, logical_labels)]
    splits = [(rows, rows)]
    if enhancer.inductive:
        restored = make().set_weights(enhancer.get_weights(), 5, 4)
        results.append(restored.transform(features, logical_labels))
        splits = [(np.setdiff1d(rows, test), test) for test in np.array_split(rows, 2)]
    if hasattr(enhancer, "sample_chains"):
        results += [
            *enhancer.credible_intervals(features, logical_labels),
            enhancer.label_probabilities(features, logical_labels, draws=20),
            enhancer.sample_chains(features, logical_labels),
        ]
    results += make().recover_folds(features, logical_labels, splits).recovered
    return [result.tobytes() for result in results]


@pytest.mark.parametrize(
    "name", [name for name, method in METHODS.items() if method.role not in ("ablation", "floor")]
)
def test_results_do_not_depend_on_settings(name, samples):
    features, logical_labels = samples
    # Exponentials of squares underflow.
    features = (10 * features).astype(np.int8)
    expected = recovered(name, features, logical_labels)
    for setting, use in SETTINGS.items():
        with use():
            before = state()
            assert recovered(name, features, logical_labels) == expected, setting
            assert state() == before, setting


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_return_after_an_error(setting):
    @default_settings()
    def work():
        inside.append(state())
        raise ZeroDivisionError

    inside = []
    with SETTINGS[setting]():
        before = state()
        with pytest.raises(ZeroDivisionError):
            work()
        assert state() == before
    *of_torch, precision_inside, errors = inside[0]
    assert of_torch == [torch.float32, True, False, torch.device("cpu"), 0, False]
    assert precision_inside in ("none", "ieee")
    assert errors == {"divide": "warn", "over": "warn", "invalid": "warn", "under": "ignore"}
