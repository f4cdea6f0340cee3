"""Contacts that are the same ones as before, whichever slots of their pair they are in."""

from __future__ import annotations

from typing import NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.distances import APART
from polhode.systems.mechanical.contact_set import AbstractContactSet, PresentContacts

_FEATURES = 1 << 32
"""More than there are features of a pair of shapes, which are numbers of 32 bits."""

ANY = -(1 << 31)
"""The number that stands for any contact, before the first step."""


def identities(contacts: AbstractContactSet, present: PresentContacts) -> Int[Array, " c"]:
    """Numbers of present contacts: equal for the same features of the same two shapes; negative in empty slots."""
    pairs = jnp.asarray(contacts.pair_numbers)
    if present.number is not None:
        pairs = pairs[jnp.minimum(present.number, contacts.count - 1)]
    at, slots = present.kinematics, jnp.arange(len(pairs))
    # A coordinate is the same whichever stop is nearer to it, or without any.
    held, feature = at.held_slots(), at.feature.astype(jnp.int64)
    return jnp.where(held | (at.gap < APART), _FEATURES * pairs + jnp.where(held, 0, feature), -1 - slots)


class Match(NamedTuple):
    """Which contacts are which of those before, shape (c, c)."""

    same: Bool[Array, "c c"]

    @classmethod
    def of(cls, now: Int[Array, " c"], before: Int[Array, " c"]) -> Self:
        """From the numbers of both."""
        same = (now[:, None] == before[None, :]) | (before == ANY)[None, :]
        return cls(same & (now >= 0)[:, None])

    @property
    def is_old(self) -> Bool[Array, " c"]:
        """Contacts that there were before."""
        return jnp.any(self.same, axis=1)

    def recall(self, values: Float[Array, "c ..."]) -> Float[Array, "c ..."]:
        """Values from before, zero for new contacts."""
        return jnp.einsum("ij,j...->i...", jnp.where(self.same, 1.0, 0.0), values)

    def rest(self, values: Float[Array, "c ..."]) -> Float[Array, "..."]:
        """The sum of values from before that belong to contacts which are no more."""
        return jnp.einsum("j,j...->...", jnp.where(jnp.any(self.same, axis=0), 0.0, 1.0), values)
