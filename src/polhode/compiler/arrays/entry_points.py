"""Functions of machine code on arrays: blocks of steps, and maps over rows."""

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
    arguments, now = leaf_buffers(w, "%args", args), leaf_buffers(w, "%progress", progress)
    results: Arrays = []

    def inputs(control: ControlValues) -> list[Any]:
        return [*arguments, *now, *map(Register, control, control.types)]

    def condition(control: ControlValues) -> str:
        return b.number(generate(b, flatten(check), inputs(control))[0])

    def step(control: ControlValues) -> str:
        outputs = generate(b, flatten(steps), inputs(control))
        frame_flag = b.number(outputs.pop(len(now)))
        results[:] = _without_aliases(b, outputs, inputs(control), now)
        for x, to in zip(results, now, strict=False):
            b.copy(x, to)
        return frame_flag

    def save_frame(frame: str) -> None:
        for x, to in zip(results[len(now) :], leaf_buffers(w, frame, row), strict=True):
            b.copy(x, to)

    return _code(w, POINTERS, block(w, condition, step, save_frame, row.size), tell)


def _without_aliases(b: ArrayBuilder, results: Arrays, inputs: Sequence[Any], now: Sequence[Buffer]) -> Arrays:
    """Results copied where they share memory with inputs that are overwritten."""
    pointers = {x.pointer for x in inputs if isinstance(x, Buffer)}

    def without_alias(x: Any, own: Any) -> Any:
        if not x.shape:
            return Register(b.number(x), x.dtype)
        if isinstance(x, Buffer) and (x is own or x.pointer not in pointers):
            return x
        return b.new_copy(x)

    owners = [*now, *[None] * len(results)]
    return [without_alias(x, owners[n]) for n, x in enumerate(results)]


def adjoint_block(
    program: Any, pointers: tuple[str, ...], args: Layout, row: Layout, carry: Layout, sums: Layout
) -> CompiledFunction:
    """The function of a block of `AdjointLoop`: a loop over steps, the last one first."""
    w = IRBuilder()
    b, flat = ArrayBuilder(w), flatten(program)
    arguments, now, totals = (
        leaf_buffers(w, "%args", args),
        leaf_buffers(w, "%carried", carry),
        leaf_buffers(w, "%summed", sums),
    )
    count = w.load("%count", 0, "i64")
    with w.for_each(count) as step:
        n = w.value(f"sub i64 {w.value(f'sub i64 {count}, {step}')}, 1")
        _add(w, "%carried", w.row("%added", n, carry.size), carry.size)
        inputs = [*arguments, *leaf_buffers(w, w.row("%rows", n, row.size), row), *now]
        results = _without_aliases(b, generate(b, flat, inputs), inputs, now)
        for x, to in zip(results, now, strict=False):
            b.copy(x, to)
        for x, total in zip(results[len(now) :], totals, strict=True):
            with b.elements(x.shape) as places:
                for place in places:
                    total.put(b.k, place, combine(w, "reduce_sum", x, total.at(b.k, place), x.at(b.k, place)))
    return _code(w, pointers, count, None)


def tangent_block(
    program: Any, pointers: tuple[str, ...], args: Layout, row: Layout, carry: Layout, directions_layout: Layout
) -> CompiledFunction:
    """The function of a block of `TangentLoop`: a loop over steps."""
    w = IRBuilder()
    b, flat = ArrayBuilder(w), flatten(program)
    arguments, now, directions = (
        leaf_buffers(w, "%args", args),
        leaf_buffers(w, "%carried", carry),
        leaf_buffers(w, "%fixed", directions_layout),
    )
    count = w.load("%count", 0, "i64")
    with w.for_each(count) as n:
        inputs = [*arguments, *leaf_buffers(w, w.row("%rows", n, row.size), row), *now, *directions]
        results = _without_aliases(b, generate(b, flat, inputs), inputs, now)
        for x, to, out in zip(results, now, leaf_buffers(w, w.row("%out", n, carry.size), carry), strict=True):
            b.copy(x, to)
            b.copy(x, out)
    return _code(w, pointers, count, None)


def _add(w: IRBuilder, to: str, source: str, size: int) -> None:
    """Adds a row of numbers to another."""
    with w.for_each(str(size)) as k:
        a, b = w.load(to, k, "double"), w.load(source, k, "double")
        w.store(to, k, "double", w.value(f"fadd double {a}, {b}"))


def row_map(program: Any, shared: Layout, row: Layout, out: Layout) -> CompiledFunction:
    """The function of `RowMap`: a loop over rows."""
    w = IRBuilder()
    b = ArrayBuilder(w)
    shared_arrays, count = leaf_buffers(w, "%shared", shared), w.load("%count", 0, "i64")
    with w.for_each(count) as n:
        row_inputs = leaf_buffers(w, w.row("%rows", n, row.size), row)
        results = generate(b, flatten(program), [*shared_arrays, *row_inputs])
        for x, to in zip(results, leaf_buffers(w, w.row("%out", n, out.size), out), strict=True):
            b.copy(x, to)
    return _code(w, ("shared", "rows", "out", "count"), count, None)


def _code(w: IRBuilder, pointers: tuple[str, ...], result: str, tell: Tell) -> CompiledFunction:
    if len(w.lines) > size_limits.MACHINE_CODE:
        raise UnsupportedNativeOperation(f"{len(w.lines)} lines")
    return CompiledFunction(w, pointers, result, tell, long=True)
