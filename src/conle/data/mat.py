"""The field's .mat files, MATLAB v5 or v7.3, with features and label distributions."""

import hashlib
import io
from typing import Any

import numpy as np
import scipy.sparse
from kedro.io.core import get_filepath_str
from kedro_datasets.matlab import MatlabDataset

from conle.data.atomic import Atomic
from conle.data.matlab_v5 import load_v5
from conle.data.memory import refuse_beyond_memory
from conle.errors import DataError, RawFileError

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# MATLAB puts a block of its own before the HDF5 content of a v7.3 file.
HDF5_OFFSETS = (0, 512)
GIT_LFS_POINTER = b"version https://git-lfs"
HEADER_TEXT = b"MATLAB 5.0 MAT-file, written by conle"
HEADER_TEXT_BYTES = 116


class BenchmarkMatDataset(Atomic, MatlabDataset):
    """A MATLAB file as a dict of its variables, with its name and checksum.

    Loading reads v5 and v7.3 (HDF5), converts sparse matrices to arrays, and adds `__file__` and
    `__sha256__` to the variables. Saving writes v5. The same values give the same bytes: the header
    holds no time, as SciPy's does.
    """

    def load(self) -> dict[str, Any]:
        """Read the file.

        Raises:
            RawFileError: the file is missing, or is not a readable MATLAB file; a sparse matrix
                would not fit into memory as an array.
        """
        path = get_filepath_str(self._get_load_path(), self._protocol)
        try:
            with self._fs.open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            raise RawFileError(f"{path} is missing") from None
        if content.startswith(GIT_LFS_POINTER):
            raise RawFileError(f"{path} is a Git LFS pointer, not the file itself: git lfs pull")
        try:
            if any(content[at : at + 8] == HDF5_SIGNATURE for at in HDF5_OFFSETS):
                variables = _read_hdf5(content)
            else:
                variables = load_v5(content)
            for name, value in variables.items():
                if scipy.sparse.issparse(value):
                    variables[name] = _dense(name, value)
        except DataError as error:
            raise RawFileError(f"{path}: {error.message}") from None
        # On damaged files the readers raise anything from zlib.error to MemoryError.
        except Exception as error:
            raise RawFileError(
                f"{path} is not a MATLAB file, or is damaged or cut off "
                f"({type(error).__name__}: {error})"
            ) from error
        variables["__file__"] = path.rsplit("/", 1)[-1]
        variables["__sha256__"] = hashlib.sha256(content).hexdigest()
        return variables

    def save(self, data: dict[str, np.ndarray]) -> None:
        """Write the variables as a MATLAB v5 file."""
        from scipy.io import savemat

        buffer = io.BytesIO()
        savemat(buffer, data)
        content = HEADER_TEXT.ljust(HEADER_TEXT_BYTES) + buffer.getvalue()[HEADER_TEXT_BYTES:]
        path = get_filepath_str(self._get_save_path(), self._protocol)
        with self._fs.open(path, "wb") as file:
            file.write(content)
        self._invalidate_cache()


def _dense(name: str, matrix: Any) -> np.ndarray:
    """Convert a sparse matrix to an array.

    The indices are checked first, because SciPy does not check them.

    Raises:
        ValueError: the indices are damaged.
        DataError: the array would not fit into memory.
    """
    starts, rows = matrix.indptr, matrix.indices
    if (
        starts[0] != 0
        or (np.diff(starts) < 0).any()
        or not len(matrix.data) == len(rows) == starts[-1]
        or ((rows < 0) | (rows >= matrix.shape[0])).any()
    ):
        raise ValueError(f"the indices of the sparse matrix {name!r} are damaged")
    refuse_beyond_memory(repr(name), matrix.shape)
    return matrix.toarray()


def _read_hdf5(content: bytes) -> dict[str, Any]:
    import mat73

    variables = mat73.loadmat(io.BytesIO(content), verbose=False)
    if not variables:
        raise ValueError("there are no variables in it")
    if all(value is None for value in variables.values()):
        raise DataError(
            "this is an HDF5 file without MATLAB's attributes, as h5py writes it, not a MATLAB "
            "file: write the matrices by scipy.io.savemat"
        )
    if not all(isinstance(name, str) for name in variables):
        raise ValueError("the name of a variable is no text")
    return variables
