"""Types and literals of LLVM's intermediate representation."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_TYPES = {
    np.dtype(np.float64): "double",
    np.dtype(np.int64): "i64",
    np.dtype(np.int32): "i32",
    np.dtype(np.uint32): "i64",
    np.dtype(np.bool_): "i1",
}
"""LLVM's integers are signless; unsigned ones are stored in larger types, where they are never negative."""


class UnsupportedNativeOperation(Exception):
    """A program has an operation, type or size that machine code doesn't support."""


class TooManyOperations(UnsupportedNativeOperation):
    """A program is too long for machine code."""


def type_of(scalar: Any) -> str:
    """LLVM's type of a scalar. Raises UnsupportedNativeOperation for types without one."""
    name = _TYPES.get(scalar.dtype)
    if name is None:
        raise UnsupportedNativeOperation(str(scalar.dtype))
    return name


def constant(value: np.generic) -> str:
    """A literal of the text."""
    kind = type_of(value)
    if kind == "double":
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
    if kind == "i1":
        return "true" if bool(value) else "false"
    return str(int(value))


def slots_of(values: np.ndarray) -> np.ndarray:
    """Constants in slots of eight bytes."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return flat.view(np.int64) if flat.dtype == np.float64 else flat.astype(np.int64)
