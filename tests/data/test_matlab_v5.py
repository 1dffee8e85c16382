import io
import struct

import numpy as np
import pytest
import scipy.sparse
from scipy.io import savemat

from conle.data.mat import BenchmarkMatDataset
from conle.data.matlab_v5 import load_v5
from conle.errors import RawFileError

FULL = np.arange(16.0).reshape(8, 2)
KINDS = {
    "full": FULL,
    "sparse": scipy.sparse.csc_matrix(FULL),
    "complex": FULL + 1j,
    "sparse complex": scipy.sparse.csc_matrix(FULL + 1j),
    "int8": FULL.astype(np.int8),
    "uint64": FULL.astype(np.uint64),
    "float32": FULL.astype(np.float32),
    "bool": FULL > 3,
    "no rows": FULL[:0],
}


def written(compressed=False, **variables):
    buffer = io.BytesIO()
    savemat(buffer, variables, do_compression=compressed)
    return buffer.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_matrices_of_numbers(kind, compressed):
    matrix = KINDS[kind]
    more = {"one": 1.5, "name": "toy", "cells": np.array([[1, "a"]], dtype=object), "s": {"a": 1}}
    variables = load_v5(written(compressed, x=matrix, **more))
    assert set(variables) == {"x", "one", "name", "cells", "s"}
    read = variables["x"]
    if scipy.sparse.issparse(matrix):
        read, matrix = read.toarray(), matrix.toarray()
    np.testing.assert_array_equal(read, matrix)
    assert read.dtype == (np.uint8 if kind == "bool" else matrix.dtype)
    assert variables["one"] == 1.5
    assert [variables[name] for name in ("name", "cells", "s")] == ["", [], {}]


@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["full", "sparse", "complex"])
def test_no_wrong_byte_ends_the_process(tmp_path, kind, stride):
    """SciPy's reader alone crashes with a segmentation fault on many of these files."""
    content = written(x=KINDS[kind], name="toy")
    path = tmp_path / "damaged.mat"
    dataset = BenchmarkMatDataset(filepath=str(path))
    read, positions = 0, range(0, len(content), stride)
    for position in positions:
        for value in (0, 2, 5, 8, 14, 16, 127, 255):
            damaged = bytearray(content)
            damaged[position] = value
            path.write_bytes(damaged)
            try:
                dataset.load()
                read += 1
            except RawFileError:
                pass
    # The byte changes a number, or nothing depends on it.
    assert 0 < read < 8 * len(positions)


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (126, b"XX", "does not begin as a MATLAB file does"),
        (128, b"\5", "an element of type 5, not a variable"),
        (132, b"\xff", "cut off"),
        (136, b"\5", "the head of a variable is damaged"),
        (152, b"\6", "the head of a variable is damaged"),
        (163, b"\xff", "the shape of a variable is damaged"),
        (168, b"\x10", "the name of a variable is damaged"),
        (145, b"\x08", "the variable 'x' is damaged"),
        (176, b"\x0a", "the variable 'x' is damaged"),
        (160, b"\x09", "the variable 'x' is damaged"),
    ],
)
def test_what_is_wrong_is_said(position, value, message):
    content = bytearray(written(x=FULL))
    load_v5(bytes(content))
    content[position : position + len(value)] = value
    with pytest.raises(ValueError, match=message):
        load_v5(bytes(content))


def element(kind, content):
    return struct.pack("<II", kind, len(content)) + content.ljust(-(-len(content) // 8) * 8, b"\0")


def test_objects_of_matlab_are_passed_over():
    """A string object, and the unnamed matrix in which MATLAB keeps its content."""
    parts = [element(6, struct.pack("<II", 17, 0))]
    parts += [element(1, text) for text in (b"s", b"MCOS", b"string")]
    parts.append(written(x=FULL[:1])[128:])
    hidden = written(s=np.arange(5, dtype=np.uint8))[128:]
    # A name of one letter stands in the tag: 00010001 and the letter.
    at = hidden.index(struct.pack("<I", 0x10001))
    hidden = hidden[:at] + struct.pack("<II", 1, 0) + hidden[at + 8 :]
    content = written(x=FULL) + element(14, b"".join(parts)) + hidden
    variables = load_v5(content)
    np.testing.assert_array_equal(variables["x"], FULL)
    assert variables["s"] is None


def test_two_variables_of_a_name():
    content = written(x=FULL)
    with pytest.raises(ValueError, match="two variables 'x'"):
        load_v5(content + content[128:])


def test_a_sparse_matrix_too_large_for_any_memory(tmp_path):
    matrix = scipy.sparse.csc_matrix(([1.0], ([0], [0])), shape=(2**31 - 1, 1000))
    path = tmp_path / "large.mat"
    path.write_bytes(written(x=matrix))
    with pytest.raises(RawFileError, match="'x', 2147483647 x 1000, does not fit into memory"):
        BenchmarkMatDataset(filepath=str(path)).load()
