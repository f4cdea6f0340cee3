"""Rules of linear solves and factorisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polhode.compiler.array_program import Equation
from polhode.compiler.jaxprs import solve_program
from polhode.compiler.numpy.rule import Rule

_FEW = 200
"""Rows up to which elimination is done in Python: SciPy takes half a second to load."""


def _linalg() -> Any:
    from scipy import linalg

    return linalg


def _linear_solve(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    program, arguments = solve_program(eqn.params, x)
    return program(arguments)


def _triangular(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    p, (a, b) = eqn.params, x
    options = {"lower": p["lower"], "trans": int(p["transpose_a"]), "unit_diagonal": p["unit_diagonal"]}
    many = zip(a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:]), strict=True)
    return [np.array([_substitute(one, rhs, options) for one, rhs in many]).reshape(b.shape)]


def _substitute(a: np.ndarray, b: np.ndarray, options: Any) -> np.ndarray:
    """NaN or infinite where LAPACK's result is; SciPy raises."""
    if not (a.size and (options["unit_diagonal"] or np.diagonal(a).all())):
        return np.full(b.shape, np.nan)
    if len(a) > _FEW:
        return _linalg().solve_triangular(a, b, check_finite=False, **options)
    a, lower = (a.T, not options["lower"]) if options["trans"] else (a, options["lower"])
    x = np.array(b)
    for k in range(len(a)) if lower else reversed(range(len(a))):
        solved_rows = slice(None, k) if lower else slice(k + 1, None)
        x[k] -= a[k, solved_rows] @ x[solved_rows]
        if not options["unit_diagonal"]:
            x[k] /= a[k, k]
    return x


def _lu(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    whole = x[0]
    n, m = whole.shape[-2:]
    factors, pivots, orders = [], [], []
    for a in whole.reshape(-1, n, m):
        both, pivot = (a, np.arange(min(n, m))) if a.size == 0 else _factors(a)
        factors.append(both)
        pivots.append(pivot)
        orders.append(_order(pivot, n))
    shapes = [out.shape for out in eqn.outputs]
    return [np.array(part).reshape(shape) for part, shape in zip((factors, pivots, orders), shapes, strict=True)]


def _order(pivot: np.ndarray, n: int) -> np.ndarray:
    """The permutation of consecutive row exchanges."""
    order = np.arange(n)
    for row, other in enumerate(pivot):
        order[[row, other]] = order[[other, row]]
    return order


def _permutation(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    n = eqn.params["permutation_size"]
    orders = [_order(pivot, n) for pivot in x[0].reshape(-1, x[0].shape[-1])]
    return [np.array(orders).reshape(eqn.outputs[0].shape)]


def _factors(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both triangles in one array, and the pivots."""
    if len(a) > _FEW:
        (factorise,) = _linalg().get_lapack_funcs(("getrf",), (a,))
        return factorise(a)[:2]
    a, pivots = np.array(a), np.zeros(min(a.shape), np.int32)
    for k in range(len(pivots)):
        pivots[k] = k + np.argmax(np.abs(a[k:, k]))
        a[[k, pivots[k]]] = a[[pivots[k], k]]
        if a[k, k] != 0:
            a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, pivots


RULES: dict[str, Rule] = {
    "custom_linear_solve": _linear_solve,
    "triangular_solve": _triangular,
    "lu": _lu,
    "lu_pivots_to_permutation": _permutation,
}
"""By the name of the primitive."""
