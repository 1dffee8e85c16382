"""Fetch one file of the benchmark."""

import logging

import pandas as pd

from conle.errors import RawFileError
from conle.progress import progress_bar

logger = logging.getLogger(__name__)


def announce_licence() -> str:
    """Log the terms of use of the files.

    Returns:
        The logged text.
    """
    note = (
        "The benchmark's datasets were collected by X. Geng and are distributed by the PALM group, "
        "Southeast University, for academic use. Cite: X. Geng, Label distribution learning, IEEE "
        "Transactions on Knowledge and Data Engineering 28(7), 2016"
    )
    logger.info(note)
    return note


def fetch_dataset(
    present: bytes | None,
    known_files: pd.DataFrame,
    source: str,
    raw_dir: str,
    licence: str,
    *,
    dataset: str,
) -> bytes:
    """Verify the existing file, or fetch it.

    Args:
        present: content of the existing file; None if there is none.
        known_files: columns dataset, sha256 and, where that is not known, git_blob.
        source: folder or address of the files.
        raw_dir: named in messages.
        licence: not used; as an input, it makes Kedro log the terms of use first.
        dataset: the file is `<dataset>.mat`.

    Returns:
        Content of the file.

    Raises:
        RawFileError: the existing file has another checksum, or the file cannot be fetched.
    """
    # Imported here because every command imports this module.
    from conle.data.fetching import fetch, is_known

    known = known_files.set_index("dataset").loc[dataset]
    checksums = [None if pd.isna(known[kind]) else known[kind] for kind in ("sha256", "git_blob")]
    name = f"{dataset}.mat"
    if present is not None:
        if not is_known(present, *checksums):
            raise RawFileError(
                f"{raw_dir}/{name} is there and is not the benchmark's file of that name; move "
                "it away, then run this command again"
            )
        logger.info("%s is there and is right", name)
        return present
    with progress_bar(name) as on_progress:
        return fetch(
            source,
            name,
            *checksums,
            on_bytes=lambda there, whole: on_progress(
                there, whole or there, f"{there / 2**20:.1f} MiB"
            ),
        )
