"""Scalar products of rows in C, as a loop over local arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polhode.compiler.c.code_tree import Line

if TYPE_CHECKING:
    from polhode.compiler.c.scalar_printer import ScalarPrinter
    from polhode.compiler.scalars.program import Operation


def row_products(w: ScalarPrinter, operation: Operation) -> None:
    """The products."""
    kernel = operation.params["kernel"]
    first, length = kernel.rows * kernel.length, kernel.length
    parts = operation.operands[:first], operation.operands[first:]
    i, j = (w.constants((name, kernel), np.array(rows)) for name, rows in (("i", kernel.i), ("j", kernel.j)))
    with w.together():
        a, b = (w.array("double", len(part), [w.operand(x) for x in part]) for part in parts)
        products, n = w.array("double", kernel.count), w.new_name("i")
        w.open(f"for (int64_t {n} = 0; {n} < {kernel.count}; ++{n})", n)
        terms = [f"{a}[{length} * {i}[{n}] + {k}] * {b}[{length} * {j}[{n}] + {k}]" for k in range(length)]
        w.body.append(Line(" + ".join(terms), products, place=f"[{n}]"))
        w.close()
        for k, v in enumerate(operation.results):
            w.define(v, f"{products}[{k}]")
