"""MATLAB v7.3 files, which SciPy cannot write."""

import h5py
import numpy as np
import scipy.sparse


def write_hdf5(path, userblock=512, **variables):
    """As MATLAB writes v7.3: transposed, each with its class."""
    with h5py.File(path, "w", userblock_size=userblock) as file:
        for name, matrix in variables.items():
            if scipy.sparse.issparse(matrix):
                group = file.create_group(name)
                for part, values in (
                    ("data", matrix.data),
                    ("ir", matrix.indices.astype("uint64")),
                    ("jc", matrix.indptr.astype("uint64")),
                ):
                    group.create_dataset(part, data=values)
                group.attrs["MATLAB_class"] = np.bytes_("double")
                group.attrs["MATLAB_sparse"] = np.uint64(matrix.shape[0])
            else:
                file.create_dataset(name, data=np.asarray(matrix, dtype=float).T)
                file[name].attrs["MATLAB_class"] = np.bytes_("double")
