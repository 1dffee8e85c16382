"""Longer messages for users."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conle.known_datasets import KNOWN_DATASETS
from conle.methods.registry import suggestion

if TYPE_CHECKING:
    import pandas as pd

GO_ON = "Finished work is kept: the same command with --resume goes on from there."
LISTED_RUNS = 5
# Where `mlflow ui` shows runs.
LOCAL_SERVER = "http://127.0.0.1:5000"
# The name of a run gives the number of more datasets than these.
MOST_DATASETS = 3


def missing_raw_files(missing: Sequence[str], raw_dir: str) -> str:
    """Names the missing raw files and the ways to get them."""
    files = "\n".join(f"  {raw_dir}/{name}.mat" for name in missing)
    known = (*KNOWN_DATASETS, "Artificial")
    misspelt = "".join(
        f"\n{name} is no known dataset{suggestion(name, known)}"
        for name in missing
        if name not in known
    )
    fetched = ",".join(name for name in missing if name in KNOWN_DATASETS)
    return (
        f"These raw files are missing:\n{files}{misspelt}\n"
        f"kedro run --pipeline=fetch --datasets {fetched or 'paper'} gets "
        f"{'them' if fetched else 'the datasets of the paper'} there. "
        '--params "raw_dir=FOLDER" names another folder, --params "datasets=present" takes the '
        "known datasets that are there."
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


def run_title(
    pipelines: Sequence[str], datasets: Sequence[str], parameters: Mapping[str, Any]
) -> str:
    """The name of a run in MLflow: its pipelines, datasets and protocol."""
    parts = ["+".join(pipelines)]
    if datasets:
        many = len(datasets) > MOST_DATASETS
        parts.append(f"{len(datasets)} datasets" if many else "+".join(datasets))
    if datasets and "enhance" not in pipelines:
        inductive = parameters["protocol"] == "cross_validation"
        folds = f"{parameters['repeats']} x {parameters['folds']} folds"
        parts.append(folds if inductive else parameters["protocol"])
    return ", ".join(parts)


def mlflow_lines(address: str, page: str, compares: bool) -> list[str]:
    """Say how to see a run in MLflow; the address has a line of its own.

    Args:
        address: the tracking address.
        page: the part of the run's address that follows the server.
        compares: whether the page compares methods.
    """
    what = "compare methods" if compares else "see the run"
    if address.startswith("http"):
        return [f"MLflow    to {what}:", f"  {address.rstrip('/')}{page}"]
    command = f"mlflow ui --backend-store-uri {address}"
    return [f"MLflow    to {what}: {command}", f"  {LOCAL_SERVER}{page}"]


def short_uri(uri: str, project: Path) -> str:
    """A tracking address for a command: relative to the project and without a password."""
    if uri.startswith("sqlite:///"):
        # A shell reads a question mark as a pattern.
        uri = uri.partition("?")[0]
    return without_password(uri.replace(f"{project.as_posix()}/", ""))


def without_password(uri: str) -> str:
    """An address without its user and password."""
    return re.sub("//[^/@]*@", "//", uri)
