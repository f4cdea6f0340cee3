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

from polhode.compiler.primitives.implicit_solution import mark_solution, solution_jvp

Tree = Any


def with_implicit_derivative(
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
    search_trace = jax.make_jaxpr(search, return_shape=True)(guess, memory)
    equation_trace = jax.make_jaxpr(equation, return_shape=True)(guess)
    parts, _ = equation_trace[1]
    precondition_trace = jax.make_jaxpr(precondition, return_shape=True)(guess, parts)
    programs = tuple(_Program(jaxpr, shape) for jaxpr, shape in (search_trace, equation_trace, precondition_trace))

    @jax.custom_jvp
    def run(guess: Tree, memory: Tree, tracers: Tree) -> Any:
        # The solution has the derivative of its equation, in every trace too: the search has none.
        solution = programs[0](*jax.lax.stop_gradient((tracers[0], guess, memory)))
        closed_over = programs[1].consts(tracers[1]), programs[2].consts(tracers[2])
        x, place = mark_solution(
            programs[1].closed_jaxpr, programs[2].closed_jaxpr, closed_over, solution.x, solution.place
        )
        return jax.lax.stop_gradient(solution)._replace(x=x, place=place)

    @run.defjvp
    def _(primals: Tree, tangents: Tree) -> tuple[Any, Any]:
        return _derivative(run(*primals), programs[1], programs[2], primals[2], tangents[2])

    return run(guess, memory, tuple(p.tracers for p in programs))


def freeze(values: Tree) -> Tree:
    """Values without derivatives, for a search; what has none stays as it is."""
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if isinstance(x, jax.Array) else x, values)


class _Program:
    """The trace of a function, with its traced constants kept apart.

    - `closed_jaxpr`: the trace. - `tracers`: these constants.
    """

    def __init__(self, closed_jaxpr: core.ClosedJaxpr, shape: Any) -> None:
        self.closed_jaxpr, self._structure = closed_jaxpr, jax.tree.structure(shape)
        self.tracers = [c for c in closed_jaxpr.consts if isinstance(c, Tracer)]

    def consts(self, tracers: Sequence[Any]) -> list[Any]:
        """All constants, with these values for the traced ones."""
        values = iter(tracers)
        return [next(values) if isinstance(c, Tracer) else c for c in self.closed_jaxpr.consts]

    def __call__(self, tracers: Sequence[Any], *args: Tree) -> Any:
        run = core.jaxpr_as_fun(core.ClosedJaxpr(self.closed_jaxpr.jaxpr, self.consts(tracers)))
        return jax.tree.unflatten(self._structure, run(*jax.tree.leaves(args)))


def _derivative(
    solution: Any, equation: _Program, precondition: _Program, tracers: Tree, dots: Tree
) -> tuple[Any, Any]:
    """The solution and its tangent, for tangents of the constants."""
    (_, of_equation, of_precondition), (_, dot, _) = tracers, dots
    frozen_x, frozen = jax.lax.stop_gradient((solution.x, of_precondition))
    x_dot, place_dot = solution_jvp(equation, lambda b: precondition(frozen, frozen_x, b), of_equation, dot, solution.x)
    return solution, jax.tree.map(_zero, solution)._replace(x=x_dot, place=place_dot)


def _zero(value: Array) -> Any:
    return jnp.zeros_like(value) if jnp.issubdtype(value.dtype, jnp.inexact) else np.zeros(value.shape, float0)
