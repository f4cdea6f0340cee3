"""Several sets of contacts in one problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical.contact_set import (
    AbstractContactSet,
    ContactKinematics,
    ContactLaw,
    ContactsAhead,
    PresentContacts,
    StribeckCurve,
)


class CombinedContacts(AbstractContactSet):
    """The contacts of two sets: those of `first`, then those of `second`, with as many rows as the larger ones."""

    law: ContactLaw
    first: AbstractContactSet
    second: AbstractContactSet

    @classmethod
    def of(cls, first: AbstractContactSet, second: AbstractContactSet) -> CombinedContacts:
        """The contacts of both."""
        return cls(_join_laws(first.law, second.law), first, second)

    @property
    def count(self) -> int:
        return self.first.count + self.second.count

    @property
    def capacity(self) -> int:
        return self.first.capacity + self.second.capacity

    def name(self, number: int) -> str:
        count = self.first.count
        return self.first.name(number) if number < count else self.second.name(number - count)

    def gaps(self, system: Any, t: Array, q: Point) -> Float[Array, " k"]:
        return jnp.concatenate((self.first.gaps(system, t, q), self.second.gaps(system, t, q)))

    def kinematics(self, system: Any, t: Array, q: Point) -> ContactKinematics:
        return _join(*(part.kinematics(system, t, q) for part in (self.first, self.second)))

    def present(self, system: Any, t: Array, q: Point, way: Vector | None = None) -> PresentContacts:
        first, second = (part.present(system, t, q, way) for part in (self.first, self.second))
        number, count = None, self.first.count
        if first.number is not None or second.number is not None:
            one, other = (_numbers(part) for part in (first, second))
            # Empty slots have the number after the last contact.
            number = jnp.concatenate((jnp.where(one >= count, self.count, one), count + other))
        return PresentContacts(
            _join(first.kinematics, second.kinematics),
            _join_laws(first.law, second.law),
            number,
            jnp.minimum(first.left_out, second.left_out),
        )

    @property
    def pair_numbers(self) -> np.ndarray:
        return _append(self.first.pair_numbers, self.second.pair_numbers)

    def again(self, system: Any, t: Array, q: Point, present: PresentContacts) -> ContactKinematics:
        pairs = zip((self.first, self.second), self._split(present), strict=True)
        return _join(*(part.again(system, t, q, own) for part, own in pairs))

    @property
    def sizes(self) -> Float[Array, " k"]:
        return jnp.concatenate((self.first.sizes, self.second.sizes))

    @property
    def thicknesses(self) -> Float[Array, " k"]:
        return jnp.concatenate((self.first.thicknesses, self.second.thicknesses))

    @property
    def gap_units(self) -> Float[Array, " k"]:
        return jnp.concatenate((self.first.gap_units, self.second.gap_units))

    @property
    def radius(self) -> Float[Array, ""]:
        return jnp.maximum(self.first.radius, self.second.radius)

    @property
    def are_angles(self) -> Bool[np.ndarray, " k"]:
        return np.concatenate((self.first.are_angles, self.second.are_angles))

    def ahead(self, system: Any, t: Array, q: Point, v: Vector, present: PresentContacts) -> ContactsAhead:
        pairs = zip((self.first, self.second), self._split(present), strict=True)
        one, other = (part.ahead(system, t, q, v, own) for part, own in pairs)
        slips = _join_rows(one.slips, other.slips)
        none: Any = ()
        joined = jax.tree.map(lambda *x: jnp.concatenate(x), one._replace(slips=none), other._replace(slips=none))
        return joined._replace(slips=slips)

    @property
    def reads_joint_forces(self) -> bool:
        return self.first.reads_joint_forces or self.second.reads_joint_forces

    def loaded_hold(
        self, system: Any, t: Array, q: Point, at: ContactKinematics, multipliers: Float[Array, " m"]
    ) -> Float[Array, " c"] | None:
        parts = zip((self.first, self.second), at.places, strict=True)
        holds = [part.loaded_hold(system, t, q, own, multipliers) for part, own in parts]
        return _join_holds(holds, at.places)

    def _split(self, present: PresentContacts) -> tuple[PresentContacts, PresentContacts]:
        """Present contacts of both sets."""
        first, second = present.kinematics.places
        numbers, count = (None, None), self.first.count
        if present.number is not None:
            size = len(first.gap)
            # All contacts of a set in their order need no numbers.
            one, other = present.number[:size], present.number[size:] - count
            numbers = (
                None if size == count else jnp.where(one >= self.count, count, one),
                None if len(second.gap) == self.second.count else other,
            )
        laws = self.first.law, self.second.law
        parts = zip((first, second), laws, numbers, strict=True)
        one, other = (PresentContacts(*part, present.left_out) for part in parts)
        return one, other

    def columns(
        self, system: Any, q: Point, here: ContactKinematics, there: ContactKinematics
    ) -> Float[Array, "k rows n"]:
        pairs = zip((self.first, self.second), here.places, there.places, strict=True)
        return _join_rows(*(part.columns(system, q, *places) for part, *places in pairs))


def _append(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Numbers of two sets, those of the second after those of the first."""
    return np.concatenate((first, np.max(first, initial=-1) + 1 + second))


def _numbers(part: PresentContacts) -> Array:
    return jnp.arange(len(part.kinematics.gap)) if part.number is None else part.number


def _join(first: ContactKinematics, second: ContactKinematics) -> ContactKinematics:
    both = first, second
    return ContactKinematics(
        jnp.concatenate((first.gap, second.gap)),
        _join_rows(first.rows, second.rows),
        _join_rows(first.drift, second.drift),
        jnp.concatenate((first.feature, second.feature)),
        both,
        _join_holds([part.hold for part in both], both),
    )


def _join_holds(
    holds: Sequence[Float[Array, " c"] | None], parts: Sequence[ContactKinematics]
) -> Float[Array, " c"] | None:
    """Bounds of friction of all contacts, negative where normal forces bound it."""
    if all(hold is None for hold in holds):
        return None
    each = zip(holds, parts, strict=True)
    return jnp.concatenate([-jnp.ones(len(part.gap)) if hold is None else hold for hold, part in each])


def _join_rows(first: Array, second: Array) -> Array:
    """Rows of all contacts, zero where a contact has fewer than others."""
    rows = max(first.shape[1], second.shape[1])

    def widen(part: Array) -> Array:
        return jnp.pad(part, [(0, 0), (0, rows - part.shape[1]), *[(0, 0)] * (part.ndim - 2)])

    return jnp.concatenate((widen(first), widen(second)))


def _join_laws(first: ContactLaw, second: ContactLaw) -> ContactLaw:
    both = first, second
    has_spins = any(law.drilling is not None for law in both)

    def lengths(name: str) -> Array | None:
        values = [getattr(law, name) for law in both]
        parts = [jnp.zeros(len(law.friction)) if x is None else x for law, x in zip(both, values, strict=True)]
        return jnp.concatenate(parts) if has_spins else None

    curve = None
    if any(law.stribeck is not None for law in both):
        speeds = [jnp.ones(len(law.friction)) if law.stribeck is None else law.stribeck.speed for law in both]
        curve = StribeckCurve(_join_rows(first.static_friction, second.static_friction), jnp.concatenate(speeds))
    return ContactLaw(
        _join_rows(first.friction, second.friction),
        jnp.concatenate((first.restitution, second.restitution)),
        jnp.concatenate((first.tangential_restitution, second.tangential_restitution)),
        lengths("drilling"),
        lengths("rolling"),
        first.bounces or second.bounces,
        curve,
        first.is_poisson or second.is_poisson,
    )
