"""Errors that are a user's to mend: one message, exit status 1, no traceback.

They are click exceptions, which Kedro's command line prints as they are.
"""

import click
from kedro.io import DatasetError


class DataError(click.ClickException, ValueError):
    """A dataset holds something it must not: the message names the file, the key and the rows."""


class RawFileError(click.ClickException, DatasetError):
    """A raw file is missing, or cannot be read as what it should be."""


class ParameterError(click.ClickException, ValueError):
    """A parameter is unknown, of the wrong type or out of its range."""


class FailedCellsError(click.ClickException, RuntimeError):
    """Some methods have failed on some datasets; the others are done."""
