"""Matrices of a tree of links, by recursions from the leaves to the ground: M, tangents of weight and inertia."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.multibody.coordinates.tree.links import Inertia, Link, Loads, Rows, Vec, cross_rows
from polhode.multibody.coordinates.tree.motions import AbstractRelativeMotion
from polhode.multibody.mechanism.poses import AT_REST, Pose, Twist
from polhode.spaces.base import Point, Vector, cross, hat

Blocks = dict[tuple[int, int], Array]
"""Blocks of a matrix, by the numbers of two links."""


def assemble(links: Sequence[Link], blocks: Blocks) -> Float[Array, "n n"]:
    """The matrix of the blocks, zero between different branches."""
    movable = [(i, link.motion.n) for i, link in enumerate(links) if link.motion.n]
    return jnp.block([[blocks[i, j] if (i, j) in blocks else np.zeros((a, b)) for j, b in movable] for i, a in movable])


class Directions(NamedTuple):
    r"""Velocity fields $w = d + s\times\rho$ of unit velocities of one joint, ρ from the origin of its link.

    - `s`, `d`: axes and displacements of the origin, a row for each velocity, in the frame of the link.
    - `s_change`, `d_change`: derivatives along the joint's own coordinates of s in the frame of the link and of d in
      that of the parent, the latter with components in the frame of the link; (n, 3, n), the last index for the
      coordinate.
    """

    s: Rows
    d: Rows
    s_change: Float[Array, "n 3 n"]
    d_change: Float[Array, "n 3 n"]


@jax.jit
def directions_of(motion: AbstractRelativeMotion, point: Point, A: Float[Array, "3 3"]) -> Directions:
    """The directions of a joint at its coordinates; A is the rotation of the link on the parent."""
    zero = jnp.zeros((motion.n, 3))

    def s(point: Point) -> Rows:
        axes = motion.rotation_axes(point)
        return zero if axes is None else axes

    def d(point: Point) -> Rows:
        directions = motion.translation_axes(point)
        return zero if directions is None else directions @ A

    s_change, d_change = (
        jax.jacfwd(lambda theta, rows=rows: rows(motion.space.move(point, theta)))(jnp.zeros(motion.n))
        for rows in (s, d)
    )
    return Directions(s(point), d(point), s_change, d_change)


class Flow(NamedTuple):
    """Momentum ∫ẋ dm and its first moments ∫ρẋᵀ dm of a body or several, in one frame."""

    momentum: Vec
    moments: Float[Array, "3 3"]

    @jax.jit
    def plus(self, other: Flow) -> Flow:
        """Both bodies as one."""
        return Flow(self.momentum + other.momentum, self.moments + other.moments)

    @jax.jit
    def transform(self, frame: Pose) -> Flow:
        """The flow in the frame in which its own frame has the pose `frame`."""
        r, A = frame
        momentum = A @ self.momentum
        return Flow(momentum, A @ self.moments @ A.T + r[:, None] * momentum)


@jax.jit
def flow_of(inertia: Inertia, twist: Twist) -> Flow:
    """The flow of a rigid body, from angular velocity and velocity of the origin of its frame."""
    omega, u = twist
    moments = inertia.moment[:, None] * u + inertia.second @ hat(omega).T
    return Flow(inertia.mass * u + cross(omega, inertia.moment), moments)


def gravity_blocks(links: Sequence[Link], points: Sequence[Point], relative: Sequence[Pose], gravity: Vec) -> Blocks:
    """Minus the derivative of the generalised weight along the coordinates, by pairs of links."""
    composites, down = [link.inertia for link in links], _gravity_in_links(links, relative, gravity)
    blocks: Blocks = {}
    for i in reversed(range(len(links))):
        link = links[i]
        if link.motion.n:
            w = directions_of(link.motion, points[i], relative[i].R)
            blocks[i, i] = -_weight_of_changes(w, composites[i]) @ down[i]
            loads = link.unit_loads(points[i], relative[i].R, composites[i])
            j = i
            while links[j].parent >= 0:
                loads, j = loads.transform(relative[j]), links[j].parent
                if links[j].motion.n:
                    # Rotations of an ancestor carry the velocity field of this joint along: ∂w = s × w.
                    axes = links[j].motion.rotation_axes(points[j])
                    tilt = np.zeros((links[j].motion.n, 3)) if axes is None else cross_rows(axes, down[j])
                    blocks[i, j] = loads.forces @ tilt.T
                    blocks[j, i] = blocks[i, j].T
        _add_to_parent(links, relative, composites, i)
    return blocks


def velocity_blocks(
    links: Sequence[Link], points: Sequence[Point], relative: Sequence[Pose], twists: Sequence[Twist], v: Vector
) -> Blocks:
    r"""The matrix Γ(q, v) with entries $\int w_i\cdot\dot w_j\,dm$, by pairs of links.

    The fields w of unit velocities, in which $\dot x = \sum w_j v_j$, move with the tree. In coordinates without
    brackets the acceleration changes along $v_j$ by $2\dot w_j$, so that the inertial forces Γv have the derivative 2Γ
    (S. Echeandia & P. M. Wensing, *Numerical Methods to Compute the Coriolis Matrix
    and Christoffel Symbols for Rigid-Body Systems*, 2021).

    - `twists`: angular velocity and velocity of the origin of each link, in its own frame.
    """
    composites = [link.inertia for link in links]
    flows = [flow_of(body, twist) for body, twist in zip(composites, twists, strict=True)]
    ways = [directions_of(link.motion, point, A) for link, point, (_, A) in zip(links, points, relative, strict=True)]
    rates = [_rates(links, k, ways[k], relative, twists, v) for k in range(len(links))]
    blocks: Blocks = {}
    for i in reversed(range(len(links))):
        link = links[i]
        if link.motion.n:
            loads = link.unit_loads(points[i], relative[i].R, composites[i])
            across = _across(ways[i], flows[i])
            changes = _loads_of_rates(ways[i], rates[i], composites[i], flows[i], twists[i])
            blocks[i, i] = link.work(points[i], relative[i].R, changes).T
            j = i
            while links[j].parent >= 0:
                loads, changes = loads.transform(relative[j]), changes.transform(relative[j])
                across = across @ relative[j].R.T
                j = links[j].parent
                if links[j].motion.n:
                    blocks[j, i] = links[j].work(points[j], relative[j].R, changes).T
                    blocks[i, j] = _work_of_rates(ways[j], rates[j], twists[j], loads, across)
        _add_to_parent(links, relative, composites, i)
        if link.parent >= 0:
            flows[link.parent] = flows[link.parent].plus(flows[i].transform(relative[i]))
    return blocks


def _gravity_in_links(links: Sequence[Link], relative: Sequence[Pose], gravity: Vec) -> list[Vec]:
    """Gravity in the frame of each link."""
    gravities: list[Vec] = []
    for link, (_, A) in zip(links, relative, strict=True):
        gravities.append((gravities[link.parent] if link.parent >= 0 else link.weight * gravity) @ A)
    return gravities


def _add_to_parent(links: Sequence[Link], relative: Sequence[Pose], composites: list[Inertia], i: int) -> None:
    """Add the composite body of a link to that of its parent."""
    parent = links[i].parent
    if parent >= 0:
        composites[parent] = composites[parent].plus(composites[i].transform(relative[i]))


@jax.jit
def _weight_of_changes(w: Directions, composite: Inertia) -> Float[Array, "n n 3"]:
    """∫∂w_i/∂q_j dm for the velocities i and coordinates j of one joint."""
    moment = composite.moment
    axis_changes = jax.vmap(lambda a: jax.vmap(lambda b: cross(b, a))(w.s))(w.s) + w.s_change.transpose(0, 2, 1)
    axis_moments = cross_rows(w.s, moment)
    swing = jax.vmap(lambda a: jax.vmap(lambda b: cross(a, b))(axis_moments))(w.s)
    return (
        jax.vmap(lambda rows: cross_rows(rows, moment))(axis_changes)
        + swing
        + composite.mass * w.d_change.transpose(0, 2, 1)
    )


def _rates(
    links: Sequence[Link], k: int, w: Directions, relative: Sequence[Pose], twists: Sequence[Twist], v: Vector
) -> tuple[Rows, Rows]:
    """Time derivatives of s and d of one joint, components in the frame of its link."""
    link = links[k]
    own = v[link.first : link.last]
    below = twists[link.parent].omega if link.parent >= 0 else AT_REST.omega
    return _rates_in(w, twists[k].omega, below, relative[k].R, own)


@jax.jit
def _rates_in(w: Directions, omega: Vec, below: Vec, A: Float[Array, "3 3"], own: Vector) -> tuple[Rows, Rows]:
    """`_rates` from the angular velocities of the link and of the parent, each in its own frame."""
    return -cross_rows(w.s, omega) + w.s_change @ own, -cross_rows(w.d, below @ A) + w.d_change @ own


@jax.jit
def _work_of_rates(w: Directions, rates: tuple[Rows, Rows], twist: Twist, loads: Loads, across: Rows) -> Array:
    """Power of loads, and of the momentum flow ∫ẋ × w dm, in changes of the velocity fields of a joint."""
    s_dot, d_dot = rates
    lever = d_dot - cross_rows(w.s, twist.u)
    return loads.forces @ lever.T + loads.torques @ s_dot.T + across @ w.s.T


@jax.jit
def _across(w: Directions, flow: Flow) -> Rows:
    """∫ẋ × w dm."""
    return jnp.trace(flow.moments) * w.s - w.s @ flow.moments.T - cross_rows(w.d, flow.momentum)


@jax.jit
def _loads_of_rates(w: Directions, rates: tuple[Rows, Rows], composite: Inertia, flow: Flow, twist: Twist) -> Loads:
    """∫ẇ dm and ∫ρ × ẇ dm with ẇ = ḋ + ṡ × ρ + s × (ẋ - u)."""
    s_dot, d_dot = rates
    momentum = flow.momentum - composite.mass * twist.u
    moments = flow.moments - composite.moment[:, None] * twist.u
    forces = composite.mass * d_dot + cross_rows(s_dot, composite.moment) + cross_rows(w.s, momentum)
    torques = jnp.trace(composite.second) * s_dot - s_dot @ composite.second - cross_rows(d_dot, composite.moment)
    return Loads(torques + jnp.trace(moments) * w.s - w.s @ moments, forces)
