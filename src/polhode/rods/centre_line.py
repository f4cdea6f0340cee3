"""Centre lines of edges for contact: cubics through both nodes along their third axes, smooth from edge to edge."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.mechanism.poses import Poses, Twists
from polhode.spaces.base import cross

Vector3 = Float[Array, "3"]
Scalar = Float[Array, ""]

_STEPS = 3
"""Steps of Newton's method to the nearest point: three are exact to 1e-13 of edges that turn by 0.3 rad."""


class Velocities(NamedTuple):
    """Velocities and angular velocities of both nodes, in the inertial frame."""

    first: Vector3
    second: Vector3
    first_spin: Vector3
    second_spin: Vector3

    @classmethod
    def of(cls, poses: Poses, twists: Twists) -> Velocities:
        """From poses and twists of the nodes."""
        spins = (pose.R @ twist.omega for pose, twist in zip(poses, twists, strict=True))
        return cls(twists[0].u, twists[1].u, *spins)


class NodeLoads(NamedTuple):
    """Forces and moments on both nodes, in the inertial frame."""

    first: Vector3
    second: Vector3
    first_moment: Vector3
    second_moment: Vector3


class CentreLine(NamedTuple):
    r"""The cubic $c(s) = h_0x_0 + h_1x_1 + k_0a_0 + k_1a_1$ of Hermite for s from 0 to 1.

    Its tangents a at the nodes are their third axes, times the length of the edge without stress. So it is smooth
    across nodes, depends on the two poses of its edge alone, and moves with rigid motions of both.
    """

    first: Vector3
    second: Vector3
    first_axis: Vector3
    second_axis: Vector3

    @classmethod
    def of(cls, poses: Poses, length: Scalar) -> CentreLine:
        """The line between two nodes."""
        axes = (length * pose.R[:, 2] for pose in poses)
        return cls(poses[0].x, poses[1].x, *axes)

    def point(self, s: Scalar) -> Vector3:
        """c(s)."""
        h0, h1, k0, k1 = node_weights(s)
        return h0 * self.first + h1 * self.second + k0 * self.first_axis + k1 * self.second_axis

    def velocity(self, v: Velocities, s: Scalar, arm: Vector3) -> Vector3:
        """Velocity of a point of the rod off the centre line by `arm`, which turns with the nodes beside it."""
        h0, h1, k0, k1 = node_weights(s)
        along = h0 * v.first + h1 * v.second
        turn = k0 * cross(v.first_spin, self.first_axis) + k1 * cross(v.second_spin, self.second_axis)
        return along + turn + cross((1 - s) * v.first_spin + s * v.second_spin, arm)

    def loads(self, s: Scalar, arm: Vector3, force: Vector3) -> NodeLoads:
        """Loads on both nodes of a force at such a point: what does the same work on all their motions.

        They have the resultant of the force, and its moment about every point.
        """
        h0, h1, k0, k1 = node_weights(s)
        moment = cross(arm, force)
        first = k0 * cross(self.first_axis, force) + (1 - s) * moment
        second = k1 * cross(self.second_axis, force) + s * moment
        return NodeLoads(h0 * force, h1 * force, first, second)

    def nearest(self, point: Vector3, steps: int = _STEPS) -> Scalar:
        """The place next to a point near the line, from -1 to 2: beyond both nodes the cubic goes on."""
        chord, a, b = self.second - self.first, self.first_axis, self.second_axis
        offset, quadratic, cubic = self.first - point, 3 * chord - 2 * a - b, a + b - 2 * chord
        s = -(offset @ chord) / (chord @ chord)
        for _ in range(steps):
            d = offset + s * (a + s * (quadratic + s * cubic))
            slope, bend = a + s * (2 * quadratic + 3 * s * cubic), 2 * quadratic + 6 * s * cubic
            square = slope @ slope
            # Above half of the square it is no centre of curvature.
            s = jnp.clip(s - d @ slope / jnp.maximum(square + d @ bend, 0.5 * square), -1.0, 2.0)
        return s


def node_weights(s: Scalar) -> tuple[Array, Array, Array, Array]:
    """Hermite's functions h₀, h₁, k₀ and k₁."""
    rest = 1 - s
    return rest * rest * (1 + 2 * s), s * s * (3 - 2 * s), s * rest * rest, -s * s * rest
