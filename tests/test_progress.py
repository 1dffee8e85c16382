import threading
import warnings
from contextlib import suppress

import nbformat
import numpy as np
import pandas as pd
import pytest
from cells_for_tests import cell_of
from nbclient import NotebookClient
from rich.console import Console
from short_training import SHORT

from conle import GLLE, ConLE, PosteriorPCA
from conle.methods.contract import progress
from conle.pipelines.enhance.nodes import apply_model, encode_features, fit_and_enhance
from conle.progress import progress_bar

pytestmark = pytest.mark.filterwarnings("ignore:ConLE. in 1 of 1 folds no recovered training row")


class ShortTimer:
    """A timer that does not wait."""

    def __init__(self, delay, function):
        self.start = function

    def cancel(self):
        """Nothing to cancel."""

    join = cancel


@pytest.fixture
def on_terminal(monkeypatch):
    """Standard error is a terminal, and bars appear at once."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("conle.progress.Timer", ShortTimer)


@pytest.mark.parametrize(
    ("enhancer", "status"),
    [
        (ConLE(steps=20, device="cpu"), "20 of 20 steps"),
        (PosteriorPCA(**SHORT["posterior_pca"], device="cpu"), "8 of 8 sweeps"),
        (GLLE(), "a fit"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.filterwarnings("ignore:.* the logical labels hardly say how far")
def test_a_fit_moves_the_bar(samples, capsys, on_terminal, enhancer, status):
    with progress_bar("a fit"):
        enhancer.fit(*samples)
    shown = capsys.readouterr().err
    assert "a fit" in shown
    assert status in shown
    assert progress.get() is None


def test_no_bar_without_a_terminal(samples, capsys, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    monkeypatch.setattr("conle.progress.Timer", ShortTimer)
    with progress_bar("a fit"):
        ConLE(steps=20, device="cpu").fit(*samples)
    assert capsys.readouterr().err == ""


def test_a_notebook_without_ipywidgets_shows_nothing(samples, capsys, monkeypatch):
    """rich would warn there instead of showing a bar."""
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setattr("builtins.get_ipython", lambda: shell, raising=False)
    monkeypatch.setattr("conle.progress.find_spec", lambda name: None)
    monkeypatch.setattr("conle.progress.Timer", ShortTimer)
    assert Console().is_jupyter
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with progress_bar("a fit"):
            ConLE(steps=20, stopping="fixed", device="cpu").fit(*samples)
    assert capsys.readouterr() == ("", "")


def test_a_notebook_with_ipywidgets_shows_the_bar():
    """A kernel runs the cell, and its widget has the bar."""
    source = """
from conle import ConLE, progress

class OnStart(progress.Timer):
    def start(self):
        self.function()
    def join(self):
        pass

progress.Timer = OnStart
with progress.progress_bar("a fit"):
    ConLE(steps=20, stopping="fixed", device="cpu").fit([[0.3], [0.1]], [[1, 0], [0, 1]])
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    models = notebook.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    outputs = [own["state"]["outputs"] for own in models.values() if "outputs" in own["state"]]
    (shown,) = [output["data"]["text/plain"] for widget in outputs for output in widget]
    assert shown.startswith("a fit")
    assert "━" in shown


def test_no_bar_of_short_work(samples, capsys, monkeypatch):
    """The fit ends before the two seconds are over; its timer ends with it."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr("conle.progress.DELAY", 1000.0)
    threads = threading.active_count()
    with suppress(KeyboardInterrupt), progress_bar("a fit"):
        ConLE(steps=20, device="cpu").fit(*samples)
        raise KeyboardInterrupt
    assert capsys.readouterr().err == ""
    assert threading.active_count() == threads
    assert progress.get() is None


def test_enhance_shows_the_progress_of_its_fit(samples, capsys, on_terminal):
    features = pd.DataFrame(samples[0], columns=list("abcde"))
    labels = pd.DataFrame(samples[1], columns=["sky", "sea", "sun", "sand"])
    encoded, encoder = encode_features(features)
    cell = cell_of("conle", SHORT["conle"], dataset="enhance")
    distributions, model = fit_and_enhance(encoded, encoder, labels, cell=cell)
    shown = capsys.readouterr().err
    assert "enhance conle" in shown
    assert "20 of 20 steps" in shown
    np.testing.assert_allclose(apply_model(model, features, labels), distributions)
    assert "conle" in capsys.readouterr().err
