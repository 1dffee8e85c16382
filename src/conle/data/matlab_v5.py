"""Checks the structure of a MATLAB v5 file before SciPy reads it.

SciPy's reader trusts the file: one wrong byte in the type or size of an element can end the process
with a segmentation fault. So every element of the variables that are read is checked against the
file format first.

Source: MathWorks, "MAT-File Format", level 5.
"""

import io
import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import psutil

from conle.errors import DataError

HEADER_BYTES, TAG_BYTES = 128, 8
# Types of elements in a file.
INT8, UINT8, INT32, UINT32, MATRIX, COMPRESSED = 1, 2, 5, 6, 14, 15
# Bytes per number, by the type of an element that holds numbers.
NUMBERS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
# Classes of matrices: sparse, numeric (double to uint64), and objects.
SPARSE, NUMERIC, OPAQUE = 5, range(6, 16), 17
# What stands for a variable without numbers, by its class; None stands for other objects.
STAND_INS = {1: list, 2: dict, 4: str}
IS_COMPLEX = 0x800

Element = tuple[int, bytes]


def load_v5(content: bytes) -> dict[str, Any]:
    """Read the matrices of numbers in a file.

    Args:
        content: all bytes of the file.

    Returns:
        Matrices by name. An empty list stands for a cell array, an empty dict for a struct, an
        empty text for a text and None for another object.

    Raises:
        DataError: it is a MATLAB v4 file.
        ValueError: the file is damaged, or is not a MATLAB v5 file.
    """
    from scipy.io import loadmat

    order = {b"IM": "<", b"MI": ">"}.get(content[126:HEADER_BYTES])
    if order is None:
        # A v4 file begins with a small number, the others with text.
        if b"\0" in content[:4]:
            raise DataError(
                "this begins as a MATLAB v4 file does, which is not read: save it again by save -v7"
            )
        raise ValueError("it does not begin as a MATLAB file does")
    numeric, others = set(), {}
    for kind, data in _elements(content[HEADER_BYTES:], order, padded=False):
        if kind == COMPRESSED:
            # A few bytes may decompress to more than fits into memory.
            decompressor = zlib.decompressobj()
            whole = decompressor.decompress(data, psutil.virtual_memory().available)
            inner = list(_elements(whole, order))
            if len(inner) != 1 or not decompressor.eof:
                raise ValueError("a variable is damaged")
            kind, data = inner[0]
        if kind != MATRIX:
            raise ValueError(f"it has an element of type {kind}, not a variable")
        name, matrix_class = _checked_variable(list(_elements(data, order)), order)
        if name in numeric or name in others:
            raise ValueError(f"it has two variables {name!r}")
        if name and matrix_class in (SPARSE, *NUMERIC):
            numeric.add(name)
        elif name:
            others[name] = STAND_INS.get(matrix_class, lambda: None)()
    variables = {}
    if numeric:
        read = loadmat(io.BytesIO(content), variable_names=sorted(numeric))
        variables = {name: read[name] for name in sorted(numeric)}
    return variables | others


def _elements(data: bytes, order: str, padded: bool = True) -> Iterator[Element]:
    """Yield the type and content of each element.

    Raises:
        ValueError: an element is cut off.
    """
    position = 0
    while position < len(data):
        if position + TAG_BYTES > len(data):
            raise ValueError("it is cut off")
        first, size = struct.unpack_from(f"{order}II", data, position)
        if first >> 16:
            # The tag of a small element also holds its size and its content.
            kind, size, start = first & 0xFFFF, first >> 16, position + TAG_BYTES // 2
            end = position + TAG_BYTES
            if size > TAG_BYTES // 2:
                raise ValueError("the size of an element is damaged")
        else:
            kind, start = first, position + TAG_BYTES
            end = start + (-(-size // TAG_BYTES) * TAG_BYTES if padded else size)
        if start + size > len(data):
            raise ValueError("it is cut off")
        yield kind, data[start : start + size]
        position = end


def _checked_variable(elements: list[Element], order: str) -> tuple[str, int]:
    """Check a variable; return its name and its class.

    Raises:
        ValueError: the elements are not those of a variable.
    """
    if len(elements) < 3 or (elements[0][0], len(elements[0][1])) != (UINT32, 8):
        raise ValueError("the head of a variable is damaged")
    (flag,) = struct.unpack_from(f"{order}I", elements[0][1])
    matrix_class, parts = flag & 0xFF, 2 if flag & IS_COMPLEX else 1
    # An object of one of MATLAB's newer classes has no shape.
    (shape_kind, shape_data), (name_kind, name) = (
        ((INT32, bytes(8)), elements[1]) if matrix_class == OPAQUE else elements[1:3]
    )
    if shape_kind != INT32 or len(shape_data) % 4:
        raise ValueError("the head of a variable is damaged")
    if name_kind not in (INT8, UINT8):
        raise ValueError("the name of a variable is damaged")
    shape = struct.unpack(f"{order}{len(shape_data) // 4}i", shape_data)
    if len(shape) < 2 or min(shape) < 0:
        raise ValueError("the shape of a variable is damaged")
    named = name.decode("ascii")
    if not named:
        # MATLAB keeps internal data of objects in a variable without a name.
        return named, matrix_class
    held = elements[3:]
    if matrix_class == SPARSE:
        rows, columns = held[:2] if len(held) == 2 + parts else (None, None)
        if rows is None or rows[0] != INT32 or columns[0] != INT32:
            raise ValueError(f"the sparse variable {named!r} is damaged")
        starts = struct.unpack(f"{order}{len(columns[1]) // 4}i", columns[1])
        if len(starts) != shape[1] + 1 or len(rows[1]) // 4 < starts[-1]:
            raise ValueError(f"the sparse variable {named!r} is damaged")
        counts = [starts[-1]] * parts
        held = held[2:]
    elif matrix_class in NUMERIC:
        counts = [math.prod(shape)] * parts
    else:
        return named, matrix_class
    sizes = [NUMBERS.get(kind, 0) * count for (kind, _), count in zip(held, counts, strict=False)]
    if len(held) != parts or any(
        kind not in NUMBERS or len(data) < size
        for (kind, data), size in zip(held, sizes, strict=True)
    ):
        raise ValueError(f"the variable {named!r} is damaged")
    return named, matrix_class
