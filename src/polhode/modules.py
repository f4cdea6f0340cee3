"""Modules with methods that are made without a traversal of the module."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax


class Module(eqx.Module):
    """A module of Equinox whose methods take less time to look up.

    Equinox makes a method a node of trees, as which it can be passed to JAX's transformations, and looks at all leaves
    of the module each time. Of a robot these are a thousand, and tracing looks up thousands of methods. Here the same
    nodes are made without.
    """

    if not TYPE_CHECKING:

        def __getattribute__(self, name: str, /) -> Any:
            value = _attribute(self, name)
            # Most attributes are fields.
            if type(value) is not types.MethodType or name[:2] == "__" or value.__self__ is not self:
                return value
            return jax.tree.unflatten(_structure_of(value.__func__), (self,))


_attribute = object.__getattribute__


class _Example(eqx.Module):
    def method(self) -> None:
        pass


_BoundMethod: Any = type(_Example().method)


@functools.cache
def _structure_of(function: Any) -> Any:
    """The structure of a method of a function, with its module as a leaf."""
    return jax.tree.structure(_BoundMethod(function, 0))
