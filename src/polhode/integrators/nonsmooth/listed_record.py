"""Memory and records of steps with contacts of lists, whose slots are not always the same contact's."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.sparse.candidates import Candidates


class ListedMemory(NamedTuple):
    """The memory of the method between steps: impulses by labels in ascending order, and lists of pairs.

    - `first_part`: impulses of impacts that the next step completes.
    - `taken`: energy that contacts have taken since the start of the run, by kinds.
    - `coarse`: as in `ListedRecord`.
    - `begins`: whether no step has been made, so that all contacts count as pressed.
    """

    labels: Int[Array, " c"]
    impulses: Float[Array, "c rows"]
    first_part: Float[Array, "c rows"]
    taken: Float[Array, "3"]
    coarse: Float[Array, "2"]
    lists: Candidates
    begins: Bool[Array, ""]

    @classmethod
    def empty(cls, room: int, rows: int, lists: Candidates) -> ListedMemory:
        """Before the first step."""
        none = jnp.zeros((room, rows))
        return cls(jnp.full(room, -1, jnp.int64), none, none, jnp.zeros(3), jnp.zeros(2), lists, jnp.asarray(True))

    def find(self, labels: Int[Array, " c"]) -> tuple[Int[Array, " c"], Bool[Array, " c"]]:
        """Places of labels in the memory, and whether they are there."""
        places = jnp.minimum(jnp.searchsorted(self.labels, labels), len(self.labels) - 1)
        return places, (self.labels[places] == labels) & (labels >= 0)

    def keep(
        self,
        labels: Int[Array, " c"],
        impulses: Array,
        first_part: Array,
        taken: Array,
        coarse: Array,
        lists: Candidates,
    ) -> ListedMemory:
        """The memory after a step."""
        order = jnp.argsort(labels)
        parts = labels[order], impulses[order], first_part[order]
        return ListedMemory(*parts, taken, coarse, lists, jnp.asarray(False))


class ListedRecord(NamedTuple):
    """Contacts of the step that has ended.

    - `numbers`: of contacts, -1 in empty slots. - `forces`, `slips`: as in `ContactRecord`, by slots.
    - `taken`: energy that contacts have taken since the start of the run, by kinds.
    - `coarse`: how many steps so far were solved to an accepted residual instead of the tolerance, and the largest.
    """

    numbers: Array
    forces: Array
    slips: Array
    taken: Array
    coarse: Array

    @classmethod
    def empty(cls, room: int, rows: int) -> ListedRecord:
        """Before the first step."""
        none = jnp.zeros((room, rows))
        return cls(jnp.full(room, -1), none, none, jnp.zeros(3), jnp.zeros(2))

    def pack(self) -> Array:
        """Multipliers of a run."""
        return jnp.concatenate([part.reshape(-1).astype(float) for part in self])


def listed_length(room: int, rows: int) -> int:
    """Numbers of a record in the multipliers of a run."""
    return room * (1 + 2 * rows) + 5


def unpack_listed(multipliers: Array, room: int, rows: int) -> ListedRecord:
    """The record of contacts, with any leading axes."""
    lead, parts, first = multipliers.shape[:-1], [], 0
    for shape in ((room,), (room, rows), (room, rows), (3,), (2,)):
        size = 1
        for n in shape:
            size *= n
        parts.append(multipliers[..., first : first + size].reshape(*lead, *shape))
        first += size
    return ListedRecord(*parts)
