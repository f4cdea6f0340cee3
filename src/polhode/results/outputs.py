"""Outputs of a run by name."""

from __future__ import annotations

from typing import Any

import jax

from polhode.name_errors import unknown_name


@jax.tree_util.register_pytree_with_keys_class
class Outputs(dict[str, Any]):
    """Outputs by name, a pytree like a dictionary; the error for an unknown name lists close matches."""

    def __missing__(self, name: Any) -> Any:
        raise unknown_name("output", name, list(self))

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        names = tuple(sorted(self))
        return [(jax.tree_util.DictKey(name), self[name]) for name in names], names

    def tree_flatten(self) -> tuple[list[Any], tuple[str, ...]]:
        names = tuple(sorted(self))
        return [self[name] for name in names], names

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], values: Any) -> Outputs:
        return cls(zip(names, values, strict=True))
