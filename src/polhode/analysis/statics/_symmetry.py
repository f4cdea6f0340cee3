r"""Motions of all bodies that a symmetry may generate.

A steady motion is carried along by a one-parameter group that leaves the equations of motion as they are: each body
moves by $g_i(t) = e^{t\Xi}\, g_i(0)\, e^{t\xi_i}$, with a screw Ξ of the whole space and a screw ξᵢ that is fixed in
the body, as of a wheel in its bearings. With the velocities of the bodies known, Ξ determines all ξᵢ, and their
accelerations restrict Ξ. What they leave open, such as a turn about an axis about which all bodies spin, is a choice
of the frame in which deviations are measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import expm

from polhode.analysis.statics._body_motions import Bodies, View

_OPEN = 1e-7
"""Singular values below this fraction of the rates leave a direction of Ξ open."""

_SAME = 1e-6
"""Difference of frames' rates, relative to the fastest, up to which they count as one."""

_NEAR = 1e-6
"""Extent of bodies, relative to how far away and how fast they are, that is lost in the round-off of accelerations."""


class Symmetry(NamedTuple):
    """A group that carries a motion.

    - `shift`, `turn`: of the space, a velocity at the origin and an angular velocity, in the inertial frame.
    - `slide`, `spin`: of each body, in its own frame, (N, 3).
    - `drift`: velocity of the inertial frame in which all that is so, its origin passing the first at the start.
    """

    shift: Float[np.ndarray, "3"]
    turn: Float[np.ndarray, "3"]
    slide: Float[np.ndarray, "N 3"]
    spin: Float[np.ndarray, "N 3"]
    drift: Float[np.ndarray, "3"]

    @classmethod
    def from_motion(cls, bodies: Bodies, shift: np.ndarray, turn: np.ndarray, drift: np.ndarray) -> Symmetry:
        """The group with a given motion of the space that moves bodies as they move."""
        residual = bodies.u - drift - shift - np.cross(turn, bodies.x)
        return cls(shift, turn, _into(bodies.R, residual), bodies.omega - _into(bodies.R, turn), drift)

    def bodies(self, start: Bodies, t: float) -> Bodies:
        """Bodies carried along for a time t."""
        (E, p), (Q, c) = _exponential(self.turn, self.shift, t), _exponential(self.spin, self.slide, t)
        x = (start.x + _onto(start.R, c)) @ E.T + p + t * self.drift
        u = (start.u - self.drift + _onto(start.R, np.cross(start.omega, c))) @ E.T + self.drift
        return Bodies(x, E @ start.R @ Q, u, _into(Q, start.omega))

    def deviations(self, start: Bodies, along: np.ndarray, t: float) -> np.ndarray:
        """Small changes of the numbers in `Bodies`, as columns, carried along for a time t."""
        count, columns = len(start.x), along.shape[1]
        (E, _), (Q, c) = _exponential(self.turn, self.shift, t), _exponential(self.spin, self.slide, t)
        x, R, u, omega = np.split(along, np.cumsum((3 * count, 9 * count, 3 * count)))
        x, u, omega = (a.reshape(count, 3, columns) for a in (x, u, omega))
        R = R.reshape(count, 3, 3, columns)
        arm = np.cross(start.omega, c)
        faster = np.cross(omega, c[:, :, None], axis=1)
        return np.concatenate(
            [
                np.einsum("ij,njk->nik", E, x + np.einsum("nijk,nj->nik", R, c)).reshape(-1, columns),
                np.einsum("ia,nabk,nbj->nijk", E, R, Q).reshape(-1, columns),
                np.einsum(
                    "ij,njk->nik", E, u + np.einsum("nijk,nj->nik", R, arm) + np.einsum("nij,njk->nik", start.R, faster)
                ).reshape(-1, columns),
                np.einsum("nji,njk->nik", Q, omega).reshape(-1, columns),
            ]
        )

    @property
    def rates(self) -> np.ndarray:
        """Angular speeds of the space and of each body in it."""
        return np.concatenate(([np.linalg.norm(self.turn)], np.linalg.norm(self.spin, axis=1)))


class Family(NamedTuple):
    """All groups that carry a motion of bodies, by the velocity of their centre and angular velocity of the space.

    They are `one` + `free` a, in units in which the rates and distances of bodies are about 1.

    - `drift`: velocity of the inertial frame in which they are groups.
    - `misfit`: what of the motion no group explains, in these units.
    """

    bodies: Bodies
    drift: np.ndarray
    centre: np.ndarray
    rate: float
    length: float
    one: Float[np.ndarray, "6"]
    free: Float[np.ndarray, "6 k"]
    misfit: float

    @classmethod
    def of(cls, view: View, drift: np.ndarray) -> Family:
        """The groups of a motion of bodies.

        Two time derivatives of their velocities are linear in Ξ, and determine its part that later ones depend on.
        """
        bodies = view.bodies._replace(u=view.bodies.u - drift)
        centre, rate = np.mean(bodies.x, axis=0), _rate(bodies, view.acceleration[0])
        length = _length(bodies, view.bodies, centre, rate)
        K, b = _conditions(_nondimensional(bodies, centre, length, rate), view, length, rate)
        inverse, free = _pseudo_inverse(K)
        one = inverse @ b
        misfit = float(np.max(np.abs(K @ one - b), initial=0.0))
        return cls(view.bodies, drift, centre, rate, length, one, free, misfit)

    def members(self) -> Iterator[Symmetry]:
        """Groups to try: those that turn the space least, then those that turn it with one of the bodies.

        Among equals those first in which bodies slide least along axes of their own. The order is that of their rates,
        whatever that of the bodies.
        """
        turns = [self._nearest(turn) for turn in (np.zeros(3), *_onto(self.bodies.R, self.bodies.omega))]
        first, *others = _distinct(turns, slice(3, 6))
        for frame in (first, *sorted(others, key=lambda p: float(np.linalg.norm(p[3:])))):
            for member in _distinct(
                [self._least_sliding(frame, k) for k in (None, *range(len(self.bodies.x)))], slice(0, 3)
            ):
                yield self._symmetry(member)

    def _nearest(self, turn: np.ndarray) -> np.ndarray:
        """The member whose angular velocity is nearest."""
        along, _ = _pseudo_inverse(self.free[3:])
        return self.one + self.free @ (along @ (turn / self.rate - self.one[3:]))

    def _least_sliding(self, p: np.ndarray, body: int | None) -> np.ndarray:
        """The member with the same angular velocity with which one body, or all of them, slide least."""
        free = self.free @ _pseudo_inverse(self.free[3:])[1]
        speeds = self.rate * self.length
        arms, u = self.bodies.x - self.centre, self.bodies.u - self.drift
        slip = (u - np.cross(p[3:] * self.rate, arms)) / speeds - p[:3]
        target = np.mean(slip, axis=0) if body is None else slip[body]
        return p + free @ (_pseudo_inverse(free[:3])[0] @ target)

    def _symmetry(self, p: np.ndarray) -> Symmetry:
        turn = p[3:] * self.rate
        shift = p[:3] * self.rate * self.length - np.cross(turn, self.centre)
        return Symmetry.from_motion(self.bodies, shift, turn, self.drift)


def _length(bodies: Bodies, inertial: Bodies, centre: np.ndarray, rate: float) -> float:
    """Length scale: extent of the bodies or their path in a turn, but no less than the round-off of their positions."""
    apart = max(np.max(np.abs(bodies.x - centre)), np.max(np.abs(bodies.u)) / rate)
    far = max(np.max(np.abs(inertial.x)), np.max(np.abs(inertial.u)) / rate)
    return float(max(apart, _NEAR * far)) or 1.0


def _nondimensional(bodies: Bodies, centre: np.ndarray, length: float, rate: float) -> Bodies:
    """Bodies from their centre, in units of a length and a rate."""
    return Bodies((bodies.x - centre) / length, bodies.R, bodies.u / (length * rate), bodies.omega / rate)


def _conditions(bodies: Bodies, view: View, length: float, rate: float) -> tuple[np.ndarray, np.ndarray]:
    r"""K and b of K Ξ = b, with Ξ the velocity at the centre and the angular velocity Ω.

    With W = Rᵀ Ω and w the velocity of the space at a body, $\dot\omega = -\omega\times W$ and
    $\ddot x = \Omega\times\dot x + R\omega\times(\dot x - w)$; and these once more differentiated, in which
    $\dot W = \dot\omega$ and $\dot w = \Omega\times\dot x$.
    """
    x, R, u, omega = bodies
    du, domega = view.acceleration[0] / (length * rate**2), view.acceleration[1] / rate**2
    ddu, ddomega = view.jerk[0] / (length * rate**3), view.jerk[1] / rate**3
    spin, faster, none = _onto(R, omega), _onto(R, domega), np.zeros((len(x), 3, 3))
    back = np.swapaxes(R, 1, 2)
    rows = (
        (none, -_hat(omega) @ back, domega),
        (-_hat(spin), _hat(spin) @ _hat(x) - _hat(u), du - np.cross(spin, u)),
        (none, -_hat(domega) @ back, ddomega + np.cross(omega, domega)),
        (
            -_hat(faster),
            _hat(faster) @ _hat(x) + _hat(spin) @ _hat(u) - _hat(du),
            ddu - np.cross(faster, u) - np.cross(spin, du),
        ),
    )
    K = np.concatenate([np.concatenate((shift, turn), axis=2) for shift, turn, _ in rows]).reshape(-1, 6)
    return K, np.concatenate([b for *_, b in rows]).reshape(-1)


def _rate(bodies: Bodies, acceleration: np.ndarray) -> float:
    """The fastest rate at which directions of velocities change; 1 where none does."""
    speed = np.linalg.norm(bodies.u, axis=1)
    fast = speed > _SAME * np.max(speed, initial=0.0)
    curvature_rates = np.linalg.norm(acceleration, axis=1)[fast] / speed[fast]
    return float(np.max(np.concatenate((curvature_rates, np.linalg.norm(bodies.omega, axis=1))), initial=0.0)) or 1.0


def _pseudo_inverse(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pseudo-inverse and a basis of the null space; singular values below `_OPEN` count as zero."""
    left, sizes, right = np.linalg.svd(matrix)
    rank = int(np.sum(sizes > _OPEN))
    return right[:rank].T @ (left[:, :rank] / sizes[:rank]).T, right[rank:].T


def _distinct(members: list[np.ndarray], part: slice) -> list[np.ndarray]:
    result: list[np.ndarray] = []
    for p in members:
        if all(np.max(np.abs(p[part] - other[part])) > _SAME for other in result):
            result.append(p)
    return result


def _exponential(turn: np.ndarray, shift: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Rotations and translations of screws, one or many."""
    screws = np.zeros((*turn.shape[:-1], 4, 4))
    screws[..., :3, :3], screws[..., :3, 3] = _hat(turn), shift
    poses = expm(t * screws)
    return poses[..., :3, :3], poses[..., :3, 3]


def _hat(a: np.ndarray) -> np.ndarray:
    x, y, z = np.moveaxis(a, -1, 0)
    zero = np.zeros_like(x)
    return np.moveaxis(np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]]), (0, 1), (-2, -1))


def _onto(R: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.einsum("nij,nj->ni", R, a)


def _into(R: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.einsum("nji,...nj->ni", R, np.broadcast_to(a, R.shape[:2]))
