"""Motion of the bodies of a system, independent of its coordinates."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from polhode.compiler.numpy_jit import numpy_jit
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State


class Bodies(NamedTuple):
    """Positions of centres, rotations, velocities in the inertial frame and angular velocities in the bodies' own.

    Arrays of JAX or NumPy, shapes (N, 3), and (N, 3, 3) of R.
    """

    x: Any
    R: Any
    u: Any
    omega: Any


class View(NamedTuple):
    """Bodies at a state, and derivatives.

    - `acceleration`, `jerk`: first and second time derivatives of `u` and `omega` as they move, (2, N, 3).
    - `along`: derivatives of all numbers in `Bodies` along deviations of the state, (18 N, dim).
    - `by_velocity`: of what `speeds` returns with respect to v.
    """

    bodies: Bodies
    acceleration: np.ndarray
    jerk: np.ndarray
    along: np.ndarray
    by_velocity: np.ndarray

    @classmethod
    def of(cls, system: MultibodySystem, t: float, state: State) -> View:
        """At a state."""
        return cls(*jax.tree.map(np.asarray, _view(system, jnp.asarray(t), *state)))


def rows_of(system: MultibodySystem) -> np.ndarray:
    """Rows of the motion of bodies and nodes, without bare coordinates."""
    row = {name: k for k, name in enumerate(system.names)}
    return np.array([row[name] for name in system.coordinates.shown], dtype=int)


def bodies_at(system: MultibodySystem, q: Point, v: Vector) -> Bodies:
    """Bodies in a state."""
    motion = system.motion(q, v)
    poses, twists = motion.poses, motion.twists
    rows = rows_of(system)
    assert twists is not None
    return Bodies(poses.x[rows], poses.R[rows], twists.u[rows], twists.omega[rows])


def speeds(system: MultibodySystem, q: Point, v: Vector) -> Vector:
    """Velocities of all bodies, then the rates of constraints among coordinates of one body; linear in v."""
    bodies = bodies_at(system, q, v)
    inner = [rates.reshape(-1) for _, rates in system.coordinates.internal_rates(q, v)]
    return jnp.concatenate((bodies.u.reshape(-1), bodies.omega.reshape(-1), *inner))


def inner_gaps(system: MultibodySystem, q: Point) -> Vector:
    """Residuals of constraints among coordinates of one body, in the order of `speeds`."""
    return jnp.concatenate((jnp.zeros(0), *(x.reshape(-1) for _, x in system.coordinates.internal_residuals(q))))


def body_accelerations(system: MultibodySystem, t: Array, q: Point, v: Vector) -> Array:
    """Time derivatives of `u` and `omega` of all bodies, (2, N, 3)."""
    a = system.accelerations(t, q, v)[0]

    def later(r: Array) -> Array:
        bodies = bodies_at(system, system.flow(q, v, r), v + r * a)
        return jnp.stack((bodies.u, bodies.omega))

    return jax.jvp(later, (jnp.zeros(()),), (jnp.ones(()),))[1]


@numpy_jit
def acceleration_slopes(system: MultibodySystem, t: Array, q: Point, v: Vector) -> Array:
    """Derivatives of `body_accelerations` along deviations of the state, (6 N, dim)."""
    space = system.state_space
    return jax.jacfwd(lambda y: body_accelerations(system, t, *space.move((q, v), y)).reshape(-1))(jnp.zeros(space.dim))


@numpy_jit
def _view(system: MultibodySystem, t: Array, q: Point, v: Vector) -> Any:
    space = system.state_space
    start = system.velocity(t, (q, v))
    # Of the bodies a time s later, to first order.
    accelerations = lambda s: body_accelerations(system, t + s, *space.move((q, v), s * start))  # noqa: E731
    acceleration, jerk = jax.jvp(accelerations, (jnp.zeros(()),), (jnp.ones(()),))
    flat = lambda y: ravel_pytree(bodies_at(system, *space.move((q, v), y)))[0]  # noqa: E731
    along = jax.jacfwd(flat)(jnp.zeros(space.dim))
    return bodies_at(system, q, v), acceleration, jerk, along, jax.jacfwd(lambda w: speeds(system, q, w))(v)


@numpy_jit
def placement(system: MultibodySystem, q: Point, v: Vector) -> Any:
    """Bodies, residuals of their internal constraints, and the derivative of `speeds` with respect to v."""
    return bodies_at(system, q, v), inner_gaps(system, q), jax.jacfwd(lambda w: speeds(system, q, w))(v)


@numpy_jit
def displace(system: MultibodySystem, q: Point, w: Vector) -> Point:
    """The position reached from q with a displacement that is measured as a velocity."""
    return system.configuration.move(q, system.kinematics(q, w))
