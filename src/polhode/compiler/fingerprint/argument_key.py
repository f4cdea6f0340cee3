"""Keys of arguments: their arrays are inputs of programs, the rest is part of the key."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

import equinox as eqx
import jax

from polhode.compiler.fingerprint.closures import frozen, is_function, is_immutable
from polhode.compiler.fingerprint.inspection import VALUES
from polhode.compiler.fingerprint.object_cache import CachedByIdentity
from polhode.compiler.fingerprint.process_keys import ObjectHasher
from polhode.compiler.fingerprint.provenance import is_user_class


def split_arguments(args: Any) -> tuple[Any, Any, Any, tuple[Hashable, ...]]:
    """The arrays and the rest of arguments as trees, the types of the arrays, and the key of the program."""
    others = objects_key(args)
    leaves, structure = jax.tree.flatten(frozen(args), is_leaf=lambda x: x is None)
    is_array = list(map(eqx.is_array, leaves))
    inputs = jax.tree.unflatten(structure, [x if there else None for x, there in zip(leaves, is_array, strict=True)])
    others_than_arrays = [None if there else x for x, there in zip(leaves, is_array, strict=True)]
    # The rest has None for arrays as well as for None.
    shapes = tuple(shape_of(x) if there else x is None for x, there in zip(leaves, is_array, strict=True))
    rest = jax.tree.unflatten(structure, others_than_arrays)
    return inputs, rest, shapes, (others, exact(others_than_arrays), structure, shapes)


def shape_of(x: Any) -> tuple[Any, ...]:
    """Shape and type of an array, including weak types."""
    return x.shape, _name(x.dtype), bool(getattr(x, "weak_type", False))


_name = functools.cache(str)
"""The name of a type, which NumPy spells anew each time."""


class _Part:
    """One argument of a program.

    - `arrays`: in the order of the tree. - `key`: the rest of the key besides their types.
    """

    __slots__ = ("_shapes", "arrays", "key")

    def __init__(self, leaves: list[Any], *key: Hashable) -> None:
        self.arrays = [x for x in leaves if eqx.is_array(x)]
        self.key = _HashedKey((exact([_ARRAY if eqx.is_array(x) else x for x in leaves]), *key))
        # Only JAX's arrays are immutable.
        self._shapes = tuple(map(shape_of, self.arrays)) if all(isinstance(x, jax.Array) for x in self.arrays) else None

    def shapes(self) -> tuple[Any, ...]:
        """The current shapes and types of the arrays."""
        return tuple(map(shape_of, self.arrays)) if self._shapes is None else self._shapes


class _HashedKey:
    """A key whose hash is computed once; comparison by identity comes first."""

    __slots__ = ("_hash", "_key")

    def __init__(self, key: Hashable) -> None:
        self._key, self._hash = key, hash(key)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, _HashedKey) and self._hash == other._hash and self._key == other._key
        )

    def __hash__(self) -> int:
        return self._hash


_ARRAY = "array"
"""Stands for an array in keys."""


def part_of(value: Any) -> _Part:
    """One argument; modules of this library without functions are traversed once."""
    part = _IMMUTABLE_PARTS.of(value) if isinstance(value, eqx.Module) else None
    if part is not None:
        return part
    leaves, structure = jax.tree.flatten(frozen(value))
    return _Part(leaves, objects_key(value), structure)


def _immutable_part(value: Any) -> _Part | None:
    """The part of a module, if that is immutable."""
    return _Part(*jax.tree.flatten(value)) if is_immutable(value) else None


_IMMUTABLE_PARTS: CachedByIdentity[_Part | None] = CachedByIdentity(_immutable_part)


def exact(leaves: list[Any]) -> tuple[Any, ...]:
    """Leaves that equal each other only if they are the same: 1 is not True, and 0.0 not -0.0."""
    return tuple((type(x), repr(x) if isinstance(x, float | complex) else x) for x in leaves)


def objects_key(tree: Any) -> Hashable:
    """The key of all but functions: users' classes, static fields of their modules, plain objects."""
    leaves, structure = jax.tree.flatten(tree)
    objects = [leaf for leaf in leaves if not (isinstance(leaf, VALUES) or is_function(leaf))]
    stack = [structure]
    while stack:
        structure = stack.pop()
        data = structure.node_data()
        if data is not None and is_user_class(data[0]):
            objects.append(data)
        stack += structure.children()
    return ObjectHasher(()).key(objects) if objects else None
