"""Loads that joints exert on their second bodies, in any coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.known_places import add_entries, take
from polhode.multibody.coordinates.tree.coordinates import JointTree
from polhode.multibody.coordinates.tree.links import Link
from polhode.multibody.mechanism.groups import Motion, Slot
from polhode.multibody.mechanism.poses import Wrench
from polhode.multibody.mechanism.reactions import reaction_of
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point, Vector


class Load(NamedTuple):
    """The load on a body: force and moment about the origin, both in the inertial frame, and the joint's power."""

    force: Float[Array, "3"]
    moment: Float[Array, "3"]
    power: Float[Array, ""]


def constraint_loads(
    system: MultibodySystem, t: Array, motion: Motion, multipliers: Float[Array, " m"], numbers: Mapping[str, int]
) -> Load:
    """Loads -Bᵀλ of constraints on the second of their two nodes, stacked by the `numbers` of joints.

    Zero for joints without constraints. The power of joints that depend on time is that of their
    loads on both nodes; that of others vanishes.

    **Arguments:**

    - `system`: the one that has all constraints, redundant ones included. - `multipliers`: λ of all of them.
    """
    count = len(numbers)
    total = Load(jnp.zeros((count, 3)), jnp.zeros((count, 3)), jnp.zeros(count))
    for group in system.mechanism.joints:
        names = [system.labels[rows[0]] for rows in group.rows.numbers]
        members = np.array([k for k, name in enumerate(names) if name in numbers], dtype=int)
        if len(group.slots) != 2 or not len(members):
            continue
        places = np.array([numbers[names[k]] for k in members])
        wrenches = reaction_of(group, multipliers).wrenches(t, motion)
        force, moment = _about_origin(motion, group.slots[1], wrenches[1])
        power = total.power
        if group.elements.driven:
            parts = (_power(motion, *both) for both in zip(group.slots, wrenches, strict=True))
            power = add_entries(power, take(sum(parts, start=jnp.zeros(())), members), places)
        force, moment = take(force, members), take(moment, members)
        total = Load(add_entries(total.force, force, places), add_entries(total.moment, moment, places), power)
    return total


def _about_origin(motion: Motion, slot: Slot, wrench: Wrench) -> tuple[Array, Array]:
    """Forces, and moments about the origin of the inertial frame, of wrenches on the nodes of a slot."""
    rows = slot.nodes.numbers
    moment = jnp.einsum("nij,nj->ni", take(motion.poses.R, rows), wrench.torque)
    return wrench.force, moment + jnp.cross(take(motion.poses.x, rows), wrench.force)


def _power(motion: Motion, slot: Slot, wrench: Wrench) -> Float[Array, " elements"]:
    assert motion.twists is not None
    rows = slot.nodes.numbers
    rotational = jnp.sum(wrench.torque * take(motion.twists.omega, rows), axis=1)
    return rotational + jnp.sum(wrench.force * take(motion.twists.u, rows), axis=1)


def transmitted_loads(
    system: MultibodySystem,
    t: Array,
    q: Point,
    v: Vector,
    motion: Motion,
    vdot: Vector,
    multipliers: Array,
    others: Wrench | None = None,
) -> tuple[Float[Array, "n 3"], Float[Array, "n 3"], Vector]:
    r"""Forces and moments about the origin that a tree transmits to each of its links, by Newton–Euler equations of the
    subtree of the link:

    $f_i = \sum_j m_j(\ddot x_j - g) - f_j^a,\quad
    M_i = \sum_j R_j(J_j\dot\Omega_j + \Omega_j\times J_j\Omega_j - \tau_j^a) + x_j\times(\dots)$

    with applied loads $(\tau^a, f^a)$, `others` among them, and those of constraints that close loops. Forces along
    coordinates of the tree are included; their sums, with those of couplings and rotors, come last.
    """
    tree = system.coordinates.joint_tree
    assert isinstance(tree, JointTree)
    assert motion.twists is not None
    omega, _ = motion.twists

    def velocities_at(s: Array) -> tuple[Array, Array]:
        twists = system.motion(system.flow(q, v, s), v + s * vdot).twists
        assert twists is not None
        return twists.omega, twists.u

    zero = jnp.zeros(())
    changes = jax.jvp(velocities_at, (zero,), (jnp.ones(()),))[1]
    reactions = [reaction_of(group, multipliers) for group in system.mechanism.joints]
    applied_loads = system.mechanism.loads(t, motion, (*system.mechanism.forces, *reactions))
    if others is not None:
        applied_loads = jax.tree.map(jnp.add, applied_loads, others)
    # Rows before those of the links are of bodies beside the tree; the ground comes last.
    first = system.names.index(tree.links[0].name)
    omega, alpha, acceleration, (x, R), applied_loads = jax.tree.map(
        lambda values: values[first : first + len(tree.links)],
        (omega, *changes, (motion.poses.x, motion.poses.R), applied_loads),
    )
    mass = tree.rows.inertia.mass[:, None]
    weights, J = np.array([[link.weight] for link in tree.links]), tree.inertias
    force = mass * (acceleration - weights * system.mechanism.gravity) - applied_loads.force
    torque = _times(J, alpha) + jnp.cross(omega, _times(J, omega)) - applied_loads.torque
    moment = _times(R, torque) + jnp.cross(x, force)
    subtrees = jnp.asarray(_subtrees(tree.links))
    q_of_tree, _ = system.coordinates.in_joint_tree(q, v)
    return subtrees @ force, subtrees @ moment, tree.project(q_of_tree, Wrench(torque, force))


def _times(matrices: Float[Array, "n 3 3"], vectors: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
    return jnp.einsum("nij,nj->ni", matrices, vectors)


def _subtrees(links: Sequence[Link]) -> Float[np.ndarray, "n n"]:
    """1 where the link of a column is in the subtree of that of a row; else 0."""
    matrix = np.eye(len(links))
    for i in reversed(range(len(links))):
        if links[i].parent >= 0:
            matrix[links[i].parent] += matrix[i]
    return matrix
