"""Functions of machine code around programs on arrays: blocks of steps, and maps over rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polhode.compiler import size_limits
from polhode.compiler.arrays.array_builder import ArrayBuilder
from polhode.compiler.arrays.codegen import Arrays, generate
from polhode.compiler.arrays.elementwise import combine
from polhode.compiler.arrays.flat_program import flatten
from polhode.compiler.arrays.operands import Buffer, Register
from polhode.compiler.arrays.selection import leaf_buffers
from polhode.compiler.compile_report import CompileReport
from polhode.compiler.llvm.ir_builder import IRBuilder
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.loops.step_loop_ir import POINTERS, ControlValues, block

Tell = Callable[[CompileReport], None] | None


def step_block(check: Any, steps: Any, layouts: tuple[Layout, Layout, Layout], tell: Tell) -> CompiledFunction:
    """The function of a block: a loop over frames. `check` and `steps` are traces of `more` and `advance` of
    `StepLoop`; `layouts` are of arguments, progress and the contents of a frame.
    """
    w = IRBuilder()
    b, (args, progress, row) = ArrayBuilder(w), layouts
    fixed, now = leaf_buffers(w, "%args", args), leaf_buffers(w, "%progress", progress)
    results: Arrays = []

    def given(told: ControlValues) -> list[Any]:
        return [*fixed, *now, *map(Register, told, told.types)]

    def goes_on(told: ControlValues) -> str:
        return b.number(generate(b, flatten(check), given(told))[0])

    def step(told: ControlValues) -> str:
        found = generate(b, flatten(steps), given(told))
        saved = b.number(found.pop(len(now)))
        results[:] = _without_aliases(b, found, given(told), now)
        for x, to in zip(results, now, strict=False):
            b.copy(x, to)
        return saved

    def keep(frame: str) -> None:
        for x, to in zip(results[len(now) :], leaf_buffers(w, frame, row), strict=True):
            b.copy(x, to)

    return _code(w, POINTERS, block(w, goes_on, step, keep, row.size), tell)


def _without_aliases(b: ArrayBuilder, results: Arrays, told: Sequence[Any], now: Sequence[Buffer]) -> Arrays:
    """Results that don't change when the arguments do."""
    pointers = {x.pointer for x in told if isinstance(x, Buffer)}

    def apart(x: Any, own: Any) -> Any:
        if not x.shape:
            return Register(b.number(x), x.dtype)
        if isinstance(x, Buffer) and (x is own or x.pointer not in pointers):
            return x
        return b.new_copy(x)

    owners = [*now, *[None] * len(results)]
    return [apart(x, owners[n]) for n, x in enumerate(results)]


def adjoint_block(
    program: Any, pointers: tuple[str, ...], args: Layout, row: Layout, carried: Layout, summed: Layout
) -> CompiledFunction:
    """The function of a block of `AdjointLoop`: a loop over steps, the last one first."""
    w = IRBuilder()
    b, flat = ArrayBuilder(w), flatten(program)
    fixed, now, totals = (
        leaf_buffers(w, "%args", args),
        leaf_buffers(w, "%carried", carried),
        leaf_buffers(w, "%summed", summed),
    )
    count = w.load("%count", 0, "i64")
    with w.each(count) as passed:
        n = w.value(f"sub i64 {w.value(f'sub i64 {count}, {passed}')}, 1")
        _add(w, "%carried", w.row("%added", n, carried.size), carried.size)
        given = [*fixed, *leaf_buffers(w, w.row("%rows", n, row.size), row), *now]
        results = _without_aliases(b, generate(b, flat, given), given, now)
        for x, to in zip(results, now, strict=False):
            b.copy(x, to)
        for x, total in zip(results[len(now) :], totals, strict=True):
            with b.elements(x.shape) as places:
                for place in places:
                    total.put(b.k, place, combine(w, "reduce_sum", x, total.at(b.k, place), x.at(b.k, place)))
    return _code(w, pointers, count, None)


def tangent_block(
    program: Any, pointers: tuple[str, ...], args: Layout, row: Layout, carried: Layout, fixed: Layout
) -> CompiledFunction:
    """The function of a block of `TangentLoop`: a loop over steps."""
    w = IRBuilder()
    b, flat = ArrayBuilder(w), flatten(program)
    before, now, directions = (
        leaf_buffers(w, "%args", args),
        leaf_buffers(w, "%carried", carried),
        leaf_buffers(w, "%fixed", fixed),
    )
    count = w.load("%count", 0, "i64")
    with w.each(count) as n:
        given = [*before, *leaf_buffers(w, w.row("%rows", n, row.size), row), *now, *directions]
        results = _without_aliases(b, generate(b, flat, given), given, now)
        for x, to, out in zip(results, now, leaf_buffers(w, w.row("%out", n, carried.size), carried), strict=True):
            b.copy(x, to)
            b.copy(x, out)
    return _code(w, pointers, count, None)


def _add(w: IRBuilder, to: str, source: str, size: int) -> None:
    """Adds one row of numbers to another."""
    with w.each(str(size)) as k:
        a, b = w.load(to, k, "double"), w.load(source, k, "double")
        w.store(to, k, "double", w.value(f"fadd double {a}, {b}"))


def row_map(program: Any, shared: Layout, row: Layout, out: Layout) -> CompiledFunction:
    """The function of `RowMap`: a loop over rows."""
    w = IRBuilder()
    b = ArrayBuilder(w)
    fixed, count = leaf_buffers(w, "%shared", shared), w.load("%count", 0, "i64")
    with w.each(count) as n:
        given = leaf_buffers(w, w.row("%rows", n, row.size), row)
        results = generate(b, flatten(program), [*fixed, *given])
        for x, to in zip(results, leaf_buffers(w, w.row("%out", n, out.size), out), strict=True):
            b.copy(x, to)
    return _code(w, ("shared", "rows", "out", "count"), count, None)


def _code(w: IRBuilder, pointers: tuple[str, ...], returned: str, tell: Tell) -> CompiledFunction:
    if len(w.lines) > size_limits.MACHINE_CODE:
        raise UnsupportedNativeOperation(f"{len(w.lines)} lines")
    return CompiledFunction(w, pointers, returned, tell, long=True)
