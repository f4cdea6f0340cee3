"""Serialisation of methods and settings to plain values for stores, and back."""

from __future__ import annotations

import dataclasses
import fractions
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

_HOME = "polhode."


def serialise(value: Any) -> Any:
    """Numbers, strings and objects of this library's data classes as plain values; None if anything else occurs."""
    try:
        return _plain(value)
    except TypeError:
        return None


def deserialise(record: Any) -> Any:
    """Inverse of `serialise`. Raises ValueError for a record that can't be read."""
    try:
        return _value(record)
    except (KeyError, TypeError, AttributeError, ImportError) as error:
        raise ValueError(f"a recorded method can't be made again ({type(error).__name__}: {error})") from error


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | str() | int() | float():
            return value
        case np.integer() | np.floating() | np.bool_():
            return value.item()
        case fractions.Fraction():
            return {"fraction": [value.numerator, value.denominator]}
        case tuple() | list():
            return {type(value).__name__: [_plain(each) for each in value]}
        case np.ndarray() if not value.dtype.hasobject:
            return {"array": value.tolist(), "dtype": value.dtype.str}
    kind = type(value)
    if dataclasses.is_dataclass(kind) and kind.__module__.startswith(_HOME):
        fields = [field.name for field in dataclasses.fields(kind) if field.init]
        where = f"{kind.__module__}:{kind.__qualname__}"
        return {"class": where, "fields": {name: _plain(getattr(value, name)) for name in fields}}
    raise TypeError(f"{kind.__name__} has no record")


def _value(record: Any) -> Any:
    match record:
        case {"fraction": [numerator, denominator]}:
            return fractions.Fraction(numerator, denominator)
        case {"tuple": parts}:
            return tuple(_value(part) for part in parts)
        case {"list": parts}:
            return [_value(part) for part in parts]
        case {"array": numbers, "dtype": dtype}:
            return np.array(numbers, dtype)
        case {"class": where, "fields": fields}:
            module, _, name = where.partition(":")
            if not module.startswith(_HOME):
                raise TypeError(f"{where} is not of this library")
            kind = getattr(importlib.import_module(module), name)
            if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
                raise TypeError(f"{where} is no data class")
            make: Callable[..., Any] = kind
            return make(**{key: _value(part) for key, part in fields.items()})
        case dict():
            raise TypeError(f"a record of {', '.join(record)}")
        case _:
            return record
