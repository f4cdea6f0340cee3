"""The linear equations of deviations from a steady motion, in a frame in which their coefficients are constant."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.analysis.statics._body_motions import rows_of
from polhode.analysis.statics._deviations import STEADY, Deviations, Instant, Slopes, velocity_of
from polhode.analysis.statics._steady_bodies import SAMPLE_ANGLES, about_bodies
from polhode.compiler.numpy_jit import numpy_jit
from polhode.multibody.light_bodies import with_pivoting_solver
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Vector
from polhode.systems.base import AbstractSystem, State


def deviations(system: AbstractSystem, t: float, state: State) -> Deviations:
    """Deviations about a state: at rest, in steady motion, or, if it is `unsteady`, in the frame of its coordinates."""
    here = Instant.at(with_pivoting_solver(system, t, state), t, state)
    system = here.system
    if here.at_rest:
        A = here.reduce(here.slopes.F + here.slopes.frame_term)
        is_constant = _same_at_all_times(here) or all(here.same(A, _later(here, s)) for s in _times_at_rest(A))
        reason = "" if is_constant else "coefficients depend on time although the state is at rest"
        return here.result(A, np.zeros(3), reason)
    if isinstance(system, MultibodySystem) and len(rows_of(system)):
        return about_bodies(here)
    return _about_velocities(here)


def _same_at_all_times(here: Instant) -> bool:
    """Whether the velocity of a state near by is the same at some other times, to the last bit."""
    space = here.system.state_space
    near = space.move(here.state, jnp.asarray(1e-3 * np.sin(1.0 + np.arange(space.dim))))
    first, *others = (
        np.asarray(_velocity(here.system, jnp.asarray(here.t + s), near)) for s in (0.0, 0.37, 1.93, 17.7)
    )
    return all(np.array_equal(first, other, equal_nan=True) for other in others)


@numpy_jit
def _velocity(system: AbstractSystem, t: Array, state: State) -> Vector:
    return velocity_of(system, t, state)


def _times_at_rest(A: np.ndarray) -> tuple[float, ...]:
    rate = float(np.max(np.abs(np.linalg.eigvals(A)), initial=0.0)) or 1.0
    return (*(angle / rate for angle in SAMPLE_ANGLES), 0.37, 1.93)


def _later(here: Instant, s: float) -> np.ndarray:
    slopes = Slopes.at(here.system, here.t + s, here.state)
    return here.reduce(slopes.F + slopes.frame_term)


def _about_velocities(here: Instant) -> Deviations:
    """Deviations of systems without bodies, in the frame that moves with the velocity of the state."""
    A = here.reduce(here.slopes.F + here.slopes.frame_term)
    accelerates = np.linalg.norm(here.slopes.start - here.position_velocity)
    rate: Any = max(np.max(np.abs(np.linalg.eigvals(A)), initial=0.0), np.linalg.norm(here.position_velocity))
    if accelerates > STEADY * rate * np.linalg.norm(here.position_velocity):
        return here.result(A, None, "it accelerates")
    space, unsteady = here.system.state_space, ""
    for angle in SAMPLE_ANGLES:
        s = angle / rate
        state = space.move(here.state, jnp.asarray(s * here.position_velocity))
        slopes = Slopes.at(here.system, here.t + s, state)
        same_velocity = np.linalg.norm(slopes.start - here.slopes.start) <= STEADY * rate * np.linalg.norm(
            here.position_velocity
        )
        if not (same_velocity and here.same(A, here.reduce(slopes.F + slopes.frame_term))):
            unsteady = "coefficients change along the motion"
    return here.result(A, None, unsteady)
