"""Adjoints of runs as machine code: reverse mode through consecutive steps, from the last to the first."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from polhode.compiler.arrays.entry_points import adjoint_block
from polhode.compiler.differentiation import DifferentiableFunction
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.loops.derivative_loop import AbstractDerivativeLoop
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.loops.scan import Carry, Constants, Rows, Scan, Sums, compile_scan


@final
class AdjointLoop(AbstractDerivativeLoop):
    """Vector–Jacobian products of consecutive steps, in machine code."""

    @staticmethod
    def _compile(
        step: DifferentiableFunction, args: Layout, row: Layout, carry: Layout, parameters: Layout
    ) -> CompiledFunction:
        now = Carry("carried", carry, increments="added")
        inputs = Constants("args", args), Rows("rows", row), now
        scan = Scan(inputs, (now, Sums("summed", parameters)), reverse=True)
        return step.vjp(
            lambda program: compile_scan(program, scan),
            lambda program: adjoint_block(program, scan.pointers, args, row, carry, parameters),
        )

    def __call__(self, args: Any, rows: Any, carry: Any, increments: Any) -> tuple[Any, Any]:
        """The cotangents of the carry at the beginning of the first of these steps, and of the parameters.

        `carry` is that with respect to the end of the last one; `increments` are added at the end of each.
        """
        slots = self._row.pack_rows(rows)
        now = self._carry.pack(carry)
        total = np.zeros(self._parameters.size)
        sums = total.view(np.int64)
        count = np.array([len(slots)])
        self.code(self._args.pack(args), slots, now, self._carry.pack_rows(increments), sums, count)
        return self._carry.unpack(now), self._parameters.unpack(sums)
