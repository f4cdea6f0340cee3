"""Interface of the backends to which graphs of scalars are emitted: XLA, or programs for machine code."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar


class UnsupportedScalarOperation(Exception):
    """A trace contains an operation that needs arrays: data-dependent indexing, a library call."""


class Kind:
    """The kind of an operation: the name of a primitive and its parameters; `key` compares both.

    `primitive` is the primitive itself, which only XLA needs.
    """

    __slots__ = ("key", "name", "params", "primitive")

    def __init__(self, name: str, params: dict[str, Any], primitive: Any = None) -> None:
        self.name, self.params, self.primitive = name, params, primitive
        self.key = (name, *((k, str(v)) for k, v in params.items())) if params else (name,)


Values = list[Any]
"""Scalars of a program under construction, or constants."""


class AbstractScalarBackend(abc.ABC):
    """A program under construction.

    `has_rows`: whether it supports loops over rows. `has_procedures`: whether it supports calls. `has_eliminations`:
    whether eliminations are loops. `keeps_rules`: whether operations with a custom derivative keep it.
    """

    has_rows: ClassVar[bool] = False
    has_procedures: bool = False
    has_eliminations: bool = False
    keeps_rules: bool = False

    @abc.abstractmethod
    def emit(self, nodes: Sequence[Any], results: Sequence[Any]) -> None:
        """Computes the value of each node, in this order; `results` are the elements that are used afterwards."""

    @abc.abstractmethod
    def scalar(self, value: Any, dtype: Any) -> Any:
        """A value, or a constant, converted to this dtype."""

    @abc.abstractmethod
    def loop(
        self,
        cond: Callable[[AbstractScalarBackend, Values], Any],
        body: Callable[[AbstractScalarBackend, Values], Values],
        start: Values,
    ) -> Values:
        """The final carry of a loop that runs while `cond` holds; both functions take the backend of the loop."""

    @abc.abstractmethod
    def branch(self, which: Any, branches: Sequence[Callable[[AbstractScalarBackend], Values]]) -> Values:
        """The results of the branch with this index; all branches have the same types."""

    @abc.abstractmethod
    def rows(
        self,
        body: Callable[[AbstractScalarBackend, Values, Values], tuple[Values, Values]],
        start: Values,
        rows: Sequence[Values],
        reverse: bool,
    ) -> tuple[Values, list[Values]]:
        """The final carry of a loop over rows and the output rows; `body` maps carry and row to both."""

    @abc.abstractmethod
    def solution(
        self,
        x: Values,
        place: Values,
        equation: Callable[[AbstractScalarBackend, Values], Values],
        precondition: Callable[[AbstractScalarBackend, Values, Values], Values],
    ) -> Values:
        """`x` and `place` unchanged, with the derivatives of an implicit solution, see `implicit_solution`."""

    @abc.abstractmethod
    def custom_jvp(
        self, outs: Values, of: Values, tangents: Callable[[AbstractScalarBackend, Values], Values]
    ) -> Values:
        """`outs` unchanged, with the tangents that `tangents` computes from those of `of`."""

    @abc.abstractmethod
    def foreign(self, eqn: Any, inputs: Sequence[Values]) -> Sequence[Any]:
        """The results, as arrays, of an equation on arrays with these elements.

        Raises `UnsupportedScalarOperation` if the backend has no arrays.
        """
