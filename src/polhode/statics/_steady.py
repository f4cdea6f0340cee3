"""The linear equations of deviations from a steady motion, in a frame in which their coefficients are constant."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import block_diag
from scipy.spatial.transform import Rotation

from polhode.execution.once import interpreted
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point, Vector
from polhode.statics import _explaining
from polhode.statics._balance import largest
from polhode.statics._deviations import Slopes, basis, velocity_of
from polhode.statics._moving_bodies import Bodies, View, bodies_at, moved, placement, rows_of, speeds
from polhode.statics._symmetry import Family, Symmetry
from polhode.systems.base import AbstractSystem, State
from polhode.systems.mechanical import AbstractMechanical

_AT_REST = 1e-9
"""Distance, relative to the larger of 1 and the largest coordinate, that a state at rest moves in its fastest time."""

_STEADY = 1e-6
"""Acceleration that counts as none, and difference of coefficients that counts as constant, relative to the largest."""

_NOISE = 1e-10
"""Round-off of coefficients, relative to the largest."""

_LOOKS = (0.83, 2.17)
"""Angles, in rad, by which the motion has turned where coefficients are compared: no simple parts of a turn."""

_ROUNDS = 20


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


def deviations(system: AbstractSystem, t: float, state: State) -> Deviations:
    """About a state: at rest, in steady motion, or, if it is `unsteady`, in the frame that its coordinates have."""
    here = _Here.at(system, t, state)
    if here.at_rest:
        A = here.reduced(here.slopes.F + here.slopes.turning)
        fixed = _same_at_all_times(here) or all(here.same(A, _later(here, s)) for s in _times_at_rest(A))
        said = "" if fixed else "coefficients depend on time although the state is at rest"
        return here.result(A, np.zeros(3), said)
    if isinstance(system, MultibodySystem) and len(rows_of(system)):
        return _about_bodies(here)
    return _about_velocities(here)


class _Here(NamedTuple):
    """A state with its slopes and a basis of deviations; `T` as columns, `L` gives their coordinates back."""

    system: AbstractSystem
    t: float
    state: State
    slopes: Slopes
    T: np.ndarray
    L: np.ndarray

    @classmethod
    def at(cls, system: AbstractSystem, t: float, state: State) -> _Here:
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
        speed = np.max(np.abs(self.slopes.ambient @ self.moving), initial=0.0)
        rate = np.max(np.abs(np.linalg.eigvals(self.reduced(self.slopes.F))), initial=0.0)
        return bool(speed <= _AT_REST * (rate or 1.0) * max(1.0, float(largest(self.state))))

    @property
    def moving(self) -> np.ndarray:
        """The velocity of the positions."""
        return np.where(np.arange(len(self.slopes.start)) < self.n, self.slopes.start, 0.0)

    def reduced(self, F: np.ndarray) -> np.ndarray:
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
        return bool(np.all(change <= _STEADY * around + _NOISE * largest_one))

    def result(self, A: np.ndarray, turn: np.ndarray | None, unsteady: str) -> Deviations:
        """With what accelerates as offset; of systems of first order, with the whole velocity."""
        mechanical = isinstance(self.system, AbstractMechanical)
        start = self.slopes.start - self.moving if mechanical else self.slopes.start
        offset = self.L @ start if unsteady or not self.moving.any() or self.at_rest else np.zeros(len(A))
        # Round-off of an equilibrium is no motion.
        offset = np.where(np.abs(offset) > 1e-12 * np.max(np.abs(A), initial=1.0), offset, 0.0)
        return Deviations(A, self.T, self.L, offset, turn, unsteady)


# --- at rest -------------------------------------------------------------------------------------------------------


def _same_at_all_times(here: _Here) -> bool:
    """Whether the velocity of a state near by is the same at some other times, to the last bit."""
    space = here.system.state_space
    near = space.move(here.state, jnp.asarray(1e-3 * np.sin(1.0 + np.arange(space.dim))))
    first, *others = (
        np.asarray(_velocity(here.system, jnp.asarray(here.t + s), near)) for s in (0.0, 0.37, 1.93, 17.7)
    )
    return all(np.array_equal(first, other, equal_nan=True) for other in others)


@interpreted
def _velocity(system: AbstractSystem, t: Array, state: State) -> Vector:
    return velocity_of(system, t, state)


def _times_at_rest(A: np.ndarray) -> tuple[float, ...]:
    rate = float(np.max(np.abs(np.linalg.eigvals(A)), initial=0.0)) or 1.0
    return (*(angle / rate for angle in _LOOKS), 0.37, 1.93)


def _later(here: _Here, s: float) -> np.ndarray:
    slopes = Slopes.at(here.system, here.t + s, here.state)
    return here.reduced(slopes.F + slopes.turning)


# --- in coordinates alone ------------------------------------------------------------------------------------------


def _about_velocities(here: _Here) -> Deviations:
    """Of systems without bodies: in the frame that moves with the velocity of the state."""
    A = here.reduced(here.slopes.F + here.slopes.turning)
    accelerates = np.linalg.norm(here.slopes.start - here.moving)
    rate = max(np.max(np.abs(np.linalg.eigvals(A)), initial=0.0), np.linalg.norm(here.moving))
    if accelerates > _STEADY * rate * np.linalg.norm(here.moving):
        return here.result(A, None, "it accelerates")
    space, unsteady = here.system.state_space, ""
    for angle in _LOOKS:
        s = angle / rate
        state = space.move(here.state, jnp.asarray(s * here.moving))
        slopes = Slopes.at(here.system, here.t + s, state)
        kept = np.linalg.norm(slopes.start - here.slopes.start) <= _STEADY * rate * np.linalg.norm(here.moving)
        if not (kept and here.same(A, here.reduced(slopes.F + slopes.turning))):
            unsteady = "coefficients change along the motion"
    return here.result(A, None, unsteady)


# --- with bodies ---------------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """A state on the motion, seen as bodies; `solve` gives velocities from those of bodies."""

    here: _Here
    view: View
    solve: np.ndarray

    @classmethod
    def of(cls, system: Any, t: float, state: State) -> _Place:
        here = _Here.at(system, t, state)
        view = View.of(system, t, state)
        return cls(here, view, np.linalg.pinv(view.by_velocity, rcond=1e-10))

    @property
    def unseen(self) -> np.ndarray:
        """Deviations that move no body, as rows: those of bare coordinates and their velocities."""
        n, q_dim = self.here.system.n, self.here.n  # type: ignore[attr-defined]
        hidden = np.eye(n) - self.solve @ self.view.by_velocity
        hidden = hidden[np.max(np.abs(hidden), axis=1) > 1e-8]
        both = block_diag(hidden, hidden) if q_dim == n else np.hstack((np.zeros((len(hidden), q_dim)), hidden))
        return np.asarray(both)


def _about_bodies(here: _Here) -> Deviations:
    system: Any = here.system
    first = _Place.of(system, here.t, here.state)
    instant = here.reduced(here.slopes.F + here.slopes.turning)
    hidden = first.unseen[:, here.n :] @ here.slopes.start[here.n :]
    kept = np.linalg.norm(hidden) <= _STEADY * np.linalg.norm(here.slopes.start)
    said = ""
    for drift in (np.zeros(3), _drift(first)) if kept else ():
        family = Family.of(first.view, drift)
        if family.misfit > _STEADY:
            continue
        said = "coefficients change along the motion in every frame that moves with it"
        found = _in_family(first, family)
        if found is not None:
            return here.result(*found, "")
    moving = _explaining.moving(system, here.state[0], here.slopes.start[here.n :])
    return here.result(instant, None, said or f"no turn of space and bodies goes on with its accelerations: {moving}")


def _in_family(first: _Place, family: Family) -> tuple[np.ndarray, np.ndarray] | None:
    """A and the angular velocity of the frame of the first group in which coefficients are constant; None if none."""
    here, motion = first.here, _Motion(first, [])
    for group in family.members():
        A = _coefficients(group, 0.0, first, first, here.T)
        if A is None:
            continue
        rate = family.rate if family.bodies.omega.any() else np.max(np.abs(np.linalg.eigvals(A))) or 1.0
        times = [angle / rate for angle in _LOOKS]
        later = (_coefficients(group, s, first, motion.place(group, s), None) for s in times)
        if all(other is not None and here.same(A, other) for other in later):
            return A, group.turn
    return None


def _drift(first: _Place) -> np.ndarray:
    """The velocity of the centre of mass, from the momentum along translations of all bodies."""
    system: Any = first.here.system
    q, v = first.here.state
    count = len(first.view.bodies.x)
    inner = first.view.by_velocity.shape[0] - 6 * count
    shifts = first.solve @ np.vstack((np.tile(np.eye(3), (count, 1)), np.zeros((3 * count + inner, 3))))
    momenta = np.asarray(_momenta(system, jnp.asarray(first.here.t), q, jnp.asarray(np.column_stack((shifts, v)))))
    return np.linalg.pinv(shifts.T @ momenta[:, :3]) @ (shifts.T @ momenta[:, 3])


@interpreted
def _momenta(system: AbstractMechanical, t: Array, q: Point, v: Float[Array, "n k"]) -> Float[Array, "n k"]:
    return jax.vmap(lambda w: system.momentum(t, q, w), in_axes=1, out_axes=1)(v)


class _Motion(NamedTuple):
    """States to which groups carry the first one: most of them carry it to the same, where slopes are known then."""

    first: _Place
    known: list[tuple[float, _Place]]

    def place(self, group: Symmetry, s: float) -> _Place:
        target = group.bodies(self.first.view.bodies, s)
        for time, place in self.known:
            pairs = zip(target, place.view.bodies, strict=True)
            if time == s and all(np.allclose(a, b, rtol=_NOISE, atol=_NOISE * np.max(np.abs(b))) for a, b in pairs):
                return place
        place = _carried(self.first, target, s)
        self.known.append((s, place))
        return place


def _carried(first: _Place, target: Bodies, s: float) -> _Place:
    """The state a time s later in which bodies are where and as fast as told; Newton's method from where v leads."""
    system: Any = first.here.system
    q, v = first.here.state
    q, size, rounds = moved(system, q, jnp.asarray(s * np.asarray(v))), np.inf, 0
    while True:
        bodies, gaps, by_velocity = jax.tree.map(np.asarray, placement(system, q, v))
        solve = np.linalg.pinv(by_velocity, rcond=1e-10)
        if size < 1e-11 * max(1.0, float(largest(q))) or rounds == _ROUNDS:
            break
        turned = Rotation.from_matrix(np.swapaxes(bodies.R, 1, 2) @ target.R).as_rotvec()
        step = solve @ np.concatenate(((target.x - bodies.x).ravel(), turned.ravel(), -gaps))
        q, size, rounds = moved(system, q, jnp.asarray(step)), float(np.max(np.abs(step), initial=0.0)), rounds + 1
    goal = np.concatenate((target.u.ravel(), target.omega.ravel(), np.zeros(len(gaps))))
    v = np.asarray(v) + solve @ (goal - by_velocity @ np.asarray(v))
    return _Place.of(system, first.here.t + s, (q, jnp.asarray(v)))


def _coefficients(group: Symmetry, s: float, first: _Place, place: _Place, T: np.ndarray | None) -> np.ndarray | None:
    """A at a later state, in the deviations of the first one carried there; None where the group does not fit."""
    here = place.here
    system: Any = here.system
    T = _transported(group, s, first, place) if T is None else T
    acceleration = jnp.asarray(here.slopes.start[here.n :])
    numbers = tuple(map(jnp.asarray, (*group, s)))
    slopes, velocity = map(np.asarray, _field(system, numbers, jnp.asarray(place.solve), here.state, acceleration))
    rate = float(np.max(group.rates)) or 1.0
    off = place.view.by_velocity @ (velocity - here.slopes.start)[here.n :]
    if np.linalg.norm(off) > 10 * _STEADY * rate * np.linalg.norm(place.view.by_velocity @ np.asarray(here.state[1])):
        return None
    return np.linalg.lstsq(T, (here.slopes.F - slopes) @ T, rcond=1e-12)[0]


def _transported(group: Symmetry, s: float, first: _Place, place: _Place) -> np.ndarray:
    N, T = place.here.T, first.here.T
    carried = group.deviations(first.view.bodies, first.view.along @ T, s)
    rows = np.vstack((place.view.along, place.unseen)) @ N
    return N @ np.linalg.lstsq(rows, np.vstack((carried, first.unseen @ T)), rcond=1e-12)[0]


@interpreted
def _field(
    system: MultibodySystem, group: tuple[Array, ...], solve: Array, state: State, acceleration: Vector
) -> tuple[Array, Array]:
    """Of the velocity with which a group moves states: its derivative along deviations, and itself.

    Velocities of bodies are linear in v, so to first order v follows from what they lack at the velocity of the state.
    """
    shift, turn, slide, spin, drift, s = group
    space, v0 = system.state_space, state[1]
    none = jnp.zeros(solve.shape[1] - 6 * slide.shape[0])

    def velocity(y: Vector) -> Vector:
        q, v = space.move(state, y)
        x, R, u, omega = bodies_at(system, q, v)
        goes = drift + shift + jnp.cross(turn, x - s * drift) + jnp.einsum("nij,nj->ni", R, slide)
        aim = goes, jnp.einsum("nji,j->ni", R, turn) + spin
        w = v0 + solve @ (jnp.concatenate((aim[0].reshape(-1), aim[1].reshape(-1), none)) - speeds(system, q, v0))
        nu = system.kinematics(q, w)
        faster = (
            jnp.cross(turn, u - drift) + jnp.einsum("nij,nj->ni", R, jnp.cross(omega, slide)),
            jnp.cross(omega, spin),
        )
        shown = lambda r: speeds(system, system.configuration.move(q, r * nu), v)  # noqa: E731
        moving = jax.jvp(shown, (jnp.zeros(()),), (jnp.ones(()),))[1]
        a0 = solve @ speeds(system, state[0], acceleration)
        rest = jnp.concatenate((faster[0].reshape(-1), faster[1].reshape(-1), none)) - moving - speeds(system, q, a0)
        return jnp.concatenate((nu, a0 + solve @ rest))

    zero = jnp.zeros(space.dim)
    return jax.jacfwd(velocity)(zero), velocity(zero)
