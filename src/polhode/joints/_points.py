"""Constraint elements between points of bodies."""

from __future__ import annotations

from jaxtyping import Array, Float

from polhode.model.elements import AbstractConstraintElement, Pose, Poses


class CoincidentPoints(AbstractConstraintElement):
    """Two body-fixed points stay together: x₁ + R₁s₁ - x₀ - R₀s₀ = 0 in the inertial frame.

    **Arguments:**

    - `s0`, `s1`: the point in the frames of the two bodies, shape (3,).
    """

    s0: Float[Array, "3"]
    s1: Float[Array, "3"]

    @property
    def size(self) -> int:
        return 3

    def residual(self, t: Array, poses: Poses) -> Float[Array, "3"]:
        del t
        return at(poses[1], self.s1) - at(poses[0], self.s0)


def at(pose: Pose, s: Float[Array, "3"]) -> Float[Array, "3"]:
    """Where a body-fixed point is."""
    return pose.x + pose.R @ s


def local(pose: Pose, point: Float[Array, "3"]) -> Float[Array, "3"]:
    """A point of the inertial frame in the frame of a body."""
    return pose.R.T @ (point - pose.x)
