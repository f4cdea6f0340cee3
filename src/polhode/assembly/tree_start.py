"""Initial states of trees: joint velocities from those of bodies, and a check of the mass matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.numpy_jit import numpy_jit
from polhode.linalg.blocks import to_dense
from polhode.multibody import consistent_start
from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.tree.coordinates import JointTree
from polhode.multibody.coordinates.tree.dependent_coordinates import ReducedTree
from polhode.multibody.coordinates.tree.links import Link
from polhode.multibody.coordinates.tree.motions import AbstractRelativeMotion
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.spaces.base import Point, cross

_SINGULAR = 1e-12
"""Smallest eigenvalue of a mass matrix, scaled to a unit diagonal, that counts as positive definite."""

_NAMED_SHARE = 0.3
"""Share of the largest component of a motion without inertia above which a joint is named."""


class PlacedLink(NamedTuple):
    """A link with its body and its initial frame, inertial."""

    link: Link
    body: Body
    frame: Pose


def check_mass(tree: JointTree | ReducedTree, links: Sequence[Link], q: Point) -> None:
    """Raises ValueError, naming the joints, if the mass matrix is singular at the start."""
    M = np.asarray(_mass(tree, q))
    size = np.sqrt(np.maximum(np.diag(M), 0.0))
    scale = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(M / np.outer(scale, scale))
    if values[0] > _SINGULAR:
        return
    rows = np.abs(vectors[:, 0]) > _NAMED_SHARE * np.max(np.abs(vectors[:, 0]))
    joints = [f"`{link.joint}` of `{link.name}`" for link in links if rows[tree.columns(link.name)].any()]
    raise ValueError(
        f"What moves with {', '.join(joints)} has no mass or inertia there, or a negative one, at the start. Give "
        "the bodies behind it a mass and an inertia, or fix them."
    )


def velocity(placed_link: PlacedLink, parent: PlacedLink | None, point: Any, repair: bool) -> Float[Array, " n"]:
    """Velocities of the joint that carries a body. Raises UnfitStart for those of the body that it doesn't allow."""
    link, body, frame = placed_link
    omega, u = _link_twist(link, body, frame)
    if parent is not None:
        omega0, u0 = _link_twist(*parent)
        F = parent.frame.R
    else:
        omega0, u0, F = jnp.zeros(3), jnp.zeros(3), jnp.eye(3)
    v, gap, target = _nearest(link.motion, point, (omega, u), (omega0, u0), F)
    if not repair and checks.is_concrete(gap):
        speed = max(1.0, float(jnp.max(jnp.abs(target))))
        if not float(jnp.max(jnp.abs(gap))) <= consistent_start.POSITION_TOLERANCE * speed:
            turn, slip = float(jnp.linalg.norm(gap[:3])), float(jnp.linalg.norm(gap[3:]))
            raise consistent_start.InconsistentStart(
                f"The initial velocities do not fit the joint `{link.joint}` that carries `{body.name}`: the "
                f"relative angular velocity is off by {turn:.3g}, the relative velocity by {slip:.3g}. Correct "
                "them, or let `assemble(repair=True)` take the nearest that fit."
            )
    return v


@numpy_jit
def _nearest(
    motion: AbstractRelativeMotion, point: Any, own: tuple[Array, Array], carrier: tuple[Array, Array], F: Array
) -> tuple[Array, Array, Array]:
    """The joint velocities nearest to those of the bodies, the residual, and the relative twist of the bodies.

    `F`: the rotation of the parent link, whose angular velocity is in its own frame.
    """
    (omega, u), (omega0, u0) = own, carrier
    r, A = motion.pose(point)
    target = jnp.concatenate((omega - omega0 @ A, (u - u0) @ F - cross(omega0, r)))
    none = jnp.zeros((motion.n, 3))
    rotation_rows, translation_rows = motion.rotation_axes(point), motion.translation_axes(point)
    rows = jnp.concatenate(
        (none if rotation_rows is None else rotation_rows, none if translation_rows is None else translation_rows),
        axis=1,
    )
    v = jnp.linalg.solve(rows @ rows.T, rows @ target) if motion.n else jnp.zeros(0)
    return v, target - v @ rows, target


def _link_twist(link: Link, body: Body, frame: Pose) -> Twist:
    """Angular velocity in the frame of the link, inertial velocity of its origin, at the start."""
    return _twist(link.attitude, link.centre, frame.R, body.omega, body.u)


@numpy_jit
def _twist(attitude: Array, centre: Array, R: Array, omega: Array, u: Array) -> Twist:
    spin = attitude @ omega
    return Twist(spin, u - R @ cross(spin, centre))


@numpy_jit
def _mass(tree: JointTree | ReducedTree, q: Point) -> Array:
    return to_dense(tree.mass(q), (tree.n, tree.n))
