"""Projection of states onto position and velocity constraints, in the metric of the mass."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.linalg.blocks import Matrix, apply
from polhode.linalg.inverse_border import bordered_solver
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical, Multipliers

_ITERATIONS = 3


def explicit_rate(system: AbstractMechanical, t: Array, q: Point) -> Multipliers:
    """∂Φ/∂t, shape (m,). Constraints that do not depend on time cost nothing."""
    if not system.rheonomic:
        return jnp.zeros(system.m)
    if len(system.nonholonomic):
        return system.constraint_rate(t, q, jnp.zeros(system.n))
    t = jnp.asarray(t)
    return jax.jvp(lambda time: system.constraint(time, q), (t,), (jnp.ones_like(t),))[1]


def _nearest(
    system: AbstractMechanical, t: Array, q: Point, B: Matrix
) -> Callable[[Vector, Multipliers], tuple[Vector, Multipliers]]:
    """From r and s to δ and μ with M δ + Bᵀμ = r and B δ = s."""
    inverse = system.inverse_mass(t, q)
    if inverse is not None:
        return bordered_solver(inverse, B, B, system.n, system.m)
    factors = system.kkt.factor(system.mass(t, q), B, B)
    return lambda r, s: system.kkt.solve(factors, r, s)


def onto_velocity(system: AbstractMechanical, t: Array, state: State) -> State:
    """The velocity nearest to v in the metric M with B v + ∂Φ/∂t = 0, at the same position."""
    q, v = state
    B = system.jacobian(t, q)
    excess = apply(B, v, system.m) + explicit_rate(system, t, q)
    change, _ = _nearest(system, t, q, B)(jnp.zeros(system.n), -excess)
    return q, v + change


def onto_position(system: AbstractMechanical, t: Array, state: State) -> tuple[State, Array]:
    """A nearby state with Φ = 0 and then B v + ∂Φ/∂t = 0, and the largest remaining |Φ|.

    Newton's method for M δ + Bᵀμ = 0, Φ(flow(q, δ)) = 0 with the matrix of the start. States within the local error
    of a method are so near that each iteration wins as many digits as the state already has; the number of iterations
    is fixed, which keeps the step differentiable in reverse mode.
    """
    q, v = state
    B = system.jacobian(t, q)
    nearest = _nearest(system, t, q, B)
    zero, delta = jnp.zeros(system.n), jnp.zeros(system.n)
    point = q
    for _ in range(_ITERATIONS):
        change, _ = nearest(zero, -system.constraint(t, point))
        delta = delta + change
        point = system.flow(q, delta, 1.0)
    residual = jnp.max(jnp.abs(system.constraint(t, point)))
    return onto_velocity(system, t, (point, v)), residual
