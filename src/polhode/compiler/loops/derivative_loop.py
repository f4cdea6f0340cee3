"""Derivatives of runs as machine code: forward or reverse mode through consecutive steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import jax
import numpy as np

from polhode.compiler.differentiation import DifferentiableFunction
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.loops.scan import Carry, Constants, Rows, Scan, Sums
from polhode.compiler.number_pattern import ARGUMENTS, NumberPattern


@final
class DerivativeLoop:
    """Derivatives of consecutive steps, in machine code: of the carry from one to the next, and of parameters.

    **Arguments:**

    - `code`: the machine code.
    - `reverse`: whether they are vector–Jacobian products, from the last step to the first, instead of
      Jacobian–vector products.
    - `args`, `row`, `carry`, `parameters`: trees like those that it takes and returns; only structure, shapes and
      dtypes matter.
    - `pattern`: numbers of `args` that are constants of the code.
    """

    def __init__(
        self,
        code: CompiledFunction,
        reverse: bool,
        args: Any,
        row: Any,
        carry: Any,
        parameters: Any,
        pattern: NumberPattern = ARGUMENTS,
    ) -> None:
        self.code, self.reverse, self.pattern = code, reverse, pattern
        self._args, self._row, self._carry, self._parameters = map(Layout, (args, row, carry, parameters))

    @classmethod
    def of(
        cls,
        advance: Callable[[Any, Any], Any],
        of: Callable[[Any, Any], tuple[Any, Any]],
        args: Any,
        row: Any,
        reverse: bool,
        pattern: NumberPattern = ARGUMENTS,
    ) -> DerivativeLoop:
        """Compiles the derivative of a step, with its arguments as examples.

        - `advance`: the carry at the end of a step, floats only, from the arguments and the record of the step. - `of`:
          selects from such trees the carry at its beginning, and the parameters.
        - `pattern`: numbers of `args` that are constants of the code; none of the parameters.

        Raises `UnsupportedNativeOperation` for unsupported or too many operations.
        """
        step = DifferentiableFunction(advance, of, args, row, pattern=pattern)
        carry, parameters = map(Layout, step.wrt)
        inputs = Constants("args", Layout(args)), Rows("rows", Layout(row))
        if reverse:
            now = Carry("carried", carry, increments="added")
            code = step.vjp(Scan((*inputs, now), (now, Sums("summed", parameters)), reverse=True).compile)
        else:
            now = Carry("carried", carry, history="out")
            code = step.jvp(Scan((*inputs, now, Constants("fixed", parameters)), (now,)).compile)
        return cls(code, reverse, args, row, *step.wrt, pattern=pattern)

    @property
    def parameters(self) -> Any:
        """Shapes of the derivatives with respect to parameters."""
        return jax.tree.unflatten(self._parameters.structure, self._parameters.leaves)

    def __call__(self, args: Any, rows: Any, carry: Any, others: Any) -> Any:
        """Forward, the tangents of the carry at the ends of these steps, stacked.

        `carry` is that at the beginning of the first one, `others` that of parameters.

        In reverse, the cotangents of the carry at the beginning of the first one, and of the parameters. `carry` is
        that with respect to the end of the last one; `others` are added at the end of each.
        """
        slots, now = self._row.pack_rows(rows), self._carry.pack(carry)
        loop = self._reverse if self.reverse else self._forward
        return loop(self.pattern.check(self._args.pack(args)), slots, now, others, np.array([len(slots)]))

    def _forward(self, args: np.ndarray, slots: np.ndarray, now: np.ndarray, parameters: Any, count: np.ndarray) -> Any:
        out = np.empty((len(slots), self._carry.size), np.int64)
        self.code(args, slots, now, self._parameters.pack(parameters), out, count)
        return self._carry.unpack(out)

    def _reverse(
        self, args: np.ndarray, slots: np.ndarray, now: np.ndarray, increments: Any, count: np.ndarray
    ) -> tuple[Any, Any]:
        sums = np.zeros(self._parameters.size).view(np.int64)
        self.code(args, slots, now, self._carry.pack_rows(increments), sums, count)
        return self._carry.unpack(now), self._parameters.unpack(sums)
