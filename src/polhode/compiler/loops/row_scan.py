"""Machine code for the long loops over rows in programs that NumPy evaluates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.extend import core

from polhode.compiler import size_limits
from polhode.compiler.array_program import Equation, Value
from polhode.compiler.arrays.selection import has_dynamic_indices
from polhode.compiler.jaxprs import parameters
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.loop_code import ScalarLoopCode
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.loops.scan import Carry, Constants, Rows, Scan
from polhode.compiler.numpy.interpreter import Interpreter, programs
from polhode.compiler.trace import on_scalars, trace

_ROUNDS = 4
"""The assumed number of rounds of loops for which it depends on the data."""


class RowScan:
    """A loop over rows with a carry, as machine code.

    **Arguments:**

    - `code`: the machine code.
    - `consts`, `carry`, `row`, `out`: layouts of the constants, the carry, a row and its results; all of lists of
      arrays.
    """

    def __init__(self, code: CompiledFunction, consts: Layout, carry: Layout, row: Layout, out: Layout) -> None:
        self.code, self._consts, self._carry, self._row, self._out = code, consts, carry, row, out

    @classmethod
    def of(cls, scan: Equation) -> RowScan:
        """Compiles a scan. Raises `UnsupportedNativeOperation` for unsupported or too many operations.

        Known inputs become constants: indices must be known at compile time.
        """
        origin: Any = scan.origin
        params = parameters(origin)
        body, n, m = params["jaxpr"], params["num_consts"], params["num_carry"]
        examples = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in body.in_avals]
        is_constant = [not isinstance(x, Value) for x in scan.inputs[:n]]
        consts, carry, row = examples[:n], examples[n : n + m], examples[n + m :]
        if Layout(examples).size > size_limits.SCAN_NUMBERS or has_dynamic_indices(body.jaxpr, is_constant):
            raise UnsupportedNativeOperation("rows that are large, or look up what only the data say")

        def body_function(values: Any, carries: Any, row: Any) -> tuple[Any, Any]:
            operands = [
                x if isinstance(operand, Value) else operand for x, operand in zip(values, scan.inputs, strict=False)
            ]
            outs = core.jaxpr_as_fun(body)(*operands, *carries, *row)
            return outs[:m], outs[m:]

        program = trace(body_function, consts, carry, row)
        layouts = Layout(consts), Layout(carry), Layout(row), Layout(program.out_shape[1])
        now = Carry("carry", layouts[1])
        loop = Scan((Constants("shared", layouts[0]), now, Rows("rows", layouts[2])), (now, Rows("out", layouts[3])))
        return cls(loop.compile(ScalarLoopCode(), on_scalars(program, consts, carry, row)), *layouts)

    def __call__(self, consts: Any, carry: Any, rows: Any, length: int, reverse: bool) -> list[np.ndarray]:
        """The final carry, and the results of all rows, as a scan returns them."""
        carry_slots, out = self._carry.pack(carry), np.empty((length, self._out.size), np.int64)
        along = slice(None, None, -1 if reverse else 1)
        row_slots = self._row.pack_rows([x[along] for x in rows]) if rows else np.empty((length, 0), np.int64)
        self.code(self._consts.pack(consts), carry_slots, row_slots, out, np.array([length]))
        return [*self._carry.unpack(carry_slots), *self._out.unpack(out[along])]


def compile_scans(program: Interpreter) -> None:
    """Compiles the loops over rows that would take NumPy long."""
    for equation in program.equations:
        if equation.name == "scan" and _cost(equation) > size_limits.SCAN_OPERATIONS:
            try:
                equation.name, equation.params["jaxpr"] = "swept", RowScan.of(equation)
                continue
            except UnsupportedNativeOperation:
                pass
        for inner in programs(equation):
            compile_scans(inner)


def codes(program: Interpreter) -> Iterator[CompiledFunction]:
    """All machine code in a program."""
    for equation in program.equations:
        if equation.name in ("mapped", "swept"):
            yield equation.params["jaxpr"].code
        for inner in programs(equation):
            yield from codes(inner)


def _cost(equation: Equation) -> int:
    """Operations that Python evaluates."""
    inside = sum(_cost(e) for program in programs(equation) for e in program.equations)
    times = {"scan": equation.params.get("length", 1), "while": _ROUNDS}
    return 1 + inside * times.get(equation.name, 1)
