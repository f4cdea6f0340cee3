"""Derivatives of runs as machine code: what forward and reverse mode through consecutive steps have in common."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Self

import jax

from polhode.compiler.differentiation import DifferentiableFunction
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.loops.packed_layout import Layout


class AbstractDerivativeLoop(abc.ABC):
    """Derivatives of consecutive steps, in machine code.

    **Arguments:**

    - `code`: the machine code.
    - `args`, `row`, `carry`, `parameters`: trees like those that it takes and returns; only structure, shapes and
      dtypes matter.
    """

    def __init__(self, code: CompiledFunction, args: Any, row: Any, carry: Any, parameters: Any) -> None:
        self.code = code
        self._args, self._row, self._carry, self._parameters = map(Layout, (args, row, carry, parameters))

    @classmethod
    def of(
        cls, advance: Callable[[Any, Any], Any], of: Callable[[Any, Any], tuple[Any, Any]], args: Any, row: Any
    ) -> Self:
        """Compiles the derivative of a step, with its arguments as examples.

        - `advance`: the carry at the end of a step, floats only, from the arguments and the record of the step. - `of`:
          selects from such trees the carry at its beginning, and the parameters.

        Raises `UnsupportedNativeOperation` for unsupported or too many operations.
        """
        step = DifferentiableFunction(advance, of, args, row)
        trees = args, row, *step.wrt
        return cls(cls._compile(step, *map(Layout, trees)), *trees)

    @staticmethod
    @abc.abstractmethod
    def _compile(
        step: DifferentiableFunction, args: Layout, row: Layout, carry: Layout, parameters: Layout
    ) -> CompiledFunction:
        """The machine code of the derivative of a step."""

    @property
    def parameters(self) -> Any:
        """Shapes of the derivatives with respect to parameters."""
        return jax.tree.unflatten(self._parameters.structure, self._parameters.leaves)
