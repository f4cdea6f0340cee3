"""Adjoints of runs as machine code: reverse mode through consecutive steps, from the last to the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from polhode.compiler.arrays.entry_points import adjoint_block
from polhode.compiler.differentiation import DifferentiableFunction
from polhode.compiler.llvm.ir_builder import IRBuilder
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.llvm.loop_builder import LoopBuilder
from polhode.compiler.llvm.types import type_of
from polhode.compiler.loops.packed_layout import Layout

POINTERS = ("args", "rows", "carried", "added", "summed", "count")
"""Arguments of the compiled function."""


class AdjointLoop:
    """Vector–Jacobian products of consecutive steps, in machine code.

    **Arguments:**

    - `code`: the machine code.
    - `args`, `row`, `carried`, `summed`: trees like those that it takes and returns; only structure, shapes and dtypes
      matter.
    """

    def __init__(self, code: CompiledFunction, args: Any, row: Any, carry: Any, parameters: Any) -> None:
        self.code = code
        self._args, self._row, self._carry, self._parameters = map(Layout, (args, row, carry, parameters))

    @classmethod
    def of(
        cls, advance: Callable[[Any, Any], Any], of: Callable[[Any, Any], tuple[Any, Any]], args: Any, row: Any
    ) -> AdjointLoop:
        """Compiles the adjoint of a step, with its arguments as examples.

        - `advance`: the carry at the end of a step, floats only, from the arguments and the record of the step. - `of`:
          selects from such trees the carry at its beginning, and the parameters.

        Raises `UnsupportedNativeOperation` for unsupported or too many operations.
        """
        step = DifferentiableFunction(advance, of, args, row)
        carry, parameters = step.wrt
        layouts = Layout(args), Layout(row), Layout(carry), Layout(parameters)
        code = step.vjp(
            lambda program: _compile(program, *layouts), lambda program: adjoint_block(program, POINTERS, *layouts)
        )
        return cls(code, args, row, carry, parameters)

    @property
    def parameters(self) -> Any:
        """Shapes of the cotangents of parameters."""
        return jax.tree.unflatten(self._parameters.structure, self._parameters.leaves)

    def __call__(self, args: Any, rows: Any, carry: Any, increments: Any) -> tuple[Any, Any]:
        """The cotangents of the carry at the beginning of the first of these steps, and of the parameters.

        `carried` is that with respect to the end of the last one; `added` has what is to be added at the end of each.
        """
        slots = self._row.pack_rows(rows)
        now = self._carry.pack(carry)
        total = np.zeros(self._parameters.size)
        sums = total.view(np.int64)
        count = np.array([len(slots)])
        self.code(self._args.pack(args), slots, now, self._carry.pack_rows(increments), sums, count)
        return self._carry.unpack(now), self._parameters.unpack(sums)


def _compile(program: Any, args: Layout, row: Layout, carry: Layout, parameters: Layout) -> CompiledFunction:
    """The function of a block: a loop over steps, the last one first."""
    w = IRBuilder()
    arguments = [w.load("%args", k, type_of(s)) for k, s in enumerate(args.scalars)]
    count = w.load("%count", 0, "i64")
    loop, body, end = LoopBuilder(w, [("i64", count)]), w.label(), w.label()
    (n,) = loop.values
    w.branch(w.value(f"icmp sgt i64 {n}, 0"), body, end)
    w.open(body)
    here = w.value(f"sub i64 {n}, 1")
    source = w.row("%rows", here, row.size)
    values = [w.load(source, k, type_of(s)) for k, s in enumerate(row.scalars)]
    extra = w.row("%added", here, carry.size)
    now = [_sum(w, "%carried", extra, k) for k in range(carry.size)]
    results = w.program(program, [*arguments, *values, *now])
    for k in range(carry.size):
        w.store("%carried", k, "double", results[k])
    for k in range(parameters.size):
        before = w.load("%summed", k, "double")
        w.store("%summed", k, "double", w.value(f"fadd double {before}, {results[carry.size + k]}"))
    loop.end([here])
    w.open(end)
    return CompiledFunction(w, POINTERS, count)


def _sum(w: IRBuilder, first: str, second: str, slot: int) -> str:
    a, b = (w.load(table, slot, "double") for table in (first, second))
    return w.value(f"fadd double {a}, {b}")
