"""Longer messages for users."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from conle.methods.registry import suggestion
from conle.options import PAPER_DATASETS

if TYPE_CHECKING:
    import pandas as pd

GO_ON = "Finished work is kept: the same command with --resume goes on from there."
LISTED_RUNS = 5


def missing_raw_files(missing: Sequence[str], raw_dir: str) -> str:
    """Names the missing raw files and the ways to get them."""
    files = "\n".join(f"  {raw_dir}/{name}.mat" for name in missing)
    known = (*PAPER_DATASETS, "Artificial")
    misspelt = "".join(
        f"\n{name} is no dataset of the paper{suggestion(name, known)}"
        for name in missing
        if name not in known
    )
    return (
        f"These raw files are missing:\n{files}{misspelt}\n"
        "The benchmark's datasets were collected by X. Geng and are distributed by the PALM "
        "group, Southeast University, for academic use: kedro run --pipeline=fetch gets them "
        'there. --params "raw_dir=FOLDER" names another folder, --params '
        '"datasets=present" takes those of the paper that are there.'
    )


def existing_runs(runs: "pd.DataFrame") -> str:
    """Lists recorded runs, and the command that reports on each.

    Args:
        runs: the table of `conle.run.runs_table`.
    """
    if runs.empty:
        return "\nThe catalog holds no run of a method."
    lines = [
        f"  {run.pipelines} on {run.datasets} ({run.methods}): {run.protocol}, "
        f"{run.repeats} x {run.folds} folds, seed {run.seed}, threshold {run.threshold}\n"
        f"    {run.command}"
        for run in runs[:LISTED_RUNS].itertuples()
    ]
    more = len(runs) - LISTED_RUNS
    return (
        "\nThe catalog holds these runs:\n"
        + "\n".join(lines)
        + (f"\n  and {more} more" if more > 0 else "")
    )


def missing_input(given: str | None) -> str:
    """Says that the table of `--pipeline=enhance` is missing."""
    if given is not None:
        return f"{given} is missing"
    return (
        "No table is given: --input FILE --params labels_prefix=label_ names one (.csv, .parquet, "
        ".mat or .arff) and says which of its columns are labels"
    )


def short_uri(uri: str, project: Path) -> str:
    """A tracking address for a command: relative to the project and without a password."""
    if uri.startswith("sqlite:///"):
        # A shell reads a question mark as a pattern.
        uri = uri.partition("?")[0]
    return without_password(uri.replace(f"{project.as_posix()}/", ""))


def without_password(uri: str) -> str:
    """An address without its user and password."""
    return re.sub("//[^/@]*@", "//", uri)
