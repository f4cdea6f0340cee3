"""Properties of immutable objects, worked out once for each: models have thousands of bodies."""

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
    """Something may be changed later."""


@final
class CachedByIdentity(Generic[T]):
    """A property that is worked out once for an object, and kept as long as that lives."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out
        self._known: dict[int, tuple[weakref.ref[Any], T]] = {}

    def of(self, value: Any) -> T:
        """Of this very object."""
        me = id(value)
        found = self._known.get(me)
        if found is None or found[0]() is not value:
            forget = functools.partial(self._forget, me)
            found = self._known[me] = weakref.ref(value, forget), self._work_out(value)
        return found[1]

    def __len__(self) -> int:
        return len(self._known)

    def _forget(self, me: int, of: weakref.ref[Any]) -> None:
        # Another object may be there by now.
        if me in self._known and self._known[me][0] is of:
            del self._known[me]


@final
class FrozenDigests:
    """Digests of frozen objects, equal in every process for equal ones.

    **Arguments:**

    - `is_known`: whether a class is of this library or one that it builds on; of objects of others nothing is taken for
      granted.
    """

    def __init__(self, is_known: Callable[[type], bool]) -> None:
        self._is_known = is_known
        self._frozen: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()
        self._known = CachedByIdentity(self._new)

    def digest(self, value: Any) -> bytes | None:
        """Of a frozen object; None for anything else, and for one that holds what may be changed."""
        return self._known.of(value) if self._is_frozen(type(value)) else None

    def _is_frozen(self, kind: type) -> bool:
        found = self._frozen.get(kind)
        if found is None:
            params = getattr(kind, "__dataclass_params__", None)
            frozen = issubclass(kind, eqx.Module) or (params is not None and params.frozen)
            found = self._frozen[kind] = frozen and self._is_known(kind)
        return found

    def _new(self, value: Any) -> bytes | None:
        names = [field.name for field in dataclasses.fields(value)]
        attributes = vars(value)
        worked_out = (isinstance(getattr(type(value), n, None), functools.cached_property) for n in attributes)
        if not all(name in names or known for name, known in zip(attributes, worked_out, strict=True)):
            return None
        made = hashlib.blake2b(digest_size=16)
        try:
            self._note(made, type(value))
            for name in names:
                self._note(made, name)
                self._note(made, attributes[name])
        except (_Mutable, KeyError, RecursionError):
            return None
        return made.digest()

    def _note(self, made: Any, value: Any) -> None:
        if isinstance(value, _SCALARS):
            made.update(f"{type(value).__name__} {value!r}\0".encode())
        elif isinstance(value, type) and self._is_known(value):
            made.update(f"class {value.__module__} {value.__qualname__}\0".encode())
        elif isinstance(value, tuple) and self._is_known(type(value)):
            made.update(f"{type(value).__qualname__} {len(value)}\0".encode())
            for item in value:
                self._note(made, item)
        elif _is_immutable_array(value):
            numbers = np.asarray(value)
            made.update(f"array {numbers.dtype.str} {numbers.shape}\0".encode())
            made.update(np.ascontiguousarray(numbers).tobytes())
        else:
            content = self.digest(value)
            if content is None:
                raise _Mutable
            made.update(content)


def _is_immutable_array(value: Any) -> bool:
    if isinstance(value, jax.Array):
        return not (isinstance(value, Tracer) or jnp.issubdtype(value.dtype, jax.dtypes.extended))
    if type(value) is not np.ndarray or value.dtype.hasobject:
        return False
    # Whoever has the array of which this is a part may change it.
    return not value.flags.writeable and (not isinstance(value.base, np.ndarray) or _is_immutable_array(value.base))
