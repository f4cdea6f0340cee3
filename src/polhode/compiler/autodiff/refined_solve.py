"""Iterative refinement of linear equations with an approximate inverse, in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from polhode.compiler.autodiff.tolerances import ACCEPTANCE, CONTRACTION, MAX_CORRECTIONS, NOISE, STAGNATION, TOLERANCE

Tree = Any


def solution(matvec: Callable[[Tree], Tree], precondition: Callable[[Tree], Tree], b: Tree, like: Tree) -> Tree:
    """The solution y of `matvec(y)` = b, a tree like `like`; `precondition` is an approximate inverse.

    Derivatives solve the same equations, in reverse mode the transposed ones. NaN where refinement does not converge.
    """
    flat_b, to_b = ravel_pytree(b)
    _, to_x = ravel_pytree(like)

    def flat(function: Callable, unflatten: Callable) -> Callable[[Array], Array]:
        return lambda y: ravel_pytree(function(unflatten(y)))[0]

    _, forward = jax.linearize(flat(precondition, to_b), jnp.zeros_like(flat_b))

    def solve(mv: Callable, c: Array) -> Array:
        return _refine(mv, forward, c)

    def transpose_solve(mv: Callable, c: Array) -> Array:
        backward = jax.linear_transpose(forward, c)
        return _refine(mv, lambda r: backward(r)[0], c)

    return to_x(jax.lax.custom_linear_solve(flat(matvec, to_x), flat_b, solve, transpose_solve))


def _refine(matvec: Callable, precondition: Callable, b: Array) -> Array:
    """The solution y of `matvec(y)` = b by defect correction with an approximate inverse."""

    def size(y: Array) -> Array:
        return jnp.sqrt(jnp.sum(y * y))

    def more(loop: tuple[Array, ...]) -> Array:
        y, _, change, count, before = loop
        of_y = size(y)
        large = (change > TOLERANCE * of_y) & ((change > NOISE * of_y) | (change < STAGNATION * before))
        contracting = (change > 0) & (change < CONTRACTION * before)
        return (large | contracting) & (count < MAX_CORRECTIONS)

    def body(loop: tuple[Array, ...]) -> tuple[Array, ...]:
        y, defect, change, count, _ = loop
        dy = precondition(defect)
        return y + dy, b - matvec(y + dy), size(dy), count + 1, change

    far = jnp.asarray(jnp.inf)
    y, _, change, *_ = jax.lax.while_loop(more, body, (jnp.zeros_like(b), b, far, jnp.asarray(0), far))
    return jnp.where(change <= ACCEPTANCE * size(y), y, jnp.nan)
