r"""Laws of contacts without kinks: products that laws have as zero are κ > 0 instead.

The positive part of a becomes x with x(x - a) = κ, so that $P_N\,u_N = \kappa$ in proximal form. The length beyond
which a disc of radius r shortens impulses becomes r plus the positive part, so smoothed, of the length less r. As κ → 0
both become the laws themselves.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float


def positive_part(a: Float[Array, "*n"], kappa: Array) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    """x > 0 with x(x - a) = κ, and its derivative by a."""
    spread = jnp.sqrt(a * a + 4 * kappa)
    usable = spread > 0
    over = 1 / jnp.where(usable, spread, 1.0)
    # Of a difference of nearly equal numbers little would be left.
    far = 2 * kappa / jnp.where(usable, spread + jnp.abs(a), 1.0)
    return jnp.where(a > 0, 0.5 * (a + spread), far), jnp.where(usable, 0.5 * (1 + a * over), 0.0)


def disc_scale(
    length: Float[Array, "*n"], radius: Float[Array, "*n"], kappa: Array
) -> tuple[Float[Array, "*n"], Float[Array, "*n"], Float[Array, "*n"]]:
    """The factor r/D of vectors of a length l, and derivatives of D by l and by r."""
    beyond, by_length = positive_part(length - radius, kappa)
    reach = radius + beyond
    return jnp.where(reach > 0, radius / jnp.where(reach > 0, reach, 1.0), 0.0), by_length, 1 - by_length
