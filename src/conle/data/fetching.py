"""Fetch files of known datasets from a public repository, from a mirror or from a folder."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pooch
import requests

from conle.errors import RawFileError

BYTES_AT_A_TIME = 2**16
# Seconds to wait for a connection, and between two pieces of a file.
PATIENCE = (10.0, 30.0)
# A download stops at this number of bytes, far above the size of the known files, because a
# server may never stop.
LARGEST_FILE = 2**30
ATTEMPTS = 3

OnBytes = Callable[[int, int | None], None]


def is_known(content: bytes, sha256: str | None, git_blob: str | None) -> bool:
    """Whether content has a SHA-256 or, if that is None, an id of a git blob."""
    if sha256 is not None:
        return hashlib.sha256(content).hexdigest() == sha256
    header = f"blob {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest() == git_blob


def fetch(
    source: str,
    name: str,
    sha256: str | None,
    git_blob: str | None,
    on_bytes: OnBytes | None = None,
    patience: tuple[float, float] = PATIENCE,
) -> bytes:
    """Get a file from a folder or an address, and check it.

    The user's cache keeps a partial file: another attempt, or another run, goes on where the
    download stopped.

    Args:
        source: a folder, or an address that begins with http.
        name: name of the file.
        sha256: SHA-256 of the content; None if it is not known.
        git_blob: git's id of the content; it is compared where no SHA-256 is known.
        on_bytes: takes the bytes that have arrived and the bytes of the whole file.
        patience: seconds to wait for a connection, and between two pieces of a file.

    Raises:
        RawFileError: the file is missing, has another checksum, or could not be downloaded.
    """
    if not source.startswith(("http://", "https://")):
        path = Path(source) / name
        if not path.is_file():
            raise RawFileError(f"{path} is missing")
        return _checked(path.read_bytes(), str(path), sha256, git_blob)
    url = f"{source.rstrip('/')}/{name}"
    folder = Path(pooch.os_cache("conle"))
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{sha256 or git_blob}.part"
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _download(url, partial, on_bytes, patience)
            break
        except requests.HTTPError as error:
            raise RawFileError(f"{url}: {error}") from None
        except (requests.RequestException, EOFError) as error:
            if attempt == ATTEMPTS:
                raise RawFileError(
                    f"{url} did not come in {ATTEMPTS} attempts ({error}); another run goes on "
                    "where this one stopped"
                ) from None
    content = partial.read_bytes()
    # A wrong file must not be continued.
    partial.unlink()
    return _checked(content, url, sha256, git_blob)


def _checked(content: bytes, place: str, sha256: str | None, git_blob: str | None) -> bytes:
    if not is_known(content, sha256, git_blob):
        raise RawFileError(
            f"{place} is not the known file of that name: its checksum differs. Nothing was written"
        )
    return content


def _download(
    url: str, partial: Path, on_bytes: OnBytes | None, patience: tuple[float, float]
) -> None:
    """Download the rest of a partial file."""
    there = partial.stat().st_size if partial.exists() else 0
    headers = {"Range": f"bytes={there}-"} if there else {}
    with requests.get(url, headers=headers, stream=True, timeout=patience) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            # The partial file is complete.
            return
        response.raise_for_status()
        resumed = response.status_code == requests.codes.partial_content
        there = there if resumed else 0
        length = response.headers.get("Content-Length")
        whole = None if length is None else there + int(length)
        with partial.open("ab" if resumed else "wb") as file:
            for piece in response.iter_content(BYTES_AT_A_TIME):
                there += len(piece)
                if there > LARGEST_FILE:
                    break
                file.write(piece)
                if on_bytes is not None:
                    on_bytes(there, whole)
    if there > LARGEST_FILE:
        partial.unlink()
        raise RawFileError(f"{url} sends more than {LARGEST_FILE:,} bytes: it is no such file")
    if whole is not None and there < whole:
        raise EOFError(f"cut off after {there} of {whole} bytes")
