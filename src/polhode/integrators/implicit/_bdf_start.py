"""States from which backward differentiation formulas start with their highest order."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.integrators.base import Carry
from polhode.integrators.explicit.rkmk import RKMK
from polhode.integrators.implicit._divided_differences import local_coordinates
from polhode.integrators.tableaus.runge_kutta import DORMAND_PRINCE, without_pair
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical import AbstractMechanical
from polhode.systems.vector_field import VectorField


def starting_points(
    system: AbstractMechanical, t: Array, h: Array, state: tuple[Point, Vector], vdot: Vector, number: int
) -> tuple[tuple[Point, Vector], Array, Array]:
    """States at points of the first step, their ages, and whether the polynomial through them resolves the motion.

    Only the first step is known to be smooth: loads may be others before the start and after it. Where explicit
    steps don't resolve the motion, states before the start are extrapolated with the first slope.
    """
    space, part = system.state_space, h / (number + 1)
    explicit_states = _explicit_states(system, t, part, state, number)
    speeds = local_coordinates(space, state, explicit_states)[:, system.configuration.dim :]
    first, last = speeds[1] - speeds[0], jnp.asarray(_difference_weights(number)) @ speeds
    _, v = state
    size = jnp.max(jnp.abs(first)) + 1e-6 * jnp.max(jnp.abs(v))
    is_resolved = jnp.max(jnp.abs(last)) <= size
    extrapolated_states, ages = extrapolate_backward(system, h, state, vdot, number)
    states = jax.tree.map(lambda a, b: jnp.where(is_resolved, a, b), explicit_states, extrapolated_states)
    return states, jnp.where(is_resolved, -part * jnp.arange(1.0, number + 1), ages), is_resolved


def extrapolate_backward(
    system: AbstractMechanical, h: Array, state: tuple[Point, Vector], vdot: Vector, number: int
) -> tuple[tuple[Point, Vector], Array]:
    """States before the start, extrapolated with the first slope, and their ages."""
    ages = h * jnp.arange(1.0, number + 1)
    slope = jnp.concatenate((system.kinematics(*state), vdot))
    move = lambda age: system.state_space.move(state, -age * slope)  # noqa: E731
    return jax.vmap(move)(ages), ages


def _explicit_states(system: AbstractMechanical, t: Array, h: Array, state: tuple[Point, Vector], number: int) -> Any:
    """States after so many explicit steps, stacked."""
    method = RKMK(without_pair(DORMAND_PRINCE))
    field = VectorField(system.state_space, system.velocity)

    def one(carry: Carry, at: Array) -> tuple[Carry, Any]:
        carry, _ = method.step(field, at, h, carry)
        return carry, carry.state

    times = t + h * jnp.arange(float(number))
    return jax.lax.scan(one, method.init(field, t, h, state), times)[1]


def _difference_weights(number: int) -> np.ndarray:
    """Weights of the finite difference of that order."""
    weights = np.ones(1)
    for _ in range(number):
        weights = np.convolve(weights, [1.0, -1.0])
    return weights[::-1].copy()
