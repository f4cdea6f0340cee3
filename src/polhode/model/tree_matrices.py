"""Matrices of a tree of links, by recursions from the leaves to the ground: M, and tangents of weight and inertia."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.model.poses import Pose, Twist
from polhode.model.tree_links import Inertia, Link, Loads, Rows, Vec, crossed
from polhode.spaces.base import Point, Vector, cross, hat

Blocks = dict[tuple[int, int], Array]
"""Parts of a matrix, by the numbers of two links."""


def assembled(links: Sequence[Link], blocks: Blocks) -> Float[Array, "n n"]:
    """The matrix of the blocks; zero for links of different branches."""
    moving = [(i, link.motion.n) for i, link in enumerate(links) if link.motion.n]
    return jnp.block([[blocks[i, j] if (i, j) in blocks else jnp.zeros((a, b)) for j, b in moving] for i, a in moving])


def mass_blocks(links: Sequence[Link], points: Sequence[Point], relative: Sequence[Pose]) -> Blocks:
    """M: the work of the loads of unit accelerations of one joint in unit velocities of the other."""
    carried = [link.inertia for link in links]
    blocks: Blocks = {}
    for i in reversed(range(len(links))):
        link = links[i]
        if link.motion.n:
            loads = link.unit_loads(points[i], relative[i].R, carried[i])
            blocks[i, i] = link.work(points[i], relative[i].R, loads)
            j = i
            while links[j].parent >= 0:
                loads, j = loads.seen_from(relative[j]), links[j].parent
                if links[j].motion.n:
                    blocks[i, j] = links[j].work(points[j], relative[j].R, loads)
                    blocks[j, i] = blocks[i, j].T
        _carry(links, relative, carried, i)
    return blocks


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

    @classmethod
    def of(cls, link: Link, point: Point, A: Float[Array, "3 3"]) -> Directions:
        """The directions of a joint, from its link and coordinates; A is the rotation of the link on the parent."""
        motion, n = link.motion, link.motion.n
        zero = jnp.zeros((n, 3))

        def s(point: Point) -> Rows:
            turning = motion.turning(point)
            return zero if turning is None else turning

        def d(point: Point) -> Rows:
            sliding = motion.sliding(point)
            return zero if sliding is None else sliding @ A

        s_change, d_change = (
            jax.jacfwd(lambda theta, rows=rows: rows(motion.space.move(point, theta)))(jnp.zeros(n)) for rows in (s, d)
        )
        return cls(s(point), d(point), s_change, d_change)


class Flow(NamedTuple):
    """Momentum ∫ẋ dm and its first moments ∫ρẋᵀ dm of a body or several, in one frame."""

    momentum: Vec
    moments: Float[Array, "3 3"]

    @classmethod
    def of(cls, inertia: Inertia, twist: Twist) -> Flow:
        """Those of a rigid body, from angular velocity and velocity of the origin of its frame."""
        omega, u = twist
        moments = inertia.moment[:, None] * u + inertia.second @ hat(omega).T
        return cls(inertia.mass * u + cross(omega, inertia.moment), moments)

    def plus(self, other: Flow) -> Flow:
        """Both bodies as one."""
        return Flow(self.momentum + other.momentum, self.moments + other.moments)

    def seen_from(self, frame: Pose) -> Flow:
        """The same in the frame in which its own frame is `frame`."""
        r, A = frame
        momentum = A @ self.momentum
        return Flow(momentum, A @ self.moments @ A.T + r[:, None] * momentum)


def gravity_blocks(links: Sequence[Link], points: Sequence[Point], relative: Sequence[Pose], gravity: Vec) -> Blocks:
    """Minus the derivative of the generalised weight along the coordinates, by pairs of links."""
    carried, down = [link.inertia for link in links], _down(links, relative, gravity)
    blocks: Blocks = {}
    for i in reversed(range(len(links))):
        link = links[i]
        if link.motion.n:
            w = Directions.of(link, points[i], relative[i].R)
            blocks[i, i] = -_weight_of_changes(w, carried[i]) @ down[i]
            loads = link.unit_loads(points[i], relative[i].R, carried[i])
            j = i
            while links[j].parent >= 0:
                loads, j = loads.seen_from(relative[j]), links[j].parent
                if links[j].motion.n:
                    # Whatever an ancestor turns carries the field of this joint along: ∂w = s × w.
                    turning = links[j].motion.turning(points[j])
                    tilt = jnp.zeros((links[j].motion.n, 3)) if turning is None else crossed(turning, down[j])
                    blocks[i, j] = loads.forces @ tilt.T
                    blocks[j, i] = blocks[i, j].T
        _carry(links, relative, carried, i)
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
    carried = [link.inertia for link in links]
    flows = [Flow.of(body, twist) for body, twist in zip(carried, twists, strict=True)]
    ways = [Directions.of(link, point, A) for link, point, (_, A) in zip(links, points, relative, strict=True)]
    rates = [_rates(links, k, ways[k], relative, twists, v) for k in range(len(links))]
    blocks: Blocks = {}
    for i in reversed(range(len(links))):
        link = links[i]
        if link.motion.n:
            loads = link.unit_loads(points[i], relative[i].R, carried[i])
            across = _across(ways[i], flows[i])
            changes = _loads_of_rates(ways[i], rates[i], carried[i], flows[i], twists[i])
            blocks[i, i] = link.work(points[i], relative[i].R, changes).T
            j = i
            while links[j].parent >= 0:
                loads, changes, across = (
                    loads.seen_from(relative[j]),
                    changes.seen_from(relative[j]),
                    across @ relative[j].R.T,
                )
                j = links[j].parent
                if links[j].motion.n:
                    blocks[j, i] = links[j].work(points[j], relative[j].R, changes).T
                    s_dot, d_dot = rates[j]
                    lever = d_dot - crossed(ways[j].s, twists[j].u)
                    blocks[i, j] = loads.forces @ lever.T + loads.torques @ s_dot.T + across @ ways[j].s.T
        _carry(links, relative, carried, i)
        if link.parent >= 0:
            flows[link.parent] = flows[link.parent].plus(flows[i].seen_from(relative[i]))
    return blocks


def _down(links: Sequence[Link], relative: Sequence[Pose], gravity: Vec) -> list[Vec]:
    """Gravity in the frame of each link."""
    found: list[Vec] = []
    for link, (_, A) in zip(links, relative, strict=True):
        found.append((found[link.parent] if link.parent >= 0 else link.weight * gravity) @ A)
    return found


def _carry(links: Sequence[Link], relative: Sequence[Pose], carried: list[Inertia], i: int) -> None:
    """Count a link with everything on it as part of its parent."""
    parent = links[i].parent
    if parent >= 0:
        carried[parent] = carried[parent].plus(carried[i].seen_from(relative[i]))


def _weight_of_changes(w: Directions, carried: Inertia) -> Float[Array, "n n 3"]:
    """∫∂w_i/∂q_j dm for the velocities i and coordinates j of one joint."""
    moment = carried.moment
    turned = jax.vmap(lambda a: jax.vmap(lambda b: cross(b, a))(w.s))(w.s) + w.s_change.transpose(0, 2, 1)
    moved = crossed(w.s, moment)
    swung = jax.vmap(lambda a: jax.vmap(lambda b: cross(a, b))(moved))(w.s)
    return jax.vmap(lambda rows: crossed(rows, moment))(turned) + swung + carried.mass * w.d_change.transpose(0, 2, 1)


def _rates(
    links: Sequence[Link], k: int, w: Directions, relative: Sequence[Pose], twists: Sequence[Twist], v: Vector
) -> tuple[Rows, Rows]:
    """Time derivatives of s and d of one joint, components in the frame of its link."""
    link = links[k]
    own = v[link.first : link.last]
    below = twists[link.parent].omega @ relative[k].R if link.parent >= 0 else jnp.zeros(3)
    return -crossed(w.s, twists[k].omega) + w.s_change @ own, -crossed(w.d, below) + w.d_change @ own


def _across(w: Directions, flow: Flow) -> Rows:
    """∫ẋ × w dm."""
    return jnp.trace(flow.moments) * w.s - w.s @ flow.moments.T - crossed(w.d, flow.momentum)


def _loads_of_rates(w: Directions, rates: tuple[Rows, Rows], carried: Inertia, flow: Flow, twist: Twist) -> Loads:
    """∫ẇ dm and ∫ρ × ẇ dm with ẇ = ḋ + ṡ × ρ + s × (ẋ - u)."""
    s_dot, d_dot = rates
    momentum = flow.momentum - carried.mass * twist.u
    moments = flow.moments - carried.moment[:, None] * twist.u
    forces = carried.mass * d_dot + crossed(s_dot, carried.moment) + crossed(w.s, momentum)
    torques = jnp.trace(carried.second) * s_dot - s_dot @ carried.second - crossed(d_dot, carried.moment)
    return Loads(torques + jnp.trace(moments) * w.s - w.s @ moments, forces)
