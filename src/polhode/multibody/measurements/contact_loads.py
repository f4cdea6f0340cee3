"""Loads of contacts on bodies, and along the coordinates of a system."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.contact.shape_contacts import ShapeContacts, frames_of
from polhode.linalg.segment_sum import take
from polhode.multibody.mechanism.groups import Motion
from polhode.multibody.mechanism.poses import Wrench
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point, Vector


def contact_wrenches(contacts: ShapeContacts, motion: Motion, forces: Float[Array, "k rows"]) -> Wrench:
    """Loads of the contacts on all nodes but the ground.

    - `forces`: along normal and tangents of each contact, and moments about these, on the second body.
    """
    points = contacts.points(motion)
    directions = frames_of(points)
    force = jnp.einsum("ki,kij->kj", forces[:, :3], directions)
    moment = jnp.einsum("ki,kij->kj", forces[:, 3:], directions[:, : forces.shape[1] - 3])
    torques, sums = jnp.zeros_like(motion.poses.x), jnp.zeros_like(motion.poses.x)
    for nodes, sign in ((contacts.first_nodes, -1.0), (contacts.second_nodes, 1.0)):
        x, R = take(motion.poses.x, nodes), take(motion.poses.R, nodes)
        about_node = moment + jnp.cross(points.point - x, force)
        torques = torques.at[nodes].add(sign * jnp.einsum("kji,kj->ki", R, about_node))
        sums = sums.at[nodes].add(sign * force)
    return Wrench(torques[:-1], sums[:-1])


def contact_efforts(system: MultibodySystem, t: Array, q: Point, forces: Float[Array, "k rows"]) -> Vector:
    """Generalised forces Wᵀλ of the contacts."""
    assert system.contact_set is not None
    return jnp.einsum("krn,kr->n", system.contact_set.kinematics(system, t, q).rows, forces)
