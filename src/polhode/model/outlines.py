"""Elements reduced to where their tangents lie: places of blocks do not depend on what elements compute."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.model.elements import AbstractConstraintElement, AbstractForceElement
from polhode.model.poses import Poses, Twists, Wrench


@final
class OutlinedForce(AbstractForceElement):
    """Zero loads, with tangents of the same shape as those of `inner`.

    **Arguments:**

    - `inner`: the element.
    - `ends`: number of its nodes.
    """

    inner: AbstractForceElement
    ends: int = eqx.field(static=True)

    @property
    def uses_poses(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.uses_poses

    @property
    def uses_twists(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.uses_twists

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, poses, twists
        return self.ends * (Wrench(jnp.zeros(3), jnp.zeros(3)),)

    def tangent(self, t: Array, poses: Poses, twists: Twists) -> tuple[Array, Array | None]:
        del t, poses, twists
        zeros = jnp.zeros((6 * self.ends, 6 * self.ends))
        return zeros, zeros if self.uses_twists else None


@final
class OutlinedJoint(AbstractConstraintElement):
    """Zero residuals, with gradients of the same shape as those of `inner`.

    **Arguments:**

    - `inner`: the element.
    """

    inner: AbstractConstraintElement

    @property
    def size(self) -> int:
        return self.inner.size

    def residual(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        del t, poses
        return jnp.zeros(self.size)

    def gradients(self, t: Array, poses: Poses) -> tuple[Float[Array, "k 6"], ...]:
        del t
        return len(poses) * (jnp.zeros((self.size, 6)),)
