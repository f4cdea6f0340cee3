"""Tangents of runs as machine code: forward mode through consecutive steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from polhode.compiler.arrays.entry_points import tangent_block
from polhode.compiler.differentiation import DifferentiableFunction
from polhode.compiler.llvm.ir_builder import IRBuilder
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.llvm.types import type_of
from polhode.compiler.loops.packed_layout import Layout

POINTERS = ("args", "rows", "carried", "fixed", "out", "count")
"""Arguments of the compiled function."""


class TangentLoop:
    """Jacobian–vector products of consecutive steps, in machine code.

    **Arguments:**

    - `code`: the machine code.
    - `args`, `row`, `carried`, `fixed`: trees like those that it takes; only structure, shapes and dtypes matter.
    """

    def __init__(self, code: CompiledFunction, args: Any, row: Any, carry: Any, parameters: Any) -> None:
        self.code = code
        self._args, self._row, self._carry, self._parameters = map(Layout, (args, row, carry, parameters))

    @classmethod
    def of(
        cls, advance: Callable[[Any, Any], Any], of: Callable[[Any, Any], tuple[Any, Any]], args: Any, row: Any
    ) -> TangentLoop:
        """Compiles the tangent of a step, with its arguments as examples.

        - `advance`: the carry at the end of a step, floats only, from the arguments and the record of the step. - `of`:
          selects from such trees the carry at its beginning, and the parameters.

        Raises `UnsupportedNativeOperation` for unsupported or too many operations.
        """
        step = DifferentiableFunction(advance, of, args, row)
        carry, parameters = step.wrt
        layouts = Layout(args), Layout(row), Layout(carry), Layout(parameters)
        code = step.jvp(
            lambda program: _compile(program, *layouts), lambda program: tangent_block(program, POINTERS, *layouts)
        )
        return cls(code, args, row, carry, parameters)

    @property
    def parameters(self) -> Any:
        """Shapes of the tangents of parameters."""
        return jax.tree.unflatten(self._parameters.structure, self._parameters.leaves)

    def __call__(self, args: Any, rows: Any, carry: Any, parameters: Any) -> Any:
        """The tangents at the ends of these steps, stacked.

        `carried` is that of the beginning of the first one, `fixed` that of parameters.
        """
        slots = self._row.pack_rows(rows)
        out = np.empty((len(slots), self._carry.size), np.int64)
        now, count = self._carry.pack(carry), np.array([len(slots)])
        self.code(self._args.pack(args), slots, now, self._parameters.pack(parameters), out, count)
        return self._carry.unpack(out)


def _compile(program: Any, args: Layout, row: Layout, carry: Layout, parameters: Layout) -> CompiledFunction:
    """The function of a block: a loop over steps."""
    w = IRBuilder()
    arguments = [w.load("%args", k, type_of(s)) for k, s in enumerate(args.scalars)]
    directions = [w.load("%fixed", k, "double") for k in range(parameters.size)]
    count = w.load("%count", 0, "i64")
    with w.for_each(count) as n:
        source = w.row("%rows", n, row.size)
        values = [w.load(source, k, type_of(s)) for k, s in enumerate(row.scalars)]
        now = [w.load("%carried", k, "double") for k in range(carry.size)]
        results = w.program(program, [*arguments, *values, *now, *directions])
        target = w.row("%out", n, carry.size)
        for k, result in enumerate(results):
            w.store("%carried", k, "double", result)
            w.store(target, k, "double", result)
    return CompiledFunction(w, POINTERS, count)
