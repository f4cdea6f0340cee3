"""Loads of contacts on bodies, and along the coordinates of a system."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.contact.shape_contacts import ShapeContacts, frames_of
from polhode.linalg.known_places import take
from polhode.multibody.joint_contacts import joint_wrenches
from polhode.multibody.mechanism.groups import Motion
from polhode.multibody.mechanism.poses import Wrench
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point, Vector


def contact_wrenches(system: MultibodySystem, q: Point, motion: Motion, forces: Float[Array, "k rows"]) -> Wrench:
    """Loads of all contacts on all nodes but the ground; without those along coordinates of a tree."""
    none = jnp.zeros_like(motion.poses.x)[:-1]
    shapes, joints = system.shape_contacts, system.joint_contacts
    assert shapes is None or isinstance(shapes, ShapeContacts)
    count = 0 if shapes is None else shapes.count
    loads = [Wrench(none, none)] if shapes is None else [_shape_wrenches(shapes, motion, forces[:count])]
    if (friction := system.compliant_friction) is not None:
        loads.append(friction.wrenches(motion, forces[count : count + friction.count]))
        count += friction.count
    if (pivots := system.pivot_contacts) is not None:
        loads.append(Wrench(pivots.torques(motion, forces[count : count + pivots.count]), none))
    if joints is not None:
        loads.append(Wrench(*joint_wrenches(joints, motion, joint_efforts(system, q, forces))))
    return jax.tree.map(lambda *parts: sum(parts[1:], start=parts[0]), *loads)


def joint_efforts(system: MultibodySystem, q: Point, forces: Float[Array, "k rows"]) -> Float[Array, " j"]:
    """Forces along coordinates of stops and dry friction of joints, of those of all contacts."""
    joints = system.joint_contacts
    assert joints is not None
    return joints.efforts(system, q, forces[len(forces) - joints.count :])


def _shape_wrenches(contacts: ShapeContacts, motion: Motion, forces: Float[Array, "k rows"]) -> Wrench:
    """Loads of the contacts of shapes on all nodes but the ground.

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
