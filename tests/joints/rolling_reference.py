"""Motions of a rolling disc and of Chaplygin's sleigh from outside of the library: reduced equations and formulas."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import scipy.integrate

import polhode as ph


@dataclasses.dataclass(frozen=True)
class Disc:
    r"""A disc that rolls on the plane z = 0.

    In the frame e₁ (horizontal tangent), e₂ (from the contact to the centre), e₃ (axis), with
    $R = R_z(\psi)R_x(\theta)R_z(\varphi)$,

    $$(A+mr^2)\dot\omega_1 = A\Omega_3\omega_2-(C+mr^2)\omega_2\omega_3-mgr\cos\theta,\quad
    A\dot\omega_2 = (C\omega_3-A\Omega_3)\omega_1,\quad (C+mr^2)\dot\omega_3 = mr^2\omega_1\omega_2$$

    with $\Omega_3=\omega_2\cot\theta$ (O. M. O'Reilly, The dynamics of rolling disks and sliding disks, Nonlinear
    Dynam. 10 (1996)). Rows of states: θ, ψ, φ, ω, centre.
    """

    m: float = 2.0
    r: float = 0.5
    g: float = 9.81

    @property
    def A(self) -> float:
        return 0.25 * self.m * self.r**2

    @property
    def C(self) -> float:
        return 0.5 * self.m * self.r**2

    def steady(self, theta: float, omega2: float) -> float:
        """ω₃ with which the lean stays and the disc goes round in a circle."""
        balance = self.A * omega2**2 / math.tan(theta) - self.m * self.g * self.r * math.cos(theta)
        return balance / ((self.C + self.m * self.r**2) * omega2)

    def derivatives(self, y: np.ndarray) -> tuple[float, np.ndarray]:
        """Ω₃ and ω̇."""
        theta, (w1, w2, w3), A, C, b = y[0], y[3:6], self.A, self.C, self.m * self.r**2
        turn = w2 / math.tan(theta)
        first = A * turn * w2 - (C + b) * w2 * w3 - self.m * self.g * self.r * math.cos(theta)
        return turn, np.array([first / (A + b), (C * w3 - A * turn) * w1 / A, b * w1 * w2 / (C + b)])

    def after(self, y: np.ndarray, t: float) -> np.ndarray:
        """The state after time t, to 1e-12."""

        def field(_: float, y: np.ndarray) -> np.ndarray:
            turning = y[4] / math.sin(y[0])
            angles = y[3], turning, y[5] - turning * math.cos(y[0])
            return np.array([*angles, *self.derivatives(y)[1], *self.motion(y)[3]])

        return scipy.integrate.solve_ivp(field, (0.0, t), y, method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]

    def motion(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rotation matrix, centre, body-fixed angular velocity and velocity of the centre."""
        E, (w1, _, w3) = _turn(2, y[1]) @ _turn(0, y[0]), y[3:6]
        spin = _turn(2, y[2])
        return E @ spin, y[6:9], spin.T @ y[3:6], self.r * (w1 * E[:, 2] - w3 * E[:, 0])

    def multipliers(self, y: np.ndarray) -> np.ndarray:
        """The force on the plane along the normal, the direction of rolling -e₁, and to its left."""
        turn, dw = self.derivatives(y)
        E, (w1, w2, w3), up = _turn(2, y[1]) @ _turn(0, y[0]), y[3:6], np.array([0.0, 0.0, 1.0])
        acceleration = self.r * np.array([w1 * w2 - dw[2], -turn * w3 - w1 * w1, dw[0] + w2 * w3])
        force = self.m * (E @ acceleration + self.g * up)
        return -np.array([force @ up, -force @ E[:, 0], -force @ np.cross(up, E[:, 0])])

    def model(self, y: np.ndarray, slip: tuple[float, float, float] = (0.0, 0.0, 0.0), rolls: bool = True) -> ph.Model:
        """The disc as a model in the state y, its centre faster by `slip`."""
        R, x, omega, u = self.motion(y)
        model = ph.Model(gravity=(0, 0, -self.g))
        disc = model.add_body(
            mass=self.m,
            inertia=(self.A, self.A, self.C),
            position=x,
            rotation=R,
            velocity=u + np.array(slip),
            angular_velocity=omega,
        )
        if rolls:
            model.add(ph.joints.RollingDisc(model.ground, disc, axis=R[:, 2], radius=self.r, name="rim"))
        return model


TUMBLING = np.array([1.2, 0.3, 0.4, 0.3, 1.5, -4.0, 0.1, 0.2, 0.5 * math.sin(1.2)])
"""A disc that leans, wobbles and goes ahead: a state of `Disc()`."""


@dataclasses.dataclass(frozen=True)
class Sleigh:
    r"""Chaplygin's sleigh: a plate on the plane z = 0 with a knife edge, its centre of mass ahead of the edge by a.

    With v the velocity along the edge and ω the rate of turn, $\dot v = a\omega^2$,
    $(I+ma^2)\dot\omega = -mav\omega$, so $v = V\tanh(\kappa t+c)$, $\omega = W/\cosh(\kappa t+c)$ with
    $\tfrac12mV^2 = \tfrac12(I+ma^2)W^2 = E$ and $\kappa = maV/(I+ma^2)$: the sleigh ends up going straight.
    """

    m: float = 1.5
    inertia: float = 0.4
    a: float = 0.3
    V: float = 2.0
    c: float = -1.0

    @property
    def k(self) -> float:
        """I + ma²."""
        return self.inertia + self.m * self.a**2

    @property
    def kappa(self) -> float:
        return self.m * self.a * self.V / self.k

    def at(self, t: float) -> tuple[float, float, float]:
        """Heading, 0 at the start, v and ω."""
        s, W = self.kappa * t + self.c, self.V * math.sqrt(self.m / self.k)
        turned = 2 * W / self.kappa * (math.atan(math.tanh(0.5 * s)) - math.atan(math.tanh(0.5 * self.c)))
        return turned, self.V * math.tanh(s), W / math.cosh(s)

    def multiplier(self, t: float) -> float:
        """The force on the ground to the left of the heading."""
        _, v, omega = self.at(t)
        return -self.m * (v * omega - self.a * self.m * self.a * v * omega / self.k)

    def model(self, edge: bool = True) -> ph.Model:
        _, v, omega = self.at(0.0)
        model = ph.Model()
        body = model.add_body(
            mass=self.m,
            inertia=(0.2, 0.3, self.inertia),
            position=(self.a, 0, 0),
            velocity=(v, self.a * omega, 0),
            angular_velocity=(0, 0, omega),
        )
        model.add(ph.joints.Planar(model.ground, body, normal=(0, 0, 1)))
        if edge:
            model.add(ph.joints.KnifeEdge(model.ground, body, point=(0, 0, 0), across=(0, 1, 0), name="edge"))
        return model


def _turn(axis: int, angle: float) -> np.ndarray:
    """Rotation about a coordinate axis."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[i, i] = R[j, j] = math.cos(angle)
    R[j, i], R[i, j] = math.sin(angle), -math.sin(angle)
    return R
