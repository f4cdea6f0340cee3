"""The control law by which two quadrotors carry a load along a given path."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.problems.quadrotor_model import AbstractController, Control, Pair, Transport, TransportParameters, Vector3
from polhode.spaces.base import cross


class PolynomialPath(eqx.Module):
    """The path Σ_k c_k tᵏ; `coefficients` of shape (k, 3), lowest power first."""

    coefficients: Float[Array, "k 3"]

    def __call__(self, t: Array) -> Vector3:
        value = self.coefficients[-1]
        for coefficient in self.coefficients[:-1][::-1]:
            value = coefficient + t * value
        return value


class Gains(eqx.Module):
    """Gains of the load's position and velocity (k_y, k_ẏ) and of the rods' directions and rates (k_q, k_ω)."""

    position: Float[Array, ""]
    velocity: Float[Array, ""]
    direction: Float[Array, ""]
    rate: Float[Array, ""]


class _Course(NamedTuple):
    """Arguments of the desired force, as they evolve under the law: time, load position and velocity, rods."""

    t: Array
    y: Vector3
    v: Vector3
    q: Pair


class LoadTracking(AbstractController):
    r"""Geometric tracking control of the load's path with the rods in a given formation.

    The load's acceleration becomes $\dot v = g e_3 + (μ_1 + μ_2)/m_y$ with $μ_i = c_i (F·q_i) q_i$, where
    $F = m_y(-k_y e - k_{\dot y} \dot e + \ddot y_d - g e_3)$; when the rods are in formation, $μ_1 + μ_2 = F$. The
    rods follow $\dot ω_i = -k_q e_q - k_ω e_ω - (q_i·ω_{id})\dot q_i - \hat q_i² \dot ω_{id}$. The first and second
    derivatives of the desired directions are exact, taken along the closed loop.

    Undefined (NaN) where F vanishes or is parallel to `side`.

    **Arguments:**

    - `model`: what the law believes about the system.
    - `gains`: k_y, k_ẏ, k_q, k_ω.
    - `path`: desired load position y_d, a callable t → (3,) that JAX can differentiate four times.
    - `formation`: desired rod directions (2, 3) in the frame of the force, whose third axis is opposite to F; e₃
      must lie in the plane that they span.
    - `side`: fixed inertial vector that orients that frame about F.
    - `moment`: constant moment on each quadrotor, its body frame; the attitudes do not steer the load.

    ??? cite "Reference"
        T. Lee, K. Sreenath, V. Kumar, *Geometric control of cooperating multiple quadrotor UAVs with a suspended
        payload*, CDC 2013, in the form used by E. Celledoni et al., *Lie group integrators for mechanical systems*
        (2022), §6.
    """

    model: TransportParameters
    gains: Gains
    path: Callable[[Array], Vector3]
    formation: Pair
    side: Vector3
    moment: Vector3

    def __call__(self, t: Array, state: Transport) -> Control:
        m, q, omega = self.model, state.links, state.link_rates
        course = _Course(t, state.load, state.load_velocity, q)
        mu = self._rod_forces(course)
        targets, desired_dot, desired_ddot = self._desired_motion(course, omega)
        link_accelerations = jax.vmap(self._link_acceleration)(q, omega, targets, desired_dot, desired_ddot)
        centrifugal = m.masses * m.lengths * jnp.sum(omega**2, axis=1)
        ratio = m.masses / m.load_mass
        along = mu + q * (centrifugal + ratio * jnp.sum(q * (mu[0] + mu[1]), axis=1))[:, None]
        inertia = (m.masses * m.lengths)[:, None]
        across = inertia * jax.vmap(cross)(q, link_accelerations) - ratio[:, None] * jax.vmap(_cross_twice)(q, mu[::-1])
        return Control(along + across, jnp.stack((self.moment, self.moment)))

    def desired_links(self, t: Array, state: Transport) -> Pair:
        """Directions q_id that the rods should have now."""
        return self._link_targets(_Course(t, state.load, state.load_velocity, state.links))

    def _force(self, course: _Course) -> Vector3:
        """F, the force on the load that would bring it to the path."""
        (target, target_dot), (_, target_ddot) = _twice(self.path, course.t)
        error, error_dot = course.y - target, course.v - target_dot
        feedback = -self.gains.position * error - self.gains.velocity * error_dot
        return self.model.load_mass * (feedback + target_ddot - self.model.free_fall)

    def _rod_forces(self, course: _Course) -> Pair:
        """μ_i, what the rods can give of F."""
        share = self._shares()
        return (share * (course.q @ self._force(course)))[:, None] * course.q

    def _shares(self) -> Float[Array, "2"]:
        """c_i with Σ c_i (r_i·e₃) r_i = e₃ for the formation r."""
        r1, r2 = self.formation
        c = r1 @ r2
        height = self.formation[:, 2]
        return (1 - c * height[::-1] / height) / (1 - c * c)

    def _link_targets(self, course: _Course) -> Pair:
        force = self._force(course)
        side = cross(force, self.side)
        axes = jnp.stack((_unit(-cross(force, side)), _unit(-side), _unit(-force)))
        return self.formation @ axes

    def _desired_motion(self, course: _Course, omega: Pair) -> tuple[Pair, Pair, Pair]:
        """q_id and its first and second time derivatives along the closed loop."""

        def velocity(at: _Course) -> _Course:
            # Second derivatives of q_id reach q̇ = ω × q but not ω̇, so ω may be held.
            mu = self._rod_forces(at)
            dv = self.model.free_fall + (mu[0] + mu[1]) / self.model.load_mass
            return _Course(jnp.ones_like(at.t), at.v, dv, jax.vmap(cross)(omega, at.q))

        def first(at: _Course) -> tuple[Pair, Pair]:
            return jax.jvp(self._link_targets, (at,), (velocity(at),))

        (desired, desired_dot), (_, desired_ddot) = jax.jvp(first, (course,), (velocity(course),))
        return desired, desired_dot, desired_ddot

    def _link_acceleration(self, q: Vector3, omega: Vector3, d: Vector3, d_dot: Vector3, d_ddot: Vector3) -> Vector3:
        """The angular acceleration that the law gives to one rod."""
        omega_d, omega_d_dot = cross(d, d_dot), cross(d, d_ddot)
        error, rate_error = cross(d, q), omega + _cross_twice(q, omega_d)
        feedback = -self.gains.direction * error - self.gains.rate * rate_error
        return feedback - (q @ omega_d) * cross(omega, q) - _cross_twice(q, omega_d_dot)


def _cross_twice(q: Vector3, x: Vector3) -> Vector3:
    return cross(q, cross(q, x))


def _unit(x: Vector3) -> Vector3:
    return x / jnp.sqrt(x @ x)


def _twice(function: Callable[[Array], Vector3], t: Array) -> tuple[tuple[Vector3, Vector3], tuple[Vector3, Vector3]]:
    """((f, ḟ), (ḟ, f̈)) at t."""
    one = jnp.ones_like(t)
    return jax.jvp(lambda s: jax.jvp(function, (s,), (one,)), (t,), (one,))
