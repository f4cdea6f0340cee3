"""Linear normal force."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.particles.laws.normal import AbstractNormal, Elastic
from polhode.particles.laws.restitution import damping_ratio


class Hooke(AbstractNormal):
    """F = kδ with a dashpot of constant 2ζ√(m*k); never pulls.

    **Arguments:**

    - `normal_stiffness`: k, force per length. - `restitution`: coefficient of restitution in (0, 1], exact for the
      impact of two bodies without other loads.
    """

    normal_stiffness: Float[Array, ""]
    ratio: Float[Array, ""]
    is_damped: bool = eqx.field(static=True)

    def __init__(self, normal_stiffness: Any, restitution: Any = 1.0) -> None:
        self.normal_stiffness = checks.positive("normal_stiffness", normal_stiffness, (), "force per length")
        self.ratio = damping_ratio("restitution", restitution)
        self.is_damped = not (checks.is_concrete(restitution) and float(restitution) == 1)

    def elastic(self, overlap: Array, radius: Any) -> Elastic:
        k = self.normal_stiffness
        depth = jnp.maximum(overlap, 0.0)
        return Elastic(k * depth, jnp.where(overlap > 0, k, 0.0), 0.5 * k * depth * depth)

    def stiffest(self, mass: Any, radius: Any, speed: Any) -> Array:
        del mass, radius, speed
        return self.normal_stiffness
