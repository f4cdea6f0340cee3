"""Where the operations of a graph of scalars go: programs for XLA, or recorded ones for machine code."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar


class UnsupportedScalarOperation(Exception):
    """A trace holds what can't be done element by element: a lookup at an index that the data give, a library call."""


class Kind:
    """The kind of an operation: the name of a primitive and its parameters. `key` is equal where these are.

    `primitive` is the primitive itself, which only programs for XLA need.
    """

    __slots__ = ("key", "name", "params", "primitive")

    def __init__(self, name: str, params: dict[str, Any], primitive: Any = None) -> None:
        self.name, self.params, self.primitive = name, params, primitive
        self.key = (name, *((k, str(v)) for k, v in params.items())) if params else (name,)


Values = list[Any]
"""Scalars of a program under construction, or known ones."""


class AbstractScalarBackend(abc.ABC):
    """A program under construction.

    `has_rows` tells whether loops over rows can be part of it, `keeps_rules` whether what has a derivative of its own
    is marked with it.
    """

    has_rows: ClassVar[bool] = False
    keeps_rules: bool = False

    @abc.abstractmethod
    def emit(self, nodes: Sequence[Any], results: Sequence[Any]) -> None:
        """Give each node, in this order, its value; `wanted` are those that are asked for."""

    @abc.abstractmethod
    def scalar(self, value: Any, dtype: Any) -> Any:
        """A value, or a known scalar, as one of this type."""

    @abc.abstractmethod
    def loop(
        self,
        cond: Callable[[AbstractScalarBackend, Values], Any],
        body: Callable[[AbstractScalarBackend, Values], Values],
        start: Values,
    ) -> Values:
        """The values carried at the end of a loop that goes on while `cond` holds; both get the program inside."""

    @abc.abstractmethod
    def branch(self, which: Any, branches: Sequence[Callable[[AbstractScalarBackend], Values]]) -> Values:
        """The results of the branch of this number; all have the same types."""

    @abc.abstractmethod
    def rows(
        self,
        body: Callable[[AbstractScalarBackend, Values, Values], tuple[Values, Values]],
        start: Values,
        rows: Sequence[Values],
        reverse: bool,
    ) -> tuple[Values, list[Values]]:
        """The values carried after a loop over rows, and the rows that come out, from what a row makes of both."""

    @abc.abstractmethod
    def solution(
        self,
        x: Values,
        place: Values,
        equation: Callable[[AbstractScalarBackend, Values], Values],
        precondition: Callable[[AbstractScalarBackend, Values, Values], Values],
    ) -> Values:
        """`x` and `place` as they are, but with derivatives of a solution, see `derivatives.solutions`."""

    @abc.abstractmethod
    def custom_jvp(
        self, outs: Values, of: Values, tangents: Callable[[AbstractScalarBackend, Values], Values]
    ) -> Values:
        """`outs` as they are, but with the derivatives that `tangents` makes of those of `of`."""

    @abc.abstractmethod
    def foreign(self, eqn: Any, inputs: Sequence[Values]) -> Sequence[Any]:
        """The results, as arrays, of an equation on arrays of which these are the elements. Raises `UnsupportedScalarOperation`."""
