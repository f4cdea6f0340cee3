"""The two published beam tests by NumPy and SciPy alone: absolute coordinates, index 1, DOP853.

The semi-discrete beam is the one of the paper: nodes (p_i, x_i), edge strains w = log(q_{i-1}⁻¹ q_i)/Δs on SE(3),
midpoint potential, trapezoidal mass, damping stress 2 C_d ẇ, no shear. The equations are set up in another way than
in the library: quaternions in R⁴ and places in R³ are integrated themselves, with spatial angular velocities, and the
logarithm is written in the frame halfway between the two nodes. With r = p_a* p_b = (r₀, v), p_m = (p_a + p_b)/|.| and
z = R(p_m)ᵀ(x_b - x_a),

    log = (O, U),   O = 2c v,   U = c z + e v (v·z),   c = arccos r₀/√(1 - r₀²),   e = (1 - c)/(1 - r₀²),

since exp(O) splits into two half turns. Its first derivative, the transpose of that and the second derivative along a
motion are written out by hand below. `python store_published_motion.py` stores what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

TOLERANCE = 3e-14


class Beam(NamedTuple):
    """One of the tests; the sections are those of both, with spherical inertia.

    `load(t)` gives forces and moments on the nodes, both spatial, (3, N + 1).
    """

    places: np.ndarray
    turn: tuple[float, float, float, float]
    clamped: bool
    damping: float
    load: Callable[[float], tuple[np.ndarray, np.ndarray]]

    @property
    def nodes(self) -> int:
        return self.places.shape[1]

    @property
    def spacing(self) -> float:
        return LENGTH / (self.nodes - 1)


LENGTH = 10.0
BENDING = 500.0
STIFFNESS = np.array([BENDING] * 3 + [1e4] * 3).reshape(6, 1, 1)
UNSTRAINED = np.array([0, 0, 0, 0, 0, 1.0]).reshape(6, 1, 1)
MASS, INERTIA = 1.0, 10.0


def roll_up(damping: float) -> Beam:
    moment = np.zeros((3, 9))
    moment[1, -1] = 2 * np.pi * BENDING / LENGTH
    still = np.zeros((3, 9))
    places = np.outer((10, 0, 0), np.linspace(0, 1, 9))
    return Beam(places, (np.sqrt(0.5), 0, np.sqrt(0.5), 0), True, damping, lambda t: (still, moment))


def spaghetti() -> Beam:
    s = np.linspace(0, 1, 17)
    force, moment = np.zeros((3, 17)), np.zeros((3, 17))
    force[:, 0], moment[:, 0] = (0.1, 0, 0), (0, -0.5, -1)

    def load(t: float) -> tuple[np.ndarray, np.ndarray]:
        g = max(0.0, 80 * min(t, 5 - t))
        return g * force, g * moment

    turn = tuple(np.sqrt(0.5) * np.array((1, -0.8, -0.6, 0)))
    return Beam(np.stack((6 * (1 - s), 8 * s, 0 * s)), turn, False, 0.0, load)


class State(NamedTuple):
    """p (4, n), x (3, n), spatial angular velocity (3, n), velocity (3, n)."""

    p: np.ndarray
    x: np.ndarray
    omega: np.ndarray
    u: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray) -> State:
        y = y.reshape(13, -1)
        return cls(y[:4], y[4:7], y[7:10], y[10:])


def start(beam: Beam) -> np.ndarray:
    p = np.repeat(np.array(beam.turn)[:, None], beam.nodes, axis=1)
    return np.concatenate((p, beam.places, np.zeros((6, beam.nodes)))).ravel()


_NEXT, _LAST = [1, 2, 0], [2, 0, 1]


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[_NEXT] * b[_LAST] - a[_LAST] * b[_NEXT]


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(axis=0)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of quaternions, components along the first axis."""
    out = a[0] * b
    out[0] -= (a[1:] * b[1:]).sum(axis=0)
    out[1:] += b[0] * a[1:] + cross(a[1:], b[1:])
    return out


def matrix(p: np.ndarray) -> np.ndarray:
    """(4, n) → rotations (3, 3, n)."""
    w, x, y, z = p
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.array(rows)


def _series() -> np.ndarray:
    """Of c and e and their first and second derivatives with respect to r₀, in powers of u = (1 - r₀)/2.

    c = arcsin √u/√(u(1 - u)) = Σ 4ⁿ n!²/(2n + 1)! uⁿ, and e = (1 - c)/(4u(1 - u)).
    """
    terms = 36
    c = np.cumprod([1, *((2 * n) / (2 * n + 1) for n in range(1, terms + 2))])
    e = -np.cumsum(c[1:]) / 4

    def derivative(a: np.ndarray) -> np.ndarray:
        return -0.5 * np.arange(1, len(a)) * a[1:]

    rows = (c, e, derivative(c), derivative(e), derivative(derivative(c)), derivative(derivative(e)))
    return np.array([row[: terms - 1] for row in rows])


_SERIES = _series()


class Edges:
    """Logarithms over the edges of the beam, (6, 1, N), with what their derivatives need; vectors (3, 1, N)."""

    def __init__(self, p: np.ndarray, x: np.ndarray):
        a, b = p[:, :-1], p[:, 1:]
        r = product(a * [[1], [-1], [-1], [-1]], b)
        u = (1 - r[0]) / 2
        if np.max(u) > 0.25:
            raise ValueError(f"Neighbouring nodes are turned by {4 * np.arcsin(np.sqrt(np.max(u))):.2f}: out of reach.")
        powers = np.cumprod(np.vstack((np.ones_like(u), np.tile(u, (_SERIES.shape[1] - 1, 1)))), axis=0)
        self.c, self.e, self.c1, self.e1, self.c2, self.e2 = _SERIES @ powers
        self.frames = matrix((a + b) / np.sqrt(2 * (1 + r[0])))
        self.v, self.s = r[1:, None], 1 + r[0]
        self.z = self.inwards(x[:, 1:] - x[:, :-1])
        self.vz = dot(self.v, self.z)
        self.log = np.concatenate((2 * self.c * self.v, self.c * self.z + self.e * self.vz * self.v))

    def inwards(self, y: np.ndarray) -> np.ndarray:
        """Spatial vectors (3, N) in the frames halfway."""
        return np.einsum("ijn,in->jn", self.frames, y)[:, None]

    def outwards(self, y: np.ndarray) -> np.ndarray:
        return np.einsum("ijn,jkn->ikn", self.frames, y)

    def rates(self, omega: np.ndarray, u: np.ndarray) -> Rates:
        return Rates(self, omega, u)

    def pull_back(self, forces: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Transpose of the derivative of the logarithm, for k covectors (6, k, N) at once.

        Spatial moments on the first and on the second nodes, and forces on the second (minus those on the first).
        """
        a, b = forces[:3], forces[3:]
        vb = dot(self.v, b)
        on_z = self.c * b + self.e * vb * self.v
        on_v = 2 * self.c * a + self.e * (self.vz * b + vb * self.z)
        on_r = self.c1 * (2 * dot(a, self.v) + dot(b, self.z)) + self.e1 * vb * self.vz
        on_frame = cross(on_z, self.z)
        apart = on_v - self.v * (dot(self.v, on_v) / self.s + on_r) - cross(on_frame, self.v) / self.s
        return self.outwards(on_frame - apart) / 2, self.outwards(on_frame + apart) / 2, self.outwards(on_z)


class Rates:
    """First and second time derivative of the logarithms while the spatial velocities stay as they are."""

    def __init__(self, at: Edges, omega: np.ndarray, u: np.ndarray):
        v, z, s = at.v, at.z, at.s
        apart = at.inwards(omega[:, 1:] - omega[:, :-1])
        y = at.inwards(u[:, 1:] - u[:, :-1])
        mean = at.inwards(omega[:, 1:] + omega[:, :-1]) / 2
        va = dot(v, apart)
        turned = cross(v, apart)
        r1 = -0.5 * va
        v1 = 0.5 * (apart - v * (va / s))
        spin = mean - turned / (2 * s)
        z1 = y + cross(z, spin)
        vz1 = dot(v1, z) + dot(v, z1)
        self.first = np.concatenate(
            (
                2 * (at.c * v1 + at.c1 * r1 * v),
                at.c * z1 + at.c1 * r1 * z + at.e * (at.vz * v1 + vz1 * v) + at.e1 * r1 * at.vz * v,
            )
        )
        apart1 = cross(apart, spin)
        va1 = dot(v1, apart) + dot(v, apart1)
        r2 = -0.5 * va1
        v2 = 0.5 * (apart1 - (v1 * va + v * va1) / s + v * (va * r1 / s**2))
        spin1 = cross(mean, spin) - (cross(v1, apart) + cross(v, apart1)) / (2 * s) + turned * r1 / (2 * s**2)
        z2 = cross(y, spin) + cross(z1, spin) + cross(z, spin1)
        vz2 = dot(v2, z) + 2 * dot(v1, z1) + dot(v, z2)
        cd, cdd = at.c1 * r1, at.c2 * r1**2 + at.c1 * r2
        ed, edd = at.e1 * r1, at.e2 * r1**2 + at.e1 * r2
        self.second_of_U = (
            at.c * z2
            + 2 * cd * z1
            + cdd * z
            + at.e * (at.vz * v2 + 2 * vz1 * v1 + vz2 * v)
            + 2 * ed * (at.vz * v1 + vz1 * v)
            + edd * at.vz * v
        )


_SHEAR = np.zeros((6, 2, 1))
_SHEAR[3, 0] = _SHEAR[4, 1] = 1.0


class Motion:
    """Right-hand side of a beam, and its multipliers: M a = F - Bᵀλ with B the derivative of Δs(Γ₁, Γ₂)."""

    def __init__(self, beam: Beam):
        self.beam = beam
        weights = np.full(beam.nodes, beam.spacing)
        weights[[0, -1]] /= 2
        inverse = 1 / (np.array([INERTIA] * 3 + [MASS] * 3)[:, None] * weights)
        if beam.clamped:
            inverse[:, 0] = 0.0
        self.inverse_mass = inverse

    def accelerations(self, t: float, state: State) -> tuple[np.ndarray, np.ndarray]:
        """(6, n) accelerations, angular first, and multipliers (N, 2)."""
        beam, n = self.beam, self.beam.nodes - 1
        edges = Edges(state.p, state.x)
        rates = edges.rates(state.omega, state.u)
        ds = beam.spacing
        stress = STIFFNESS * (edges.log / ds - UNSTRAINED) + 2 * beam.damping * rates.first / ds
        first, second, pull = edges.pull_back(np.concatenate((stress, np.broadcast_to(_SHEAR, (6, 2, n))), axis=1))
        force, moment = beam.load(t)
        F = np.concatenate((moment, force))
        F[:3, :-1] -= first[:, 0]
        F[:3, 1:] -= second[:, 0]
        F[3:, :-1] += pull[:, 0]
        F[3:, 1:] -= pull[:, 0]
        B = np.zeros((n, 2, 6, n + 1))
        e = np.arange(n)
        B[e, :, :3, e], B[e, :, 3:, e] = first[:, 1:].T, -pull[:, 1:].T
        B[e, :, :3, e + 1], B[e, :, 3:, e + 1] = second[:, 1:].T, pull[:, 1:].T
        B = B.reshape(2 * n, -1)
        free = self.inverse_mass * F
        Z = rates.second_of_U[:2, 0].T.ravel()
        weighted = B * self.inverse_mass.ravel()
        multipliers = np.linalg.solve(weighted @ B.T, B @ free.ravel() + Z)
        return free - (multipliers @ weighted).reshape(6, -1), multipliers.reshape(n, 2)

    def __call__(self, t: float, y: np.ndarray) -> np.ndarray:
        state = State.of(y)
        turning = np.concatenate((np.zeros((1, self.beam.nodes)), state.omega))
        return np.concatenate((0.5 * product(turning, state.p), state.u, self.accelerations(t, state)[0])).ravel()


def follow(beam: Beam, times: Sequence[float], tolerance: float = TOLERANCE) -> list[State]:
    """States at `times`, which have to include the kinks of the load that come before the last of them."""
    motion, y, t, found = Motion(beam), start(beam), 0.0, []
    for end in times:
        run = solve_ivp(motion, (t, end), y, "DOP853", rtol=tolerance, atol=tolerance, t_eval=[end])
        if not run.success:
            raise RuntimeError(run.message)
        y, t = run.y[:, -1], end
        found.append(State.of(y))
    return found
