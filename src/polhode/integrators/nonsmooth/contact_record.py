"""Records of steps with contacts: forces, and the energy that the contacts have taken."""

from __future__ import annotations

from typing import NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.contact_problem import slip_rows
from polhode.integrators.nonsmooth.contact_identity import ANY
from polhode.integrators.nonsmooth.listed_record import listed_length
from polhode.systems.mechanical import AbstractMechanical
from polhode.systems.mechanical.contact_set import AbstractContactSet

WORK_KINDS = ("impact", "sliding", "rolling")
"""Kinds of dissipation: along normals, along tangents, and by moments."""


class ContactMemory(NamedTuple):
    """The memory of the method between steps: impulses by labels, and the energy that all k contacts have taken.

    - `first_part`: impulses of impacts that the next step completes.
    - `impact_share`, `impact_jump`: of the located impact in the step that has ended, its time in fractions of the
      step, 1 if there is none, and the change of velocity.
    """

    impulses: Float[Array, "c rows"]
    labels: Int[Array, " c"]
    dissipation: Float[Array, "k 3"]
    first_part: Float[Array, "c rows"]
    impact_share: Array
    impact_jump: Float[Array, " n"]

    @classmethod
    def empty(cls, capacity: int, k: int, rows: int, n: int) -> Self:
        """Before the first step, which takes all contacts for ones that were there and carried a force."""
        none = jnp.zeros((capacity, rows))
        return cls(none, jnp.full(capacity, ANY, jnp.int64), jnp.zeros((k, 3)), none, jnp.ones(()), jnp.zeros(n))

    @property
    def pressed(self) -> Bool[Array, " c"]:
        """Contacts that carried a force in the step before."""
        return (self.impulses[:, 0] > 0) | (self.labels == ANY)


class ContactRecord(NamedTuple):
    """Contacts of the step that has ended.

    - `forces`: mean over the step along normal, tangents and, with spins, moments about these; shape (k, rows).
    - `slips`: relative velocities at its end, of the same shape.
    - `dissipation`: energy taken since the start of the run, by `WORK_KINDS`, shape (k, 3).
    """

    forces: Float[Array, "k rows"]
    slips: Float[Array, "k rows"]
    dissipation: Float[Array, "k 3"]

    def pack(self, joints: Float[Array, " m"]) -> Float[Array, " m_and_contacts"]:
        """Multipliers of a run: those of joints, then these."""
        return jnp.concatenate((joints, *(part.reshape(-1) for part in self)))


def contacts_of(system: AbstractMechanical) -> AbstractContactSet:
    """The contacts of a system that has some, as `needs_contacts` says of methods."""
    assert system.contact_set is not None
    return system.contact_set


def size_of(system: AbstractMechanical) -> tuple[int, int]:
    """Numbers of contacts and of rows of each, (k, rows); (0, 0) without any."""
    contacts = system.contact_set
    return (0, 0) if contacts is None else (contacts.count, contacts.law.rows)


def record_length(system: AbstractMechanical) -> int:
    """Numbers of a record in the multipliers of a run."""
    k, rows = size_of(system)
    if k and contacts_of(system).is_listed:
        return listed_length(k, rows)
    return k * (2 * rows + len(WORK_KINDS)) if k else 0


def unpack(multipliers: Float[Array, "... m_and_contacts"], m: int, k: int, rows: int) -> tuple[Array, ContactRecord]:
    """Multipliers of joints, and the record of the contacts, with any leading axes."""
    lead, sizes = multipliers.shape[:-1], (rows, rows, 3)
    parts, first = [], m
    for size in sizes:
        parts.append(multipliers[..., first : first + k * size].reshape(*lead, k, size))
        first += k * size
    return multipliers[..., :m], ContactRecord(*parts)


def dissipation(
    impulses: Float[Array, "k rows"], before: Float[Array, "k rows"], after: Float[Array, "k rows"]
) -> Float[Array, "k 3"]:
    """-½ P·(u⁻ + u⁺) by kinds: what impulses take from the energy."""
    taken = -0.5 * impulses * (before + after)
    along = slip_rows(taken.shape[1])
    moments = jnp.sum(taken[:, along.stop :], axis=1) if taken.shape[1] > along.stop else jnp.zeros(len(taken))
    return jnp.stack((taken[:, 0], jnp.sum(taken[:, along], axis=1), moments), axis=1)
