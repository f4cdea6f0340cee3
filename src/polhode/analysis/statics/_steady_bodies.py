"""Deviations from steady motions of bodies, carried along by the group that carries the motion."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import block_diag
from scipy.spatial.transform import Rotation

from polhode.analysis.statics import _diagnosis
from polhode.analysis.statics._body_motions import Bodies, View, bodies_at, displace, placement, speeds
from polhode.analysis.statics._deviations import NOISE, STEADY, Deviations, Instant
from polhode.analysis.statics._equations import largest
from polhode.analysis.statics._symmetry import Family, Symmetry
from polhode.compiler.numpy_jit import numpy_jit
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical

SAMPLE_ANGLES = (0.83, 2.17)
"""Angles, in rad, by which the motion has turned where coefficients are compared: no simple parts of a turn."""

_ROUNDS = 20

_CORRECTION_TOLERANCE = 1e-11
"""Correction of a state, relative to its largest coordinate, that counts as none."""

_MAX_ANGLE = 12.0
"""Angle, in rad, up to which exponentials lead along the motion."""


class Place(NamedTuple):
    """A state on the motion and its bodies; `solve` maps velocities of bodies to v."""

    here: Instant
    view: View
    solve: np.ndarray

    @classmethod
    def of(cls, system: Any, t: float, state: State) -> Place:
        here = Instant.at(system, t, state)
        view = View.of(system, t, state)
        return cls(here, view, np.linalg.pinv(view.by_velocity, rcond=1e-10))

    @property
    def hidden_directions(self) -> np.ndarray:
        """Deviations that move no body, as rows: those of bare coordinates and their velocities."""
        system: Any = self.here.system
        n, q_dim = system.n, self.here.n
        hidden = np.eye(n) - self.solve @ self.view.by_velocity
        hidden = hidden[np.max(np.abs(hidden), axis=1) > 1e-8]
        both = block_diag(hidden, hidden) if q_dim == n else np.hstack((np.zeros((len(hidden), q_dim)), hidden))
        return np.asarray(both)


def about_bodies(here: Instant) -> Deviations:
    system: Any = here.system
    first = Place.of(system, here.t, here.state)
    instant = here.reduce(here.slopes.F + here.slopes.frame_term)
    hidden = first.hidden_directions[:, here.n :] @ here.slopes.start[here.n :]
    hidden_is_steady = np.linalg.norm(hidden) <= STEADY * np.linalg.norm(here.slopes.start)
    reason = ""
    for drift in (np.zeros(3), drift_of(first)) if hidden_is_steady else ():
        family = Family.of(first.view, drift)
        if family.misfit > STEADY:
            continue
        reason = "coefficients change along the motion in every frame that moves with it"
        match = _in_family(first, family)
        if match is not None:
            return here.result(*match, "")
    motion = _diagnosis.describe_motion(system, here.state[0], here.slopes.start[here.n :])
    return here.result(instant, None, reason or f"no turn of space and bodies goes on with its accelerations: {motion}")


def _in_family(first: Place, family: Family) -> tuple[np.ndarray, np.ndarray] | None:
    """A and the angular velocity of the frame of the first group in which coefficients are constant; None if none."""
    here, motion = first.here, _Motion(first, [])
    for group in family.members():
        A = _coefficients(group, 0.0, first, first, here.T)
        if A is None:
            continue
        places = (motion.first_place(group, times) for times in _sample_times(group, family, A))
        later = (None if place is None else _coefficients(group, s, first, place, None) for s, place in places)
        if all(other is not None and here.same(A, other) for other in later):
            return A, group.turn
    return None


def _sample_times(group: Symmetry, family: Family, A: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Two times at which coefficients are compared, each with shorter ones in case the motion can't be followed so far.

    At the first one the fastest rotation has advanced, at the second one the slowest.
    """
    one, two = SAMPLE_ANGLES
    rate = family.rate if family.bodies.omega.any() else float(np.max(np.abs(np.linalg.eigvals(A)))) or 1.0
    turn_rates = group.rates[group.rates > STEADY * np.max(group.rates)]
    slowest = float(np.min(turn_rates, initial=rate))
    return (one / rate,), (two / slowest, two / max(slowest, two * rate / _MAX_ANGLE), two / rate)


def drift_of(first: Place) -> np.ndarray:
    """The velocity of the centre of mass, from the momentum along translations of all bodies."""
    system: Any = first.here.system
    q, v = first.here.state
    count = len(first.view.bodies.x)
    inner = first.view.by_velocity.shape[0] - 6 * count
    shifts = first.solve @ np.vstack((np.tile(np.eye(3), (count, 1)), np.zeros((3 * count + inner, 3))))
    momenta = np.asarray(_momenta(system, jnp.asarray(first.here.t), q, jnp.asarray(np.column_stack((shifts, v)))))
    return np.linalg.pinv(shifts.T @ momenta[:, :3]) @ (shifts.T @ momenta[:, 3])


@numpy_jit
def _momenta(system: AbstractMechanical, t: Array, q: Point, v: Float[Array, "n k"]) -> Float[Array, "n k"]:
    return jax.vmap(lambda w: system.momentum(t, q, w), in_axes=1, out_axes=1)(v)


class _Motion(NamedTuple):
    """States to which groups carry the first one, cached: most groups carry it to the same states."""

    first: Place
    cache: list[tuple[float, Place]]

    def first_place(self, group: Symmetry, times: tuple[float, ...]) -> tuple[float, Place | None]:
        """The first of some times at which the state is known, and the state."""
        *earlier, last = times
        for s in earlier:
            place = self._place(group, s)
            if place is not None:
                return s, place
        return last, self._place(group, last)

    def _place(self, group: Symmetry, s: float) -> Place | None:
        target = group.bodies(self.first.view.bodies, s)
        for time, place in self.cache:
            pairs = zip(target, place.view.bodies, strict=True)
            if time == s and all(np.allclose(a, b, rtol=NOISE, atol=NOISE * np.max(np.abs(b))) for a, b in pairs):
                return place
        place = carry(self.first, target, self.first.here.t + s, self._near(s))
        if place is not None:
            self.cache.append((s, place))
        return place

    def _near(self, s: float) -> Point:
        """The configuration reached along v; the first one after more turns than `_MAX_ANGLE`."""
        q, v = self.first.here.state
        if s * float(np.max(np.abs(self.first.view.bodies.omega), initial=0.0)) > _MAX_ANGLE:
            return q
        system: Any = self.first.here.system
        return displace(system, q, jnp.asarray(s * np.asarray(v)))


def carry(first: Place, target: Bodies, t: float, near: Point) -> Place | None:
    """The state at time t in which bodies are where and as fast as in `target`, by Newton's method from `near`.

    None if it fails.
    """
    system: Any = first.here.system
    q, v = near, first.here.state[1]
    for _ in range(_ROUNDS):
        bodies, gaps, by_velocity = jax.tree.map(np.asarray, placement(system, q, v))
        if not np.isfinite(by_velocity).all():
            return None
        solve = np.linalg.pinv(by_velocity, rcond=1e-10)
        rotations = Rotation.from_matrix(np.swapaxes(bodies.R, 1, 2) @ target.R).as_rotvec()
        step = solve @ np.concatenate(((target.x - bodies.x).ravel(), rotations.ravel(), -gaps))
        if float(np.max(np.abs(step), initial=0.0)) < _CORRECTION_TOLERANCE * max(1.0, float(largest(q))):
            break
        q = displace(system, q, jnp.asarray(step))
    else:
        return None
    goal = np.concatenate((target.u.ravel(), target.omega.ravel(), np.zeros(len(gaps))))
    v = np.asarray(v) + solve @ (goal - by_velocity @ np.asarray(v))
    return Place.of(system, t, (q, jnp.asarray(v)))


def _coefficients(group: Symmetry, s: float, first: Place, place: Place, T: np.ndarray | None) -> np.ndarray | None:
    """A at a later state, in the deviations of the first one carried there; None where the group does not fit."""
    here = place.here
    system: Any = here.system
    T = transport(group, s, first, place) if T is None else T
    acceleration = jnp.asarray(here.slopes.start[here.n :])
    numbers = tuple(map(jnp.asarray, (*group, s)))
    slopes, velocity = map(np.asarray, _field(system, numbers, jnp.asarray(place.solve), here.state, acceleration))
    rate = float(np.max(group.rates)) or 1.0
    off = place.view.by_velocity @ (velocity - here.slopes.start)[here.n :]
    if np.linalg.norm(off) > 10 * STEADY * rate * np.linalg.norm(place.view.by_velocity @ np.asarray(here.state[1])):
        return None
    return np.linalg.lstsq(T, (here.slopes.F - slopes) @ T, rcond=1e-12)[0]


def transport(group: Symmetry, s: float, first: Place, place: Place) -> np.ndarray:
    """The deviations of the first state carried to a later one."""
    N, T = place.here.T, first.here.T
    goal = group.deviations(first.view.bodies, first.view.along @ T, s)
    rows = np.vstack((place.view.along, place.hidden_directions)) @ N
    return N @ np.linalg.lstsq(rows, np.vstack((goal, first.hidden_directions @ T)), rcond=1e-12)[0]


@numpy_jit
def _field(
    system: MultibodySystem, group: tuple[Array, ...], solve: Array, state: State, acceleration: Vector
) -> tuple[Array, Array]:
    """Derivative along deviations, and value, of the velocity with which a group moves states.

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
        speeds_at = lambda r: speeds(system, system.configuration.move(q, r * nu), v)  # noqa: E731
        speed_rates = jax.jvp(speeds_at, (jnp.zeros(()),), (jnp.ones(()),))[1]
        a0 = solve @ speeds(system, state[0], acceleration)
        rest = (
            jnp.concatenate((faster[0].reshape(-1), faster[1].reshape(-1), none)) - speed_rates - speeds(system, q, a0)
        )
        return jnp.concatenate((nu, a0 + solve @ rest))

    zero = jnp.zeros(space.dim)
    return jax.jacfwd(velocity)(zero), velocity(zero)
