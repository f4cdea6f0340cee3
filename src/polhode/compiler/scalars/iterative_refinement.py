"""Iterative refinement of linear equations with an approximate inverse, in programs under construction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polhode.compiler.autodiff.partials import Terms
from polhode.compiler.autodiff.primal_replay import Elements, PrimalReplay, zeros_for_none
from polhode.compiler.autodiff.tolerances import ACCEPTANCE, CONTRACTION, MAX_CORRECTIONS, NOISE, STAGNATION, TOLERANCE
from polhode.compiler.scalars.backend import AbstractScalarBackend, Values

Map = Callable[[PrimalReplay, Elements], Elements]
"""A linear map of elements, evaluated in the replay of a loop."""


def solve_by_refinement(primal: PrimalReplay, matvec: Map, inverse: Map, b: Elements) -> Elements:
    """The solution y of `matvec(y)` = b by defect correction; NaN where it does not converge."""
    n = len(b)
    constant = primal.floats(b)

    def cond(backend: AbstractScalarBackend, carry: Values) -> object:
        inner = primal.for_body(backend)
        elements = inner.adopt(carry)
        f = Terms(inner.graph)
        size, count, before = elements[2 * n : 2 * n + 3]
        of_y = _size(f, elements[:n])
        large = f.test("gt", size, f("mul", TOLERANCE, of_y))
        useful = f.test(
            "or", f.test("gt", size, f("mul", NOISE, of_y)), f.test("lt", size, f("mul", STAGNATION, before))
        )
        large = f.test("and", large, useful)
        contracting = f.test("and", f.test("gt", size, 0.0), f.test("lt", size, f("mul", CONTRACTION, before)))
        few = f.test("lt", count, float(MAX_CORRECTIONS))
        return inner.values([f.test("and", f.test("or", large, contracting), few)])[0]

    def body(backend: AbstractScalarBackend, carry: Values) -> Values:
        inner = primal.for_body(backend)
        elements = inner.adopt(carry)
        f = Terms(inner.graph)
        change = zeros_for_none(inverse(inner, elements[n : 2 * n]))
        y = [f("add", a, d) for a, d in zip(elements[:n], change, strict=True)]
        image = zeros_for_none(matvec(inner, y))
        defect = [f("sub", c, i) for c, i in zip(inner.adopt(constant), image, strict=True)]
        return inner.floats([*y, *defect, _size(f, change), f("add", elements[2 * n + 1], 1.0), elements[2 * n]])

    zeros = [np.float64(0.0)] * n
    end = primal.adopt(
        primal.backend.loop(cond, body, [*zeros, *constant, np.float64(np.inf), np.float64(0.0), np.float64(np.inf)])
    )
    f = Terms(primal.graph)
    good = f.test("le", end[2 * n], f("mul", ACCEPTANCE, _size(f, end[:n])))
    return [f.where(good, y, np.nan) for y in end[:n]]


def _size(f: Terms, x: Elements) -> object:
    total = np.float64(0.0)
    for each in x:
        total = f("add", total, f("mul", each, each))
    return f("sqrt", total)
