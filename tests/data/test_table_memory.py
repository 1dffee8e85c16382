"""The memory that multi-label tables take while they are read and encoded."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from conle.data.multilabel import MultiLabelDataset
from conle.pipelines.enhance.nodes import encode_features


def load(path, **ways):
    return MultiLabelDataset(str(path), **ways).load()


@pytest.fixture
def peak():
    """The memory that a function takes at most, in bytes."""

    def measure(function):
        tracemalloc.start()
        try:
            function()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measure


@pytest.mark.parametrize("kind", ["sparse.arff", "dense.arff", "csv", "parquet"])
def test_loading_and_encoding_take_little_memory(tmp_path, peak, kind):
    rows, columns = 2000, 500
    values = np.random.default_rng(0).random((rows, columns)).round(6)
    if kind == "sparse.arff":
        values[values > 0.02] = 0
    table = pd.DataFrame(values, columns=[f"x{j}" for j in range(columns)])
    table["l_a"], table["l_b"] = np.arange(rows) % 2, np.arange(rows) % 3 == 0
    table = table.astype({"l_b": int})
    path = tmp_path / f"toy.{kind.rpartition('.')[2]}"
    if kind == "csv":
        table.to_csv(path, index=False)
    elif kind == "parquet":
        table.to_parquet(path)
    else:
        lines = ["@relation 'toy: -C -2'"]
        lines += [f"@attribute x{j} numeric" for j in range(columns)]
        lines += ["@attribute l_a {0,1}", "@attribute l_b {0,1}", "@data"]
        for row in table.astype(object).to_numpy():
            if kind == "dense.arff":
                lines.append(",".join(map(str, row)))
            else:
                lines.append("{" + ", ".join(f"{j} {row[j]}" for j in np.flatnonzero(row)) + "}")
        path.write_text("\n".join(lines))
    encoded = []
    # Modules that are imported for the first time do not count.
    encode_features(load(path, labels_prefix="l_")[0][:5])
    used = peak(lambda: encoded.append(encode_features(load(path, labels_prefix="l_")[0])[0]))
    np.testing.assert_allclose(encoded[0], values)
    assert used < 3 * values.nbytes
