"""Forces, depths and places of the contacts of a rod, as functions of the state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.checks import short_repr
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.groups import ForceGroup, Motion
from polhode.multibody.system import MultibodySystem
from polhode.rods.rod import Rod
from polhode.rods.rod_pairs import RodPairs
from polhode.rods.shape_contact import EdgeSurface
from polhode.systems.base import State


class RodContactState(NamedTuple):
    """Contacts of a rod in a state, a row for each of its N edges.

    - `force`: on the rod in the inertial frame, shape (3,).
    - `forces`: of each edge, shape (N, 3).
    """

    force: Float[Array, "3"]
    forces: Float[Array, "N 3"]


def contact_forces(system: MultibodySystem, rod: Rod, other: Rod | Body) -> Callable[[Array, State], RodContactState]:
    """Contact forces of a body, or of a rod, on a rod as a function of (t, state); for frames of a run use `jax.vmap`.

    With the rod itself as the other one, `force` is zero up to round-off, and `forces` are those of its parts on each
    other. Raises ValueError where no rule of the model lets them touch.
    """
    rows = dict(zip(system.names, range(len(system.names)), strict=True))
    edges = [tuple(rows.get(body.name, len(rows)) for body in (edge.first, edge.second)) for edge in rod.edges]
    number = {ends: k for k, ends in enumerate(edges)}
    if isinstance(other, Rod):
        pairs = [
            _between(forces, rod, other, rows)
            for forces in system.mechanism.near_forces
            if isinstance(forces, RodPairs)
        ]
        evaluate = [each for each in pairs if each is not None]
    else:
        place = rows.get(other.name, len(rows))
        groups = [_of_group(group, number, place) for group in system.mechanism.forces if _is_of_rods(group)]
        evaluate = [each for each in groups if each is not None]
    if not evaluate:
        raise ValueError(
            f"No rule of the model lets {rod!r} and {short_repr(other)} touch: "
            "`model.add_contact(rod, other, law='compliant', stiffness=…)` does."
        )

    def forces(t: Array, state: State) -> RodContactState:
        motion = system.motion(*state)
        each = sum((one(t, motion) for one in evaluate), start=jnp.zeros((len(edges), 3)))
        return RodContactState(jnp.sum(each, axis=0), each)

    return forces


def _is_of_rods(group: ForceGroup) -> bool:
    return isinstance(group.elements, EdgeSurface)


def _of_group(
    group: ForceGroup, number: dict[tuple[int, ...], int], body: int
) -> Callable[[Array, Motion], Float[Array, "N 3"]] | None:
    """The sums of a group of contacts with shapes, on the edges that are meant."""
    first, second, other = (slot.nodes.numbers.reshape(-1) for slot in group.slots)
    own = np.array([number.get(ends, -1) for ends in zip(first.tolist(), second.tolist(), strict=True)])
    own = np.where(other == body, own, -1)
    if not np.any(own >= 0):
        return None
    chosen = np.flatnonzero(own >= 0)

    def forces(t: Array, motion: Motion) -> Float[Array, "N 3"]:
        loads = group.wrenches(t, motion)
        return jnp.zeros((len(number), 3)).at[own[chosen]].add(-loads[2].force[chosen])

    return forces


def _between(
    pairs: RodPairs, rod: Rod, other: Rod, rows: dict[str, int]
) -> Callable[[Array, Motion], Float[Array, "N 3"]] | None:
    """The sums of contacts between two rods, on the edges of the first."""
    names = pairs.rods
    if rod.name not in names or other.name not in names:
        return None
    a, b = names.index(rod.name), names.index(other.name)
    if not np.asarray(pairs.table.touches)[a, b]:
        return None
    touches = np.zeros(pairs.table.touches.shape, bool)
    touches[a, b] = touches[b, a] = True
    only = dataclasses.replace(pairs, table=dataclasses.replace(pairs.table, touches=jnp.asarray(touches)))
    own = np.flatnonzero(np.asarray(pairs.table.rod) == a)
    return lambda t, motion: only.edge_forces(motion)[own]
