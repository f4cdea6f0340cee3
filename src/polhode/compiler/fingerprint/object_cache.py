"""Properties of immutable objects, computed once for each: models have thousands of bodies."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

T = TypeVar("T")

_SCALARS = (type(None), bool, int, float, complex, str, bytes, np.generic)


class Mutable(Exception):
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
    - `is_named`: whether a function can be found there by its name.
    """

    def __init__(self, is_known: Callable[[type], bool], is_named: Callable[[types.FunctionType], bool]) -> None:
        self._is_known, self._is_named = is_known, is_named
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
            self.note(digest, type(value))
            for name in names:
                self.note(digest, name)
                self.note(digest, attributes[name])
        except (Mutable, KeyError, RecursionError):
            return None
        return digest.digest()

    def note(self, digest: Any, value: Any) -> None:
        """Adds an immutable value to a digest. Raises `Mutable` for others."""
        if isinstance(value, _SCALARS):
            digest.update(f"{type(value).__name__} {value!r}\0".encode())
        elif isinstance(value, type) and self._is_known(value):
            digest.update(f"class {value.__module__} {value.__qualname__}\0".encode())
        elif isinstance(value, tuple) and self._is_known(type(value)):
            digest.update(f"{type(value).__qualname__} {len(value)}\0".encode())
            for item in value:
                self.note(digest, item)
        elif isinstance(value, types.FunctionType) and self._is_named(value):
            digest.update(f"function {value.__module__} {value.__qualname__}\0".encode())
        elif isinstance(value, jax.tree_util.PyTreeDef):
            tree: Any = value
            digest.update(f"tree {tree.num_nodes}\0".encode())
            self.note(digest, tree.node_data())
            for child in tree.children():
                self.note(digest, child)
        elif _is_sentinel(value):
            digest.update(f"sentinel {type(value).__module__} {type(value).__qualname__}\0".encode())
        elif _is_immutable_array(value):
            numbers = np.asarray(value)
            digest.update(f"array {numbers.dtype.str} {numbers.shape}\0".encode())
            digest.update(np.ascontiguousarray(numbers).tobytes())
        else:
            content = self.digest(value)
            if content is None:
                raise Mutable
            digest.update(content)


@final
class InputDigests:
    """Digests of modules whose arrays are inputs of a program: of arrays they have types and shapes.

    What many programs have in common, such as a system, is traversed once. Functions of libraries have the digest of
    their place in the source and of what they capture.

    **Arguments:**

    - `content`: digests of static fields. - `is_known`: whether a function is of this library or a dependency.
    """

    def __init__(self, content: FrozenDigests, is_known: Callable[[types.FunctionType], bool]) -> None:
        self._content, self._is_known = content, is_known
        self._entries = CachedByIdentity(self._new)

    def digest(self, *values: Any) -> bytes | None:
        """Of tuples and dicts of arrays, plain values, modules and functions; None where there is anything else."""
        digest = hashlib.blake2b(digest_size=16)
        try:
            self._note(digest, values, mutable=True)
        except (Mutable, KeyError, ValueError, RecursionError):
            return None
        return digest.digest()

    def _new(self, module: eqx.Module) -> bytes | None:
        digest = hashlib.blake2b(digest_size=16)
        try:
            self._note_fields(digest, module, mutable=False)
        except (Mutable, KeyError, RecursionError):
            return None
        return digest.digest()

    def _note_fields(self, digest: Any, module: eqx.Module, mutable: bool) -> None:
        attributes = vars(module)
        self._content.note(digest, type(module))
        for field in dataclasses.fields(cast(Any, module)):
            self._content.note(digest, field.name)
            if field.metadata.get("static"):
                self._content.note(digest, attributes[field.name])
            else:
                self._note(digest, attributes[field.name], mutable)

    def _note(self, digest: Any, value: Any, mutable: bool) -> None:
        """Adds a value to a digest. `mutable`: whether it may hold what can be replaced, so that nothing is kept."""
        if value is None or (isinstance(value, _SCALARS) and not eqx.is_array(value)):
            self._content.note(digest, value)
        elif eqx.is_array(value):
            # Models don't change the shapes of NumPy's arrays.
            array: Any = value
            digest.update(f"input {array.shape} {array.dtype} {getattr(array, 'weak_type', False)}\0".encode())
        elif isinstance(value, tuple):
            self._content.note(digest, type(value))
            digest.update(f"{len(value)}\0".encode())
            for item in value:
                self._note(digest, item, mutable)
        elif isinstance(value, eqx.Module):
            content = self._entries.of(value)
            if content is not None:
                digest.update(content)
            elif mutable:
                self._note_fields(digest, value, mutable)
            else:
                raise Mutable
        elif mutable and type(value) is dict:
            self._note(digest, tuple(value.items()), mutable)
        elif mutable and isinstance(value, types.FunctionType) and self._is_known(value):
            self._note_function(digest, value)
        else:
            raise Mutable

    def _note_function(self, digest: Any, function: types.FunctionType) -> None:
        # Sources and versions are part of every stored key.
        code = function.__code__
        places = list(code.co_positions())
        digest.update(f"function {function.__module__} {function.__qualname__} {places!r}\0".encode())
        others = function.__defaults__, function.__kwdefaults__, vars(function)
        self._note_constant(digest, tuple(tuple(x.items()) if isinstance(x, dict) else x for x in others))
        for cell in function.__closure__ or ():
            captured = cell.cell_contents
            # As `frozen` has it: captured modules are inputs of programs, other values constants.
            if isinstance(captured, eqx.Module | types.FunctionType):
                self._note(digest, captured, mutable=True)
            else:
                self._note_constant(digest, captured)

    def _note_constant(self, digest: Any, value: Any) -> None:
        if isinstance(value, tuple | list):
            self._content.note(digest, type(value))
            digest.update(f"{len(value)}\0".encode())
            for item in value:
                self._note_constant(digest, item)
        elif type(value) is np.ndarray and not value.dtype.hasobject:
            digest.update(f"array {value.dtype.str} {value.shape}\0".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        else:
            self._content.note(digest, value)


def _is_sentinel(value: Any) -> bool:
    """Whether an object says nothing but its class, as those that Equinox has in the structures of its modules."""
    kind = type(value)
    library = kind.__module__.partition(".")[0] in ("polhode", "equinox")
    return library and kind.__bases__ == (object,) and getattr(value, "__dict__", None) == {}


def _is_immutable_array(value: Any) -> bool:
    if isinstance(value, jax.Array):
        return not (isinstance(value, Tracer) or jnp.issubdtype(value.dtype, jax.dtypes.extended))
    if type(value) is not np.ndarray or value.dtype.hasobject:
        return False
    # A view changes with its base.
    return not value.flags.writeable and (not isinstance(value.base, np.ndarray) or _is_immutable_array(value.base))
