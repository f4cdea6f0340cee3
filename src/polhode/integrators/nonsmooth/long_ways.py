"""Steps in which bodies go farther than they are thick: which shapes would come out behind each other."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.systems.mechanical.contact_set import AbstractContactSet, pick

_DEEP = 3 / 8
"""Part of the way of a step: in half of it a body that turns by half a radian comes to more."""


def radii_of(
    contacts: AbstractContactSet, number: Int[Array, " c"] | None
) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    """Sums of the radii of spheres around and inside the shapes of contacts of these numbers, of all without any."""
    radii = contacts.sizes, contacts.thicknesses
    return radii if number is None else pick(number, radii)


def pass_through(
    gap: Float[Array, " c"],
    before: Float[Array, "c rows"],
    after: Float[Array, "c rows"],
    sizes: Float[Array, " c"],
) -> Bool[Array, " c"]:
    """Contacts of which one shape is behind the other after a motion: they approach each other before and leave after.

    - `gap`: before. - `before`, `after`: relative velocities there, at least along the normal and both tangents.

    Those that fly past each other, with a distance of their spheres left, are none.
    """
    rate, across = before[:, 0], jnp.sqrt(jnp.sum(before[:, 1:3] ** 2, axis=1))
    turns = (rate < 0) & (after[:, 0] > -0.5 * rate) & (across < -2.0 * rate)
    return turns & (across * (1.0 + jnp.maximum(gap, 0.0) / sizes) < jnp.sqrt(rate**2 + across**2))


def have_passed(
    h: Array,
    gap: Float[Array, " c"],
    slips: Float[Array, "c rows"],
    sizes: Float[Array, " c"],
    thicknesses: Float[Array, " c"],
) -> Bool[Array, " c"]:
    """Contacts that leave each other in the middle of a step, and would have overlapped deeply at its start.

    There they did not: so they have passed through each other since. - `thicknesses`: sums of radii of spheres inside.
    """
    rate, across = slips[:, 0], jnp.sqrt(jnp.sum(slips[:, 1:3] ** 2, axis=1))
    leaves = (rate > 0) & (across < 2.0 * rate) & (gap < jnp.minimum(_DEEP * h * rate, 0.5 * h * rate - thicknesses))
    return leaves & (across * (1.0 + jnp.maximum(gap, 0.0) / sizes) < jnp.sqrt(rate**2 + across**2))
