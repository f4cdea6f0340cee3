"""Adhesive contacts after Johnson, Kendall and Roberts."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.contact.vectors import root
from polhode.particles.laws.hertz import effective_modulus, elastic_constants, hertz_stiffness, mindlin_ratio
from polhode.particles.laws.normal import AbstractNormal, Elastic
from polhode.particles.laws.restitution import damping_ratio


class JKR(AbstractNormal):
    r"""Hertz's contact with adhesion: it begins where surfaces meet and holds until its neck is torn off.

    With the radius of the contact a and the work of adhesion w:

    $$\delta = \frac{a^2}{R^*} - \sqrt{\frac{2\pi wa}{E^*}},\qquad
    F = \frac{4E^*a^3}{3R^*} - \sqrt{8\pi wE^*a^3}$$

    The largest tension is $\tfrac32\pi wR^*$; under controlled distance the neck tears at
    $\delta = -\tfrac34(\pi^2w^2R^*/E^{*2})^{1/3}$. Between first touch and tear energy is lost.

    **Arguments:**

    - `young`, `poisson`: as in `Hertz`. - `cohesion`: w, energy per area, twice the surface energy of one body.
    - `restitution`: gives the damping ratio of `Hertz`, so it is the coefficient where adhesion is small.

    ??? cite "Reference"
        K. Johnson, K. Kendall, A. Roberts, Surface energy and the contact of elastic solids, Proc. R. Soc. Lond. A 324
        (1971).
    """

    sticks: ClassVar[bool] = True
    has_radius: ClassVar[bool] = True
    dashpot: ClassVar[float] = float(np.sqrt(5 / 6))

    young: Float[Array, ""]
    poisson: Float[Array, ""]
    cohesion: Float[Array, ""]
    ratio: Float[Array, ""]
    is_damped: bool = eqx.field(static=True)

    def __init__(self, young: Any, cohesion: Any, poisson: Any = 0.3, restitution: Any = 1.0) -> None:
        self.young, self.poisson = elastic_constants(young, poisson)
        self.cohesion = checks.positive("cohesion", cohesion, (), "work of adhesion, energy per area")
        self.ratio = damping_ratio("restitution", restitution)
        self.is_damped = not (checks.is_concrete(restitution) and float(restitution) == 1)

    @property
    def modulus(self) -> Array:
        """E*."""
        return effective_modulus(self.young, self.poisson)

    @property
    def shear_ratio(self) -> Array:
        return mindlin_ratio(self.poisson)

    def stiffest(self, mass: Any, radius: Any, speed: Any) -> Array:
        adhesive = 2 * self.modulus * self.contact_radius(jnp.zeros(()), radius)
        return hertz_stiffness(self.modulus, mass, radius, speed) + adhesive

    def pull_off(self, radius: Any) -> Any:
        return 1.5 * np.pi * self.cohesion * radius

    def reach(self, radius: Any) -> Any:
        # In the roundings of `contact_radius` the last state before the tear is just inside.
        return 0.75 * jnp.cbrt((np.pi * self.cohesion / self.modulus) ** 2 * radius)

    def contact_radius(self, overlap: Array, radius: Any) -> Array:
        """a: the larger solution of the equation for δ, with s = √a of s⁴ = ps + q, in closed form."""
        p = radius * jnp.sqrt(2 * np.pi * self.cohesion / self.modulus)
        q = radius * jnp.maximum(overlap, -self.reach(radius))
        # y³ + 4qy = p²; a sum without cancellation.
        third = (4 / 3) * q
        u = jnp.cbrt(0.5 * p * p + root(third**3 + 0.25 * p**4))
        v = third / u
        y = p * p / (u * u + u * v + v * v)
        s = 0.5 * (jnp.sqrt(y) + root(2 * p / jnp.sqrt(y) - y))
        return s * s

    def elastic(self, overlap: Array, radius: Any) -> Elastic:
        E, w = self.modulus, self.cohesion
        a = self.contact_radius(overlap, radius)
        necks = jnp.sqrt(8 * np.pi * w * E * a) * a
        pushes = 4 * E * a**3 / (3 * radius)
        # ∫F dδ from a = 0, less its value at first touch, a³ = 2πwR²/E: πwa² (16/15 - 8/3 + 1).
        energy = 8 * E * a**5 / (15 * radius**2) - (2 / 3) * necks * a * a / radius + np.pi * w * a * a
        touch = jnp.cbrt(2 * np.pi * w * radius**2 / E)
        return Elastic(pushes - necks, 2 * E * a, energy + 0.6 * np.pi * w * touch * touch)
