"""Maps of a function over the rows of stacked arrays, as machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from polhode.compiler import size_limits
from polhode.compiler.arrays.selection import compile_either
from polhode.compiler.cache.disk_cache import Serialiser
from polhode.compiler.differentiation import DifferentiableFunction
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.loop_code import ArrayLoopCode, ScalarLoopCode
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.loops.scan import Constants, Rows, Scan
from polhode.compiler.scalars.program import Program
from polhode.compiler.scalars.traced_function import TracedFunction
from polhode.compiler.trace import on_scalars, trace


class RowMap:
    """`function(consts, row)` of all rows.

    **Arguments:**

    - `code`, `out`: the machine code, and the layout of a row of results.
    - `consts`, `row`: trees like those that it takes; only structure, shapes and dtypes matter.
    """

    def __init__(self, code: CompiledFunction, out: Layout, consts: Any, row: Any) -> None:
        self.code, self.out, self._consts, self._row = code, out, Layout(consts), Layout(row)

    @classmethod
    def of(cls, function: Callable[[Any, Any], Any], consts: Any, row: Any) -> RowMap:
        """Compiles a function.

        Raises `UnsupportedNativeOperation` for unsupported or too many operations.
        """
        program = trace(function, consts, row)
        out = Layout(program.out_shape)
        scan = _scan(consts, row, out)
        code = compile_either(
            program.closed_jaxpr.jaxpr,
            lambda: scan.compile(ArrayLoopCode(), program.closed_jaxpr),
            lambda: scan.compile(ScalarLoopCode(), _on_scalars(program, consts, row)),
            program.cost,
        )
        return cls(code, out, consts, row)

    def has_result_like(self, tree: Any) -> bool:
        """Whether the leaves of a result have the shapes and dtypes of those of a tree, whatever its structure."""
        return self.out.leaves == Layout(tree).leaves

    @classmethod
    def vjp(
        cls, function: Callable[[Any, Any], Any], of: Callable[[Any, Any], Any], consts: Any, row: Any, result: Any
    ) -> RowMap:
        """The vector–Jacobian product of a function with results like `result`; rows are pairs (row, cotangent).

        `of` selects the arguments to differentiate, see `DifferentiableFunction`. Raises as `RowMap.of` does.
        """
        derivable = DifferentiableFunction(function, of, consts, row)
        both, out = (row, result), Layout(derivable.wrt)
        return cls(derivable.vjp(_scan(consts, both, out).compile), out, consts, both)

    @classmethod
    def jvp(cls, function: Callable[[Any, Any], Any], of: Callable[[Any, Any], Any], consts: Any, row: Any) -> RowMap:
        """The Jacobian–vector product of such a function; rows are pairs (row, tangents of these arguments)."""
        derivable = DifferentiableFunction(function, of, consts, row)
        both, out = (row, derivable.wrt), Layout(derivable.out_shape)
        return cls(derivable.jvp(_scan(consts, both, out).compile), out, consts, both)

    def __call__(self, consts: Any, batch: Any) -> Any:
        """The results, stacked like the rows."""
        return self.rows(self.arguments(consts), batch)

    def arguments(self, consts: Any) -> np.ndarray:
        """The packed constants, for `rows`."""
        return self._consts.pack(consts)

    def rows(self, arguments: np.ndarray, batch: Any) -> Any:
        """As `__call__`, for several calls with the same constants."""
        count = len(jax.tree.leaves(batch)[0])
        out = np.empty((count, self.out.size), np.int64)
        self.code(arguments, self._row.pack_rows(batch), out, np.array([count]))
        return self.out.unpack(out)


def _on_scalars(program: TracedFunction, consts: Any, row: Any) -> Program:
    """A program on scalars, unless rows are so long that building it would take longer than it saves."""
    if size_limits.is_long(row):
        raise UnsupportedNativeOperation(f"{Layout(row).size} numbers")
    return on_scalars(program, consts, row)


def _scan(consts: Any, row: Any, out: Layout) -> Scan:
    return Scan((Constants("shared", Layout(consts)), Rows("rows", Layout(row))), (Rows("out", out),))


class RowMapResult(NamedTuple):
    """A compiled row map, or why there is none."""

    rows: RowMap | None
    why: str = ""


def try_row_map(
    function: Callable[[Any, Any], Any],
    consts: Any,
    row: Any,
    untraceable: tuple[type[Exception], ...] = (UnsupportedNativeOperation,),
) -> RowMapResult:
    """As `RowMap.of`; the exceptions `untraceable` mean that there is none."""
    try:
        return RowMapResult(RowMap.of(function, consts, row))
    except untraceable as error:
        return RowMapResult(None, str(error))


def row_map_serialiser(arguments: Callable[[Any], tuple[Any, Any]]) -> Serialiser[RowMapResult]:
    """The serialiser of such results; `arguments`: the constants and a row, from the inputs of a builder."""

    def dump(result: RowMapResult) -> Any:
        return result.rows and (result.rows.code, result.rows.out), result.why

    def load(state: Any, inputs: Any) -> RowMapResult:
        code, why = state
        consts, row = arguments(inputs)
        return RowMapResult(code and RowMap(code[0], code[1], consts, row), why)

    def watch(result: RowMapResult, write: Callable[[], None]) -> None:
        if result.rows is not None:
            result.rows.code.when_improved = write

    return Serialiser(dump, load, watch)
