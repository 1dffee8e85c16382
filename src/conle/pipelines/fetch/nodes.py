"""Fetch the files of known datasets."""

import logging
from collections.abc import Sequence

import pandas as pd

from conle.errors import ParameterError, RawFileError
from conle.methods.registry import suggestion
from conle.progress import progress_bar

logger = logging.getLogger(__name__)

# Addresses of files in public repositories begin with it.
REPOSITORIES = "https://raw.githubusercontent.com"


def announce_terms(known_datasets: pd.DataFrame, *, datasets: Sequence[str]) -> str:
    """Log the terms of use and the citations of datasets.

    Args:
        known_datasets: the registry.
        datasets: names of the datasets.

    Returns:
        The logged text.

    Raises:
        ParameterError: a dataset is not in the registry.
    """
    known = known_datasets["dataset"].unique()
    for dataset in datasets:
        if dataset not in known:
            raise ParameterError(
                f"there is no known dataset {dataset!r}{suggestion(dataset, known)}"
            )
    entries = known_datasets.drop_duplicates("dataset").fillna({"citation": "not known"})
    selected = entries[entries["dataset"].isin(datasets)]
    citations = selected.groupby("citation", sort=False)["dataset"].agg(", ".join)
    note = (
        "The datasets belong to their authors. Those of X. Geng are distributed by the PALM group, "
        "Southeast University, for academic use. Cite:\n"
        + "\n".join(f"  {names}: {citation}" for citation, names in citations.items())
    )
    logger.info(note)
    return note


def fetch_dataset(
    present: bytes | None,
    known_datasets: pd.DataFrame,
    fetch_from: str | None,
    raw_dir: str,
    terms: str,
    *,
    dataset: str,
) -> bytes:
    """Verify the existing file, or fetch it.

    Args:
        present: content of the existing file; None if there is none.
        known_datasets: the registry; each row of the dataset is one source of its file.
        fetch_from: folder or address of files to take instead; None for the registry's sources.
        raw_dir: named in messages.
        terms: not used; as an input, it makes Kedro log the terms of use first.
        dataset: the file is `<dataset>.mat`.

    Returns:
        Content of the file.

    Raises:
        RawFileError: the existing file has another checksum, or no source has the file.
    """
    # Imported here because every command imports this module.
    from conle.data.fetching import fetch, is_known

    name = f"{dataset}.mat"
    rows = known_datasets[known_datasets["dataset"] == dataset]
    checksums = [
        tuple(None if pd.isna(checksum) else checksum for checksum in row)
        for row in rows[["sha256", "git_blob"]].itertuples(index=False)
    ]
    if present is not None:
        if not any(is_known(present, *own) for own in checksums):
            raise RawFileError(
                f"{raw_dir}/{name} is there and is not the known file of that name; move it away, "
                "then run this command again"
            )
        logger.info("%s is there and is right", name)
        return present
    if fetch_from is not None:
        places = [(fetch_from, name)]
    else:
        places = [
            (f"{REPOSITORIES}/{row.repository}/{row.commit}", row.path) for row in rows.itertuples()
        ]
    with progress_bar(name) as on_progress:
        for number, ((source, path), own) in enumerate(zip(places, checksums, strict=False), 1):
            try:
                return fetch(
                    source,
                    path,
                    *own,
                    on_bytes=lambda there, whole: on_progress(
                        there, whole or there, f"{there / 2**20:.1f} MiB"
                    ),
                )
            except RawFileError as error:
                if number == len(places):
                    raise
                logger.warning("%s. The next source is tried", error.message)
