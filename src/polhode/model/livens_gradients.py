"""Discrete gradients along the poses of nodes, through relative poses where only those matter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.model.absolute import AbsoluteCoordinates
from polhode.model.elements import InFirstFrame
from polhode.model.groups import JointGroup
from polhode.model.livens_levers import Stretch
from polhode.model.multibody import MultibodySystem
from polhode.model.poses import Pose, Poses, seen_from_first
from polhode.spaces import quaternions
from polhode.systems.base import State
from polhode.systems.discrete_gradients import Gonzalez


def mean_gradient(f: Callable[[Poses], Array], relative: bool, s: tuple[Stretch, ...]) -> tuple[Pose, ...]:
    """The discrete gradient of a function of poses along (x, R) of each node, leading axes those of its value."""
    start, end = tuple(n.start for n in s), tuple(n.end for n in s)
    if not relative or len(s) == 1:
        found = Gonzalez()(lambda y: f(_unflat(y)), _flat(start), _flat(end))
        return _unflat(found)
    of_pair = Gonzalez()(lambda y: f((_ORIGIN, _unflat(y)[0])), _between(start), _between(end))
    middle = jax.tree.map(lambda a, b: 0.5 * (a + b), start, end)
    J = jax.jacfwd(lambda y: _between(_unflat(y)))(_flat(middle))
    return _unflat(of_pair @ J)


def middle_gradient(f: Callable[[Poses], Array], s: tuple[Stretch, ...]) -> tuple[Pose, ...]:
    """The same for polynomials of degree 2: the gradient at the mean of both ends."""
    start, end = (_flat(tuple(poses)) for poses in zip(*((n.start, n.end) for n in s), strict=True))
    return _unflat(jax.jacrev(lambda y: f(_unflat(y)))(0.5 * (start + end)))


def rolling_gradient(group: JointGroup, element: Any, t: Array, s: tuple[Stretch, ...]) -> Float[Array, "kept 6nodes"]:
    """Rows of the nonholonomic components on turns in the inertial frame and moves, in the middle of the step.

    Taken where the mean velocities of the nodes are measured, they do no work on these.
    """
    found = element.gradients(t, tuple(n.middle for n in s))
    rows = [jnp.concatenate((g[:, :3] @ n.middle.R.T, g[:, 3:]), axis=1) for g, n in zip(found, s, strict=True)]
    return _nonholonomic(group, jnp.concatenate(rows, axis=1)[np.array(group.kept)])


def slipped(group: JointGroup, element: Any, t: Array, h: Array, s: tuple[Stretch, ...]) -> Float[Array, " kept"]:
    """What slips over a step at the mean velocities; zero in holonomic components."""
    poses, twists = tuple(n.middle for n in s), tuple(n.twist for n in s)
    return _nonholonomic(group, h * group.rate(element, t, poses, twists))


def _nonholonomic(group: JointGroup, values: Float[Array, "kept ..."]) -> Float[Array, "kept ..."]:
    rows = np.array(group.nonholonomic)
    return jnp.zeros_like(values).at[rows].set(values[rows])


_ORIGIN = Pose(np.zeros(3), np.eye(3))  # pyright: ignore[reportArgumentType]


def _between(poses: Poses) -> Float[Array, "12"]:
    """(R_aᵀ(x_b - x_a), R_aᵀR_b), quadratic in the poses."""
    return _flat(seen_from_first(poses)[1:])


def _flat(poses: Poses) -> Array:
    return jnp.concatenate([jnp.concatenate((pose.x, pose.R.reshape(-1))) for pose in poses])


def _unflat(y: Array) -> Poses:
    parts = [y[..., 12 * k : 12 * k + 12] for k in range(y.shape[-1] // 12)]
    return tuple(Pose(p[..., :3], p[..., 3:].reshape(*p.shape[:-1], 3, 3)) for p in parts)


def acting(gradients: tuple[Pose, ...], s: tuple[Stretch, ...]) -> Array:
    """Gradients along turns in the inertial frame and moves of each node, of shape (…, 6 nodes)."""

    def one(gradient: Pose, lever: Float[Array, "3 3"]) -> Array:
        A = gradient.R @ lever.T
        turn = jnp.stack((A[..., 2, 1] - A[..., 1, 2], A[..., 0, 2] - A[..., 2, 0], A[..., 1, 0] - A[..., 0, 1]), -1)
        return jnp.concatenate((turn, gradient.x), axis=-1)

    return jnp.concatenate([one(g, n.lever) for g, n in zip(gradients, s, strict=True)], axis=-1)


def dressed(system: MultibodySystem[AbsoluteCoordinates], state: State) -> MultibodySystem[AbsoluteCoordinates]:
    """Joints between two bodies of which only the relative pose matters, put into the frame of the first."""

    def one(group: JointGroup) -> JointGroup:
        if not is_relative(system, group, state):
            return group
        return dataclasses.replace(group, elements=InFirstFrame(group.elements))

    joints = tuple(map(one, system.mechanism.joints))
    return system.with_joints(joints)


def undressed(group: JointGroup) -> JointGroup:
    """A group of joints as they were defined."""
    elements = group.elements
    return dataclasses.replace(group, elements=elements.inner) if isinstance(elements, InFirstFrame) else group


def undressed_where_whole(group: JointGroup) -> JointGroup:
    """The same for joints of which nothing was dropped and whose discrete gradient needs no relative poses.

    Their multipliers are carried through a step in the inertial frame then, which prefers neither of the bodies.
    """
    bare = undressed(group)
    return bare if bare.elements.quadratic and len(group.kept) == bare.elements.size else group


def are_relative(system: MultibodySystem[AbsoluteCoordinates], state: State) -> bool:
    """Whether all joints hold two bodies relative to each other."""
    return all(is_relative(system, group, state) for group in system.mechanism.joints)


def is_relative(system: MultibodySystem[AbsoluteCoordinates], group: JointGroup, state: State) -> bool:
    """Whether a joint holds the relative pose of two bodies only, in whatever frame its residual is."""
    if isinstance(group.elements, InFirstFrame):
        return True
    if group.nonholonomic:
        # What they hold is no function of poses.
        return False
    if not checks.is_concrete(system, state):
        return len(group.slots) == 2
    return is_objective(system, group, state, lambda e, p, t: jnp.sum(e.residual(t, p) ** 2))


def is_objective(
    base: MultibodySystem[AbsoluteCoordinates], group: JointGroup, state: State, f: Callable[[Any, Poses, Array], Array]
) -> bool:
    """Whether a function of two poses and time sees their relative pose only, tried out near the start and far off."""
    if len(group.slots) != 2:
        return False
    rng = np.random.default_rng(0)
    nodes = base.motion(state[0]).at(group.slots)

    def disturbed(pose: Pose, size: float) -> Pose:
        turn = quaternions.to_matrix(quaternions.from_increment(jnp.asarray(size * rng.standard_normal(3))))
        return Pose(pose.x + size * rng.standard_normal(3), pose.R @ turn)

    def same(size: float, t: float) -> bool:
        moved = zip(nodes, group.slots, strict=True)
        poses = tuple(disturbed(p, size) if slot.group is not None else p for p, slot in moved)
        at = jax.vmap(lambda e, p: f(e, p, jnp.asarray(t)))
        here, there = (np.asarray(at(group.elements, p)) for p in (poses, jax.vmap(seen_from_first)(poses)))
        return bool(np.all(np.abs(here - there) <= 1e-9 * (1 + np.abs(here))))

    return all(same(size, t) for size, t in ((0.3, 0.0), (1.0, 2.3)))
