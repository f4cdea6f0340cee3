"""Small deviations of a state that satisfy all constraints, and derivatives of the equations of motion along them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from polhode.analysis.statics._equations import largest
from polhode.analysis.statics._linearisation import null_space
from polhode.compiler.numpy_jit import numpy_jit
from polhode.spaces.base import Vector
from polhode.systems.base import AbstractSystem, State
from polhode.systems.mechanical import AbstractMechanical

AT_REST = 1e-9
"""Distance, relative to the larger of 1 and the largest coordinate, that a state at rest moves in its fastest time."""

STEADY = 1e-6
"""Acceleration that counts as none, and difference of coefficients that counts as constant, relative to the largest."""

NOISE = 1e-10
"""Round-off of coefficients, relative to the largest."""


class Slopes(NamedTuple):
    """Derivatives at a state along deviations y in the algebra of the state space.

    - `start`: the velocity of the state; `F`: its derivative, (dim, dim).
    - `frame_term`: contribution to F of the frame of the algebra, which moves with the state, (dim, dim).
    - `ambient`: of the stored numbers. - `J`, `Jr`: of constraints and of their rates, (m, dim).
    """

    start: np.ndarray
    F: np.ndarray
    frame_term: np.ndarray
    ambient: np.ndarray
    J: np.ndarray
    Jr: np.ndarray

    @classmethod
    def at(cls, system: AbstractSystem, t: float, state: State) -> Slopes:
        """At a state of a system whose velocity is a function of its state."""
        return cls(*map(np.asarray, _slopes(system, jnp.asarray(t), state)))


def velocity_of(system: AbstractSystem, t: Array, state: State) -> Vector:
    """The velocity of a state, as an element of the algebra."""
    velocity = system.velocity(t, state)
    assert velocity is not None
    return velocity


@numpy_jit
def _slopes(system: AbstractSystem, t: Array, state: State) -> tuple[Array, ...]:
    space = system.state_space
    zero = jnp.zeros(space.dim)
    start = velocity_of(system, t, state)
    F = jax.jacfwd(lambda y: velocity_of(system, t, space.move(state, y)))(zero)
    frame_term = jax.jacfwd(lambda y: space.bracket(start, y))(zero)
    ambient = jax.jacfwd(lambda y: ravel_pytree(space.move(state, y))[0])(zero)
    J = Jr = jnp.zeros((0, space.dim))
    if isinstance(system, AbstractMechanical) and system.m:
        J = jax.jacfwd(lambda y: system.constraint(t, space.move(state, y)[0]))(zero)
        Jr = jax.jacfwd(lambda y: system.constraint_rate(t, *space.move(state, y)))(zero)
    return start, F, frame_term, ambient, J, Jr


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


class Deviations(NamedTuple):
    r"""$\dot x = A x + c$ for deviations `basis` x of a state.

    - `basis`, `coordinates`: deviations in the algebra as columns, (dim, k), and the rows that give x back.
    - `offset`: c. - `turn`: angular velocity, in the inertial frame, of the frame of the deviations; None if it is that
      of the coordinates.
    - `unsteady`: why coefficients are not constant, as the end of a sentence; empty if they are.
    """

    A: Float[np.ndarray, "k k"]
    basis: Float[np.ndarray, "dim k"]
    coordinates: Float[np.ndarray, "k dim"]
    offset: Float[np.ndarray, " k"]
    turn: np.ndarray | None
    unsteady: str


class Instant(NamedTuple):
    """A state with its slopes and a basis of deviations; `T` as columns, `L` gives their coordinates back."""

    system: AbstractSystem
    t: float
    state: State
    slopes: Slopes
    T: np.ndarray
    L: np.ndarray

    @classmethod
    def at(cls, system: AbstractSystem, t: float, state: State) -> Instant:
        slopes = Slopes.at(system, t, state)
        return cls(system, t, state, slopes, *basis(system, slopes))

    @property
    def n(self) -> int:
        """Number of components of the velocity of the state that move positions."""
        if isinstance(self.system, AbstractMechanical):
            return len(self.slopes.start) - self.system.n
        return len(self.slopes.start)

    @property
    def at_rest(self) -> bool:
        """Whether positions don't move."""
        speed = np.max(np.abs(self.slopes.ambient @ self.position_velocity), initial=0.0)
        return bool(speed <= AT_REST * self.rate * max(1.0, float(largest(self.state))))

    @property
    def rate(self) -> float:
        """The fastest rate of deviations in the frame of the coordinates; 1 where nothing changes."""
        return float(np.max(np.abs(np.linalg.eigvals(self.reduce(self.slopes.F))), initial=0.0)) or 1.0

    @property
    def position_velocity(self) -> np.ndarray:
        """The velocity of the positions."""
        return np.where(np.arange(len(self.slopes.start)) < self.n, self.slopes.start, 0.0)

    def reduce(self, F: np.ndarray) -> np.ndarray:
        return self.L @ F @ self.T

    def same(self, A: np.ndarray, other: np.ndarray) -> bool:
        """Whether coefficients are the same: each compared with the largest of its row and column.

        Velocities are measured by the fastest rate, so that they compare with displacements.
        """
        rate = np.max(np.abs(np.linalg.eigvals(A)), initial=0.0) or 1.0
        scale = np.where(np.any(self.T[: self.n], axis=0), 1.0, rate)
        sizes, change = (np.abs(X * scale / scale[:, None]) for X in (A, other - A))
        largest_one = max(rate, np.max(sizes, initial=0.0))
        around = np.minimum(np.max(sizes, axis=1, initial=0.0)[:, None], np.max(sizes, axis=0, initial=0.0))
        return bool(np.all(change <= STEADY * around + NOISE * largest_one))

    def result(self, A: np.ndarray, turn: np.ndarray | None, unsteady: str) -> Deviations:
        """Deviations with the acceleration as offset; for systems of first order, with the whole velocity."""
        mechanical = isinstance(self.system, AbstractMechanical)
        start = self.slopes.start - self.position_velocity if mechanical else self.slopes.start
        offset = self.L @ start if unsteady or not self.position_velocity.any() or self.at_rest else np.zeros(len(A))
        # Round-off of an equilibrium is no motion.
        offset = np.where(np.abs(offset) > 1e-12 * np.max(np.abs(A), initial=1.0), offset, 0.0)
        return Deviations(A, self.T, self.L, offset, turn, unsteady)
