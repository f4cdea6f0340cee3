"""Joints of bodies on Livens' principle, in the frame of the first body where only the relative pose matters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.multibody.coordinates.absolute import AbsoluteCoordinates
from polhode.multibody.mechanism.elements import InFirstFrame
from polhode.multibody.mechanism.groups import JointGroup
from polhode.multibody.mechanism.poses import Pose, Poses, relative_poses
from polhode.multibody.system import MultibodySystem
from polhode.spaces import quaternions
from polhode.systems.base import State


def in_first_frame(system: MultibodySystem[AbsoluteCoordinates], state: State) -> MultibodySystem[AbsoluteCoordinates]:
    """The system with joints in the frame of their first body where they depend on the relative pose only."""

    def one(group: JointGroup) -> JointGroup:
        if not is_relative(system, group, state):
            return group
        return dataclasses.replace(group, elements=InFirstFrame(group.elements))

    joints = tuple(map(one, system.mechanism.joints))
    return system.with_joints(joints)


def as_defined(group: JointGroup) -> JointGroup:
    """A group of joints as they were defined."""
    elements = group.elements
    return dataclasses.replace(group, elements=elements.inner) if isinstance(elements, InFirstFrame) else group


def as_defined_where_complete(group: JointGroup) -> JointGroup:
    """As defined, where all components are imposed and the discrete gradient needs no relative poses.

    Their multipliers then are in the inertial frame throughout a step, symmetric in both bodies.
    """
    bare = as_defined(group)
    return bare if bare.elements.quadratic and len(group.components) == bare.elements.size else group


def are_relative(system: MultibodySystem[AbsoluteCoordinates], state: State) -> bool:
    """Whether all joints constrain relative poses only."""
    return all(is_relative(system, group, state) for group in system.mechanism.joints)


def is_relative(system: MultibodySystem[AbsoluteCoordinates], group: JointGroup, state: State) -> bool:
    """Whether a joint constrains the relative pose of two bodies only, in any frame of its residual."""
    if isinstance(group.elements, InFirstFrame):
        return True
    if group.nonholonomic:
        # Nonholonomic components are no functions of poses.
        return False
    if not checks.is_concrete(system, state):
        return len(group.slots) == 2
    return is_objective(system, group, state, lambda e, p, t: jnp.sum(e.residual(t, p) ** 2))


def is_objective(
    base: MultibodySystem[AbsoluteCoordinates], group: JointGroup, state: State, f: Callable[[Any, Poses, Array], Array]
) -> bool:
    """Whether a function of two poses and time depends on the relative pose only, tested near the start and far off."""
    if len(group.slots) != 2:
        return False
    rng = np.random.default_rng(0)
    q, _ = state
    nodes = base.motion(q).at(group.slots)

    def perturb(pose: Pose, size: float) -> Pose:
        turn = quaternions.to_matrix(quaternions.from_increment(jnp.asarray(size * rng.standard_normal(3))))
        return Pose(pose.x + size * rng.standard_normal(3), pose.R @ turn)

    def same(size: float, t: float) -> bool:
        pairs = zip(nodes, group.slots, strict=True)
        poses = tuple(perturb(p, size) if slot.group is not None else p for p, slot in pairs)
        at = jax.vmap(lambda e, p: f(e, p, jnp.asarray(t)))
        here, there = (np.asarray(at(group.elements, p)) for p in (poses, jax.vmap(relative_poses)(poses)))
        return bool(np.all(np.abs(here - there) <= 1e-9 * (1 + np.abs(here))))

    return all(same(size, t) for size, t in ((0.3, 0.0), (1.0, 2.3)))
