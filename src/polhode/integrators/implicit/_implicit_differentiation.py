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
from jaxtyping import Array

from polhode.compiler.primitives.implicit_solution import solution_jvp, mark_solution

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
        # The solution has the derivative of its equation, in every record too: the search has none.
        solved = programs[0](*jax.lax.stop_gradient((traced[0], guess, memory)))
        closed_over = programs[1].consts(traced[1]), programs[2].consts(traced[2])
        x, place = mark_solution(programs[1].closed, programs[2].closed, closed_over, solved.x, solved.place)
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
    frozen_x, frozen = jax.lax.stop_gradient((solved.x, of_precondition))
    x_dot, place_dot = solution_jvp(equation, lambda b: precondition(frozen, frozen_x, b), of_equation, dot, solved.x)
    return solved, jax.tree.map(_zero, solved)._replace(x=x_dot, place=place_dot)


def _zero(value: Array) -> Any:
    return jnp.zeros_like(value) if jnp.issubdtype(value.dtype, jnp.inexact) else np.zeros(value.shape, float0)
