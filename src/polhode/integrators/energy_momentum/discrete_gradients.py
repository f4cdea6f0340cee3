"""Discrete gradients along the poses of nodes, through relative poses where only those matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.integrators.energy_momentum.rotation_update import NodeStep
from polhode.multibody.mechanism.groups import JointGroup
from polhode.multibody.mechanism.poses import Pose, Poses, relative_poses
from polhode.systems.discrete_gradients import Gonzalez


def mean_gradient(f: Callable[[Poses], Array], relative: bool, s: tuple[NodeStep, ...]) -> tuple[Pose, ...]:
    """The discrete gradient of a function of poses along (x, R) of each node, leading axes those of its value."""
    start, end = tuple(n.start for n in s), tuple(n.end for n in s)
    if not relative or len(s) == 1:
        gradient = Gonzalez()(lambda y: f(_unflat(y)), _flat(start), _flat(end))
        return _unflat(gradient)
    of_pair = Gonzalez()(lambda y: f((_ORIGIN, _unflat(y)[0])), _between(start), _between(end))
    middle = jax.tree.map(lambda a, b: 0.5 * (a + b), start, end)
    J = jax.jacfwd(lambda y: _between(_unflat(y)))(_flat(middle))
    return _unflat(of_pair @ J)


def middle_gradient(f: Callable[[Poses], Array], s: tuple[NodeStep, ...]) -> tuple[Pose, ...]:
    """The same for polynomials of degree 2: the gradient at the mean of both ends."""
    start, end = (_flat(tuple(poses)) for poses in zip(*((n.start, n.end) for n in s), strict=True))
    return _unflat(jax.jacrev(lambda y: f(_unflat(y)))(0.5 * (start + end)))


def rolling_gradient(group: JointGroup, element: Any, t: Array, s: tuple[NodeStep, ...]) -> Float[Array, "kept 6nodes"]:
    """Rows of the nonholonomic components for rotations in the inertial frame and translations, at mid-step.

    Evaluated at the mean poses, they do no work at the mean velocities.
    """
    gradients = element.gradients(t, tuple(n.middle for n in s))
    rows = [jnp.concatenate((g[:, :3] @ n.middle.R.T, g[:, 3:]), axis=1) for g, n in zip(gradients, s, strict=True)]
    return _nonholonomic(group, jnp.concatenate(rows, axis=1)[np.array(group.components)])


def slip_over_step(
    group: JointGroup, element: Any, t: Array, h: Array, s: tuple[NodeStep, ...]
) -> Float[Array, " kept"]:
    """Slip over a step at the mean velocities; zero in holonomic components."""
    poses, twists = tuple(n.middle for n in s), tuple(n.twist for n in s)
    return _nonholonomic(group, h * group.rate(element, t, poses, twists))


def _nonholonomic(group: JointGroup, values: Float[Array, "kept ..."]) -> Float[Array, "kept ..."]:
    rows = np.array(group.nonholonomic)
    return jnp.zeros_like(values).at[rows].set(values[rows])


_ORIGIN = Pose._make((np.zeros(3), np.eye(3)))


def _between(poses: Poses) -> Float[Array, "12"]:
    """(R_aᵀ(x_b - x_a), R_aᵀR_b), quadratic in the poses."""
    return _flat(relative_poses(poses)[1:])


def _flat(poses: Poses) -> Array:
    return jnp.concatenate([jnp.concatenate((pose.x, pose.R.reshape(-1))) for pose in poses])


def _unflat(y: Array) -> Poses:
    parts = [y[..., 12 * k : 12 * k + 12] for k in range(y.shape[-1] // 12)]
    return tuple(Pose(p[..., :3], p[..., 3:].reshape(*p.shape[:-1], 3, 3)) for p in parts)


def motion_gradients(gradients: tuple[Pose, ...], s: tuple[NodeStep, ...]) -> Array:
    """Gradients along rotations in the inertial frame and translations of each node, of shape (…, 6 nodes)."""

    def one(gradient: Pose, lever: Float[Array, "3 3"]) -> Array:
        A = gradient.R @ lever.T
        turn = jnp.stack((A[..., 2, 1] - A[..., 1, 2], A[..., 0, 2] - A[..., 2, 0], A[..., 1, 0] - A[..., 0, 1]), -1)
        return jnp.concatenate((turn, gradient.x), axis=-1)

    return jnp.concatenate([one(g, n.lever) for g, n in zip(gradients, s, strict=True)], axis=-1)
