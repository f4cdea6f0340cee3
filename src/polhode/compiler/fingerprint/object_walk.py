"""Traversal of object graphs, which hashes them to keys."""

from __future__ import annotations

import abc
import array
import functools
import hashlib
import types
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from polhode.compiler.fingerprint.inspection import (
    COLLECTIONS,
    JIT_FUNCTION,
    PLAIN,
    SCALARS,
    attributes_of,
    closure_of,
    content_of,
    content_of_cell,
    imported_modules,
    is_cached_property,
    is_fixed,
    is_special,
    names_used,
    numbers_of,
)
from polhode.compiler.fingerprint.object_cache import FrozenDigests, InputDigests
from polhode.compiler.fingerprint.provenance import (
    is_dependency,
    is_library_class,
    is_library_file,
    is_user_class,
    is_user_module,
    is_written_by_user,
)

_MOST = 200_000
"""Values that are visited from one function; beyond that, objects are identified by address."""

_FLAGS = 0x3FF
"""Flags of code that say what it does, not how it was compiled."""


def _is_library_function(f: types.FunctionType) -> bool:
    # Decorators give functions the module of another.
    return is_dependency(f.__module__) and is_library_file(f.__code__.co_filename)


_FROZEN_DIGESTS = FrozenDigests(is_library_class, lambda f: is_fixed(f) and _is_library_function(f))
content_digest = _FROZEN_DIGESTS.digest
input_digest = InputDigests(_FROZEN_DIGESTS, _is_library_function).digest


class AbstractObjectHasher(abc.ABC):
    """One traversal of all that a value refers to; subclasses define what distinguishes parts."""

    def __init__(self, left_out: tuple[int, ...]) -> None:
        self._excluded_cells = left_out
        self._digest = hashlib.blake2b(digest_size=16)
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []

    @abc.abstractmethod
    def key(self, function: Any) -> tuple[bytes, tuple[Any, ...]]:
        """Equal for functions with equal code and equal captured values."""

    @abc.abstractmethod
    def _note_identity(self, value: Any) -> None:
        """Hashes an object by its identity, not by its parts."""

    @abc.abstractmethod
    def _is_repeated(self, value: Any) -> bool:
        """Whether a value was visited before and needs no more hashing."""

    @abc.abstractmethod
    def _special(self, value: Any, left_out: tuple[int, ...]) -> Iterator[Any] | None:
        """The parts of a value that this subclass hashes differently; None for all other values."""

    @abc.abstractmethod
    def _note_jit_function(self, jit_function: Any, owner: Any, parts: dict[str, Any]) -> None:
        """Called with a jitted function of a user, its owner (or itself) and the owner's parts."""

    @abc.abstractmethod
    def _text(self, f: types.FunctionType) -> Iterator[Any]:
        """The code of a function."""

    @abc.abstractmethod
    def _digits(self, value: np.ndarray) -> np.ndarray:
        """The significant digits of an array."""

    @abc.abstractmethod
    def _sorted_members(self, values: Any) -> list[Any]:
        """The members of a set in a deterministic order."""

    @abc.abstractmethod
    def _content(self, value: Any) -> bytes | None:
        """The cached digest of an immutable object of the library; None where its parts are hashed instead."""

    def _note(self, *words: Any) -> None:
        for word in words:
            self._digest.update(word if isinstance(word, bytes) else repr(word).encode())
            self._digest.update(b"\0")

    def _parts(self, value: Any, left_out: tuple[int, ...]) -> Iterator[Any]:
        """Hashes the value itself; yields its parts."""
        special = self._special(value, left_out)
        if special is not None:
            yield from special
            return
        if isinstance(value, SCALARS):
            self._note(type(value).__name__, value if isinstance(value, bytes) else repr(value))
            return
        if self._is_repeated(value):
            return
        self._numbers.setdefault(id(value), len(self._numbers))
        self._alive.append(value)
        if len(self._numbers) > _MOST or isinstance(value, Tracer) or is_fixed(value):
            self._note_identity(value)
        elif isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, np.ndarray | jax.Array | array.array):
            if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
                self._note(type(value).__qualname__)
                yield np.ma.getmaskarray(value)
            yield from self._array(numbers_of(value))
        elif isinstance(value, types.FunctionType):
            yield from self._function(value, left_out)
        elif isinstance(value, types.CodeType):
            yield from self._code(value)
        elif isinstance(value, types.MethodType | types.BuiltinFunctionType):
            self._note("method", value.__name__)
            yield from (getattr(value, "__func__", None), value.__self__)
        elif isinstance(value, types.ModuleType):
            self._note("module", value.__name__)
            if is_user_module(value):
                yield {name: item for name, item in vars(value).items() if not is_special(name)}
        elif isinstance(value, functools.partial):
            self._note("partial")
            yield from (value.func, value.args, value.keywords)
        elif isinstance(value, COLLECTIONS):
            yield from self._collection(value)
        elif (content := self._content(value)) is not None:
            self._note("content", content)
        else:
            yield from self._object(value)

    def _array(self, value: np.ndarray) -> Iterator[Any]:
        value = self._digits(value)
        self._note("array", value.dtype.str if value.dtype.kind in "biufcSU" else repr(value.dtype), value.shape)
        if value.dtype.hasobject:
            yield from value.flat
        else:
            self._note(np.ascontiguousarray(value).tobytes())

    def _collection(self, value: Any) -> Iterator[Any]:
        self._note(type(value).__name__, len(value), getattr(value, "maxlen", None))
        if isinstance(value, set | frozenset):
            # Their order differs from process to process, not within one.
            yield from self._items(self._sorted_members(value))
        elif isinstance(value, dict | types.MappingProxyType):
            yield from self._items(list(value))
            yield from self._items(list(value.values()))
        else:
            yield from self._items(value)
        if type(value) not in COLLECTIONS:
            yield type(value)
            yield _lasting_attributes(value)

    def _items(self, values: Any) -> Iterator[Any]:
        """Hashes plain values in one go, since there may be many."""
        kinds = set(map(type, values))
        if kinds == {float}:
            yield from self._array(np.fromiter(values, float, len(values)))
        elif kinds <= PLAIN:
            self._note(repr(list(values)))
        else:
            yield from values

    def _class(self, kind: type) -> Iterator[Any]:
        """The attributes and methods of a user's class."""
        self._note_identity(kind)
        if not is_user_class(kind):
            return
        yield type(kind)
        yield from kind.__bases__
        if is_written_by_user(kind):
            for name, value in vars(kind).items():
                if name != "_abc_impl" and (not is_special(name) or callable(value)):
                    self._note("attribute", name)
                    yield value

    def _function(self, f: types.FunctionType, left_out: tuple[int, ...]) -> Iterator[Any]:
        self._note("function")
        yield from self._text(f)
        yield f.__defaults__
        yield f.__kwdefaults__
        yield vars(f)
        own = not is_library_file(f.__code__.co_filename)
        modules: list[types.ModuleType] = []
        for place, cell in enumerate(closure_of(f)):
            if place not in left_out:
                yield from self._unless_module(content_of_cell(cell), modules)
        if own:
            yield from self._globals(f, modules)

    def _code(self, code: types.CodeType) -> Iterator[Any]:
        """The code of a function, wherever it is written, also in those that are defined in it."""
        self._note("code", code.co_code, code.co_names, code.co_flags & _FLAGS, code.co_exceptiontable)
        self._note(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        self._note(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])
        yield code.co_consts

    def _globals(self, f: types.FunctionType, modules: list[types.ModuleType]) -> Iterator[Any]:
        """Objects that a function looks up by name: in its own module, in those that it imports and in `modules`."""
        names = sorted(names_used(f.__code__))
        modules += imported_modules(f, names)
        for name in names:
            if name in f.__globals__:
                self._note("global", name)
                yield from self._unless_module(f.__globals__[name], modules)
        visited: set[int] = set()
        while modules:
            module = modules.pop()
            if id(module) in visited or not is_user_module(module):
                continue
            visited.add(id(module))
            for name in names:
                if name in vars(module):
                    self._note("member", module.__name__, name)
                    yield from self._unless_module(vars(module)[name], modules)

    def _unless_module(self, value: Any, modules: list[types.ModuleType]) -> Iterator[Any]:
        """Sets modules aside, of which only the used names are hashed."""
        if isinstance(value, types.ModuleType):
            self._note("module", value.__name__)
            modules.append(value)
        else:
            yield value

    def _object(self, value: Any) -> Iterator[Any]:
        """Any other object: its class, and its attributes if they are accessible."""
        yield type(value)
        attributes = _lasting_attributes(value)
        if not is_user_class(type(value)) and "_identity" in attributes:
            # It is determined by this alone, which is also what `==` compares.
            yield attributes["_identity"]
            return
        jit_function = value if isinstance(value, JIT_FUNCTION) else attributes.get("_cached")
        if isinstance(jit_function, JIT_FUNCTION):
            # By `jax.jit`, or by `eqx.filter_jit`, which shares its compiled function.
            attributes = {"": value.__wrapped__} if jit_function is value else {**attributes, "_cached": None}
            self._note_jit_function(jit_function, value, attributes)
        yield attributes
        content = content_of(value, attributes)
        yield content
        if not attributes and not isinstance(content, np.ndarray):
            self._note_identity(value)


def _lasting_attributes(value: Any) -> dict[str, Any]:
    """Attributes, without cached properties of libraries' objects: they follow from the rest, and come later."""
    attributes = attributes_of(value)
    if is_user_class(type(value)):
        return attributes
    return {name: x for name, x in attributes.items() if not is_cached_property(type(value), name)}
