"""Functions of machine code on arrays: blocks of steps, and maps over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polhode.compiler.arrays.array_builder import ArrayBuilder
from polhode.compiler.arrays.array_ir import Function, Pointer, Scalar, pointers_of
from polhode.compiler.arrays.block_builder import FLOAT, INTEGER, BlockBuilder
from polhode.compiler.arrays.codegen import Arrays, generate
from polhode.compiler.arrays.elementwise import combine
from polhode.compiler.arrays.flat_program import flatten
from polhode.compiler.arrays.llvm_printer import Tell, compile_function
from polhode.compiler.arrays.operands import Buffer, Register, leaf_buffers
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.loops.step_loop_ir import POINTERS, ControlValues, block


def step_block(check: Any, steps: Any, layouts: tuple[Layout, Layout, Layout], tell: Tell) -> CompiledFunction:
    """The function of a block: a loop over frames. `check` and `steps` are traces of `more` and `advance` of
    `StepLoop`; `layouts` are of arguments, progress and the contents of a frame.
    """
    b, (args, progress, row) = ArrayBuilder(), layouts
    k, pointers = b.k, pointers_of(POINTERS)
    arguments, now = leaf_buffers(k, pointers["args"], args), leaf_buffers(k, pointers["progress"], progress)
    results: Arrays = []

    def inputs(control: ControlValues) -> list[Any]:
        return [*arguments, *now, *map(Register, control)]

    def condition(control: ControlValues) -> Scalar:
        return b.number(generate(b, flatten(check), inputs(control))[0])

    def step(control: ControlValues) -> Scalar:
        outputs = generate(b, flatten(steps), inputs(control))
        is_saved = b.number(outputs.pop(len(now)))
        results[:] = _without_aliases(b, outputs, inputs(control), now)
        for x, to in zip(results, now, strict=False):
            b.copy(x, to)
        return is_saved

    def save_frame(frame: Pointer) -> None:
        for x, to in zip(results[len(now) :], leaf_buffers(k, frame, row), strict=True):
            b.copy(x, to)

    count = block(k, pointers, condition, step, save_frame, row.size)
    return compile_function(Function(pointers, k.block, count), tell, long=True)


def _without_aliases(b: ArrayBuilder, results: Arrays, inputs: Sequence[Any], now: Sequence[Buffer]) -> Arrays:
    """Results copied where they share memory with inputs that are overwritten."""
    pointers = {x.pointer for x in inputs if isinstance(x, Buffer)}

    def without_alias(x: Any, own: Any) -> Any:
        if not x.shape:
            return Register(b.number(x))
        if isinstance(x, Buffer) and (x is own or x.pointer not in pointers):
            return x
        return b.new_copy(x)

    owners = [*now, *[None] * len(results)]
    return [without_alias(x, owners[n]) for n, x in enumerate(results)]


def adjoint_block(
    program: Any, names: tuple[str, ...], args: Layout, row: Layout, carry: Layout, sums: Layout
) -> CompiledFunction:
    """The function of a block of `AdjointLoop`: a loop over steps, the last one first."""
    b, flat, pointers = ArrayBuilder(), flatten(program), pointers_of(names)
    k = b.k
    arguments, now, totals = (
        leaf_buffers(k, pointers["args"], args),
        leaf_buffers(k, pointers["carried"], carry),
        leaf_buffers(k, pointers["summed"], sums),
    )
    count = k.load_slot(pointers["count"], 0, INTEGER)
    with k.loop(count) as step:
        n = k.apply("sub", INTEGER, k.apply("sub", INTEGER, count, step), 1)
        _add(k, pointers["carried"], k.row(pointers["added"], n, carry.size), carry.size)
        inputs = [*arguments, *leaf_buffers(k, k.row(pointers["rows"], n, row.size), row), *now]
        results = _without_aliases(b, generate(b, flat, inputs), inputs, now)
        for x, to in zip(results, now, strict=False):
            b.copy(x, to)
        for x, total in zip(results[len(now) :], totals, strict=True):
            with b.elements(x.shape) as places:
                for place in places:
                    total.put(k, place, combine(k, "reduce_sum", total.at(k, place), x.at(k, place)))
    return compile_function(Function(pointers, k.block, count), long=True)


def tangent_block(
    program: Any, names: tuple[str, ...], args: Layout, row: Layout, carry: Layout, directions_layout: Layout
) -> CompiledFunction:
    """The function of a block of `TangentLoop`: a loop over steps."""
    b, flat, pointers = ArrayBuilder(), flatten(program), pointers_of(names)
    k = b.k
    arguments, now, directions = (
        leaf_buffers(k, pointers["args"], args),
        leaf_buffers(k, pointers["carried"], carry),
        leaf_buffers(k, pointers["fixed"], directions_layout),
    )
    count = k.load_slot(pointers["count"], 0, INTEGER)
    with k.loop(count) as n:
        inputs = [*arguments, *leaf_buffers(k, k.row(pointers["rows"], n, row.size), row), *now, *directions]
        results = _without_aliases(b, generate(b, flat, inputs), inputs, now)
        for x, to, out in zip(results, now, leaf_buffers(k, k.row(pointers["out"], n, carry.size), carry), strict=True):
            b.copy(x, to)
            b.copy(x, out)
    return compile_function(Function(pointers, k.block, count), long=True)


def _add(k: BlockBuilder, to: Pointer, source: Pointer, size: int) -> None:
    """Adds a row of numbers to another."""
    with k.loop(size) as n:
        a, b = k.load_slot(to, n, FLOAT), k.load_slot(source, n, FLOAT)
        k.store(to, (n,), (1,), k.apply("add", FLOAT, a, b))


def row_map(program: Any, shared: Layout, row: Layout, out: Layout) -> CompiledFunction:
    """The function of `RowMap`: a loop over rows."""
    b, pointers = ArrayBuilder(), pointers_of(("shared", "rows", "out", "count"))
    k = b.k
    shared_arrays, count = leaf_buffers(k, pointers["shared"], shared), k.load_slot(pointers["count"], 0, INTEGER)
    with k.loop(count) as n:
        row_inputs = leaf_buffers(k, k.row(pointers["rows"], n, row.size), row)
        results = generate(b, flatten(program), [*shared_arrays, *row_inputs])
        for x, to in zip(results, leaf_buffers(k, k.row(pointers["out"], n, out.size), out), strict=True):
            b.copy(x, to)
    return compile_function(Function(pointers, k.block, count), long=True)
