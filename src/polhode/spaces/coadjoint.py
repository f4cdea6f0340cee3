"""Coadjoint orbits: the spaces of Lie–Poisson systems."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.checks import short_repr
from polhode.spaces import quaternions
from polhode.spaces.base import AbstractSpace, Vector, cross, norm
from polhode.spaces.rigid import AbstractRigidGroup
from polhode.spaces.rotations import SO3, AbstractRotationGroup


class CoadjointOrbit(AbstractSpace):
    r"""The dual of a Lie algebra with the group acting by μ ↦ Ad*_{g⁻¹} μ: every motion stays on one coadjoint orbit.

    - so(3)*: points μ of shape (3,), action gμ. Keeps |μ|².
    - se(3)*: points (Π, Γ) of shape (6,), action (gΠ + x × gΓ, gΓ). Keeps |Γ|² and Π·Γ.

    `move(μ, σ)` acts with exp(σ), so μ̇ = -ad*_σ μ. In body variables (left-invariant Hamiltonian) μ̇ = ad*_{∂H/∂μ} μ:
    the algebra element of the motion is -∂H/∂μ; in spatial variables (right-invariant Hamiltonian) it is +∂H/∂μ.
    Celledoni et al., "Lie group integrators for mechanical systems", §2 and (18).

    **Arguments:**

    - `group`: one of `SO3`, `S3`, `RotationVector` (so(3)*), `SE3`, `S3R3` (se(3)*). Which of them matters to nothing
      but speed; products of orbits are `Product` or `Power` of this space.
    """

    group: AbstractRotationGroup | AbstractRigidGroup

    def __check_init__(self):
        if not isinstance(self.group, AbstractRotationGroup | AbstractRigidGroup):
            raise ValueError(
                "Coadjoint orbits are there for groups with the algebra so(3) or se(3), got "
                f"`{short_repr(self.group)}`; "
                "for several bodies use a product or power of orbits."
            )

    @property
    def dim(self) -> int:
        return self.group.dim

    @property
    def blocks(self) -> tuple[int, ...]:
        return self.group.blocks

    @property
    def _rigid(self) -> bool:
        return isinstance(self.group, AbstractRigidGroup)

    def move(self, q: Vector, theta: Vector) -> Vector:
        return self.group.coadjoint(self.group.increment(theta), q)

    def rate(self, theta: Vector, v: Vector) -> Vector:
        return self.group.dexpinv(theta, v)

    def bracket(self, u: Vector, v: Vector) -> Vector:
        return self.group.ad(u, v)

    def difference(self, q0: Vector, q1: Vector) -> Vector:
        """A small element that takes q0 to q1 if both lie on one orbit; else to the nearest direction.

        On se(3)* it turns Γ by the smallest rotation, then translates by the shortest vector; where Γ = 0 it turns Π.
        """
        return _difference_se3(q0, q1) if self._rigid else quaternions.between(q0, q1)

    def origin(self) -> Vector:
        return jnp.array([0.0, 0.0, 1.0] * (self.dim // 3))

    def residual(self, q: Vector) -> Float[Array, ""]:
        del q
        return jnp.zeros(())

    def project(self, q: Vector) -> Vector:
        return q

    def random(self, key: Array) -> Vector:
        return jax.random.normal(key, (self.dim,))

    def scale(self, q: Vector) -> Float[Array, " blocks"]:
        if not self._rigid:
            return jnp.ones(1)
        # A translation v changes Π by v × Γ, so its natural unit is |Π|/|Γ|.
        Gamma = norm(q[3:])
        return jnp.stack((jnp.ones(()), jnp.where(Gamma > 0, norm(q[:3]) / jnp.where(Gamma > 0, Gamma, 1.0), 0.0)))

    def invariants(self, q: Vector) -> dict[str, Array]:
        if not self._rigid:
            return {"mu_squared": q @ q}
        return {"gamma_squared": q[3:] @ q[3:], "pi_dot_gamma": q[:3] @ q[3:]}


def _difference_se3(q0: Vector, q1: Vector) -> Vector:
    (Pi0, Gamma0), (Pi1, Gamma1) = (q0[:3], q0[3:]), (q1[:3], q1[3:])
    rotations = SO3()
    s = Gamma1 @ Gamma1
    has_gamma = s > 0
    u = jnp.where(has_gamma, quaternions.between(Gamma0, Gamma1), quaternions.between(Pi0, Pi1))
    x = cross(Gamma1, Pi1 - rotations.increment(u) @ Pi0) / jnp.where(has_gamma, s, 1.0)
    return jnp.concatenate((u, rotations.dexpinv(u, x)))
