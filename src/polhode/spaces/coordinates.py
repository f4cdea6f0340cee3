"""Other coordinate maps than the exponential: Cayley and canonical coordinates of the second kind."""

from __future__ import annotations

import abc
from typing import Any, Literal, get_args

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.checks import short_repr
from polhode.spaces import quaternions
from polhode.spaces.base import AbstractGroup, AbstractSpace, Point, Vector, cross
from polhode.spaces.linear import Rn
from polhode.spaces.powers import Power, PowerGroup
from polhode.spaces.products import Product, ProductGroup
from polhode.spaces.quaternions import Quaternion, Vector3
from polhode.spaces.rigid import AbstractRigidGroup
from polhode.spaces.rotations import AbstractRotationGroup

Coordinates = Literal["exp", "cayley", "second-kind"]
"""Names of the coordinate maps."""


def with_coordinates(space: AbstractSpace, coordinates: Coordinates) -> AbstractSpace:
    """The same space with `move`, `rate` and `difference` in the named coordinates, through products and powers.

    Linear spaces are their own coordinates. "exp" returns `space`; the others exist on groups made of so(3), se(3)
    and linear parts.
    """
    if coordinates not in get_args(Coordinates):
        raise ValueError(
            f"`coordinates` must be one of {', '.join(get_args(Coordinates))}, got {short_repr(coordinates)}."
        )
    if coordinates == "exp" or isinstance(space, Rn):
        return space
    if isinstance(space, Product):
        return Product(*(with_coordinates(factor, coordinates) for factor in space.spaces))
    if isinstance(space, Power):
        return Power(with_coordinates(space.space, coordinates), space.n)
    return _group_with(space, coordinates)


def _group_with(space: AbstractSpace, coordinates: Coordinates) -> AbstractGroup:
    if isinstance(space, Rn):
        return space
    if isinstance(space, ProductGroup):
        return ProductGroup(*(_group_with(factor, coordinates) for factor in space.spaces))
    if isinstance(space, PowerGroup):
        return PowerGroup(_group_with(space.space, coordinates), space.n)
    if isinstance(space, AbstractRotationGroup | AbstractRigidGroup):
        return Cayley(space) if coordinates == "cayley" else SecondKind(space)
    raise ValueError(
        f"{short_repr(coordinates)} coordinates exist on groups made of rotations, rigid displacements and linear "
        f"parts, not on `{type(space).__name__}`; use coordinates='exp'."
    )


class AbstractLocalCoordinates(AbstractGroup):
    """A group with another coordinate map in `increment`, `rate` and `difference`; all else is the group's own.

    `exp`, `log`, `dexp`, `dexpinv` stay those of the exponential map, and `bracket` stays the algebra's: its series of
    `rate` holds for the exponential map only, so methods with truncated series of commutators need "exp".
    """

    group: AbstractRotationGroup | AbstractRigidGroup

    def __check_init__(self):
        if not isinstance(self.group, AbstractRotationGroup | AbstractRigidGroup):
            raise ValueError(
                f"`{type(self).__name__}` takes a group with the algebra so(3) or se(3), got "
                f"`{type(self.group).__name__}`; for products and powers use `with_coordinates`."
            )

    @abc.abstractmethod
    def coordinates(self, q: Point) -> Vector:
        """Inverse of `increment`, nearest to zero."""

    @property
    def dim(self) -> int:
        return self.group.dim

    @property
    def blocks(self) -> tuple[int, ...]:
        return self.group.blocks

    def difference(self, q0: Point, q1: Point) -> Vector:
        return self.coordinates(self.group.compose(self.group.inverse(q0), q1))

    def origin(self) -> Point:
        return self.group.origin()

    def compose(self, a: Point, b: Point) -> Point:
        return self.group.compose(a, b)

    def inverse(self, a: Point) -> Point:
        return self.group.inverse(a)

    def exp(self, theta: Vector) -> Point:
        return self.group.exp(theta)

    def log(self, q: Point) -> Vector:
        return self.group.log(q)

    def Ad(self, q: Point, v: Vector) -> Vector:
        return self.group.Ad(q, v)

    def ad(self, u: Vector, v: Vector) -> Vector:
        return self.group.ad(u, v)

    def Ad_dual(self, q: Point, mu: Vector) -> Vector:
        return self.group.Ad_dual(q, mu)

    def ad_dual(self, u: Vector, mu: Vector) -> Vector:
        return self.group.ad_dual(u, mu)

    def dexp(self, theta: Vector, v: Vector) -> Vector:
        return self.group.dexp(theta, v)

    def dexpinv(self, theta: Vector, v: Vector) -> Vector:
        return self.group.dexpinv(theta, v)

    def residual(self, q: Point) -> Float[Array, ""]:
        return self.group.residual(q)

    def project(self, q: Point) -> Point:
        return self.group.project(q)

    def random(self, key: Array) -> Point:
        return self.group.random(key)

    def scale(self, q: Point) -> Float[Array, " blocks"]:
        return self.group.scale(q)


class Cayley(AbstractLocalCoordinates):
    r"""Cayley map $(1 - \tilde\theta/2)^{-1}(1 + \tilde\theta/2)$ of the 3×3 or 4×4 matrices: rational, no special
    function anywhere.

    On rotations θ = 2 tan(φ/2) n, a rotation by φ < π about n. `rate` is (1 + θ̃/2) ṽ (1 - θ̃/2), so quadratic.

    **Arguments:**

    - `group`: `SO3`, `S3`, `RotationVector`, `SE3` or `S3R3`.
    """

    group: AbstractRotationGroup | AbstractRigidGroup

    def increment(self, theta: Vector) -> Point:
        rotation = theta[:3]
        s = 0.25 * (rotation @ rotation)
        p = jnp.concatenate((jnp.ones(1), 0.5 * rotation)) / jnp.sqrt(1 + s)
        if isinstance(self.group, AbstractRotationGroup):
            return self.group.from_quaternion(p)
        # (1 - θ̂/2)⁻¹ U = U + (½ θ × U + ¼ θ × (θ × U))/(1 + |θ|²/4)
        first = 0.5 * cross(rotation, theta[3:])
        translation = theta[3:] + (first + 0.5 * cross(rotation, first)) / (1 + s)
        return self.group.rotations.from_quaternion(p), translation

    def coordinates(self, q: Point) -> Vector:
        group = self.group
        if isinstance(group, AbstractRotationGroup):
            p = group.to_quaternion(q)
            return 2 * p[1:] / p[0]
        p = group.rotations.to_quaternion(q[0])
        theta = 2 * p[1:] / p[0]
        return jnp.concatenate((theta, q[1] - 0.5 * cross(theta, q[1])))

    def rate(self, theta: Vector, v: Vector) -> Vector:
        rotation, omega = theta[:3], v[:3]
        rotation_rate = omega + 0.5 * cross(rotation, omega) + 0.25 * (rotation @ omega) * rotation
        if isinstance(self.group, AbstractRotationGroup):
            return rotation_rate
        U, V = theta[3:], v[3:]
        first = cross(U, omega)
        return jnp.concatenate((rotation_rate, V + 0.5 * (cross(rotation, V) + first) + 0.25 * cross(rotation, first)))


class SecondKind(AbstractLocalCoordinates):
    """Canonical coordinates of the second kind: exp(θ₁e₁) exp(θ₂e₂) … in the order of the algebra vector.

    The rotation is Rx(θ₁) Ry(θ₂) Rz(θ₃), Cardan angles; a translation follows in the rotated frame. Singular at
    θ₂ = ±π/2, where `rate` divides by zero.

    **Arguments:**

    - `group`: `SO3`, `S3`, `RotationVector`, `SE3` or `S3R3`.
    """

    group: AbstractRotationGroup | AbstractRigidGroup

    def increment(self, theta: Vector) -> Point:
        p = _cardan_quaternion(theta[:3])
        if isinstance(self.group, AbstractRotationGroup):
            return self.group.from_quaternion(p)
        return self.group.rotations.from_quaternion(p), quaternions.rotate(p, theta[3:])

    def coordinates(self, q: Point) -> Vector:
        group = self.group
        if isinstance(group, AbstractRotationGroup):
            return _cardan_angles(group.to_matrix(q))
        angles = _cardan_angles(group.rotations.to_matrix(q[0]))
        return jnp.concatenate((angles, group.rotations.Ad_dual(q[0], q[1])))

    def rate(self, theta: Vector, v: Vector) -> Vector:
        rotation_rate = _cardan_rates(theta[:3], v[:3])
        if isinstance(self.group, AbstractRotationGroup):
            return rotation_rate
        return jnp.concatenate((rotation_rate, v[3:] - cross(v[:3], theta[3:])))


def _cardan_quaternion(angles: Vector3) -> Quaternion:
    zero = jnp.zeros_like(angles[0])
    c, s = jnp.cos(0.5 * angles), jnp.sin(0.5 * angles)
    x = jnp.stack((c[0], s[0], zero, zero))
    y = jnp.stack((c[1], zero, s[1], zero))
    z = jnp.stack((c[2], zero, zero, s[2]))
    return quaternions.multiply(quaternions.multiply(x, y), z)


def _cardan_angles(R: Any) -> Vector3:
    # cos θ₂ from the first row: accurate where the arcsine of R[0, 2] alone loses half the digits
    cosine = jnp.sqrt(R[0, 0] ** 2 + R[0, 1] ** 2)
    return jnp.stack((jnp.arctan2(-R[1, 2], R[2, 2]), jnp.arctan2(R[0, 2], cosine), jnp.arctan2(-R[0, 1], R[0, 0])))


def _cardan_rates(angles: Vector3, omega: Vector3) -> Vector3:
    """The explicit inverse of the 3×3 matrix that gives the body-fixed Ω from the rates of Rx Ry Rz."""
    cosine, sine = jnp.cos(angles[1]), jnp.sin(angles[1])
    c, s = jnp.cos(angles[2]), jnp.sin(angles[2])
    first = (omega[0] * c - omega[1] * s) / cosine
    return jnp.stack((first, omega[0] * s + omega[1] * c, omega[2] - sine * first))
