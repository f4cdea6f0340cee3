"""Derivatives of solutions of equations, by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.dtypes import float0
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from polhode.execution.derivatives.solutions import marked
from polhode.execution.rows import derived, recording

_SWEEPS = 200
_TOLERANCE = 1e-14

Tree = Any


def implicit(
    search: Callable[[Tree, Tree], Any],
    equation: Callable[[Tree], tuple[Tree, Tree]],
    precondition: Callable[[Tree, Tree], Tree],
    guess: Tree,
    memory: Tree,
) -> Any:
    r"""`search(guess, memory)`, with the derivative of a solution instead of that of the search.

    `search` returns a named tuple with the solution `x` of F(x) = 0 and `place`, a function of it; `equation(x)`
    returns (F(x), place). All other fields have no derivative. The functions may close over anything that is
    differentiated. Then $F_x\,\dot x = -\dot F$, where $F_x$ is the exact derivative, applied and never formed:
    `precondition(x, b)` is an approximation of $F_x^{-1}b$, linear in b, and the iteration
    $\dot x \leftarrow \dot x - J^{-1}(F_x\dot x + \dot F)$ contracts as fast as Newton's method does. So derivatives
    cost a few solutions with J, for any sparsity, in forward and (by the transposed iteration) in reverse mode. They
    are NaN where the iteration does not converge.
    """
    if recording():
        solved = search(guess, memory)
        if not derived():
            return solved
        x, place = marked(equation, precondition, solved.x, solved.place)
        return jax.lax.stop_gradient(solved)._replace(x=x, place=place)
    b = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(lambda x: equation(x)[0], guess))
    search, of_search = jax.closure_convert(search, guess, memory)
    equation, of_equation = jax.closure_convert(equation, guess)
    precondition, of_precondition = jax.closure_convert(precondition, guess, b)
    return _implicit(search, equation, precondition, guess, memory, (of_search, of_equation, of_precondition))


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _implicit(search: Any, equation: Any, precondition: Any, guess: Tree, memory: Tree, closed: Tree) -> Any:
    return search(guess, memory, *closed[0])


@_implicit.defjvp
def _implicit_jvp(search: Any, equation: Any, precondition: Any, primals: Tree, tangents: Tree) -> tuple[Any, Any]:
    (_, of_equation, of_precondition), (_, dot, _) = primals[2], tangents[2]
    solved = _implicit(search, equation, precondition, *primals)
    x = solved.x
    forcing, place_dot = jax.jvp(lambda *c: equation(x, *c), tuple(of_equation), tuple(dot))[1]
    frozen_x, frozen = jax.lax.stop_gradient((x, of_precondition))

    def derivative(x_dot: Tree) -> tuple[Tree, Tree]:
        return jax.jvp(lambda x: equation(x, *of_equation), (x,), (x_dot,))[1]

    minus = jax.tree.map(jnp.negative, forcing)
    x_dot = _linear_solve(lambda d: derivative(d)[0], lambda b: precondition(frozen_x, b, *frozen), minus, x)
    moved = jax.tree.map(jnp.add, place_dot, derivative(x_dot)[1])
    return solved, jax.tree.map(_zero, solved)._replace(x=x_dot, place=moved)


def _zero(value: Array) -> Any:
    return jnp.zeros_like(value) if jnp.issubdtype(value.dtype, jnp.inexact) else np.zeros(value.shape, float0)


def _linear_solve(matvec: Callable, precondition: Callable, b: Tree, like: Tree) -> Tree:
    """`jax.lax.custom_linear_solve` from trees like `b` to trees like `like`, both flattened."""
    flat_b, to_b = ravel_pytree(b)
    _, to_x = ravel_pytree(like)

    def flat(function: Callable, unflatten: Callable) -> Callable[[Array], Array]:
        return lambda y: ravel_pytree(function(unflatten(y)))[0]

    forward = flat(precondition, to_b)

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

    def more(loop: tuple[Array, Array, Array, Array]) -> Array:
        y, _, change, count = loop
        return (change > _TOLERANCE * size(y)) & (count < _SWEEPS)

    def body(loop: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        y, defect, _, count = loop
        dy = precondition(defect)
        return y + dy, b - matvec(y + dy), size(dy), count + 1

    y, _, change, _ = jax.lax.while_loop(more, body, (jnp.zeros_like(b), b, jnp.asarray(jnp.inf), jnp.asarray(0)))
    return jnp.where(change <= 1e-8 * size(y), y, jnp.nan)
