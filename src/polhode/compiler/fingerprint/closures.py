"""Functions with their captured values, as nodes of trees."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from polhode.compiler.fingerprint.inspection import FILTER_JIT_FUNCTION, VALUES, closure_of, content_of_cell, is_fixed
from polhode.compiler.fingerprint.process_keys import ObjectHasher
from polhode.compiler.fingerprint.provenance import is_library_class


class AbstractHolder(eqx.Module):
    """A module with functions in static fields."""

    def refresh(self) -> Any:
        """The same with the values that its functions currently capture."""
        raise TypeError(f"{type(self).__name__} does not say how it is renewed.")

    @property
    def is_immutable(self) -> bool:
        """Whether they capture nothing mutable."""
        return False


class Closure(eqx.Module):
    """A function with its captured values.

    **Arguments:**

    - `cells`: inputs of programs: modules, functions and traced values of enclosing functions, by position.
    - `identity`: the rest.
    """

    cells: tuple[Any, ...]
    identity: FunctionIdentity = eqx.field(static=True)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.identity.bind(self.cells)(*arguments, **options)


class FunctionIdentity:
    """A function with a key of its code and its captured values, besides those at `places`."""

    def __init__(self, function: Callable[..., Any], places: tuple[int, ...]) -> None:
        self.function, self.places = function, places
        self._originals = tuple(content_of_cell(closure_of(function)[place]) for place in places)
        self._key = ObjectHasher(places).key(function)

    @property
    def captures_tracers(self) -> bool:
        """Whether other captured values, such as objects of users, hold what JAX traces."""
        _, objects = self._key
        return any(isinstance(getattr(one, "value", None), Tracer) for one in objects)

    def rebind(self, cells: tuple[Any, ...]) -> Callable[..., Any]:
        """The function with these contents of its cells, except for cells that have been assigned since."""
        now = [content_of_cell(closure_of(self.function)[place]) for place in self.places]
        current = zip(now, self._originals, cells, strict=True)
        return self.bind(tuple(cell if a is b else a for a, b, cell in current))

    def bind(self, cells: tuple[Any, ...]) -> Callable[..., Any]:
        """The function with other contents of the cells at `places`."""
        if not self.places:
            return self.function
        f: Any = self.function
        closure = list(closure_of(f))
        for place, value in zip(self.places, cells, strict=True):
            closure[place] = types.CellType(value)
        function = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, tuple(closure))
        function.__kwdefaults__ = f.__kwdefaults__
        return function

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionIdentity) and self.places == other.places and self._key == other._key

    def __hash__(self) -> int:
        return hash((self.places, self._key))

    def __repr__(self) -> str:
        return repr(self.function)


def frozen(tree: Any) -> Any:
    """`tree` with the values that its functions currently capture, which become part of their identity.

    Functions become `Closure`, and modules that hold functions in static fields are rebuilt. Captured
    modules and traced values become inputs of compiled programs, all other captured values constants of them. What was
    traced once remains an input when its value is known: it may be what a run is differentiated by.
    """
    return jax.tree.map(_freeze, tree, is_leaf=is_holder)


def captures_tracers(tree: Any) -> bool:
    """Whether functions of a frozen tree capture objects that hold what JAX traces, which are no inputs of programs."""
    closures = [leaf for leaf in jax.tree.leaves(tree, is_leaf=_is_closure) if isinstance(leaf, Closure)]
    return any(closure.identity.captures_tracers or captures_tracers(closure.cells) for closure in closures)


def _is_closure(node: Any) -> bool:
    return isinstance(node, Closure)


def is_immutable(tree: Any) -> bool:
    """Whether a tree is immutable, but for the numbers in its arrays."""
    leaves, structure = jax.tree.flatten(tree, is_leaf=is_holder)
    immutable = (leaf.is_immutable if isinstance(leaf, AbstractHolder) else isinstance(leaf, VALUES) for leaf in leaves)
    return all(immutable) and all(map(_is_immutable_node, node_types(structure)))


def is_function(value: Any) -> bool:
    """Whether a leaf of a tree is callable."""
    return callable(value) and not isinstance(value, type | jax.Array | np.ndarray)


def is_holder(node: Any) -> bool:
    """Whether a node of a tree holds functions or is one with its captured values."""
    return _holds(type(node))


@functools.lru_cache(maxsize=4096)
def _holds(kind: type) -> bool:
    # Instances of Equinox's modules are looked for by abstract base classes: slowly, and trees have thousands of nodes.
    return issubclass(kind, AbstractHolder | Closure)


def _freeze(leaf: Any) -> Any:
    if is_holder(leaf):
        return leaf.refresh() if isinstance(leaf, AbstractHolder) else _renew(leaf)
    return _close(leaf) if is_function(leaf) else leaf


def _renew(closure: Closure) -> Any:
    """The closure with the values that its function currently captures."""
    return _close(closure.identity.rebind(closure.cells), closure.identity.places)


def _close(function: Any, places: tuple[int, ...] = ()) -> Any:
    """A function with its captured values; arrays at `places`, which were inputs before, stay inputs."""
    if is_fixed(function):
        return function
    cells: dict[int, Any] = {}
    if isinstance(function, types.FunctionType):
        for place, cell in enumerate(closure_of(function)):
            value = content_of_cell(cell)
            if _is_input(value) or (place in places and isinstance(value, jax.Array | np.ndarray)):
                cells[place] = frozen(value)
    return Closure(tuple(cells.values()), FunctionIdentity(function, tuple(cells)))


def _is_input(value: Any) -> bool:
    """Whether a captured value becomes an input of compiled programs."""
    if isinstance(value, types.FunctionType):
        return not is_fixed(value)
    if isinstance(value, FILTER_JIT_FUNCTION):
        # Its compiled traces are cleared during hashing, which skips inputs.
        return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))
    return isinstance(value, eqx.Module | Tracer)


def node_types(structure: Any) -> set[type]:
    """The classes of the inner nodes of a tree."""
    types_, stack = set(), [structure]
    while stack:
        node = stack.pop()
        data = node.node_data()
        if data is not None:
            types_.add(data[0])
            stack += node.children()
    return types_


def _is_immutable_node(kind: type) -> bool:
    """Whether nodes of this class always hold the same children."""
    return kind in (tuple, type(None)) or (issubclass(kind, eqx.Module | tuple) and is_library_class(kind))
