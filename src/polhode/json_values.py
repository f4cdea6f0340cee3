"""Conversion of values to plain values, which survive a round trip through JSON."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

_NONFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_plain(value: Any) -> Any:
    """`value` as dicts, lists, strings, numbers, booleans and None.

    Arrays become nested lists, enumerations their names, tuples lists. JSON has no infinities and no NaN: they
    become the strings "NaN", "Infinity" and "-Infinity", which `from_plain` turns back. Anything else is described by
    its `repr`.
    """
    match value:
        case None | bool() | str():
            return value
        case enum.Enum():
            return value.name
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else _spell(value)
        case np.ndarray() | np.generic() | jax.Array():
            return to_plain(np.asarray(value).tolist())
        case Mapping():
            return {str(key): to_plain(item) for key, item in value.items()}
        case list() | tuple():
            return [to_plain(item) for item in value]
        case _:
            return repr(value)


def from_plain(value: Any) -> Any:
    """Plain values with their non-finite numbers restored from strings."""
    match value:
        case str():
            return _NONFINITE.get(value, value)
        case dict():
            return {key: from_plain(item) for key, item in value.items()}
        case list():
            return [from_plain(item) for item in value]
        case _:
            return value


def _spell(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
