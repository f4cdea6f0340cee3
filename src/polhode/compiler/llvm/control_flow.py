"""Loops and branches of programs on single numbers, as basic blocks, and calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from polhode.compiler.llvm.elimination import elimination
from polhode.compiler.llvm.loop_builder import LoopBuilder
from polhode.compiler.llvm.procedures import call
from polhode.compiler.llvm.types import type_of

if TYPE_CHECKING:
    from polhode.compiler.llvm.builder import Builder
    from polhode.compiler.scalars.program import Operation

Block: TypeAlias = "Callable[[Builder, Operation, list[str]], list[str]]"
"""Writes an operation on these values; returns its results."""


def loop(w: Builder, operation: Operation, start: list[str]) -> list[str]:
    """A loop that runs while a condition holds."""
    test, again = operation.params["cond"], operation.params["body"]
    builder = LoopBuilder(w, [(type_of(v), first) for v, first in zip(operation.results, start, strict=True)])
    body, after = w.label(), w.label()
    (goes_on,) = w.program(test, builder.values)
    w.branch(goes_on, body, after)
    w.open(body)
    builder.end(w.program(again, builder.values))
    w.open(after)
    return builder.values


def rows(w: Builder, operation: Operation, x: list[str]) -> list[str]:
    """A loop over rows, stored in tables of variables; the same for single numbers and for lanes."""
    p = operation.params
    n_carry, length, region = p["carried"], p["length"], p["body"]
    kinds = [type_of(v) for v in region.inputs[n_carry:]]
    out_kinds = [type_of(v) for v in region.outputs[n_carry:]]
    start, elements = x[:n_carry], x[n_carry:]
    inputs, outputs = w.new_table(len(elements)), w.new_table(length * len(out_kinds))
    for at, element in enumerate(elements):
        w.put(inputs, at, kinds[at % len(kinds)], element)
    first = [(w.of(type_of(v)), value) for v, value in zip(region.inputs, start, strict=False)]
    loop, inside, after = LoopBuilder(w, [("i64", "0"), *first]), w.label(), w.label()
    n, *carry = loop.values
    w.branch(w.value(f"icmp slt i64 {n}, {length}"), inside, after)
    w.open(inside)
    i = w.value(f"sub i64 {length - 1}, {n}") if p["reverse"] else n
    source = w.row(inputs, i, len(kinds) * w.width)
    results = w.program(region, [*carry, *(w.get(source, k, kind) for k, kind in enumerate(kinds))])
    target = w.row(outputs, i, len(out_kinds) * w.width)
    for k, kind in enumerate(out_kinds):
        w.put(target, k, kind, results[n_carry + k])
    loop.end([w.value(f"add i64 {n}, 1"), *results[:n_carry]])
    w.open(after)
    return [*carry, *(w.get(outputs, k, out_kinds[k % len(out_kinds)]) for k in range(length * len(out_kinds)))]


def branch(w: Builder, operation: Operation, x: list[str]) -> list[str]:
    """The results of one of several programs."""
    branches, (which,) = operation.params["branches"], x
    kind = type_of(operation.operands[0])
    labels, after = [w.label() for _ in branches], w.label()
    if kind == "i1":
        w.branch(which, labels[1], labels[0])
    else:
        cases = " ".join(f"{kind} {k}, label %{label}" for k, label in enumerate(labels[:-1]))
        w.lines.append(f"switch {kind} {which}, label %{labels[-1]} [ {cases} ]")
    ends = []
    for label, region in zip(labels, branches, strict=True):
        w.open(label)
        ends.append((w.program(region, []), w.block))
        w.jump(after)
    w.open(after)
    return [
        w.value(f"phi {type_of(v)} " + ", ".join(f"[ {outs[k]}, %{block} ]" for outs, block in ends))
        for k, v in enumerate(operation.results)
    ]


BLOCKS: Mapping[str, Block] = {
    "while": loop,
    "cond": branch,
    "rows": rows,
    "call": call,
    "elimination": elimination,
}
"""Operations that become basic blocks of their own."""
