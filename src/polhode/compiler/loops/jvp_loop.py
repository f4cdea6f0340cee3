"""Tangents of runs as machine code: forward mode through consecutive steps."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from polhode.compiler.arrays.entry_points import tangent_block
from polhode.compiler.differentiation import DifferentiableFunction
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.loops.derivative_loop import AbstractDerivativeLoop
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.loops.scan import Carry, Constants, Rows, Scan, compile_scan


@final
class TangentLoop(AbstractDerivativeLoop):
    """Jacobian–vector products of consecutive steps, in machine code."""

    @staticmethod
    def _compile(
        step: DifferentiableFunction, args: Layout, row: Layout, carry: Layout, parameters: Layout
    ) -> CompiledFunction:
        now = Carry("carried", carry, history="out")
        scan = Scan((Constants("args", args), Rows("rows", row), now, Constants("fixed", parameters)), (now,))
        return step.jvp(
            lambda program: compile_scan(program, scan),
            lambda program: tangent_block(program, scan.pointers, args, row, carry, parameters),
        )

    def __call__(self, args: Any, rows: Any, carry: Any, parameters: Any) -> Any:
        """The tangents at the ends of these steps, stacked.

        `carry` is that of the beginning of the first one, `parameters` that of parameters.
        """
        slots = self._row.pack_rows(rows)
        out = np.empty((len(slots), self._carry.size), np.int64)
        now, count = self._carry.pack(carry), np.array([len(slots)])
        self.code(self._args.pack(args), slots, now, self._parameters.pack(parameters), out, count)
        return self._carry.unpack(out)
