import errno
import os
import platform

import click
import pytest
from kedro.io import DatasetError
from mlflow.exceptions import MlflowException
from safetensors import SafetensorError

from conle.errors import DataError
from conle.hooks import is_alive, plain_error, this_process, without_password


def wrapped(error):
    """As Kedro wraps what a dataset raises."""
    outer = DatasetError("Failed while saving data")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DataError("row 3"), "row 3"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "a.csv"), "Permission denied: 'a.csv'"),
        (SafetensorError("I/O error: No space left"), "No space left"),
        (MlflowException("API request failed"), "MLflow has failed: API request failed"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda error: error, wrapped])
def test_errors_that_are_shown_without_their_place(error, message, wrap):
    plain = plain_error(wrap(error))
    assert isinstance(plain, click.ClickException)
    assert message in plain.message


@pytest.mark.parametrize(
    "error", [ValueError("x"), FileNotFoundError(errno.ENOENT, "x"), SafetensorError("header")]
)
def test_errors_of_the_program_are_left(error):
    assert plain_error(wrapped(error)) is None


def test_processes():
    assert is_alive(this_process())
    host, number, began = this_process().rsplit(" ", 2)
    assert (host, int(number)) == (platform.node(), os.getpid())
    assert not is_alive(f"{host} {number} {float(began) - 100:.2f}")
    assert not is_alive(f"{host} {2**22 + 1} {began}")
    assert is_alive(f"elsewhere {number} {began}")


def test_addresses_are_shown_without_a_password():
    assert without_password("https://me:secret@host:5000/x") == "https://host:5000/x"
    assert without_password("sqlite:////a/b@c/mlflow.db") == "sqlite:////a/b@c/mlflow.db"
