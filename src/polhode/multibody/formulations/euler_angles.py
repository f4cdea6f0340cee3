"""Bodies in Tait–Bryan angles: of second order, and with angular velocities as unknowns."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.multibody.formulations.base import AbstractFormulation, AbstractTwistVelocities
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.spaces.base import AbstractGroup, Vector
from polhode.spaces.linear import Rn
from polhode.spaces.products import product

Angles = Float[Array, "3"]
Point = tuple[Angles, Float[Array, "3"]]

_LOCK = 1e-6
"""Smallest cosine of the second angle at which a motion may start."""


class AbstractEulerAngles(AbstractFormulation):
    """q = (ρ, x) in R³×R³ with the angles ρ = (a, b, c) of R = Rx(a) Ry(b) Rz(c), in radians.

    The angles are singular where cos b = 0 (gimbal lock). A motion that starts there is refused; one that passes
    nearby loses accuracy in proportion to 1 / cos b, and one that hits it ends with numbers that are not finite.
    """

    @property
    def space(self) -> AbstractGroup:
        return product(Rn(3), Rn(3))

    def pose(self, q: Point) -> Pose:
        return Pose(q[1], rotation(q[0]))

    def from_pose(self, pose: Pose) -> Point:
        """The angles with |b| < π/2. Raises ValueError for a concrete rotation at which they are singular."""
        return angles(pose.R), pose.x


class EulerAngles(AbstractEulerAngles):
    r"""Tait–Bryan angles Rxyz of second order: v = (ρ̇, u), ω = G(ρ) ρ̇, $M = \mathrm{diag}(G^T\Theta G, m1)$.

    "Formulation 2" of S. Holzinger, M. Arnold & J. Gerstmayr, with $f = (G^T(\tau - \Theta\dot G\dot\rho -
    \omega\times\Theta\omega), F)$.
    """

    def twist(self, q: Point, v: Vector) -> Twist:
        return Twist(angular_velocity(q[0], v[:3]), v[3:])

    def from_twist(self, q: Point, twist: Twist) -> Vector:
        return jnp.concatenate((angle_rates(q[0], twist.omega), twist.u))


class EulerAnglesKinematic(AbstractTwistVelocities, AbstractEulerAngles):
    """Tait–Bryan angles Rxyz with v = (ω, u): Newton–Euler equations and ρ̇ = G(ρ)⁻¹ ω.

    "Formulation 1" of S. Holzinger, M. Arnold & J. Gerstmayr. The velocities are not those of the coordinates, so
    explicit and half-explicit methods take it, implicit ones of second order do not.
    """

    @property
    def identity_kinematics(self) -> bool:
        return False

    def kinematics(self, q: Point, v: Vector) -> Vector:
        return jnp.concatenate((angle_rates(q[0], v[:3]), v[3:]))


def rotation(rho: Angles) -> Float[Array, "3 3"]:
    """Rx(a) Ry(b) Rz(c)."""
    (sa, sb, sc), (ca, cb, cc) = jnp.sin(rho), jnp.cos(rho)
    return jnp.stack(
        (
            jnp.stack((cb * cc, -cb * sc, sb)),
            jnp.stack((ca * sc + sa * sb * cc, ca * cc - sa * sb * sc, -sa * cb)),
            jnp.stack((sa * sc - ca * sb * cc, sa * cc + ca * sb * sc, ca * cb)),
        )
    )


def angles(R: Float[Array, "3 3"]) -> Angles:
    """(a, b, c) of a rotation matrix, |b| < π/2. Raises ValueError at gimbal lock if the numbers are concrete."""
    cosine = jnp.hypot(R[0, 0], R[0, 1])
    if checks.is_concrete(R) and float(cosine) < _LOCK:
        raise ValueError(
            f"Euler angles Rxyz are singular at this initial rotation: cos b = {float(cosine):.2g} < {_LOCK:g} (gimbal "
            "lock). Turn the body frame or the inertial frame, or take coordinates without singularity: SO3xR3, SE3, "
            "S3xR3, S3|xR3, rotation-vector or euler-parameters."
        )
    return jnp.stack((jnp.arctan2(-R[1, 2], R[2, 2]), jnp.arctan2(R[0, 2], cosine), jnp.arctan2(-R[0, 1], R[0, 0])))


def angular_velocity(rho: Angles, rates: Angles) -> Float[Array, "3"]:
    """ω = G(ρ) ρ̇ in the body frame."""
    (sb, sc), (cb, cc) = jnp.sin(rho[1:]), jnp.cos(rho[1:])
    a, b, c = rates
    return jnp.stack((cb * cc * a + sc * b, -cb * sc * a + cc * b, sb * a + c))


def angle_rates(rho: Angles, omega: Float[Array, "3"]) -> Angles:
    """ρ̇ = G(ρ)⁻¹ ω."""
    (sb, sc), (cb, cc) = jnp.sin(rho[1:]), jnp.cos(rho[1:])
    a = (omega[0] * cc - omega[1] * sc) / cb
    return jnp.stack((a, omega[0] * sc + omega[1] * cc, omega[2] - sb * a))
