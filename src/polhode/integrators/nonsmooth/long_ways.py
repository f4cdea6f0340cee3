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
    h: Array,
    gap: Float[Array, " c"],
    before: Float[Array, "c rows"],
    after: Float[Array, "c rows"],
    sizes: Float[Array, " c"],
    thicknesses: Float[Array, " c"],
) -> Bool[Array, " c"]:
    """Contacts of which one shape is behind the other after a motion: they approach each other before and leave after.

    - `h`: time of the motion. - `gap`: before. - `before`, `after`: relative velocities there, at least along the
    normal and both tangents. - `thicknesses`: sums of radii of spheres inside.

    Those that fly past each other, with a distance of their spheres left, are none, nor those that are thicker than
    they go far; nor is there anything behind what has no sphere around it, such as a plane or a gap that is a function.
    """
    rate, leaves = before[:, 0], after[:, 0]
    # Straight on, the centres of spheres inside would be nearest before the end. Bodies turn on the way: the larger
    # rate.
    square = jnp.maximum(rate**2, leaves**2) + jnp.sum(before[:, 1:3] ** 2, axis=1)
    far = h * square > (gap + thicknesses) * jnp.abs(rate)
    turned = (rate < 0) & (leaves > -0.5 * rate) & far
    return turned & jnp.isfinite(sizes) & _are_in_line(gap, before, sizes)


def have_passed(
    h: Array,
    gap: Float[Array, " c"],
    slips: Float[Array, "c rows"],
    sizes: Float[Array, " c"],
    thicknesses: Float[Array, " c"],
) -> Bool[Array, " c"]:
    """Contacts that leave each other in the middle of a step, and would have overlapped deeply at its start.

    There they did not: so they have passed through each other since. - `h`: twice the time since then.
    - `thicknesses`: sums of radii of spheres inside.
    """
    rate = slips[:, 0]
    deep = gap < jnp.minimum(_DEEP * h * rate, 0.5 * h * rate - thicknesses)
    return (rate > 0) & deep & _are_in_line(gap, slips, sizes)


def _are_in_line(
    gap: Float[Array, " c"], slips: Float[Array, "c rows"], sizes: Float[Array, " c"]
) -> Bool[Array, " c"]:
    """Whether a velocity is more along the normal than aside, and leads the spheres through each other."""
    rate, across = jnp.abs(slips[:, 0]), jnp.sqrt(jnp.sum(slips[:, 1:3] ** 2, axis=1))
    meets = across * (1.0 + jnp.maximum(gap, 0.0) / sizes) < jnp.sqrt(rate**2 + across**2)
    return (across < 2.0 * rate) & meets
