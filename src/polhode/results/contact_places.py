"""Where the shapes of a model touch, computed from the states of a run."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from polhode.assembly.name_table import NameTable
from polhode.contact.distances import APART
from polhode.contact.shape_contacts import ShapeContacts, frames_of
from polhode.linalg.known_places import take
from polhode.multibody.system import MultibodySystem
from polhode.results.quantity import AbstractComputation


class ContactPlaces(AbstractComputation):
    """Gaps, points, directions and lever arms of all contact points; infinite and NaN where a shape has no such point.

    Directions are the normal, from the first body to the second, and both tangents. Lever arms are those about the
    centres of mass of both bodies.
    """

    system: MultibodySystem
    readings: None
    reads_contacts: ClassVar[bool] = True
    saved_by = "save=[polhode.results.ContactResults.points]"
    axes: ClassVar = {
        "contact_places.contact_gaps": ("contact_point",),
        "contact_places.contact_points": ("contact_point", "component"),
        "contact_places.contact_directions": ("contact_point", "contact_direction", "component"),
        "contact_places.contact_arms": ("contact_point", "contact_body", "component"),
    }

    @classmethod
    def of(cls, system: MultibodySystem, name_table: NameTable) -> ContactPlaces:
        del name_table
        return cls(system, None)

    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        del t, v
        contacts = self.system.shape_contacts
        assert isinstance(contacts, ShapeContacts)
        motion = self.system.motion(q)
        points = contacts.points(motion)
        is_used = points.gap < 0.5 * APART
        point = jnp.where(is_used[:, None], points.point, jnp.nan)
        centres = [take(motion.poses.x, nodes) for nodes in (contacts.first_nodes, contacts.second_nodes)]
        return {
            "contact_gaps": jnp.where(is_used, points.gap, jnp.inf),
            "contact_points": point,
            "contact_directions": frames_of(points),
            "contact_arms": jnp.where(is_used[:, None, None], points.point[:, None] - jnp.stack(centres, axis=1), 0.0),
        }
