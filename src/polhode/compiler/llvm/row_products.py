"""Scalar products of rows in memory: a loop over pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polhode.compiler.llvm.loop_builder import LoopBuilder

if TYPE_CHECKING:
    from polhode.compiler.llvm.builder import Builder
    from polhode.compiler.scalars.program import Operation


def row_products(w: Builder, operation: Operation, x: list[str]) -> list[str]:
    """The products, in tables of variables; the same for single numbers and for lanes."""
    kernel = operation.params["kernel"]
    first = kernel.rows * kernel.length
    tables = [w.new_table(first), w.new_table(len(x) - first)]
    numbers = [w.table(np.array(rows)) for rows in (kernel.i, kernel.j)]
    products = w.new_table(kernel.count)
    for table, values in zip(tables, (x[:first], x[first:]), strict=True):
        for at, value in enumerate(values):
            w.put(table, at, "double", value)
    loop, inside, after = LoopBuilder(w, [("i64", "0")]), w.label(), w.label()
    (n,) = loop.values
    w.branch(w.value(f"icmp slt i64 {n}, {kernel.count}"), inside, after)
    w.open(inside)
    a, b = (
        w.row(table, _number(w, rows, n), kernel.length * w.width) for table, rows in zip(tables, numbers, strict=True)
    )
    terms = [w.do("fmul", "double", w.get(a, k, "double"), w.get(b, k, "double")) for k in range(kernel.length)]
    total = terms[0]
    for term in terms[1:]:
        total = w.do("fadd", "double", total, term)
    w.put(w.row(products, n, w.width), 0, "double", total)
    loop.end([w.value(f"add i64 {n}, 1")])
    w.open(after)
    return [w.get(products, at, "double") for at in range(kernel.count)]


def _number(w: Builder, table: int, at: str) -> str:
    place = w.value(f"getelementptr i64, ptr %tables, i64 {w.value(f'add i64 {at}, {table}')}")
    return w.value(f"load i64, ptr {place}, align 8")
