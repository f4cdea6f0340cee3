"""Discrete momenta of mechanical systems on Lie groups: what variational steps balance."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.spaces.base import AbstractGroup, Point, Vector
from polhode.systems.mechanical import AbstractMechanical


def at_start(space: AbstractGroup, xi: Vector, momentum: Vector) -> Vector:
    """The momentum of a half step at its start, where a step goes along ξ: dexp⁻ᵀ of ξ."""
    return space.dexpinv_dual(xi, momentum)


def at_end(space: AbstractGroup, xi: Vector, momentum: Vector) -> Vector:
    """The momentum of a half step at its end: dexp⁻ᵀ of -ξ."""
    return space.dexpinv_dual(-xi, momentum)


def carry_over(space: AbstractGroup, xi: Vector, momentum: Vector) -> Vector:
    """A momentum at the start, seen from the end: the same in space."""
    return at_end(space, xi, space.dexp_dual(xi, momentum))


def inertia_slope(system: AbstractMechanical, t: Array, q: Point, v: Vector) -> Vector:
    """The derivative of ½ vᵀM(q)v along θ in move(q, θ); zero where M is constant."""
    move = system.configuration.move

    def energy(theta: Vector) -> Array:
        return 0.5 * v @ system.momentum(t, move(q, theta), v)

    return jax.grad(energy)(jnp.zeros(system.n))


def loads(system: AbstractMechanical, t: Array, q: Point, v: Vector) -> Vector:
    """Generalised forces without those of inertia."""
    if not system.has_loads:
        return system.force(t, q, jnp.zeros(system.n))
    return system.force(t, q, v) - _inertia_forces(system, t, q, v)


def _inertia_forces(system: AbstractMechanical, t: Array, q: Point, v: Vector) -> Vector:
    """∂T/∂q - Ṁv + ad*_v(Mv): the part of f that is quadratic in v."""
    space: Any = system.configuration
    zero, one = jnp.zeros(()), jnp.ones(())
    momentum, change = jax.jvp(lambda s: system.momentum(t, system.flow(q, v, s), v), (zero,), (one,))
    return inertia_slope(system, t, q, v) - change + space.ad_dual(v, momentum)
