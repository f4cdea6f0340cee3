"""The inverse of the mass matrix of a tree by articulated bodies: O(n), in loops whose body is that of one row."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.primitives.row_loop import scan_rows
from polhode.linalg.known_places import take
from polhode.linalg.registers import Registers, add, put, read
from polhode.multibody.coordinates.tree.links import Inertia
from polhode.multibody.coordinates.tree.local_motions import LocalMotions
from polhode.multibody.coordinates.tree.row_order import RowOrder
from polhode.multibody.mechanism.poses import Pose
from polhode.spaces.base import Vector, cross, hat

_NONE = -1


class Rows(NamedTuple):
    """All rows: axes and displacements in the frames of their links, frames on those of the parents, and bodies."""

    axes: Float[Array, "rows 3"]
    slides: Float[Array, "rows 3"]
    frame: Pose
    body: Inertia
    armature: Float[Array, " rows"]


class ArticulatedInertia(NamedTuple):
    """The 6×6 matrix from accelerations (α, a) of a link to loads (torque, force) on it, by blocks."""

    angular: Float[Array, "3 3"]
    mixed: Float[Array, "3 3"]
    linear: Float[Array, "3 3"]


class Pivots(NamedTuple):
    """Loads U of unit accelerations along the rows, and 1/D."""

    torques: Float[Array, "rows 3"]
    forces: Float[Array, "rows 3"]
    reciprocal: Float[Array, " rows"]


class MassFactors(NamedTuple):
    """M factorised: rows and pivots."""

    rows: Rows
    pivots: Pivots


def rows_of(order: RowOrder, bodies: Inertia, local: LocalMotions, armature: Float[Array, " n"]) -> Rows:
    """The rows of a tree, from its links, their motions on their parents and the inertias along its velocities."""
    own, carried = (np.where(here, order.links, _NONE) for here in (order.is_first, order.is_last))
    axes, slides = (_pick(rows, order.velocities) for rows in (local.axes, local.slides))
    frame = Pose(_pick(local.frame.x, own), _pick(local.frame.R, own, np.eye(3)))
    body = jax.tree.map(lambda x: _pick(x, carried), bodies)
    return Rows(axes, slides, frame, body, _pick(armature, order.velocities, np.ones(())))


def _pick(x: Array, at: np.ndarray, other: np.ndarray | float = 0.0) -> Array:
    """Rows of x at places, and `other` where there is none."""
    if (at != _NONE).all():
        return take(x, at)
    return take(jnp.concatenate((x, jnp.broadcast_to(other, (1, *x.shape[1:])))), np.where(at == _NONE, len(x), at))


def factor(order: RowOrder, rows: Rows) -> MassFactors:
    """Articulated bodies from the leaves to the ground (R. Featherstone, *Rigid Body Dynamics Algorithms*, §7.3)."""
    registers = order.registers

    def eliminate(_: None, waiting: Array, row: tuple[Rows, Registers]) -> tuple[Array, Pivots]:
        (s, d, frame, body, armature), places = row
        carried = _unpack(read(waiting, places.source))
        J = carried.angular + jnp.trace(body.second) * jnp.eye(3) - body.second
        H = carried.mixed + hat(body.moment)
        M = carried.linear + body.mass * jnp.eye(3)
        torque, force = J @ s + H @ d, s @ H + M @ d
        reciprocal = 1.0 / (s @ torque + d @ force + armature)
        t, f = torque * reciprocal, force * reciprocal
        rest = ArticulatedInertia(J - torque[:, None] * t, H - torque[:, None] * f, M - force[:, None] * f)
        return add(waiting, _pack(_transform(rest, frame)), places), Pivots(torque, force, reciprocal)

    empty = jnp.zeros((registers.count, 21))
    return MassFactors(rows, scan_rows(eliminate, None, empty, (rows, registers), reverse=True)[1])


def solve(order: RowOrder, factors: MassFactors, r: Vector) -> Vector:
    """M⁻¹ r."""
    registers, (rows, pivots) = order.registers, factors
    efforts = _pick(r, order.velocities)

    def inwards(_: None, waiting: Array, row: tuple[Rows, Pivots, Array, Registers]) -> tuple[Array, Array]:
        (s, d, frame, _body, _armature), (torque, force, reciprocal), effort, places = row
        load = read(waiting, places.source)
        x = (effort - s @ load[:3] - d @ load[3:]) * reciprocal
        own, pull = load[:3] + torque * x, load[3:] + force * x
        pull = frame.R @ pull
        return add(waiting, jnp.concatenate((frame.R @ own + cross(frame.x, pull), pull)), places), x

    def outwards(_: None, waiting: Array, row: tuple[Rows, Pivots, Array, Registers]) -> tuple[Array, Array]:
        (s, d, frame, _body, _armature), (torque, force, reciprocal), x, places = row
        below = read(waiting, places.target)
        alpha, a = below[:3] @ frame.R, (below[3:] + cross(below[:3], frame.x)) @ frame.R
        x = x - (torque @ alpha + force @ a) * reciprocal
        return put(waiting, jnp.concatenate((alpha + s * x, a + d * x)), places.source), x

    empty = jnp.zeros((registers.count, 6))
    x = scan_rows(inwards, None, empty, (rows, pivots, efforts, registers), reverse=True)[1]
    x = scan_rows(outwards, None, empty, (rows, pivots, x, registers))[1]
    at = np.argsort(order.velocities, kind="stable")
    return take(x, at[np.count_nonzero(order.velocities < 0) :])


def _transform(inertia: ArticulatedInertia, frame: Pose) -> ArticulatedInertia:
    """The same about the origin and in the frame in which its own frame has the pose `frame`."""
    r, A = frame
    J, H, M = (A @ block @ A.T for block in inertia)
    R = hat(r)
    moved, arm = R @ M, H @ R
    # Torques about the other origin, of accelerations that differ by α × r.
    return ArticulatedInertia(J - arm - arm.T - moved @ R, H + moved, M)


def _pack(inertia: ArticulatedInertia) -> Float[Array, "21"]:
    return jnp.concatenate((_upper(inertia.angular), inertia.mixed.reshape(-1), _upper(inertia.linear)))


def _unpack(numbers: Float[Array, "21"]) -> ArticulatedInertia:
    angular, mixed, linear = jnp.split(numbers, (6, 15))
    return ArticulatedInertia(_symmetric(angular), mixed.reshape(3, 3), _symmetric(linear))


def _upper(matrix: Float[Array, "3 3"]) -> Float[Array, "6"]:
    """The upper triangle of a symmetric matrix, so that loops neither carry nor compute the lower one."""
    return jnp.concatenate((matrix[0], matrix[1, 1:], matrix[2, 2:]))


def _symmetric(upper: Float[Array, "6"]) -> Float[Array, "3 3"]:
    a, b, c, d, e, f = upper
    return jnp.stack((jnp.stack((a, b, c)), jnp.stack((b, d, e)), jnp.stack((c, e, f))))
