"""Constraint elements that all joints between two frames are made of."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.joints._frames import at
from polhode.model.elements import AbstractConstraintElement, Poses


class FrameConstraint(AbstractConstraintElement):
    r"""A frame on one body against a frame on another, with d = x₁ + R₁s₁ - x₀ - R₀s₀ from point to point.

    Residuals are d in the inertial frame if `pinned`, otherwise the components $e_k\cdot R_0^Td$ along directions of
    body 0; then the cosines $R_0a_k\cdot R_1b_k$, which vanish while two axes stay perpendicular.

    **Arguments:**

    - `s0`, `s1`: the points in the frames of the bodies, shape (3,).
    - `directions`: e, shape (k, 3), frame of body 0; k = 0 if pinned.
    - `a`, `b`: axes in the frames of body 0 and body 1, shape (r, 3); r = 0 leaves rotations free.
    - `pinned`: whether all three components of d vanish.
    """

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
        first, second = poses
        parts = []
        if self.pinned or self.directions.shape[-2]:
            d = at(second, self.s1) - at(first, self.s0)
            parts.append(d if self.pinned else self.directions @ (first.R.T @ d))
        if self.a.shape[-2]:
            parts.append(jnp.sum((self.a @ first.R.T) * (self.b @ second.R.T), axis=-1))
        return jnp.concatenate(parts)
