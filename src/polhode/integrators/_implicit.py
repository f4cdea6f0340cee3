"""Derivatives of solutions of equations, by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.dtypes import float0
from jax.extend import core
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from polhode.execution.derivatives.solutions import marked

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
    searching = jax.make_jaxpr(search, return_shape=True)(guess, memory)
    equating = jax.make_jaxpr(equation, return_shape=True)(guess)
    parts, _ = equating[1]
    correcting = jax.make_jaxpr(precondition, return_shape=True)(guess, parts)
    programs = tuple(_Program(closed, shape) for closed, shape in (searching, equating, correcting))

    @jax.custom_jvp
    def run(guess: Tree, memory: Tree, traced: Tree) -> Any:
        solved = programs[0](traced[0], guess, memory)
        closed_over = programs[1].consts(traced[1]), programs[2].consts(traced[2])
        x, place = marked(programs[1].closed, programs[2].closed, closed_over, solved.x, solved.place)
        return jax.lax.stop_gradient(solved)._replace(x=x, place=place)

    @run.defjvp
    def _(primals: Tree, tangents: Tree) -> tuple[Any, Any]:
        return _derivative(run(*primals), programs[1], programs[2], primals[2], tangents[2])

    return run(guess, memory, tuple(p.traced for p in programs))


class _Program:
    """A function as its trace, with those values apart that it closes over and that JAX traces.

    - `closed`: the trace. - `traced`: these values.
    """

    def __init__(self, closed: core.ClosedJaxpr, shape: Any) -> None:
        self.closed, self._structure = closed, jax.tree.structure(shape)
        self.traced = [c for c in closed.consts if isinstance(c, Tracer)]

    def consts(self, traced: Sequence[Any]) -> list[Any]:
        """All that it closes over, with these values for the traced ones."""
        left = iter(traced)
        return [next(left) if isinstance(c, Tracer) else c for c in self.closed.consts]

    def __call__(self, traced: Sequence[Any], *args: Tree) -> Any:
        run = core.jaxpr_as_fun(core.ClosedJaxpr(self.closed.jaxpr, self.consts(traced)))
        return jax.tree.unflatten(self._structure, run(*jax.tree.leaves(args)))


def _derivative(solved: Any, equation: _Program, precondition: _Program, traced: Tree, dots: Tree) -> tuple[Any, Any]:
    """The solution and its derivative along those of what the functions close over."""
    (_, of_equation, of_precondition), (_, dot, _) = traced, dots
    x = solved.x
    forcing, place_dot = jax.jvp(lambda c: equation(c, x), (of_equation,), (dot,))[1]
    frozen_x, frozen = jax.lax.stop_gradient((x, of_precondition))

    def derivative(x_dot: Tree) -> tuple[Tree, Tree]:
        return jax.jvp(lambda x: equation(of_equation, x), (x,), (x_dot,))[1]

    minus = jax.tree.map(jnp.negative, forcing)
    x_dot = _linear_solve(lambda d: derivative(d)[0], lambda b: precondition(frozen, frozen_x, b), minus, x)
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

    def more(loop: tuple[Array, ...]) -> Array:
        y, _, change, count, before = loop
        # Components may differ by orders of magnitude: the small ones are done where nothing falls any more.
        falling = (change > 0) & (change < 0.5 * before)
        return ((change > _TOLERANCE * size(y)) | falling) & (count < _SWEEPS)

    def body(loop: tuple[Array, ...]) -> tuple[Array, ...]:
        y, defect, change, count, _ = loop
        dy = precondition(defect)
        return y + dy, b - matvec(y + dy), size(dy), count + 1, change

    far = jnp.asarray(jnp.inf)
    y, _, change, *_ = jax.lax.while_loop(more, body, (jnp.zeros_like(b), b, far, jnp.asarray(0), far))
    return jnp.where(change <= 1e-8 * size(y), y, jnp.nan)
