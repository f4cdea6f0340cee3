"""Hertz's normal force."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.particles.laws.normal import AbstractNormal, Elastic
from polhode.particles.laws.restitution import damping_ratio


class Hertz(AbstractNormal):
    r"""$F = \tfrac43E^*\sqrt{R^*}\,\delta^{3/2}$ with a dashpot that grows as $\delta^{1/4}$; never pulls.

    1/E* = 2(1-ν²)/E: both bodies are of the same material. Against a rigid wall E* is twice that: give walls a law
    with twice the modulus.

    **Arguments:**

    - `young`, `poisson`: Young's modulus E and Poisson's ratio ν. - `restitution`: coefficient of restitution in
      (0, 1], exact for the impact of two bodies without other loads, whatever their speed.

    ??? cite "Reference"
        Y. Tsuji, T. Tanaka, T. Ishida, Powder Technology 71 (1992), for the exponent ¼; `restitution.py` has the
        exact relation.
    """

    has_radius: ClassVar[bool] = True
    dashpot: ClassVar[float] = float(np.sqrt(5 / 6))

    young: Float[Array, ""]
    poisson: Float[Array, ""]
    ratio: Float[Array, ""]
    is_damped: bool = eqx.field(static=True)

    def __init__(self, young: Any, poisson: Any = 0.3, restitution: Any = 1.0) -> None:
        self.young, self.poisson = elastic_constants(young, poisson)
        self.ratio = damping_ratio("restitution", restitution)
        self.is_damped = not (checks.is_concrete(restitution) and float(restitution) == 1)

    @property
    def modulus(self) -> Array:
        """E*."""
        return effective_modulus(self.young, self.poisson)

    def elastic(self, overlap: Array, radius: Any) -> Elastic:
        touches = overlap > 0
        depth = jnp.where(touches, overlap, 0.0)
        a = jnp.where(touches, jnp.sqrt(radius * jnp.where(touches, overlap, 1.0)), 0.0)
        stiffness = 2 * self.modulus * a
        force = (2 / 3) * stiffness * depth
        return Elastic(force, stiffness, 0.4 * force * depth)

    def stiffest(self, mass: Any, radius: Any, speed: Any) -> Array:
        return hertz_stiffness(self.modulus, mass, radius, speed)

    @property
    def shear_ratio(self) -> Array:
        return mindlin_ratio(self.poisson)


def elastic_constants(young: Any, poisson: Any) -> tuple[Array, Array]:
    """Young's modulus and Poisson's ratio. Raises ValueError for others than E > 0 and -1 < ν ≤ ½."""
    E = checks.positive("young", young, (), "Young's modulus")
    nu = checks.array("poisson", poisson, (), "Poisson's ratio")
    if checks.is_concrete(poisson) and not -1 < float(poisson) <= 0.5:
        raise ValueError(f"`poisson` must be above -1 and at most 0.5 (Poisson's ratio), got {short_repr(poisson)}.")
    return E, nu


def effective_modulus(young: Array, poisson: Array) -> Array:
    """E* of two bodies of one material."""
    return young / (2 * (1 - poisson**2))


def mindlin_ratio(poisson: Array) -> Array:
    """8G*a over 2E*a of two bodies of one material: 2(1-ν)/(2-ν)."""
    return 2 * (1 - poisson) / (2 - poisson)


def hertz_stiffness(modulus: Array, mass: Any, radius: Any, speed: Any) -> Array:
    """dF/dδ at the largest overlap, where (8/15) E*√R* δ^{5/2} is the kinetic energy."""
    depth = (15 * mass * speed**2 / (16 * modulus * jnp.sqrt(radius))) ** 0.4
    return 2 * modulus * jnp.sqrt(radius * depth)
