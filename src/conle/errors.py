"""Errors that a user can correct: one message, exit status 1, no traceback.

Kedro's command line prints click exceptions without a traceback.
"""

import click
from kedro.io import DatasetError


class DataError(click.ClickException, ValueError):
    """A dataset holds values that cannot be used; the message names the file, key and rows."""


class RawFileError(click.ClickException, DatasetError):
    """A raw file is missing or cannot be read."""


class ParameterError(click.ClickException, ValueError):
    """A parameter is unknown, of the wrong type or out of its range."""


class FailedCellsError(click.ClickException, RuntimeError):
    """Some cells have failed; all others are done."""
