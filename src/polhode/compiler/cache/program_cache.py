"""In-memory cache of compiled programs, by function and fingerprint of the arguments."""

from __future__ import annotations

import collections
import functools
import threading
from collections.abc import Callable, Hashable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import numpy as np

from polhode.compiler.cache import disk_cache
from polhode.compiler.fingerprint.argument_key import exact, objects_key, part_of, shape_of, split_arguments
from polhode.compiler.fingerprint.closures import frozen, node_types
from polhode.compiler.fingerprint.object_walk import input_digest
from polhode.compiler.fingerprint.persistent_keys import persistent_key
from polhode.compiler.fingerprint.provenance import is_user_class
from polhode.compiler.number_pattern import ARGUMENTS, NumberPattern
from polhode.compiler.placement import default_device_for, on_processor

P = ParamSpec("P")
T = TypeVar("T")


def xla_jit(function: Callable[P, T]) -> Callable[P, T]:
    """Compiles a function of this library with XLA; changes of values that users' functions capture are respected.

    Arrays are inputs; everything else is part of the key. The last `CAPACITY` programs stay in memory.
    """

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        others = objects_key((args, options))
        inputs, rest = eqx.partition(frozen((args, options)), eqx.is_array)
        leaves, structure = jax.tree.flatten(rest)
        with default_device_for(inputs):
            key = function, others, exact(leaves), structure, on_processor()
            return _PROGRAMS.find(key, lambda: _program(function, rest))(inputs)

    return call


def find_program(
    build: Callable[..., T],
    *args: Any,
    serialiser: disk_cache.Serialiser[T] | None = None,
    beside: tuple[Any, ...] = (),
    pattern: Callable[[Any], NumberPattern] | None = None,
) -> tuple[T, Any]:
    """The result of `build(inputs, rest)` for arguments like these, and their arrays, which may differ.

    `eqx.combine(inputs, rest)` are the arguments. Captured values are respected as by `xla_jit`. `serialiser` stores
    the result on disk, unless it involves user code. `build` also gets the arguments `beside`, which are not part of
    the key: the result must not depend on them. `pattern(inputs)` says which numbers are constants of the result; it
    becomes part of the key, and `build` gets it before those. Beyond `PATTERNS` of them all numbers are arguments.
    """
    inputs, rest, shapes, key = split_arguments(args)
    constants = () if pattern is None else (_PATTERNS.admit((build, *key), pattern(inputs)),)
    return _PROGRAMS.find(
        (build, *key, *constants),
        lambda: _load_or_build(build, args, (inputs, rest, shapes), serialiser, beside, constants),
    ), inputs


class Arguments:
    """Arguments of functions that are called many times with one system.

    Modules of this library without functions are traversed only once.

    - `arrays`: the inputs of programs.
    """

    def __init__(self, *args: Any) -> None:
        self._args = args
        self.arrays: list[Any] = []
        leaves, structure = jax.tree.flatten(args, is_leaf=_is_module)
        key: list[Hashable] = [structure, objects_key(args) if any(map(is_user_class, node_types(structure))) else None]
        for leaf in leaves:
            if isinstance(leaf, np.ndarray | jax.Array):
                self.arrays.append(leaf)
                key.append(shape_of(leaf))
            else:
                part = part_of(leaf)
                self.arrays += part.arrays
                key += (part.key, part.shapes())
        self._key = tuple(key)

    def program(self, build: Callable[..., T], serialiser: disk_cache.Serialiser[T] | None = None) -> T:
        """The program that `find_program` would return."""
        return _PROGRAMS.find(
            (build, self._key),
            lambda: _load_or_build(build, self._args, split_arguments(self._args)[:3], serialiser, ()),
        )


def _load_or_build(
    build: Callable[..., T],
    args: tuple[Any, ...],
    parts: tuple[Any, Any, Any],
    serialiser: disk_cache.Serialiser[T] | None,
    beside: tuple[Any, ...],
    constants: tuple[NumberPattern, ...] = (),
) -> T:
    inputs, rest, shapes = parts
    if serialiser is None:
        return build(inputs, rest, *constants, *beside)
    digest = input_digest(*args)
    key = persistent_key(build, *((rest, shapes) if digest is None else (digest,)), *constants)
    return disk_cache.load_or_build(key, lambda: build(inputs, rest, *constants, *beside), serialiser, inputs)


def _program(function: Callable[..., Any], rest: Any) -> Callable[[Any], Any]:
    """A compiled function of the array arguments, with the others as constants."""

    def call(inputs: Any) -> Any:
        args, options = eqx.combine(inputs, rest)
        return function(*args, **options)

    # The name under which profiles and dumps of XLA show it.
    call.__name__ = call.__qualname__ = getattr(function, "__name__", "run")
    return jax.jit(call)


class _Programs:
    """The most recently used programs. Nothing else refers to them, so dropping one frees its memory."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._programs: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Hashable, build: Callable[[], T]) -> T:
        """The program of that key, built if it is missing."""
        with self._lock:
            program = self._programs.pop(key, None)
        # Outside the lock: building takes seconds and may look up other programs.
        program = build() if program is None else program
        with self._lock:
            self._programs[key] = program
            while len(self._programs) > self._capacity:
                self._programs.popitem(last=False)
        return program

    def clear(self) -> None:
        with self._lock:
            self._programs.clear()


class _Patterns:
    """The patterns of numbers for which there are programs, of the most recently used kinds of arguments."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._patterns: collections.OrderedDict[Hashable, set[NumberPattern]] = collections.OrderedDict()
        self._lock = threading.Lock()

    def admit(self, key: Hashable, pattern: NumberPattern) -> NumberPattern:
        """The pattern, or that in which all numbers are arguments where there would be too many programs."""
        with self._lock:
            patterns = self._patterns[key] = self._patterns.pop(key, set())
            while len(self._patterns) > self._capacity:
                self._patterns.popitem(last=False)
            if pattern not in patterns and len(patterns) >= PATTERNS:
                return ARGUMENTS
            patterns.add(pattern)
            return pattern

    def clear(self) -> None:
        with self._lock:
            self._patterns.clear()


CAPACITY = 128
"""Programs in memory; each takes some megabytes."""

PATTERNS = 4
"""Patterns of numbers for which programs are made that differ in nothing else. A sweep over values of which some are
zero needs two or three; one that goes through more gets a last program, for all values."""

_PROGRAMS = _Programs(CAPACITY)
_PATTERNS = _Patterns(CAPACITY)


def forget() -> None:
    """Drops all programs from memory; they are rebuilt or loaded when they are next used."""
    _PROGRAMS.clear()
    _PATTERNS.clear()


def _is_module(node: Any) -> bool:
    return isinstance(node, eqx.Module)
