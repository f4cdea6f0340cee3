"""Friction of contacts that go on sliding: of order 2 also where its direction turns."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.systems.mechanical.contact_set import ContactLaw

_SLIDES = 1e-8
"""Speed from which a contact counts as sliding, relative to the largest that contacts would have without impulses: all
of them, or those that act on it."""

_ROUND_OFF = 1e-15

FREE_ROUNDS = 4


class SlideDirections(NamedTuple):
    """Contacts whose friction has a known direction: P_T = drag P_N.

    - `on`: which. - `drag`: shape (k, 2), zero for the others.
    """

    on: Bool[Array, " k"]
    drag: Float[Array, "k 2"]

    @property
    def along(self) -> slice:
        """Rows of sliding."""
        return slice(1, 1 + self.drag.shape[1])

    def friction(self, law: ContactLaw) -> Float[Array, "k 2"]:
        """Coefficients left to the contact problem."""
        return jnp.where(self.on[:, None], 0.0, law.friction)

    def combine(self, columns: Float[Array, "k_rows n"]) -> Float[Array, "k_rows n"]:
        """Changes of velocity by unit impulses, where normal ones bring their friction with them."""
        parts = columns.reshape(len(self.on), -1, columns.shape[1])
        dragged = jnp.einsum("ki,kin->kn", self.drag, parts[:, self.along])
        return parts.at[:, 0].add(dragged).reshape(columns.shape)

    def complete(self, impulses: Float[Array, "k rows"]) -> Float[Array, "k rows"]:
        """Impulses with the friction that came along with the normal ones."""
        friction = self.drag * impulses[:, :1]
        along = self.along
        return impulses.at[:, along].set(jnp.where(self.on[:, None], friction, impulses[:, along]))


def persistent(
    pressed: Bool[Array, " k"],
    before: Float[Array, "k 2"],
    after: Float[Array, "k 2"],
    without: Float[Array, "k rows"],
    together: Bool[Array, "k k"] | None = None,
) -> Bool[Array, " k"]:
    """Which pressed contacts slide at both times, in about the same direction.

    - `without`: relative velocities without impulses. - `together`: which act on each other.
    """
    least = least_speed(without, together)
    fast = (jnp.sum(before**2, axis=1) > least**2) & (jnp.sum(after**2, axis=1) > least**2)
    return pressed & fast & goes_ahead(before, after)


def goes_ahead(before: Float[Array, "k 2"], after: Float[Array, "k 2"]) -> Bool[Array, " k"]:
    """Whether slips have about the same direction at both times."""
    ahead = jnp.sum(before * after, axis=1)
    return (ahead > 0) & (ahead**2 > 0.25 * jnp.sum(before**2, axis=1) * jnp.sum(after**2, axis=1))


def least_speed(without: Float[Array, "k rows"], together: Bool[Array, "k k"] | None = None) -> Array:
    """The speed above which contacts count as sliding, or as leaving each other.

    Where `together` says which contacts act on each other, others have no part in it but for round-off.
    """
    largest = jnp.max(jnp.abs(without), axis=1, initial=0.0)
    of_all = jnp.max(largest, initial=0.0)
    if together is None:
        return _SLIDES * of_all
    of_each = jnp.max(jnp.where(together, largest[None, :], 0.0), axis=1, initial=0.0)
    return jnp.maximum(_SLIDES * of_each, _ROUND_OFF * of_all)


def can_open(
    rows: Float[Array, "k rows n"], columns: Float[Array, "k_rows n"], drag: Float[Array, "k 2"]
) -> Bool[Array, " k"]:
    """Whether a normal impulse opens a contact although friction comes with it: not so in Painlevé's region.

    - `columns`: changes of velocity by unit impulses along the rows.
    """
    own = jnp.einsum("kn,kin->ki", rows[:, 0], columns.reshape(rows.shape)[:, : 1 + drag.shape[1]])
    return own[:, 0] + jnp.sum(drag * own[:, 1:], axis=1) > 0


def narrow(pressed: Bool[Array, " k"], slides: Bool[Array, " k"], number: Array) -> Bool[Array, " k"]:
    """Contacts that may go on sliding in the next round: after a few, none comes back, so that rounds don't cycle."""
    return pressed & ((number < FREE_ROUNDS) | slides)


def against(law: ContactLaw, slips: Float[Array, "k 2"]) -> Float[Array, "k 2"]:
    """Friction of a normal impulse of 1 on contacts that slide: what takes most energy from them."""
    scaled = law.friction * slips
    square = jnp.sum(scaled**2, axis=1)[:, None]
    # Roots of zero have no derivative: a contact without friction would make those of everything NaN.
    return -law.friction * scaled / jnp.sqrt(jnp.where(square > 0, square, 1.0))


def mean_drag(
    means: Float[Array, "k 3"], end: Float[Array, "k 2"], friction: Float[Array, "k 2"]
) -> Float[Array, "k 2"]:
    """Friction of a normal impulse of 1 over a step in which contacts slide, within the cone.

    - `means`: smooth impulses of the step. Extrapolation in time may put their friction outside of the cone.
    - `end`: friction at the end of the step, where no normal force has a mean. - `friction`: coefficients.
    """
    normal = means[:, :1]
    drag = jnp.where(normal > 0, means[:, 1:] / jnp.where(normal > 0, normal, 1.0), end)
    rubs = friction > 0
    square = jnp.sum(jnp.where(rubs, drag / jnp.where(rubs, friction, 1.0), 0.0) ** 2, axis=1)[:, None]
    return jnp.where(rubs, drag / jnp.sqrt(jnp.maximum(square, 1.0)), 0.0)


def slide(on: Bool[Array, " k"], drag: Float[Array, "k 2"]) -> SlideDirections:
    """The directions of those contacts that go on sliding."""
    return SlideDirections(on, jnp.where(on[:, None], drag, 0.0))
