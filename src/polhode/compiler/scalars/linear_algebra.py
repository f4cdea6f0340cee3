"""Factorisations of small matrices, triangular systems and short sorts, element by element.

On arrays these are library calls, which take longer than a few scalar operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

_MAX_SIZE = 8
"""Largest number of rows and columns of a matrix: operations grow with its cube."""

_MAX_LENGTH = 16
"""Longest axis that is sorted."""


def expand_library_call(eqn: Any) -> core.ClosedJaxpr | None:
    """The equation in terms of primitives with rules; None if it is no such call, or too large."""
    rule = _RULES.get(eqn.primitive.name)
    if rule is None:
        return None
    avals = [v.aval for v in eqn.invars]
    function = rule(eqn.params, avals)
    if function is None:
        return None
    return jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))


def _is_small(aval: Any) -> bool:
    return aval.dtype == float and max(aval.shape[-2:]) <= _MAX_SIZE


def _rows(x: Any) -> list[list[Any]]:
    return [[x[..., i, j] for j in range(x.shape[-1])] for i in range(x.shape[-2])]


def _matrix(rows: list[list[Any]]) -> Any:
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def _lu(params: Any, avals: Any) -> Callable[..., Any] | None:
    if not _is_small(avals[0]):
        return None

    def factorise(x: Any) -> Any:
        rows, m, n = _rows(x), x.shape[-2], x.shape[-1]
        batch = x.shape[:-2]
        order = [jnp.full(batch, i, jnp.int32) for i in range(m)]
        pivots = []
        for k in range(min(m, n)):
            column = jnp.stack([jnp.abs(rows[i][k]) for i in range(k, m)], axis=-1)
            pivot = k + jnp.argmax(column, axis=-1).astype(jnp.int32)
            pivots.append(pivot)
            for i in range(k + 1, m):
                is_pivot = pivot == i
                rows[k], rows[i] = _swap_where(is_pivot, rows[k], rows[i])
                (order[k],), (order[i],) = _swap_where(is_pivot, [order[k]], [order[i]])
            for i in range(k + 1, m):
                # As LAPACK: a zero pivot means that the whole column is zero.
                factor = jnp.where(rows[k][k] == 0, rows[i][k], rows[i][k] / rows[k][k])
                columns = zip(rows[i][k + 1 :], rows[k][k + 1 :], strict=True)
                rows[i] = [*rows[i][:k], factor, *(a - factor * b for a, b in columns)]
        return _matrix(rows), jnp.stack(pivots, axis=-1), jnp.stack(order, axis=-1)

    return factorise


def _swap_where(where: Any, a: list[Any], b: list[Any]) -> tuple[list[Any], list[Any]]:
    """a and b, exchanged where the condition holds."""
    pairs = list(zip(a, b, strict=True))
    return [jnp.where(where, y, x) for x, y in pairs], [jnp.where(where, x, y) for x, y in pairs]


def _pivots_to_permutation(params: Any, avals: Any) -> Callable[..., Any] | None:
    n = params["permutation_size"]
    if n > _MAX_LENGTH:
        return None

    def permutation(pivots: Any) -> Any:
        order = [jnp.full(pivots.shape[:-1], i, pivots.dtype) for i in range(n)]
        for k in range(pivots.shape[-1]):
            for i in range(n):
                if i != k:
                    (order[k],), (order[i],) = _swap_where(pivots[..., k] == i, [order[k]], [order[i]])
        return jnp.stack(order, axis=-1)

    return permutation


def _triangular_solve(params: Any, avals: Any) -> Callable[..., Any] | None:
    if not all(map(_is_small, avals)):
        return None
    lower, unit = params["lower"], params["unit_diagonal"]

    def solve(a: Any, b: Any) -> Any:
        # Of X A = B the rows of X are the columns of the solution of Aᵀ Xᵀ = Bᵀ.
        transposed = params["transpose_a"] == params["left_side"]
        rows = _rows(jnp.swapaxes(a, -1, -2) if transposed else a)
        b = b if params["left_side"] else jnp.swapaxes(b, -1, -2)
        n = len(rows)
        forward = lower != transposed
        x: list[Any] = [None] * n
        for i in range(n) if forward else reversed(range(n)):
            value = b[..., i, :]
            for j in range(i) if forward else range(i + 1, n):
                value = value - rows[i][j][..., None] * x[j]
            x[i] = value if unit else value / rows[i][i][..., None]
        solution = jnp.stack(x, axis=-2)
        return solution if params["left_side"] else jnp.swapaxes(solution, -1, -2)

    return solve


def _cholesky(params: Any, avals: Any) -> Callable[..., Any] | None:
    if not _is_small(avals[0]):
        return None

    def factorise(x: Any) -> Any:
        a, n = _rows(x), x.shape[-1]
        zero = jnp.zeros_like(a[0][0])
        out = [[zero] * n for _ in range(n)]
        fails = jnp.zeros(zero.shape, bool)
        for j in range(n):
            square = a[j][j] - sum((out[j][k] * out[j][k] for k in range(j)), zero)
            fails = fails | ~(square > 0)
            out[j][j] = jnp.sqrt(square)
            for i in range(j + 1, n):
                out[i][j] = (a[i][j] - sum((out[i][k] * out[j][k] for k in range(j)), zero)) / out[j][j]
        return jnp.where(fails[..., None, None], jnp.nan, _matrix(out))

    return factorise


def _sort(params: Any, avals: Any) -> Callable[..., Any] | None:
    axis, n = params["dimension"], avals[0].shape[params["dimension"]]
    if n > _MAX_LENGTH or params["num_keys"] != 1:
        return None

    def sort(*arrays: Any) -> Any:
        columns = [[jax.lax.index_in_dim(x, i, axis, keepdims=False) for i in range(n)] for x in arrays]
        keys = columns[0]
        # The rank of each key: the number of smaller keys, and of equal ones before it.
        places = [
            sum(((_is_less(b, a, equal=k < i)).astype(jnp.int32) for k, b in enumerate(keys) if k != i), 0)
            for i, a in enumerate(keys)
        ]
        out = []
        for values in columns:
            column = []
            for at in range(n):
                value_at = values[-1]
                for place, value in zip(places[:-1], values[:-1], strict=True):
                    value_at = jnp.where(place == at, value, value_at)
                column.append(value_at)
            out.append(jnp.stack(column, axis=axis))
        return tuple(out)

    return sort


def _is_less(a: Any, b: Any, equal: bool) -> Any:
    """Whether a comes before b: NaN last."""
    if not jnp.issubdtype(a.dtype, jnp.inexact):
        return a <= b if equal else a < b
    less = (a < b) | ((a == a) & (b != b))
    return less | (a == b) | ((a != a) & (b != b)) if equal else less


_RULES: dict[str, Callable[[Any, Any], Callable[..., Any] | None]] = {
    "lu": _lu,
    "lu_pivots_to_permutation": _pivots_to_permutation,
    "triangular_solve": _triangular_solve,
    "cholesky": _cholesky,
    "sort": _sort,
}
