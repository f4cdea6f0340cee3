"""Liquid bridges of constant volume."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr


class CapillaryBridge(eqx.Module):
    r"""The pull of a liquid bridge of constant volume V between two spheres, which forms when they touch.

    $$F = -2\pi R\gamma\cos\theta\left(1 - \frac{1}{\sqrt{1 + 2V/(\pi RH^2)}}\right),\quad R = 2R^*,$$

    H the distance of the surfaces, zero while they touch. The bridge breaks at $H = (1+\theta/2)V^{1/3}$.

    **Arguments:**

    - `volume`: V of each bridge. - `surface_tension`: γ, force per length. - `contact_angle`: θ in [0, π/2), radians.

    ??? cite "Reference"
        O. Pitois, P. Moucheront, X. Chateau, Liquid bridge between two moving spheres, J. Colloid Interface Sci. 231
        (2000). G. Lian, C. Thornton, M. Adams, A theoretical study of the liquid bridge forces between two rigid
        spherical bodies, J. Colloid Interface Sci. 161 (1993).
    """

    volume: Float[Array, ""]
    surface_tension: Float[Array, ""]
    contact_angle: Float[Array, ""]

    def __init__(self, volume: Any, surface_tension: Any, contact_angle: Any = 0.0) -> None:
        self.volume = checks.positive("volume", volume, (), "of a bridge")
        self.surface_tension = checks.positive("surface_tension", surface_tension, (), "force per length")
        self.contact_angle = checks.not_negative("contact_angle", contact_angle, (), "radians")
        if checks.is_concrete(contact_angle) and not float(contact_angle) < np.pi / 2:
            raise ValueError(
                f"`contact_angle` must be below π/2 radians, got {short_repr(contact_angle)}: no bridge pulls then."
            )

    @property
    def reach(self) -> Array:
        """Distance of the surfaces at which bridges break."""
        return (1 + 0.5 * self.contact_angle) * jnp.cbrt(self.volume)

    def force(self, overlap: Array, radius: Any) -> tuple[Array, Array]:
        """The force, negative as it pulls, and the energy, zero where the surfaces meet."""
        H = jnp.maximum(-overlap, 0.0)
        most = 4 * np.pi * self.surface_tension * jnp.cos(self.contact_angle) * radius
        square = self.volume / (np.pi * radius)
        side = jnp.sqrt(H * H + square)
        return most * (H / side - 1), most * (jnp.sqrt(square) - side - overlap)
