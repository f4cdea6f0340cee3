"""Constraint elements that all joints between two frames are made of."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.joints._frames import point_position
from polhode.multibody.mechanism.elements import AbstractConstraintElement
from polhode.multibody.mechanism.poses import Poses
from polhode.spaces.base import cross
from polhode.spaces.quaternions import vector_from_matrix


class FrameConstraint(AbstractConstraintElement):
    r"""A frame on one body against a frame on another, with d = x₁ + R₁s₁ - x₀ - R₀s₀ from point to point.

    Residuals are d in the inertial frame if `pinned`, otherwise the components $e_k\cdot R_0^Td$ along directions of
    body 0; then the cosines $R_0a_k\cdot R_1b_k$, which vanish while two axes stay perpendicular.

    Near a closed joint a cosine is the component of the rotation of body 1 relative to body 0 along $b\times a$, so
    that multipliers are the force and the moments on body 0 along the same directions. Two pairs share
    $b = a_1\times a_2$; three are made of one frame, as `locked_axes` gives them.

    **Arguments:**

    - `s0`, `s1`: the points in the frames of the bodies, shape (3,).
    - `directions`: e, shape (k, 3), frame of body 0; k = 0 if pinned.
    - `a`, `b`: axes in the frames of body 0 and body 1, shape (r, 3); r = 0 leaves rotations free.
    - `pinned`: whether all three components of d vanish.
    """

    quadratic: ClassVar[bool] = True
    relative: ClassVar[bool] = True

    s0: Float[Array, "3"]
    s1: Float[Array, "3"]
    directions: Float[Array, "k 3"]
    a: Float[Array, "r 3"]
    b: Float[Array, "r 3"]
    pinned: bool = eqx.field(static=True)

    @property
    def size(self) -> int:
        return (3 if self.pinned else self.directions.shape[-2]) + self.a.shape[-2]

    def residual(self, t: Array, poses: Poses) -> Float[Array, " size"]:
        del t
        return jnp.concatenate((*self._gaps(poses), self.cosines(self.a, poses)))

    def points(self) -> tuple[Array, ...]:
        return (self.s0, self.s1) if self.pinned or self.directions.shape[-2] else ()

    def _gaps(self, poses: Poses) -> tuple[Float[Array, " k"], ...]:
        """The residuals of the points; nothing if they move freely."""
        if not (self.pinned or self.directions.shape[-2]):
            return ()
        first, second = poses
        d = point_position(second, self.s1) - point_position(first, self.s0)
        return (d if self.pinned else self.directions @ (first.R.T @ d),)

    def counterparts(self) -> Float[Array, "r 3"] | None:
        """Directions of b in body 0 while the joint is closed; None if one pair leaves them open."""
        if self.a.shape[-2] == 2:
            return jnp.stack(2 * (cross(self.a[0], self.a[1]),))
        return -jnp.roll(self.a, -1, axis=-2) if self.a.shape[-2] == 3 else None

    def sides(self, t: Array, poses: Poses) -> Float[Array, " r"]:
        del t
        counterparts = self.counterparts()
        return jnp.zeros(0) if counterparts is None else self.cosines(counterparts, poses)

    def branch_residual(self, t: Array, poses: Poses) -> Float[Array, " size"]:
        counterparts = self.counterparts()
        return self.residual(t, poses) if counterparts is None else self.angle_residual(counterparts, poses)

    def cosines(self, axes: Float[Array, "r 3"], poses: Poses) -> Float[Array, " r"]:
        """Cosines of axes of body 0 and b, pair by pair."""
        return jnp.sum((axes @ poses[0].R.T) * (self.b @ poses[1].R.T), axis=-1)

    def angle_residual(self, counterparts: Float[Array, "r 3"], poses: Poses) -> Float[Array, " size"]:
        """The residuals with angles, up to half a turn, in place of the cosines; `counterparts` are those of b."""
        return jnp.concatenate((*self._gaps(poses), self._angles(counterparts, poses)))

    def _angles(self, counterparts: Float[Array, "r 3"], poses: Poses) -> Float[Array, " r"]:
        if self.a.shape[-2] == 3:
            # From z, x, y to x, y, z.
            A0, A1 = (jnp.roll(rows, -1, axis=-2) for rows in (counterparts, self.b))
            return vector_from_matrix((A0 @ poses[0].R.T) @ (poses[1].R @ A1.T))
        sines, cosine = self.cosines(self.a, poses), self.cosines(counterparts, poses)[0]
        if self.a.shape[-2] == 1:
            return jnp.arctan2(sines, cosine)
        square = sines @ sines
        sine = jnp.sqrt(jnp.where(square > 0, square, 1.0))
        return sines * jnp.where(square > 0, jnp.arctan2(sine, cosine) / sine, 1.0)
