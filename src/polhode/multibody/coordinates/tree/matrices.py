"""Tangents of weight and inertia of a tree of links, in the frames of its roots.

Velocity fields of unit velocities and composite bodies are put into one frame, that of the link next to the ground.
An entry for two joints of which one carries the other is then a scalar product, as in the tangents of S. Singh,
R. Russell & P. Wensing, *Efficient Analytical Derivatives of Rigid-Body Dynamics using Spatial Vector Algebra*, 2022,
instead of a load that is passed on from link to link. Places are those of the root, so that they lose no digits far
from the origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.segment_sum import take
from polhode.multibody.coordinates.tree.links import Inertia, Link, Loads, Rows, Vec, cross_rows, unit_loads
from polhode.multibody.coordinates.tree.motions import AbstractRelativeMotion
from polhode.multibody.coordinates.tree.recursions import compose
from polhode.multibody.mechanism.poses import AT_REST, ORIGIN, Pose, Twist
from polhode.spaces.base import Point, Vector, cross, hat


class Fields(NamedTuple):
    """Velocity fields $w = d + s\\times x$ of unit velocities, a row each, or rates of such fields.

    - `s`, `d`: axes, and velocities at the origin of x.
    """

    s: Rows
    d: Rows


class Changes(NamedTuple):
    """Derivatives of the fields of one joint along its own coordinates, besides those that turn with its link.

    - `s`: of axes, in the frame of the link. - `d`: of displacements of its origin, in the frame of the parent, with
      components in the frame of the link. The last index is that of the coordinate.
    """

    s: Float[Array, "n 3 n"]
    d: Float[Array, "n 3 n"]


class Flow(NamedTuple):
    """Momentum ∫ẋ dm and its first moments ∫xẋᵀ dm of a body or several, in one frame."""

    momentum: Vec
    moments: Float[Array, "3 3"]

    @jax.jit
    def plus(self, other: Flow) -> Flow:
        """Both bodies as one."""
        return Flow(self.momentum + other.momentum, self.moments + other.moments)


class _Pairs(NamedTuple):
    """Pairs of velocities that are coupled: each with those of the joints that carry it, and of its own joint.

    - `inner`, `outer`: their numbers. - `apart`: places of the pairs of different joints.
    """

    inner: np.ndarray
    outer: np.ndarray
    apart: np.ndarray

    @classmethod
    def of(cls, links: Sequence[Link]) -> _Pairs:
        carriers: list[np.ndarray] = []
        pairs: list[np.ndarray] = []
        for link in links:
            own = np.arange(link.first, link.last)
            carriers.append(np.concatenate((carriers[link.parent], own)) if link.parent >= 0 else own)
            pairs.append(np.stack(np.meshgrid(carriers[-1], own, indexing="ij")).reshape(2, -1))
        inner, outer = np.concatenate(pairs, axis=1)
        owner = np.repeat(np.arange(len(links)), [link.motion.n for link in links])
        return cls(inner, outer, np.flatnonzero(owner[inner] != owner[outer]))


class _Tree(NamedTuple):
    """A tree of links in the frames of its roots.

    - `frames`: those of the links. - `joints`: fields about the origin of the link and in its frame, for each link.
    - `fields`: the same about the origin of the root. - `bodies`: each alone.
    """

    frames: list[Pose]
    joints: list[Fields]
    fields: list[Fields]
    bodies: list[Inertia]

    @classmethod
    def of(cls, links: Sequence[Link], points: Sequence[Point], relative: Sequence[Pose]) -> _Tree:
        frames: list[Pose] = []
        for link, frame in zip(links, relative, strict=True):
            frames.append(compose(frames[link.parent], frame) if link.parent >= 0 else ORIGIN)
        joints = [_fields(k.motion, q, A) for k, q, (_, A) in zip(links, points, relative, strict=True)]
        fields = [_from_link(own, frame) for own, frame in zip(joints, frames, strict=True)]
        return cls(frames, joints, fields, [k.inertia.transform(frame) for k, frame in zip(links, frames, strict=True)])


def gravity_matrix(
    links: Sequence[Link], points: Sequence[Point], relative: Sequence[Pose], gravity: Vec
) -> Float[Array, "n n"]:
    """Minus the derivative of the generalised weight along the coordinates."""
    tree, pairs = _Tree.of(links, points, relative), _Pairs.of(links)
    composites = _add_up(links, tree.bodies)
    down: list[Vec] = []
    for link, (_, A) in zip(links, relative, strict=True):
        down.append(down[link.parent] if link.parent >= 0 else (link.weight * gravity) @ A)
    # Rotations of a joint carry the fields of those on it along: ∂w = s × w.
    tilts = jnp.concatenate([cross_rows(fields.s, g) for fields, g in zip(tree.fields, down, strict=True)])
    forces = [unit_loads(*fields, body).forces for fields, body in zip(tree.fields, composites, strict=True)]
    values = jnp.sum(take(jnp.concatenate(forces), pairs.outer) * take(tilts, pairs.inner), axis=1)
    K = _fill(pairs, take(values, pairs.apart), values)
    for k, link in enumerate(links):
        if link.motion.n:
            (r, F), (_, A), own = tree.frames[k], relative[k], slice(link.first, link.last)
            moment = (composites[k].moment - composites[k].mass * r) @ F
            excess = _weight_of_excess(
                tree.joints[k], _changes(link.motion, points[k], A), composites[k].mass, moment, down[k] @ F
            )
            K = K.at[own, own].add(excess)
    return K


def velocity_matrix(
    links: Sequence[Link], points: Sequence[Point], relative: Sequence[Pose], v: Vector
) -> Float[Array, "n n"]:
    r"""The matrix Γ(q, v) with entries $\int w_i\cdot\dot w_j\,dm$.

    The fields w of unit velocities, in which $\dot x = \sum w_j v_j$, move with the tree. In coordinates without
    brackets the acceleration changes along $v_j$ by $2\dot w_j$, so that the inertial forces Γv have the derivative 2Γ
    (S. Echeandia & P. M. Wensing, *Numerical Methods to Compute the Coriolis Matrix
    and Christoffel Symbols for Rigid-Body Systems*, 2021).
    """
    tree, pairs = _Tree.of(links, points, relative), _Pairs.of(links)
    twists: list[Twist] = []
    rates: list[Fields] = []
    for k, link in enumerate(links):
        below, own = twists[link.parent] if link.parent >= 0 else AT_REST, v[link.first : link.last]
        changes = _changes(link.motion, points[k], relative[k].R)
        twists.append(_next_twist(below, tree.fields[k], own))
        rates.append(_rates(tree.joints[k], changes, own, tree.frames[k], below.omega, twists[k]))
    flows = [_flow(body, twist) for body, twist in zip(tree.bodies, twists, strict=True)]
    parts = zip(tree.fields, rates, _add_up(links, tree.bodies), _add_up(links, flows), strict=True)
    changing, unit, across = map(_join, zip(*(_loads(*part) for part in parts), strict=True))
    fields, rate_rows = _join(tree.fields), _join(rates)
    inner, outer = pairs.inner, pairs.outer
    lower = _products(unit, outer, rate_rows, inner) + jnp.sum(take(across, outer) * take(fields.s, inner), axis=1)
    upper = _products(changing, outer[pairs.apart], fields, inner[pairs.apart])
    return _fill(pairs, upper, lower)


def _fill(pairs: _Pairs, upper: Array, lower: Array) -> Float[Array, "n n"]:
    """The matrix with rows of outer and columns of inner velocities, and the opposite for different joints."""
    n = int(pairs.outer.max(initial=-1)) + 1
    K = jnp.zeros((n, n)).at[pairs.outer, pairs.inner].set(lower)
    return K.at[pairs.inner[pairs.apart], pairs.outer[pairs.apart]].set(upper)


def _products(loads: Loads, rows: np.ndarray, fields: Fields, columns: np.ndarray) -> Array:
    """Power of loads in fields, by pairs."""
    torques, forces = (take(x, rows) for x in loads)
    s, d = (take(x, columns) for x in fields)
    return jnp.sum(torques * s + forces * d, axis=1)


def _join(parts: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *rows: jnp.concatenate(rows), *parts)


def _add_up(links: Sequence[Link], bodies: Sequence[Any]) -> list[Any]:
    """Of each link the sum over all that it carries and itself."""
    composites = list(bodies)
    for i in reversed(range(len(links))):
        parent = links[i].parent
        if parent >= 0:
            composites[parent] = composites[parent].plus(composites[i])
    return composites


@jax.jit
def _fields(motion: AbstractRelativeMotion, point: Point, A: Float[Array, "3 3"]) -> Fields:
    """The fields of a joint about the origin of its link; A is the rotation of the link on the parent."""
    axes, displacements = motion.rotation_axes(point), motion.displacements(point, A)
    none = np.zeros((motion.n, 3))
    return Fields(*(jnp.asarray(none if rows is None else rows) for rows in (axes, displacements)))


@jax.jit
def _changes(motion: AbstractRelativeMotion, point: Point, A: Float[Array, "3 3"]) -> Changes:
    zero = jnp.zeros((motion.n, 3))

    def s(point: Point) -> Rows:
        axes = motion.rotation_axes(point)
        return zero if axes is None else axes

    def d(point: Point) -> Rows:
        directions = motion.translation_axes(point)
        return zero if directions is None else directions @ A

    move, start = motion.space.move, jnp.zeros(motion.n)
    return Changes(*(jax.jacfwd(lambda theta, rows=rows: rows(move(point, theta)))(start) for rows in (s, d)))


@jax.jit
def _from_link(fields: Fields, frame: Pose) -> Fields:
    """Fields about the origin of a link and in its frame, about that of the frame in which the link has this frame."""
    r, F = frame
    s = fields.s @ F.T
    return Fields(s, fields.d @ F.T - cross_rows(s, r))


@jax.jit
def _weight_of_excess(joint: Fields, changes: Changes, mass: Array, moment: Vec, down: Vec) -> Float[Array, "n n"]:
    """The part of K for coordinates of one joint beside the weight of fields that turn with its link.

    All in the frame of the link, `moment` about its origin.
    """
    turning = jax.vmap(lambda d: jax.vmap(lambda s: cross(s, d), out_axes=1)(joint.s))(joint.d)
    across = cross(moment, down)
    return mass * jnp.einsum("icj,c->ij", turning - changes.d, down) - jnp.einsum("icj,c->ij", changes.s, across)


@jax.jit
def _next_twist(below: Twist, fields: Fields, rates: Vector) -> Twist:
    """Angular velocity of a link, and velocity at the origin of the root, from those of the parent."""
    return Twist(below.omega + rates @ fields.s, below.u + rates @ fields.d)


@jax.jit
def _rates(joint: Fields, changes: Changes, own: Vector, frame: Pose, below: Vec, twist: Twist) -> Fields:
    """Time derivatives of the fields of a joint about the origin of the root.

    `own`: velocities of the joint; `below`: angular velocity of the parent, `twist` that of the link.
    """
    r, F = frame
    s, d = joint.s @ F.T, joint.d @ F.T
    s_dot = (changes.s @ own) @ F.T - cross_rows(s, twist.omega)
    d_dot = (changes.d @ own) @ F.T - cross_rows(d, below)
    r_dot = twist.u + cross(twist.omega, r)
    return Fields(s_dot, d_dot - cross_rows(s_dot, r) - cross_rows(s, r_dot))


@jax.jit
def _flow(body: Inertia, twist: Twist) -> Flow:
    """The flow of a rigid body, from angular velocity and velocity at the origin."""
    omega, u = twist
    moments = body.moment[:, None] * u + body.second @ hat(omega).T
    return Flow(body.mass * u + cross(omega, body.moment), moments)


@jax.jit
def _loads(fields: Fields, rates: Fields, body: Inertia, flow: Flow) -> tuple[Loads, Loads, Rows]:
    """Of the fields of a joint and the composite body that it carries:

    ∫x×ẇ dm and ∫ẇ dm with ẇ = ḋ + ṡ × x + s × ẋ, the loads ∫x×w dm and ∫w dm of unit accelerations, and ∫ẋ × w dm.
    """
    changing, trace = unit_loads(*rates, body), jnp.trace(flow.moments)
    changing = Loads(
        changing.torques + trace * fields.s - fields.s @ flow.moments,
        changing.forces + cross_rows(fields.s, flow.momentum),
    )
    across = trace * fields.s - fields.s @ flow.moments.T - cross_rows(fields.d, flow.momentum)
    return changing, unit_loads(*fields, body), across
