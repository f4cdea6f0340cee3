"""Small deviations of a state that keep all constraints, and how the equations of motion change along them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from polhode.execution.once import interpreted
from polhode.spaces.base import Vector
from polhode.statics._linearised import null_space
from polhode.systems.base import AbstractSystem, State
from polhode.systems.mechanical import AbstractMechanical


class Slopes(NamedTuple):
    """Derivatives at a state along deviations y in the algebra of the state space.

    - `start`: the velocity of the state; `F`: its derivative, (dim, dim).
    - `turning`: what the frame of the algebra adds to F as it moves with the state, (dim, dim).
    - `ambient`: of the stored numbers. - `J`, `Jr`: of constraints and of their rates, (m, dim).
    """

    start: np.ndarray
    F: np.ndarray
    turning: np.ndarray
    ambient: np.ndarray
    J: np.ndarray
    Jr: np.ndarray

    @classmethod
    def at(cls, system: AbstractSystem, t: float, state: State) -> Slopes:
        """At a state of a system that knows its velocity."""
        return cls(*map(np.asarray, _slopes(system, jnp.asarray(t), state)))


def velocity_of(system: AbstractSystem, t: Array, state: State) -> Vector:
    """The algebra element with which a state moves, of systems that know it."""
    velocity = system.velocity(t, state)
    assert velocity is not None
    return velocity


@interpreted
def _slopes(system: AbstractSystem, t: Array, state: State) -> tuple[Array, ...]:
    space = system.state_space
    zero = jnp.zeros(space.dim)
    start = velocity_of(system, t, state)
    F = jax.jacfwd(lambda y: velocity_of(system, t, space.move(state, y)))(zero)
    turning = jax.jacfwd(lambda y: space.bracket(start, y))(zero)
    ambient = jax.jacfwd(lambda y: ravel_pytree(space.move(state, y))[0])(zero)
    J = Jr = jnp.zeros((0, space.dim))
    if isinstance(system, AbstractMechanical) and system.m:
        J = jax.jacfwd(lambda y: system.constraint(t, space.move(state, y)[0]))(zero)
        Jr = jax.jacfwd(lambda y: system.constraint_rate(t, *space.move(state, y)))(zero)
    return start, F, turning, ambient, J, Jr


def basis(system: AbstractSystem, slopes: Slopes) -> tuple[Float[np.ndarray, "dim k"], Float[np.ndarray, "k dim"]]:
    """Independent deviations that keep all constraints, as columns, and the rows that give their coordinates back.

    Of mechanical systems those of positions come first; velocities follow so that they keep the constraints' rates.
    """
    if not isinstance(system, AbstractMechanical):
        # Elements that leave the state where it is are no deviations.
        ambient = slopes.ambient
        full = np.linalg.matrix_rank(ambient, tol=1e-8 * np.max(np.abs(ambient), initial=0.0)) == ambient.shape[1]
        N = np.eye(ambient.shape[1]) if full else _row_space(ambient)
        return N, N.T
    n, J, Jr = slopes.F.shape[0] - system.n, slopes.J, slopes.Jr
    Nq, Nv = null_space(J[:, :n]), null_space(Jr[:, n:])
    follow = np.zeros((system.n, Nq.shape[1]))
    if len(Jr):
        follow = -np.linalg.pinv(Jr[:, n:], rcond=1e-10) @ (Jr[:, :n] @ Nq)
    T = np.block([[Nq, np.zeros((n, Nv.shape[1]))], [follow, Nv]])
    return T, scipy.linalg.block_diag(Nq.T, Nv.T)


def _row_space(matrix: np.ndarray) -> np.ndarray:
    _, sizes, right = np.linalg.svd(matrix)
    return right[: int(np.sum(sizes > 1e-8 * np.max(sizes, initial=0.0)))].T
