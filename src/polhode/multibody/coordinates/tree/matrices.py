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

from polhode.linalg.known_places import add_entries, set_entries, take
from polhode.multibody.coordinates.tree.links import Inertia, Link, Loads, Rows, Vec, cross_rows, unit_loads
from polhode.multibody.coordinates.tree.motions import AbstractRelativeMotion
from polhode.multibody.coordinates.tree.recursions import brackets, compose
from polhode.multibody.mechanism.poses import AT_REST, ORIGIN, Pose, Twist
from polhode.spaces.base import Point, Vector, cross, hat
from polhode.spaces.linear import Rn
from polhode.systems.mechanical.tangent import Weights


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
        joints: list[Fields] = [_fields(k.motion, q, A) for k, q, (_, A) in zip(links, points, relative, strict=True)]
        fields: list[Fields] = [_from_link(own, frame) for own, frame in zip(joints, frames, strict=True)]
        return cls(frames, joints, fields, [k.inertia.transform(frame) for k, frame in zip(links, frames, strict=True)])


class _Sides(NamedTuple):
    """Contributions of the velocities of one joint to entries, a row each.

    An entry in the row of an outer velocity and a column of an inner one, of a joint that carries it, is power of
    `outer` loads in `inner` fields. The opposite one is power of `loads` in fields of unit velocities.

    - `outer`: loads of unit accelerations, and the vectors by which axes of inner joints are multiplied besides.
    - `inner`: fields, and these axes. - `size`: a bound of |K| |q| + |C| |v| in this row.
    """

    outer: Float[Array, "n 9"]
    inner: Float[Array, "n 9"]
    loads: Loads
    excess: Float[Array, "n n"]
    size: Vector


class Inertial(NamedTuple):
    """A weighted sum of matrices of inertia and weight, and bounds of |K| |q| + |C| |v| for its rows."""

    matrix: Float[Array, "n n"]
    magnified: Vector


class Sizes(NamedTuple):
    """The largest coordinate and the largest velocity."""

    q: Array
    v: Array


def inertial_tangent(
    links: Sequence[Link],
    points: Sequence[Point],
    relative: Sequence[Pose],
    v: Vector,
    gravity: Vec,
    weights: Weights,
    sizes: Sizes,
    operators: Sequence[Array | None],
) -> Inertial:
    r"""The weighted sum of M, 2Γ + M [v, ·] and K T.

    - Γ has the entries $\int w_i\cdot\dot w_j\,dm$. The fields w of unit velocities, in which $\dot x = \sum w_j v_j$,
      move with the tree. In coordinates without brackets the acceleration changes along $v_j$ by $2\dot w_j$, so that
      the inertial forces Γv have the derivative 2Γ (S. Echeandia & P. M. Wensing, *Numerical Methods to Compute the
      Coriolis Matrix and Christoffel Symbols for Rigid-Body Systems*, 2021); fields that don't commute are accelerated
      by their brackets besides.
    - K is minus the derivative of the generalised weight. - `operators`: T for each link, None for the identity.
    """
    tree, pairs = _Tree.of(links, points, relative), _Pairs.of(links)
    twists: list[Twist] = []
    down: list[Vec] = []
    for link, fields, (_, A) in zip(links, tree.fields, relative, strict=True):
        below = twists[link.parent] if link.parent >= 0 else AT_REST
        twists.append(_next_twist(below, fields, v[link.first : link.last]))
        down.append(down[link.parent] if link.parent >= 0 else (link.weight * gravity) @ A)
    composites = _add_up(links, tree.bodies)
    flows = _add_up(links, [_flow(body, twist) for body, twist in zip(tree.bodies, twists, strict=True)])
    sides: list[_Sides] = []
    for k, link in enumerate(links):
        below, own = twists[link.parent] if link.parent >= 0 else AT_REST, v[link.first : link.last]
        commutes = isinstance(link.motion.space, Rn)
        joint = _Joint(
            tree.joints[k],
            _changes(link.motion, points[k], relative[k].R),
            own,
            None if commutes else brackets(link.motion, own),
            operators[k],
        )
        sides.append(
            _sides(joint, tree.frames[k], below.omega, twists[k], composites[k], flows[k], down[k], weights, sizes)
        )
    whole = _join([side._replace(excess=jnp.zeros(0)) for side in sides])
    lower = jnp.sum(take(whole.outer, pairs.outer) * take(whole.inner, pairs.inner), axis=1)
    upper = _products(whole.loads, pairs.outer[pairs.apart], _join(tree.fields), pairs.inner[pairs.apart])
    matrix = _fill(pairs, upper, lower)
    for link, side in zip(links, sides, strict=True):
        if link.motion.n:
            own = np.arange(link.first, link.last)
            matrix = add_entries(matrix, side.excess, *np.ix_(own, own))
    return Inertial(matrix, whole.size)


def _fill(pairs: _Pairs, upper: Array, lower: Array) -> Float[Array, "n n"]:
    """The matrix with rows of outer and columns of inner velocities, and the opposite for different joints."""
    n = int(pairs.outer.max(initial=-1)) + 1
    K = set_entries(jnp.zeros((n, n)), lower, pairs.outer, pairs.inner)
    return set_entries(K, upper, pairs.inner[pairs.apart], pairs.outer[pairs.apart])


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


class _Joint(NamedTuple):
    """A joint as its columns and rows need it.

    - `fields`, `changes`: in its link. - `rates`: its velocities. - `brackets`, `tangent`: matrices of the bracket with
      these, and of T; None for zero and for the identity.
    """

    fields: Fields
    changes: Changes
    rates: Vector
    brackets: Array | None
    tangent: Array | None

    def times_tangent(self, rows: Rows) -> Rows:
        """Rows that belong to columns of K, times T."""
        return rows if self.tangent is None else self.tangent.T @ rows


@jax.jit
def _sides(
    joint: _Joint,
    frame: Pose,
    below: Vec,
    twist: Twist,
    body: Inertia,
    flow: Flow,
    down: Vec,
    weights: Weights,
    sizes: Sizes,
) -> _Sides:
    """The sides of a joint that carries a composite body with its flow.

    `below`: angular velocity of the parent, `twist` that of the link; `down`: gravity in the frame of the root.
    Loads are ∫x×w dm and ∫w dm for accelerations w, those of unit velocities and of ẇ = ḋ + ṡ × x + s × ẋ; with the
    latter's power in a field goes that of the field's own rate, in which s is multiplied by ∫ẋ × w dm.
    """
    m, c, k = weights
    s, d = fields = _from_link(joint.fields, frame)
    rates = _rates(joint.fields, joint.changes, joint.rates, frame, below, twist)
    unit = unit_loads(s, d, body)
    # Of the acceleration s × ẋ, twice, as of the flow of the body.
    turning, momentum = 2 * c * (jnp.trace(flow.moments) * np.eye(3) - flow.moments), 2 * c * flow.momentum
    # Rotations of a joint carry the fields of those on it along: ∂w = s × w.
    tilts, tilted = (joint.times_tangent(x) for x in (cross_rows(s, down), -cross_rows(unit.forces, down)))
    moving = Fields(m * s + 2 * c * rates.s, m * d + 2 * c * rates.d)
    own = unit_loads(*moving, body)
    inner = Fields(moving.s, moving.d + k * tilts)
    loads = Loads(own.torques + s @ turning + k * tilted, own.forces + cross_rows(s, momentum))
    across = s @ turning.T - cross_rows(d, momentum)
    if joint.brackets is not None:
        # Velocity fields of unit velocities don't commute; their brackets are accelerations.
        b = c * joint.brackets.T
        inner = Fields(inner.s + b @ s, inner.d + b @ d)
        loads = Loads(loads.torques + b @ unit.torques, loads.forces + b @ unit.forces)
    r, F = frame
    excess = _weight_of_excess(joint.fields, joint.changes, body.mass, (body.moment - body.mass * r) @ F, down @ F)
    excess = k * (excess if joint.tangent is None else excess @ joint.tangent)
    return _Sides(
        jnp.concatenate((*unit, across), axis=1),
        jnp.concatenate((*inner, s), axis=1),
        loads,
        excess,
        _round_off(fields, unit, flow, down, sizes),
    )


def _round_off(fields: Fields, unit: Loads, flow: Flow, down: Vec, sizes: Sizes) -> Vector:
    """Bounds of |K| |q| + |C| |v| for the rows of a joint."""
    s, d = map(jnp.abs, fields)
    momentum, moments = (jnp.sum(jnp.abs(x)) for x in flow)
    gyroscopic = 4 * sizes.v * (moments * jnp.sum(s, axis=1) + momentum * jnp.sum(d, axis=1))
    weight = sizes.q * jnp.sum(jnp.abs(down)) * jnp.sum(jnp.abs(unit.forces), axis=1)
    return gyroscopic + weight * jnp.sum(s, axis=1)
