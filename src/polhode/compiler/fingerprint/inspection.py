"""Parts of Python objects: cells of closures, attributes, names that code looks up, numbers of arrays."""

from __future__ import annotations

import collections
import contextlib
import functools
import sys
import types
import weakref
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from polhode.compiler.fingerprint.provenance import is_library_file

SCALARS = (type(None), bool, int, float, complex, str, bytes, np.generic)
PLAIN = {type(None), bool, int, float, complex, str, bytes}
VALUES = (*SCALARS, np.ndarray, jax.Array)
COLLECTIONS = (list, tuple, dict, set, frozenset, collections.deque, types.MappingProxyType)
TYPES_AND_FUNCTIONS = (type, types.FunctionType, types.BuiltinFunctionType, np.ufunc)
JIT_FUNCTION: Any = type(jax.jit(len))
FILTER_JIT_FUNCTION: Any = type(eqx.filter_jit(len))


def is_fixed(value: Any) -> bool:
    """Whether a function can't change: it belongs to a library and captures nothing."""
    if isinstance(value, types.FunctionType):
        code = value.__code__
        return value.__closure__ is None and code.co_name != "<lambda>" and is_library_file(code.co_filename)
    if isinstance(value, types.BuiltinFunctionType):
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType | type)
    return is_fixed(value.__wrapped__) if isinstance(value, JIT_FUNCTION) else isinstance(value, np.ufunc)


def closure_of(function: Any) -> tuple[types.CellType, ...]:
    """Cells with the variables that a function captures."""
    return getattr(function, "__closure__", None) or ()


def content_of_cell(cell: types.CellType) -> Any:
    """The value of a captured variable; None if it has none yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def numbers_of(value: Any) -> np.ndarray:
    """The numbers of an array; of a key for random numbers its data."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.extended):
        type_name = np.array(list(str(value.dtype).encode()), np.uint32)
        value = np.concatenate((type_name, np.asarray(jax.random.key_data(value)).reshape(-1)))
    return np.asarray(value)


def attributes_of(value: Any) -> dict[str, Any]:
    """The stored attributes of an object, without `__getattr__` and properties."""
    attributes: dict[str, Any] = {}
    for kind in type(value).__mro__:
        for name in _slots(kind):
            try:
                attributes[name] = vars(kind)[name].__get__(value)
            except AttributeError:
                continue
    with contextlib.suppress(AttributeError):
        attributes.update(object.__getattribute__(value, "__dict__"))
    return attributes


def is_cached_property(kind: type, name: str) -> bool:
    """Whether an attribute of objects of a class is a cached property."""
    return isinstance(getattr(kind, name, None), functools.cached_property)


_SLOTS: weakref.WeakKeyDictionary[type, tuple[str, ...]] = weakref.WeakKeyDictionary()


def _slots(kind: type) -> tuple[str, ...]:
    names = _SLOTS.get(kind)
    if names is None:
        # Offsets in memory are the same in all objects.
        members = ((name, value) for name, value in vars(kind).items() if not name.endswith("offset__"))
        names = tuple(name for name, value in members if isinstance(value, types.MemberDescriptorType))
        _SLOTS[kind] = names
    return names


def content_of(value: Any, attributes: dict[str, Any]) -> Any:
    """The content of an object besides attributes: its numbers as an array, or else what `copy` would use."""
    kind = type(value)
    try:
        if hasattr(kind, "__array__"):
            return np.asarray(value)
        if not attributes and (kind.__reduce__, kind.__reduce_ex__) != (object.__reduce__, object.__reduce_ex__):
            return value.__reduce_ex__(4)
    except Exception:
        # Such objects are identified by the rest.
        return None
    return None


def is_special(name: str) -> bool:
    """Whether a name is one of Python's own, with two underscores on either side."""
    return name.startswith("__") and name.endswith("__")


def imported_modules(f: types.FunctionType, names: list[str]) -> list[types.ModuleType]:
    """Modules with names that a function uses, absolute or relative to its own: it may import them itself."""
    package = str(f.__globals__.get("__package__") or "").split(".")
    origins = ["", *(".".join(package[:n]) + "." for n in range(1, len(package) + 1) if package[0])]
    candidates = [sys.modules.get(origin + name) for name in names for origin in origins]
    return [module for module in candidates if isinstance(module, types.ModuleType)]


def names_used(code: types.CodeType) -> set[str]:
    """Names that a function, and those defined in it, look up outside themselves."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_used(constant)
    return names
