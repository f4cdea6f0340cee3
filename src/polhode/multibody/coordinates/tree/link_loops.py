"""Recursions along a tree as loops over its links: programs as long as those of one link, whatever their number."""

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
from polhode.multibody.mechanism.poses import Pose, Twist, Wrench
from polhode.spaces.base import Vector, cross, hat


class LinkStates(NamedTuple):
    """Frames of links in the inertial frame, twists of their frames in themselves, and accelerations a + Kρ.

    The accelerations are those at vanishing accelerations of all joints, with K = `spin`. Frames are None where
    nothing needs them.
    """

    frame: Pose | None
    twist: Twist
    alpha: Float[Array, "links 3"]
    spin: Float[Array, "links 3 3"]
    a: Float[Array, "links 3"]


class _Row(NamedTuple):
    frame: Pose
    omega: Float[Array, "3"]
    u: Float[Array, "3"]
    turning_drift: Float[Array, "3"]
    sliding_drift: Float[Array, "3"]
    ground: Float[Array, "3"]
    on_ground: Float[Array | np.ndarray, ""]


def link_states(order: RowOrder, local: LocalMotions, ground: Float[Array, "links 3"], with_frames: bool) -> LinkStates:
    """States of all links; `ground`: acceleration of the ground for each link that it carries."""
    on_ground = order.parents < 0
    rows = _Row(
        local.frame,
        local.omega,
        local.u,
        local.turning_drift,
        local.sliding_drift,
        jnp.where(on_ground[:, None], ground, 0.0),
        np.asarray(on_ground, float),
    )
    rows = jax.tree.map(lambda x: take(jnp.asarray(x), order.links), rows)
    empty = jnp.zeros((order.registers.count, _STATE + with_frames * _FRAME))
    states = scan_rows(_next_state, None, empty, (rows, order.registers))[1]
    return jax.tree.map(lambda x: take(x, np.argsort(order.links)), states)


def _next_state(_: None, waiting: Array, entry: tuple[_Row, Registers]) -> tuple[Array, LinkStates]:
    row, places = entry
    (r, A), omega, u = row.frame, row.omega, row.u
    below = _unpack(read(waiting, places.target))
    a = below.a + row.ground + below.spin @ r + 2 * cross(below.twist.omega, u) + row.sliding_drift
    carried = below.twist.omega @ A
    alpha = below.alpha @ A + cross(carried, omega) + row.turning_drift
    turning = carried + omega
    twist = Twist(turning, (below.twist.u + cross(below.twist.omega, r) + u) @ A)
    spin = hat(alpha) + turning[:, None] * turning - (turning @ turning) * jnp.eye(3)
    state = LinkStates(_next_frame(below.frame, row), twist, alpha, spin, a @ A)
    return put(waiting, _pack(state), places.source), state


def _next_frame(below: Pose | None, row: _Row) -> Pose | None:
    if below is None:
        return None
    F = below.R + row.on_ground * jnp.eye(3)
    return Pose(below.x + F @ row.frame.x, F @ row.frame.R)


def project_loads(order: RowOrder, carriers: np.ndarray, local: LocalMotions, loads: Wrench) -> Vector:
    """Generalised forces of loads on the links, about their origins and in their frames.

    `carriers`: number of the link that each velocity moves.
    """

    def inwards(_: None, waiting: Array, entry: tuple[Pose, Wrench, Registers]) -> tuple[Array, Wrench]:
        frame, own, places = entry
        above = read(waiting, places.source)
        torque, force = own.torque + above[:3], own.force + above[3:]
        pull = frame.R @ force
        below = jnp.concatenate((frame.R @ torque + cross(frame.x, pull), pull))
        return add(waiting, below, places), Wrench(torque, force)

    rows = jax.tree.map(lambda x: take(x, order.links), (local.frame, loads))
    empty = jnp.zeros((order.registers.count, 6))
    totals = scan_rows(inwards, None, empty, (*rows, order.registers), reverse=True)[1]
    row_of_velocity = np.argsort(order.links)[carriers]
    torques, forces = (take(x, row_of_velocity) for x in totals)
    return jnp.sum(local.axes * torques + local.slides * forces, axis=1)


def composite_inertias(order: RowOrder, local: LocalMotions, inertia: Inertia) -> Inertia:
    """Inertias of each link with all that it carries, about its origin and in its frame."""

    def inwards(_: None, waiting: Array, entry: tuple[Pose, Inertia, Registers]) -> tuple[Array, Inertia]:
        frame, own, places = entry
        above = read(waiting, places.source)
        whole = own.plus(Inertia(above[0], above[1:4], above[4:].reshape(3, 3)))
        below = whole.transform(frame)
        return add(waiting, jnp.concatenate([x.reshape(-1) for x in below]), places), whole

    rows = jax.tree.map(lambda x: take(x, order.links), (local.frame, inertia))
    empty = jnp.zeros((order.registers.count, 13))
    composites = scan_rows(inwards, None, empty, (*rows, order.registers), reverse=True)[1]
    return jax.tree.map(lambda x: take(x, np.argsort(order.links)), composites)


def mass_of_velocities(
    links: np.ndarray, carry: np.ndarray, local: LocalMotions, frames: Pose, composites: Inertia
) -> Float[Array, "n n"]:
    """M: powers in unit velocities of the loads of unit accelerations.

    `links`: number of the link that each velocity moves. `carry`: a row for each velocity, which others carry its link.
    """
    x, R = take(frames.x, links), take(frames.R, links)
    mass, moment, second = (take(part, links) for part in composites)
    axes, slides = local.axes, local.slides
    turn = jnp.trace(second, axis1=1, axis2=2)[:, None] * axes - jnp.einsum("nij,nj->ni", second, axes)
    torque = turn + jnp.cross(moment, slides)
    force = mass[:, None] * slides + jnp.cross(axes, moment)
    axes, slides, torque, force = (jnp.einsum("nij,nj->ni", R, rows) for rows in (axes, slides, torque, force))
    # Arms between the links themselves: about the origin of the inertial frame small inertias would lose digits.
    about = torque + jnp.cross(x - x[:, None], force)
    powers = jnp.einsum("ji,jki->jk", axes, about) + slides @ force.T
    upper = np.triu(carry.T)
    return jnp.where(upper, powers, 0.0) + jnp.where(np.triu(upper, 1).T, powers.T, 0.0)


_FRAME, _STATE = 12, 21


def _pack(state: LinkStates) -> Float[Array, " numbers"]:
    return jnp.concatenate([x.reshape(-1) for x in jax.tree.leaves(state)])


def _unpack(numbers: Float[Array, " numbers"]) -> LinkStates:
    frame, rest = jnp.split(numbers, (numbers.size - _STATE,))
    omega, u, alpha, spin, a = jnp.split(rest, (3, 6, 9, 18))
    pose = Pose(frame[:3], frame[3:].reshape(3, 3)) if frame.size else None
    return LinkStates(pose, Twist(omega, u), alpha, spin.reshape(3, 3), a)
