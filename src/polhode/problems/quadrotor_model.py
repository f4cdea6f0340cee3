"""Two quadrotors that carry a point load on massless rods, driven by any control law."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.spaces import SO3, TS2, Product, Rn
from polhode.spaces.base import cross

Vector3 = Float[Array, "3"]
Pair = Float[Array, "2 3"]


class Transport(NamedTuple):
    """The state by name; the third inertial axis points along gravity, downwards.

    - `load`, `load_velocity`: position and velocity of the load, (3,), inertial frame.
    - `attitudes`: (2, 3, 3), each quadrotor's frame to the inertial frame.
    - `body_rates`: (2, 3), angular velocities of the quadrotors, each in its own frame.
    - `links`: (2, 3), unit vectors q_i along the rods from quadrotor i to the load.
    - `link_rates`: (2, 3), angular velocities ω_i of the rods, inertial frame, q_i·ω_i = 0.
    """

    load: Vector3
    load_velocity: Vector3
    attitudes: Float[Array, "2 3 3"]
    body_rates: Pair
    links: Pair
    link_rates: Pair


class Control(NamedTuple):
    """Rotor loads: thrusts u_i, (2, 3), inertial frame, and moments M_i, (2, 3), each in its body frame."""

    thrusts: Pair
    moments: Pair


class AbstractController(eqx.Module):
    """A control law; its leaves are its gains."""

    @abc.abstractmethod
    def __call__(self, t: Array, state: Transport) -> Control:
        """Thrusts and moments at time t."""


class TransportParameters(eqx.Module):
    """Load mass m_y; masses m_i, rod lengths L_i of shape (2,); moments of inertia (2, 3); gravity g along +e₃."""

    load_mass: Float[Array, ""]
    masses: Float[Array, "2"]
    lengths: Float[Array, "2"]
    inertias: Pair
    gravity: Float[Array, ""]

    @property
    def free_fall(self) -> Vector3:
        """Acceleration g e₃ of a falling body."""
        return self.gravity * jnp.array([0.0, 0.0, 1.0])


SPACE = Product(Rn(3), Rn(3), SO3(), Rn(3), SO3(), Rn(3), TS2(), TS2())
"""(y, v, R₁, Ω₁, R₂, Ω₂, (q₁, ω₁), (q₂, ω₂)): R³×R³×(SO(3)×R³)²×SE(3)² acts."""


def by_name(state: Any) -> Transport:
    """A point of `SPACE` with its parts named."""
    y, v, R1, W1, R2, W2, (q1, w1), (q2, w2) = state
    return Transport(y, v, jnp.stack((R1, R2)), jnp.stack((W1, W2)), jnp.stack((q1, q2)), jnp.stack((w1, w2)))


def to_point(state: Transport) -> Any:
    """Inverse of `by_name`."""
    (R1, R2), (W1, W2), (q1, q2), (w1, w2) = state.attitudes, state.body_rates, state.links, state.link_rates
    return (state.load, state.load_velocity, R1, W1, R2, W2, (q1, w1), (q2, w2))


class ControlledTransport(eqx.Module):
    r"""Equations of motion under a control law.

    With $M_q = m_y 1 + \sum m_i q_i q_i^\top$ and thrusts split along and across the rods,
    $M_q(\dot v - g e_3) = \sum (u_i^\parallel - m_i L_i |ω_i|² q_i)$,
    $\dot ω_i = q_i × (\dot v - g e_3)/L_i - q_i × u_i^\perp/(m_i L_i)$, $J_i \dot Ω_i = J_iΩ_i × Ω_i + M_i$.

    The thrusts act as free vectors: the attitudes are carried along and do not steer.

    ??? cite "Reference"
        E. Celledoni, E. Çokaj, A. Leone, D. Murari, B. Owren, *Lie group integrators for mechanical systems*
        (2022), §6; its axis e₃ points along gravity.
    """

    parameters: TransportParameters
    controller: AbstractController

    def __call__(self, t: Array, state: Any) -> Float[Array, "30"]:
        """Algebra element (v, v̇, Ω₁, Ω̇₁, Ω₂, Ω̇₂, ω₁, q₁×ω̇₁, ω₂, q₂×ω̇₂)."""
        now = by_name(state)
        control = self.controller(t, now)
        dv, dlink = self.accelerations(now, control.thrusts)
        momenta = self.parameters.inertias * now.body_rates
        dbody = 1 / self.parameters.inertias * (jax.vmap(cross)(momenta, now.body_rates) + control.moments)
        turn = jax.vmap(cross)(now.links, dlink)
        bodies = (now.body_rates[0], dbody[0], now.body_rates[1], dbody[1])
        rods = (now.link_rates[0], turn[0], now.link_rates[1], turn[1])
        return jnp.concatenate((now.load_velocity, dv, *bodies, *rods))

    def accelerations(self, state: Transport, thrusts: Pair) -> tuple[Vector3, Pair]:
        """v̇ of the load and ω̇_i of the rods, inertial frame."""
        p, q = self.parameters, state.links
        along = jnp.sum(q * thrusts, axis=1)
        pull = along - p.masses * p.lengths * jnp.sum(state.link_rates**2, axis=1)
        outer = p.masses[:, None, None] * q[:, :, None] * q[:, None, :]
        mass = p.load_mass * jnp.eye(3) + outer[0] + outer[1]
        lift = _solve_symmetric(mass, pull[0] * q[0] + pull[1] * q[1])
        # The component of the thrust along the rod drops out of the cross product.
        link_accelerations = (lift - 1 / p.masses[:, None] * thrusts) * (1 / p.lengths[:, None])
        return lift + p.free_fall, jax.vmap(cross)(q, link_accelerations)

    def energy(self, state: Transport) -> Float[Array, ""]:
        """Kinetic plus potential energy of the load and the quadrotors; constant without thrusts and moments."""
        p = self.parameters
        down = jnp.array([0.0, 0.0, 1.0])
        rods = p.lengths[:, None] * state.links
        sway = p.lengths[:, None] * jax.vmap(cross)(state.link_rates, state.links)
        velocities = state.load_velocity - sway
        kinetic = p.load_mass * state.load_velocity @ state.load_velocity
        kinetic += jnp.sum(p.masses * jnp.sum(velocities**2, axis=1)) + jnp.sum(p.inertias * state.body_rates**2)
        depth = p.load_mass * state.load @ down + jnp.sum(p.masses * ((state.load - rods) @ down))
        return 0.5 * kinetic - p.gravity * depth


def _solve_symmetric(matrix: Float[Array, "3 3"], right: Vector3) -> Vector3:
    """Cramer's rule; the matrix is symmetric, well conditioned and tiny."""
    a, b, c = matrix
    bc, ca, ab = cross(b, c), cross(c, a), cross(a, b)
    return 1 / (a @ bc) * (right[0] * bc + right[1] * ca + right[2] * ab)
