"""Positions moved onto the joints, along the directions in which joints can push."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from polhode.integrators.implicit._implicit_differentiation import with_implicit_derivative
from polhode.spaces.base import Point
from polhode.systems.mechanical import AbstractMechanical, Multipliers

_ON_JOINTS = 1e-14
"""Largest residual of joints, relative to the larger of 1 and the largest coordinate."""

_PROJECTIONS = 12


class _Position(NamedTuple):
    """A position on the joints, `place`, with the sum x of what they were open.

    - `gap`: how far they are open still.
    """

    x: Multipliers
    place: Point
    gap: Multipliers
    number: Int[Array, ""]


def move_onto_joints(system: AbstractMechanical, t: Array, q: Point, factors: Any) -> tuple[Point, Array]:
    """The position near q in which joints are closed, and what residual of them is left.

    `factors`: of the mass and the joints in a position nearby. The derivative is that of the equations.
    """
    size = jnp.maximum(1.0, jnp.max(jnp.stack([jnp.max(jnp.abs(x), initial=0.0) for x in jax.tree.leaves(q)])))

    def equation(x: Multipliers) -> tuple[Multipliers, Point]:
        """How far joints are open after a motion that closes them by x, to first order."""
        change, _ = system.kkt.solve(factors, jnp.zeros(system.n), -x)
        place = system.flow(q, change, 1.0)
        return system.constraint(t, place), place

    def reach(x: Multipliers, number: Array) -> _Position:
        gap, place = equation(x)
        return _Position(x, place, gap, number)

    def search(x: Multipliers, _: None) -> _Position:
        more = lambda at: (jnp.max(jnp.abs(at.gap)) > _ON_JOINTS * size) & (at.number < _PROJECTIONS)  # noqa: E731
        closer = lambda at: reach(at.x + at.gap, at.number + 1)  # noqa: E731
        return jax.lax.while_loop(more, closer, reach(x, jnp.asarray(0)))

    last = with_implicit_derivative(search, equation, lambda _, rest: -rest, jnp.zeros(system.m), None)
    return last.place, jnp.max(jnp.abs(last.gap)) / size
