"""Momenta of bodies that are left to themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.joints._elements import FrameConstraint
from polhode.joints.distance import ConstantDistance
from polhode.model.groups import JointGroup
from polhode.model.livens_gradients import acts_inside
from polhode.model.multibody import MultibodySystem
from polhode.systems.base import Observable, State

if TYPE_CHECKING:
    from polhode.model.observed import AbstractMultibody

_RELATIVE = FrameConstraint, ConstantDistance
"""Constraints that see two bodies only relative to each other; of others, such as users' own, that isn't known."""


def kept_momenta(system: AbstractMultibody) -> dict[str, Observable]:
    """Linear and angular momentum, about the origin, of bodies on which nothing acts from outside.

    None where that isn't known: in joint coordinates, with joints and potentials of a user's own, with coordinates that
    are no bodies, and for gravity that is traced by JAX.
    """
    if not isinstance(system, MultibodySystem) or not acts_inside(system):
        return {}
    if any(group.formulation.n == 1 for group in system.bodies) or not all(map(_holds_inside, system.joints)):
        return {}

    def linear(t: Array, state: State) -> Float[Array, "3"]:
        del t
        return jnp.sum(_momenta(system, state), axis=0)

    def angular(t: Array, state: State) -> Float[Array, "3"]:
        del t
        motion = system.motion(*state)
        assert motion.twists is not None
        inertia = jnp.concatenate([group.rigid_inertia for group in system.bodies])
        spins = jnp.einsum("nij,njk,nk->ni", motion.poses.R[:-1], inertia, motion.twists.omega[:-1])
        rigid = jnp.sum(spins + jnp.cross(motion.poses.x[:-1], _momenta(system, state)), axis=0)
        parts = zip(system.bodies, state[0], strict=True)
        return sum((g.spin(points, state[1]) for g, points in parts if g.formulation.deforms), start=rigid)

    return {"linear_momentum": linear, "angular_momentum": angular}


def _momenta(system: MultibodySystem, state: State) -> Float[Array, "bodies 3"]:
    motion = system.motion(*state)
    assert motion.twists is not None
    mass = jnp.concatenate([group.moving_mass for group in system.bodies])
    return mass[:, None] * motion.twists.u[:-1]


def _holds_inside(group: JointGroup) -> bool:
    """Whether a joint holds two bodies relative to each other."""
    return type(group.elements) in _RELATIVE and all(slot.group is not None for slot in group.slots)
