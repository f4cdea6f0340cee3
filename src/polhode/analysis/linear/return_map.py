"""Motions of bodies that are periodic up to a symmetry of their system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from polhode.analysis.statics._body_motions import Bodies, acceleration_slopes
from polhode.analysis.statics._deviations import NOISE, STEADY
from polhode.analysis.statics._steady_bodies import Place, carry, drift_of, transport
from polhode.analysis.statics._symmetry import Symmetry
from polhode.multibody.system import MultibodySystem

_FLAT = 1e-9
"""Ratio of squares below which directions count as one line, about which any turn leaves them."""


class Scales(NamedTuple):
    """A length, a speed and an angular speed of a motion, by which its gaps are measured."""

    length: float
    speed: float
    rate: float

    @classmethod
    def of(cls, path: Sequence[Place], period: float) -> Scales:
        first, *others = (place.view.bodies for place in path)
        bodies = [first, *others]
        arms = _largest(first.x - np.mean(first.x, axis=0))
        length = max(arms, *(_largest(b.x - first.x) for b in bodies), *(_largest(b.u) * period for b in bodies))
        length = length or _largest(first.x) or 1.0
        speed = max(length / period, *(_largest(b.u) for b in bodies))
        return cls(length, speed, max(1 / period, *(_largest(b.omega) for b in bodies)))


class Gap(NamedTuple):
    """Gap between the ends of a motion: relative to its scales, and in words."""

    size: float
    words: str

    @classmethod
    def between(cls, first: Place, last: Place, group: Symmetry, scales: Scales) -> Gap:
        """Gap of the last state from the first one, carried by a group for unit time."""
        system: Any = first.here.system
        goal, end = group.bodies(first.view.bodies, 1.0), last.view.bodies
        angles = Rotation.from_matrix(np.swapaxes(goal.R, 1, 2) @ end.R).magnitude()
        off = np.stack(
            [
                np.linalg.norm(end.x - goal.x, axis=1) / scales.length,
                angles,
                np.linalg.norm(end.u - goal.u, axis=1) / scales.speed,
                np.linalg.norm(end.omega - goal.omega, axis=1) / scales.rate,
            ]
        )
        what, body = np.unravel_index(np.argmax(off), off.shape)
        size, factor = float(off[what, body]), (scales.length, 1.0, scales.speed, scales.rate)[what]
        kind = ("in position", "rad in attitude", "in velocity", "in angular velocity")[what]
        bare, name = _bare_gap(first, last), system.coordinates.shown[body]
        if bare > size:
            return cls(bare, f"{bare:.3g} in coordinates that move no body")
        return cls(size, f"{size * factor:.3g} {kind} at `{name}`")


def _bare_gap(first: Place, last: Place) -> float:
    """Gap of the coordinates that move no body, relative to their size."""
    rows = _bare(first)
    start, end = (place.here.state for place in (first, last))
    if not len(rows):
        return 0.0
    space: Any = first.here.system.state_space
    both = np.concatenate((rows, rows + first.here.n))
    gap = np.asarray(space.difference(start, end))[both]
    return _largest(gap) / max(1.0, _largest(np.asarray(start[1])[rows]))


def _bare(place: Place) -> np.ndarray:
    """Rows of coordinates that belong to no body."""
    system: Any = place.here.system
    hidden = [system.columns(name) for name in system.names if name not in system.coordinates.shown]
    return np.concatenate([np.zeros(0, int), *hidden]).astype(int)


class Return(NamedTuple):
    """The group that carries the start of a period to its end in unit time, and the remaining gap."""

    group: Symmetry
    gap: Gap

    @classmethod
    def of(cls, path: Sequence[Place], last: Place, period: float, tolerance: float) -> Return:
        """The first of the groups that close the motion and leave the system as it is.

        `path` are states of the period, the start first, and `last` is its end. Raises ValueError, with the gap, where
        there is none.
        """
        first, scales, least, message = path[0], Scales.of(path, period), Gap(np.inf, ""), ""
        for group in _groups(first, last, scales):
            gap = Gap.between(first, last, group, scales)
            least = least if least.words else gap
            if not gap.size <= tolerance:
                continue
            change = _change(path, group, period, max(STEADY, 10 * gap.size))
            if not change:
                return cls(group, gap)
            message = message or change
        if message:
            raise ValueError(f"After the period of {period:.9g} {message}.")
        raise ValueError(
            f"The motion does not close after the period of {period:.9g}: it misses its start by {least.words}, "
            f"{least.size:.3g} of its size, where {tolerance:.3g} are allowed. Give the period and the start of a "
            "periodic motion, such as `scipy.optimize.root` finds them from a run, or a finer `rtol` or `h`."
        )


def _groups(first: Place, last: Place, scales: Scales) -> Iterator[Symmetry]:
    """Groups to try: none at all, then those that turn the space least, then those that turn it with a body."""
    none = np.zeros(3)
    start, end, nothing = first.view.bodies, last.view.bodies, np.zeros_like(first.view.bodies.x)
    yield Symmetry(none, none, nothing, nothing, none)
    turns = [np.eye(3), _turn_of(first, last, scales), *(end.R @ np.swapaxes(start.R, 1, 2))]
    distinct = [E for k, E in enumerate(turns) if all(_largest(E - other) > STEADY for other in turns[:k])]
    for drift in (none, drift_of(first)):
        for E in distinct:
            yield _closing_symmetry(start, end, E, drift)


def _closing_symmetry(start: Bodies, end: Bodies, E: np.ndarray, drift: np.ndarray) -> Symmetry:
    """The group with a given turn of the space that takes the centre and all attitudes from start to end."""
    turn = Rotation.from_matrix(E).as_rotvec()
    spin = Rotation.from_matrix(np.swapaxes(start.R, 1, 2) @ E.T @ end.R).as_rotvec()
    nothing = np.zeros_like(spin)
    moves = [Symmetry(e, turn, nothing, nothing, np.zeros(3)).bodies(_POINT, 1.0).x[0] for e in np.eye(3)]
    shift = np.mean(end.x, axis=0) - E @ np.mean(start.x, axis=0) - drift
    return Symmetry(np.linalg.solve(np.transpose(moves), shift), turn, nothing, spin, drift)


_POINT = Bodies(np.zeros((1, 3)), np.eye(3)[None], np.zeros((1, 3)), np.zeros((1, 3)))


def _turn_of(first: Place, last: Place, scales: Scales) -> np.ndarray:
    """The smallest rotation of space that takes positions, velocities and accelerations of bodies to their last ones.

    By the Kabsch algorithm: from the singular values of the sum of products.
    """
    a, b = _arrows(first, scales), _arrows(last, scales)
    left, sizes, right = np.linalg.svd(b.T @ a)
    if sizes[1] > _FLAT * sizes[0]:
        return left @ np.diag([1, 1, np.linalg.det(left @ right)]) @ right
    if not sizes[0]:
        return np.eye(3)
    # Along one line, whose direction the first pair of singular vectors gives.
    u, w = right[0], left[:, 0]
    axis = np.cross(u, w)
    sine = np.linalg.norm(axis)
    return np.eye(3) if sine < STEADY else Rotation.from_rotvec(axis / sine * np.arctan2(sine, u @ w)).as_matrix()


def _arrows(place: Place, scales: Scales) -> np.ndarray:
    (x, R, u, omega), (du, domega) = place.view.bodies, place.view.acceleration
    onto = lambda a: np.einsum("nij,nj->ni", R, a)  # noqa: E731
    arrows = (
        (x - np.mean(x, axis=0)) / scales.length,
        u / scales.speed,
        onto(omega) / scales.rate,
        du / (scales.speed * scales.rate),
        onto(domega) / scales.rate**2,
    )
    return np.concatenate(arrows)


def _change(path: Sequence[Place], group: Symmetry, period: float, tolerance: float) -> str:
    """How the equations of motion differ a period later in states carried by a group, in words; "" if they don't."""
    first, last_q = path[0], None
    for place in path:
        here = place.here
        system: Any = here.system
        goal = group.bodies(place.view.bodies, 1.0)
        near = here.state[0] if last_q is None else _moved_along(first, last_q, place)
        later = carry(place, goal, here.t + period, near)
        if later is None:
            return "constraints that depend on time are elsewhere"
        last_q = later.here.state[0] if last_q is None else last_q
        gap = np.asarray(system.constraint(jnp.asarray(here.t + period), later.here.state[0])) if system.m else 0.0
        off = max(_largest(a - b) for a, b in zip(goal[:2], later.view.bodies[:2], strict=True))
        if _largest(gap) > 1e3 * tolerance or off > 1e-6 * max(1.0, _largest(goal.x)):
            return "constraints that depend on time are elsewhere"
        if not _same_equations(group, place, later, tolerance):
            return (
                "bodies are back, but coefficients are others: loads or constraints have another period, or the turn "
                "with which bodies come back is no symmetry of the system"
            )
    return ""


def _moved_along(first: Place, last_q: Any, place: Place) -> Any:
    """Approximate configuration a period after `place`, if the one after `first` is `last_q`."""
    system: Any = first.here.system
    space = system.configuration
    return space.move(place.here.state[0], space.difference(first.here.state[0], last_q))


def _same_equations(group: Symmetry, place: Place, later: Place, tolerance: float) -> bool:
    """Whether accelerations, and their derivatives along deviations, are those of the earlier state, carried along."""
    T, end = place.here.T, transport(group, 1.0, place, later)
    target = group.deviations(place.view.bodies, place.view.along @ T, 1.0)
    if _largest(later.view.along @ end - target) > 1e3 * tolerance * max(1.0, _largest(target)):
        return False
    before, after = (_reactions(x, D) for x, D in ((place, T), (later, end)))
    count = len(place.view.bodies.x)
    still = np.zeros((18 * count, before.shape[1]))
    # Accelerations are carried like velocities, those of turning in the frames of the bodies.
    still[12 * count :] = before[: 6 * count]
    nonrotating = place.view.bodies._replace(omega=np.zeros((count, 3)))
    before = np.vstack((group.deviations(nonrotating, still, 1.0)[12 * count :], before[6 * count :]))
    return _same(before, after, place, tolerance)


def _reactions(place: Place, T: np.ndarray) -> np.ndarray:
    """Derivatives along deviations, then values, of accelerations: of bodies and of bare coordinates."""
    here, bare = place.here, _bare(place) + place.here.n
    system: Any = here.system
    slopes = np.asarray(acceleration_slopes(system, jnp.asarray(here.t), *here.state))
    bodies = np.column_stack((slopes @ T, place.view.acceleration.ravel()))
    return np.vstack((bodies, np.column_stack((here.slopes.F[bare] @ T, here.slopes.start[bare]))))


def _same(before: np.ndarray, after: np.ndarray, place: Place, tolerance: float) -> bool:
    """Whether rows are the same, each relative to its largest entry, with velocities measured by the fastest rate."""
    here = place.here
    rate = here.rate
    scale = np.where(np.any(here.T[: here.n], axis=0), 1.0, rate)
    sizes, change = np.abs(before[:, :-1] * scale), np.abs((after - before)[:, :-1] * scale)
    limit = tolerance * np.max(sizes, axis=1, initial=0.0)[:, None] + 1e3 * NOISE * _largest(sizes)
    # Accelerations themselves, in the last column, have a unit of their own.
    speed = max(_largest(place.view.bodies.u), _largest(place.view.bodies.omega), _largest(here.state[1]))
    fastest = max(rate * speed, _largest(before[:, -1]))
    return bool(np.all(change <= limit) and _largest((after - before)[:, -1]) <= tolerance * fastest)


def _largest(a: Any) -> float:
    return float(np.max(np.abs(a), initial=0.0))


def is_of_bodies(system: Any) -> bool:
    """Whether a system has bodies, whose motion tells whether it closes."""
    return isinstance(system, MultibodySystem) and bool(len(system.coordinates.shown))
