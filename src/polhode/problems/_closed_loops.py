"""Positions of mechanisms with one degree of freedom, and the velocities that go with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.compiler.numpy_jit import numpy_jit
from polhode.multibody.mechanism.poses import Pose, Twist, axial

Poses = Callable[[Array], dict[str, Pose]]
"""Angle → pose of each body by name."""


class Placement(NamedTuple):
    """A body at the start: arguments of `Model.add_body`."""

    position: Float[Array, "3"]
    rotation: Float[Array, "3 3"]
    velocity: Float[Array, "3"]
    angular_velocity: Float[Array, "3"]


def placements(positions: Callable[..., Poses], data: tuple[Any, ...], angle: Any, speed: Any) -> dict[str, Placement]:
    """Poses and velocities of the bodies of `positions(*data)`, numbers, at an angle that changes at `speed`."""
    numbers = jax.tree.map(lambda x: jnp.asarray(x, dtype=float), (data, angle, speed))
    return _placements(positions, *numbers)


@numpy_jit
def _placements(
    positions: Callable[..., Poses], data: tuple[Any, ...], angle: Array, speed: Array
) -> dict[str, Placement]:
    poses, rates = jax.jvp(positions(*data), (angle,), (speed,))
    twists = {name: _twist(poses[name], rates[name]) for name in poses}
    return {name: Placement(pose.x, pose.R, twists[name].u, twists[name].omega) for name, pose in poses.items()}


def _twist(pose: Pose, rate: Pose) -> Twist:
    # RᵀṘ is skew, so each component of the angular velocity stands in it twice.
    return Twist(0.5 * axial(pose.R.T @ rate.R), rate.x)


def about(axis: int, angle: Any) -> Float[Array, "3 3"]:
    """Rotation about a coordinate axis (0, 1, 2)."""
    c, s = jnp.cos(angle), jnp.sin(angle)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = jnp.eye(3).at[i, i].set(c).at[j, j].set(c)
    return R.at[j, i].set(s).at[i, j].set(-s)


def meet(P: Float[Array, "2"], r: Any, Q: Float[Array, "2"], s: Any, side: float) -> Float[Array, "2"]:
    """Where the circle about P with radius r meets the one about Q with radius s, on the left (side = 1) or right (-1)
    of the way from P to Q. NaN where they don't meet."""
    way = Q - P
    square = way @ way
    along = (square + r**2 - s**2) / (2 * square)
    across = jnp.sqrt(r**2 / square - along**2)
    return P + along * way + side * across * jnp.stack((-way[1], way[0]))


def bar(P: Float[Array, "2"], Q: Float[Array, "2"], centre: Any = None) -> Pose:
    """Pose of a plane bar with its first axis from P to Q.

    The centre of mass is half-way, or at `centre` in the frame at P.
    """
    way = Q - P
    c, s = way / jnp.sqrt(way @ way)
    R = jnp.stack((jnp.stack((c, -s)), jnp.stack((s, c))))
    x = 0.5 * (P + Q) if centre is None else P + R @ jnp.asarray(centre)
    zero, one = jnp.zeros(()), jnp.ones(())
    return Pose(
        jnp.append(x, 0.0),
        jnp.stack((jnp.append(R[0], zero), jnp.append(R[1], zero), jnp.stack((zero, zero, one)))),
    )
