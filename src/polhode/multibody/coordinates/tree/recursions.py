"""Recursions along a tree from link to link, traced once for all links with equal joints, and once for a whole tree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.multibody.coordinates.tree.links import Inertia, Vec
from polhode.multibody.coordinates.tree.motions import AbstractRelativeMotion
from polhode.multibody.mechanism.poses import AT_REST, Pose, Twist, Wrench, axial
from polhode.spaces.base import Point, Vector, cross, hat

Rotation = Float[Array, "3 3"]

NONE: Any = np.zeros(3)
"""The zero vector, a constant while tracing."""


class LinkAcceleration(NamedTuple):
    """Angular velocity and acceleration of a link, K and a of the accelerations a + Kρ of its points; in its frame."""

    omega: Vec
    alpha: Vec
    spin: Rotation
    a: Vec


@jax.jit
def compose(carrier: Pose, pose: Pose) -> Pose:
    """A pose relative to `carrier` in the frame of the carrier's own pose."""
    o, F = carrier
    return Pose(o + F @ pose.x, F @ pose.R)


@jax.jit
def link_twist(motion: AbstractRelativeMotion, point: Point, rates: Vector, frame: Pose, below: Twist) -> Twist:
    """Angular velocity of a link and velocity of its origin, in its own frame, from those of the parent, `below`.

    `frame` is the frame of the link in that of the parent.
    """
    r, A = frame
    axes, displacements = motion.rotation_axes(point), motion.displacements(point, A)
    u = (below.u + cross(below.omega, r)) @ A
    u = u if displacements is None else u + rates @ displacements
    omega = below.omega @ A
    return Twist(omega if axes is None else omega + rates @ axes, u)


@jax.jit
def relative_poses(motions: Sequence[AbstractRelativeMotion], points: Sequence[Point]) -> list[Pose]:
    """Frames of all links in those of their parents."""
    return [motion.pose(point) for motion, point in zip(motions, points, strict=True)]


@partial(jax.jit, static_argnums=1)
def frames_in_space(relative: Sequence[Pose], parents: tuple[int, ...]) -> list[Pose]:
    """Frames of all links in the inertial frame; `parents` are before their children, -1 for the ground."""
    frames: list[Pose] = []
    for frame, parent in zip(relative, parents, strict=True):
        frames.append(frame if parent < 0 else compose(frames[parent], frame))
    return frames


@partial(jax.jit, static_argnums=4)
def link_twists(
    motions: Sequence[AbstractRelativeMotion],
    points: Sequence[Point],
    relative: Sequence[Pose],
    v: Vector,
    places: tuple[tuple[int, int, int], ...],
) -> list[Twist]:
    """`link_twist` of all links. `places`: of each its parent and the range of its velocities in v."""
    twists: list[Twist] = []
    for motion, point, frame, (parent, first, last) in zip(motions, points, relative, places, strict=True):
        twists.append(link_twist(motion, point, v[first:last], frame, twists[parent] if parent >= 0 else AT_REST))
    return twists


@partial(jax.jit, static_argnums=5)
def project_links(
    motions: Sequence[AbstractRelativeMotion],
    points: Sequence[Point],
    relative: Sequence[Pose],
    torques: list[Vec],
    forces: list[Vec],
    parents: tuple[int, ...],
) -> Vector:
    """Generalised forces of loads on the links, by a recursion from the leaves to the ground."""
    parts: list[Vector] = []
    for i in reversed(range(len(motions))):
        p = parents[i]
        below = Wrench(torques[p], forces[p]) if p >= 0 else Wrench(NONE, NONE)
        own, below = pass_to_parent(motions[i], points[i], relative[i], Wrench(torques[i], forces[i]), below)
        parts.append(own)
        if p >= 0:
            torques[p], forces[p] = below
    return jnp.concatenate(parts[::-1])


@jax.jit
def twist_of_body(twist: Twist, F: Rotation, centre: Vec, attitude: Rotation) -> Twist:
    """The twist of the body of a link, whose frame has the rotation F."""
    return Twist(twist.omega @ attitude, F @ (twist.u + cross(twist.omega, centre)))


@jax.jit
def load_on_link(load: Wrench, F: Rotation, centre: Vec, attitude: Rotation) -> Wrench:
    """The load on a body about the origin of its link and in its frame, which has the rotation F."""
    force = load.force @ F
    return Wrench(attitude @ load.torque + cross(centre, force), force)


@jax.jit
def link_acceleration(
    motion: AbstractRelativeMotion,
    point: Point,
    rates: Vector,
    frame: Pose,
    below: LinkAcceleration,
    accelerations: Vector | None = None,
) -> LinkAcceleration:
    """Accelerations of a link from those of the parent, `below`, and of the joint; None for vanishing ones."""
    r, A = frame
    axes, directions = motion.rotation_axes(point), motion.translation_axes(point)
    slide_drift, turn_drift = motion.sliding_drift(point, rates), motion.turning_drift(point, rates)
    a = below.a + below.spin @ r
    a = a if directions is None else a + 2 * cross(below.omega, rates @ directions)
    a = a if slide_drift is None else a + slide_drift
    omega, alpha, a = below.omega @ A, below.alpha @ A, a @ A
    if axes is not None:
        relative_omega = rates @ axes
        alpha = alpha + cross(omega, relative_omega)
        omega = omega + relative_omega
    alpha = alpha if turn_drift is None else alpha + turn_drift
    if accelerations is not None:
        displacements = motion.displacements(point, A)
        a = a if displacements is None else a + accelerations @ displacements
        alpha = alpha if axes is None else alpha + accelerations @ axes
    spin = hat(alpha) + omega[:, None] * omega - (omega @ omega) * np.eye(3)
    return LinkAcceleration(omega, alpha, spin, a)


@jax.jit
def inertial_load(body: Inertia, motion: LinkAcceleration, load: Wrench) -> Wrench:
    """Inertial moments and forces, ∫ρ×(a + Kρ) dm and ∫(a + Kρ) dm with K = spin, minus the load."""
    torque = axial(motion.spin @ body.second) + cross(body.moment, motion.a) - load.torque
    return Wrench(torque, body.mass * motion.a + motion.spin @ body.moment - load.force)


@jax.jit
def pass_to_parent(
    motion: AbstractRelativeMotion, point: Point, frame: Pose, load: Wrench, below: Wrench
) -> tuple[Vector, Wrench]:
    """Generalised forces of a load on a link, and the load on its parent, `below` plus this one."""
    r, A = frame
    axes, displacements = motion.rotation_axes(point), motion.displacements(point, A)
    force = A @ load.force
    own = jnp.zeros(motion.n)
    own = own if axes is None else own + axes @ load.torque
    own = own if displacements is None else own + displacements @ load.force
    return own, Wrench(below.torque + A @ load.torque + cross(r, force), below.force + force)


@jax.jit
def brackets(motion: AbstractRelativeMotion, rates: Vector) -> Float[Array, "n n"]:
    """The matrix of the bracket with the velocities of a joint."""
    return jax.vmap(lambda e: motion.space.bracket(rates, e), out_axes=1)(jnp.eye(motion.n))
