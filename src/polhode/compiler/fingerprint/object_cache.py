"""Properties of immutable objects, computed once for each: models have thousands of bodies."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

T = TypeVar("T")

_SCALARS = (type(None), bool, int, float, complex, str, bytes, np.generic)


class _Mutable(Exception):
    """A part is mutable."""


@final
class CachedByIdentity(Generic[T]):
    """A property that is computed once for each object, and cached during its lifetime."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._compute = work_out
        self._entries: dict[int, tuple[weakref.ref[Any], T]] = {}

    def of(self, value: Any) -> T:
        """The property of an object, by identity."""
        me = id(value)
        entry = self._entries.get(me)
        if entry is None or entry[0]() is not value:
            forget = functools.partial(self._forget, me)
            entry = self._entries[me] = weakref.ref(value, forget), self._compute(value)
        return entry[1]

    def __len__(self) -> int:
        return len(self._entries)

    def _forget(self, me: int, of: weakref.ref[Any]) -> None:
        # Another object may have the same address by now.
        if me in self._entries and self._entries[me][0] is of:
            del self._entries[me]


@final
class FrozenDigests:
    """Digests of frozen objects, equal in every process for equal ones.

    **Arguments:**

    - `is_known`: whether a class is of this library or a dependency; others count as mutable.
    """

    def __init__(self, is_known: Callable[[type], bool]) -> None:
        self._is_known = is_known
        self._frozen: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()
        self._entries = CachedByIdentity(self._new)

    def digest(self, value: Any) -> bytes | None:
        """Of a frozen object; None for anything else, and for one with mutable parts."""
        return self._entries.of(value) if self._is_frozen(type(value)) else None

    def _is_frozen(self, kind: type) -> bool:
        is_frozen = self._frozen.get(kind)
        if is_frozen is None:
            params = getattr(kind, "__dataclass_params__", None)
            frozen = issubclass(kind, eqx.Module) or (params is not None and params.frozen)
            is_frozen = self._frozen[kind] = frozen and self._is_known(kind)
        return is_frozen

    def _new(self, value: Any) -> bytes | None:
        names = [field.name for field in dataclasses.fields(value)]
        attributes = vars(value)
        worked_out = (isinstance(getattr(type(value), n, None), functools.cached_property) for n in attributes)
        if not all(name in names or is_cached for name, is_cached in zip(attributes, worked_out, strict=True)):
            return None
        digest = hashlib.blake2b(digest_size=16)
        try:
            self._note(digest, type(value))
            for name in names:
                self._note(digest, name)
                self._note(digest, attributes[name])
        except (_Mutable, KeyError, RecursionError):
            return None
        return digest.digest()

    def _note(self, digest: Any, value: Any) -> None:
        if isinstance(value, _SCALARS):
            digest.update(f"{type(value).__name__} {value!r}\0".encode())
        elif isinstance(value, type) and self._is_known(value):
            digest.update(f"class {value.__module__} {value.__qualname__}\0".encode())
        elif isinstance(value, tuple) and self._is_known(type(value)):
            digest.update(f"{type(value).__qualname__} {len(value)}\0".encode())
            for item in value:
                self._note(digest, item)
        elif _is_immutable_array(value):
            numbers = np.asarray(value)
            digest.update(f"array {numbers.dtype.str} {numbers.shape}\0".encode())
            digest.update(np.ascontiguousarray(numbers).tobytes())
        else:
            content = self.digest(value)
            if content is None:
                raise _Mutable
            digest.update(content)


def _is_immutable_array(value: Any) -> bool:
    if isinstance(value, jax.Array):
        return not (isinstance(value, Tracer) or jnp.issubdtype(value.dtype, jax.dtypes.extended))
    if type(value) is not np.ndarray or value.dtype.hasobject:
        return False
    # A view changes with its base.
    return not value.flags.writeable and (not isinstance(value.base, np.ndarray) or _is_immutable_array(value.base))
