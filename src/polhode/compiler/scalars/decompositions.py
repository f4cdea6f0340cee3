"""Primitives in terms of simpler ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from polhode.compiler.jaxprs import linear_map, solve_program


def decompose(eqn: Any) -> core.ClosedJaxpr:
    """The equation in terms of primitives that have rules."""
    function = DECOMPOSITIONS[eqn.primitive.name]
    examples = (jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars)
    return jax.make_jaxpr(lambda *x: function(*x, **eqn.params))(*examples)


def differentiable_solve(eqn: Any) -> core.ClosedJaxpr:
    """A `custom_linear_solve` as operations with the right derivative, for use without its own rule.

    Its solver may hide the matrix from derivatives, as JAX's do. So the solution x is held fixed and corrected by the
    solution for b - A x, which is round-off, but whose derivative is A⁻¹ (db - dA x).
    """

    def differentiable(*operands: jax.Array) -> Any:
        matrix, of_matrix = linear_map(eqn.params, operands)
        solver, arguments = solve_program(eqn.params, operands)
        n, solve = len(matrix.out_avals), core.jaxpr_as_fun(solver)
        # Factors have no part in it: they act on what is round-off.
        of_solve, b = list(map(jax.lax.stop_gradient, arguments[:-n])), arguments[-n:]
        solution = [jax.lax.stop_gradient(x) for x in solve(*of_solve, *b)]
        image = core.jaxpr_as_fun(matrix)(*of_matrix, *solution[:n])
        correction = solve(*of_solve, *map(jax.lax.sub, b, image))
        return [*map(jax.lax.add, solution[:n], correction[:n]), *solution[n:]]

    return jax.make_jaxpr(differentiable)(*(jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars))


def is_batch_of_loops(eqn: Any) -> bool:
    """Whether it is a `while_loop` under `vmap` whose members end at different times: its condition is an array."""
    return eqn.primitive.name == "while" and bool(eqn.params["cond_jaxpr"].out_avals[0].shape)


def merge_loops(eqn: Any) -> core.ClosedJaxpr:
    """A batch of loops as one loop that runs while any member does; finished members stay unchanged."""
    p = eqn.params
    n, m = p["cond_nconsts"], p["body_nconsts"]
    test, again = core.jaxpr_as_fun(p["cond_jaxpr"]), core.jaxpr_as_fun(p["body_jaxpr"])

    def merged_loop(*operands: jax.Array) -> Any:
        of_test, of_body, start = operands[:n], operands[n : n + m], operands[n + m :]

        def active(state: Any) -> jax.Array:
            return test(*of_test, *state)[0]

        def body(state: Any) -> Any:
            on, after = active(state), again(*of_body, *state)
            dims = range(on.ndim)
            return [
                jax.lax.select(jax.lax.broadcast_in_dim(on, y.shape, dims), y, x)
                for x, y in zip(state, after, strict=True)
            ]

        return jax.lax.while_loop(lambda state: jnp.any(active(state)), body, list(start))

    return jax.make_jaxpr(merged_loop)(*(jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars))


def _cumulative(combine: Callable) -> Callable:
    def accumulate(x: jax.Array, axis: int, reverse: bool) -> jax.Array:
        slices = [jax.lax.index_in_dim(x, k, axis) for k in range(x.shape[axis])]
        sums = list(itertools.accumulate(reversed(slices) if reverse else slices, combine))
        return jax.lax.concatenate(sums[::-1] if reverse else sums, axis) if sums else x

    return accumulate


def _position_of(first: Callable) -> Callable:
    """The position of the largest or smallest element; the first NaN counts as such."""

    def position(x: jax.Array, axes: tuple[int], index_dtype: Any) -> jax.Array:
        (axis,) = axes
        best, *others = (jax.lax.index_in_dim(x, k, axis, keepdims=False) for k in range(x.shape[axis]))
        at = jnp.zeros(best.shape, index_dtype)
        for k, other in enumerate(others, 1):
            better = first(other, best) | ((other != other) & (best == best))
            best, at = jnp.where(better, other, best), jnp.where(better, index_dtype.type(k), at)
        return at

    return position


def _in_total_order(equal: bool) -> Callable:
    """The total order of sorting: NaN is largest, and -0 comes before 0."""

    def compare(x: jax.Array, y: jax.Array) -> jax.Array:
        if not jnp.issubdtype(x.dtype, jnp.inexact):
            return x <= y if equal else x < y
        zeros = (x == 0) & (y == 0)
        less = (x < y) | ((x == x) & (y != y)) | (zeros & (1 / x < 1 / y))
        return less | (zeros & (1 / x == 1 / y)) | ((x == y) & ~zeros) | ((x != x) & (y != y)) if equal else less

    return compare


DECOMPOSITIONS: dict[str, Callable] = {
    "cumsum": _cumulative(jax.lax.add),
    "cumprod": _cumulative(jax.lax.mul),
    "cummax": _cumulative(jax.lax.max),
    "cummin": _cumulative(jax.lax.min),
    "lt_to": _in_total_order(equal=False),
    "le_to": _in_total_order(equal=True),
    "argmax": _position_of(jax.lax.gt),
    "argmin": _position_of(jax.lax.lt),
}
