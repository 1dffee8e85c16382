"""Arrays of real numbers from what users pass, without a silent loss."""

from typing import Any

import numpy as np
from scipy.sparse import issparse


def real_array(values: Any, name: str) -> np.ndarray:
    """Convert to float64; refuse what NumPy would convert by dropping a part of it.

    Args:
        values: an array, nested lists or a pandas table, whose missing values become NaN.
        name: named in messages.

    Returns:
        An array that may share memory with the argument.

    Raises:
        ValueError: the values are sparse, masked, complex, dates or no numbers.
    """
    if issparse(values):
        megabytes = np.ceil(np.prod(values.shape, dtype=float) * 8 / 1e6)
        raise ValueError(
            f"{name} must be dense, not a sparse matrix of shape {values.shape}: pass "
            f"{name}.toarray(), which takes {megabytes:,.0f} MB"
        )
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        raise ValueError(
            f"{name} has {values.mask.sum()} masked values: fill them, or leave out their rows"
        )
    is_pandas = hasattr(values, "iloc")
    try:
        for dtype in np.ravel(values.dtypes) if is_pandas else [np.asarray(values).dtype]:
            if dtype.kind in "cmM":
                raise TypeError(f"a value is {dtype}")
        if is_pandas:
            return values.to_numpy(np.float64, na_value=np.nan)
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a matrix of real numbers: {error}") from None
