"""Formulations of the heavy top of first order: on SO(3)×R³, on S³×R³ and on a coadjoint orbit of se(3)*."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.problems.rotation_forms import Formulation, on_group
from polhode.spaces import S3, SE3, SO3, CoadjointOrbit, Product
from polhode.spaces.base import cross
from polhode.spaces.products import direct_so3_r3
from polhode.systems.hamiltonian import Hamiltonian
from polhode.systems.vector_field import VectorField

Vector3 = Float[Array, "3"]
Matrix3 = Float[Array, "3 3"]

STEP = 1e-4
"""For the benchmark's 150 rad/s."""


class TopParameters(eqx.Module):
    """Mass M, distance l of the centre of mass, gravity g towards -e₃, moments about the fixed point, direction χ."""

    mass: Float[Array, ""]
    length: Float[Array, ""]
    gravity: Float[Array, ""]
    inertia: Vector3
    axis: Vector3

    @property
    def weight_moment(self) -> Float[Array, ""]:
        """M g l, the torque of gravity on a horizontal axis."""
        return self.mass * self.gravity * self.length

    def angular_acceleration(self, omega: Vector3, gamma: Vector3) -> Vector3:
        """Ω̇ = I⁻¹(IΩ × Ω + M g l Γ × χ), body frame; Γ is e₃ in the body frame."""
        torque = cross(self.inertia * omega, omega) + cross(gamma, self.weight_moment * self.axis)
        return 1 / self.inertia * torque


class RotationMatrixTop(eqx.Module):
    """Velocity (Ω, Ω̇) of (Q, Ω) in SO(3)×R³, body frame."""

    top: TopParameters

    def __call__(self, t: Array, state: tuple[Matrix3, Vector3]) -> Float[Array, "6"]:
        del t
        rotation, omega = state
        return jnp.concatenate((omega, self.top.angular_acceleration(omega, rotation[2])))


class QuaternionTop(eqx.Module):
    """Velocity (Ω, Ω̇) of (q, Ω) in S³×R³, body frame."""

    top: TopParameters

    def __call__(self, t: Array, state: tuple[Float[Array, "4"], Vector3]) -> Float[Array, "6"]:
        del t
        (w, x, y, z), omega = state
        gamma = jnp.stack((2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)))
        return jnp.concatenate((omega, self.top.angular_acceleration(omega, gamma)))


class LiePoissonTop(eqx.Module):
    """Generators of ((Π, Γ), Q): -(∂H/∂Π, ∂H/∂Γ) = -(I⁻¹Π, M g l χ) on se(3)* and Ω = I⁻¹Π on SO(3).

    The minus sign turns the left-trivialised μ̇ = +ad*(∂H/∂μ) μ into a motion by the left action
    (E. Celledoni et al., *Lie group integrators for mechanical systems*, eq. (18)).
    """

    top: TopParameters

    def __call__(self, t: Array, state: tuple[Float[Array, "6"], Matrix3]) -> Float[Array, "9"]:
        del t
        omega = 1 / self.top.inertia * state[0][:3]
        return jnp.concatenate((-omega, -self.top.weight_moment * self.top.axis, omega))


class TopEnergy(eqx.Module):
    """H(Q, π) = ½ Π·I⁻¹Π + M g l e₃·Qχ with Π = Qᵀπ."""

    top: TopParameters

    def __call__(self, rotation: Matrix3, momentum: Vector3) -> Float[Array, ""]:
        body = rotation.T @ momentum
        return 0.5 * jnp.sum(body**2 / self.top.inertia) + self.top.weight_moment * (rotation[2] @ self.top.axis)


class QuadraticTopEnergy(eqx.Module):
    """H(Q, q, π, p) = ½ Π·I⁻¹Π + ½|p - Qᵀe₃|² - ½, which on p = -M g l χ is the energy of the top plus ½|p|².

    p stays, q moves along with q̇ = ∂H/∂p and acts on nothing (E. Celledoni et al., *Lie group integrators for
    mechanical systems*, (29)–(32)).
    """

    top: TopParameters

    def __call__(self, point: tuple[Matrix3, Vector3], momentum: Float[Array, "6"]) -> Float[Array, ""]:
        rotation, p = point[0], momentum[3:]
        body = rotation.T @ momentum[:3]
        return 0.5 * jnp.sum(body**2 / self.top.inertia) + 0.5 * jnp.sum((p - rotation[2]) ** 2) - 0.5


def _on_rotations(top: TopParameters) -> Formulation:
    return on_group(SO3(), RotationMatrixTop(top), STEP)


def _on_quaternions(top: TopParameters) -> Formulation:
    return on_group(S3(), QuaternionTop(top), STEP)


def _on_coadjoint_orbit(top: TopParameters) -> Formulation:
    upwards = jnp.array([0.0, 0.0, 1.0])
    return Formulation(
        system=VectorField(Product(CoadjointOrbit(SE3()), SO3()), LiePoissonTop(top)),
        start=lambda omega: (jnp.concatenate((top.inertia * omega, upwards)), SO3().origin()),
        attitude=lambda state: state[1],
        omega=lambda state: state[0][:3] / top.inertia,
        h=STEP,
    )


def _on_cotangent_bundle(top: TopParameters) -> Formulation:
    return Formulation(
        system=Hamiltonian(SO3(), TopEnergy(top), ("vertical_angular_momentum",)),
        start=lambda omega: (SO3().origin(), top.inertia * omega),
        attitude=lambda state: state[0],
        omega=lambda state: (state[0].T @ state[1]) / top.inertia,
        integrator="symplectic",
        h=1e-3,
    )


def _quadratic(top: TopParameters) -> Formulation:
    group = direct_so3_r3()
    p = -top.weight_moment * top.axis
    return Formulation(
        system=Hamiltonian(group, QuadraticTopEnergy(top), ("vertical_angular_momentum",)),
        start=lambda omega: (group.origin(), jnp.concatenate((top.inertia * omega, p))),
        attitude=lambda state: state[0][0],
        omega=lambda state: (state[0][0].T @ state[1][:3]) / top.inertia,
        integrator="symplectic",
        h=1e-3,
    )


FORMULATIONS: dict[str, Callable[[TopParameters], Formulation]] = {
    "SO3": _on_rotations,
    "S3": _on_quaternions,
    "lie-poisson": _on_coadjoint_orbit,
    "cotangent": _on_cotangent_bundle,
    "quadratic": _quadratic,
}
"""Formulations of first order by name."""
