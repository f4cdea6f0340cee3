"""Configuration spaces: the interface; see `docs/conventions.md` for the trivialisations."""

from __future__ import annotations

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.modules import Module

Point = Any
"""A point of a space: one array, or a tuple of points for spaces made of parts."""

Vector = Float[Array, " dim"]
"""An element of the acting Lie algebra, always one flat array of shape (dim,)."""


class AbstractSpace(Module):
    r"""A manifold on which a Lie group acts transitively: where a configuration lives.

    Two maps do most of the work. `move(q, θ)` carries the point `q` along the algebra element `θ`;
    `rate(θ, v)` is the $\dot\theta$ that gives `move(q, θ(t))` the velocity `v`. Every explicit
    Lie-group method needs only these and `bracket`.

    Points are pytrees of arrays, algebra elements flat arrays of shape `(dim,)`. All methods act on one
    point; batch them with `jax.vmap`.
    """

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Dimension of the acting Lie algebra, hence the length of velocities and increments."""

    @abc.abstractmethod
    def move(self, q: Point, theta: Vector) -> Point:
        """The point reached from `q` along the algebra element `theta`: the retraction."""

    @abc.abstractmethod
    def rate(self, theta: Vector, v: Vector) -> Vector:
        r"""The $\dot\theta$ for which `move(q, theta)` has velocity `v` (inverse differential of the map)."""

    @abc.abstractmethod
    def bracket(self, u: Vector, v: Vector) -> Vector:
        r"""Bracket with `rate(θ, v) = v - ½[θ, v] + ¹⁄₁₂[θ, [θ, v]] - …`.

        For a left action it is the bracket of the algebra, for groups with body-fixed velocities its negative.
        """

    @abc.abstractmethod
    def difference(self, q0: Point, q1: Point) -> Vector:
        """A smallest `theta` with `move(q0, theta) = q1`."""

    @abc.abstractmethod
    def origin(self) -> Point:
        """A fixed point of the space: the identity of a group, otherwise a natural base point."""

    @abc.abstractmethod
    def residual(self, q: Point) -> Float[Array, ""]:
        """Max-norm distance of the stored numbers from the space, such as |RᵀR - I| or ||q| - 1|."""

    @abc.abstractmethod
    def project(self, q: Point) -> Point:
        """A nearby point that lies on the space to round-off."""

    @abc.abstractmethod
    def random(self, key: Array) -> Point:
        """A random point; compact parts uniformly, linear parts standard normal."""

    @property
    @abc.abstractmethod
    def blocks(self) -> tuple[int, ...]:
        """Sizes of the consecutive parts of an algebra element that are measured together.

        Each block is a geometric vector, so its Euclidean norm does not depend on the inertial frame.
        """

    @abc.abstractmethod
    def scale(self, q: Point) -> Float[Array, " blocks"]:
        """Natural magnitude of each block at `q` for relative tolerances: 1 for rotations (radians),
        the Euclidean norm for linear parts."""

    def invariants(self, q: Point) -> dict[str, Array]:
        """Functions that every motion by the action keeps, such as Casimirs on coadjoint orbits."""
        del q
        return {}


class AbstractGroup(AbstractSpace):
    r"""A Lie group with body-fixed velocities: $\dot q = q\cdot\tilde v$ (left trivialisation).

    `dexp` is the right-trivialised derivative of the exponential, `d/dt exp(σ) = dexp(σ, σ̇)·exp(σ)`;
    the left-trivialised (body-fixed) tangent operator of the literature is `T(θ) v = dexp(-θ, v)`.
    """

    @abc.abstractmethod
    def compose(self, a: Point, b: Point) -> Point:
        """The product a∘b."""

    @abc.abstractmethod
    def inverse(self, a: Point) -> Point:
        """The inverse element."""

    @abc.abstractmethod
    def exp(self, theta: Vector) -> Point:
        """Group exponential, in closed form."""

    def increment(self, theta: Vector) -> Point:
        """The group element of an increment: `exp` by its fastest formula, NaN where that does not reach.

        `move` is built on it, and other coordinate maps put theirs in its place (see `polhode.spaces.coordinates`).
        """
        return self.exp(theta)

    @abc.abstractmethod
    def log(self, q: Point) -> Vector:
        """Inverse of `exp` with the smallest rotation angle, in [0, π]."""

    @abc.abstractmethod
    def Ad(self, q: Point, v: Vector) -> Vector:
        """Adjoint action q·v·q⁻¹."""

    @abc.abstractmethod
    def ad(self, u: Vector, v: Vector) -> Vector:
        """Lie bracket [u, v] of the algebra."""

    @abc.abstractmethod
    def Ad_dual(self, q: Point, mu: Vector) -> Vector:
        """Plain transpose of `Ad(q, ·)`: ⟨Ad_dual(q, μ), v⟩ = ⟨μ, Ad(q, v)⟩."""

    @abc.abstractmethod
    def ad_dual(self, u: Vector, mu: Vector) -> Vector:
        """Plain transpose of `ad(u, ·)`."""

    @abc.abstractmethod
    def dexp(self, theta: Vector, v: Vector) -> Vector:
        """Right-trivialised derivative of `exp` at `theta`; NaN for rotation angles above 6π."""

    @abc.abstractmethod
    def dexpinv(self, theta: Vector, v: Vector) -> Vector:
        """Inverse of `dexp(theta, ·)`; singular at rotation angle 2π."""

    def move(self, q: Point, theta: Vector) -> Point:
        return self.compose(q, self.increment(theta))

    def rate(self, theta: Vector, v: Vector) -> Vector:
        return self.dexpinv(-theta, v)

    def bracket(self, u: Vector, v: Vector) -> Vector:
        return -self.ad(u, v)

    def difference(self, q0: Point, q1: Point) -> Vector:
        return self.log(self.compose(self.inverse(q0), q1))

    def dexp_dual(self, theta: Vector, mu: Vector) -> Vector:
        """Plain transpose of `dexp(theta, ·)`."""
        return jax.linear_transpose(lambda v: self.dexp(theta, v), mu)(mu)[0]

    def dexpinv_dual(self, theta: Vector, mu: Vector) -> Vector:
        """Plain transpose of `dexpinv(theta, ·)`."""
        return jax.linear_transpose(lambda v: self.dexpinv(theta, v), mu)(mu)[0]

    def coadjoint(self, q: Point, mu: Vector) -> Vector:
        """Coadjoint action on the dual of the algebra, `Ad_dual(q⁻¹, μ)`: a left action."""
        return self.Ad_dual(self.inverse(q), mu)


@jax.jit
def norm(v: Array) -> Float[Array, ""]:
    """Euclidean norm whose derivative at the zero vector is 0 instead of NaN."""
    s = jnp.sum(v * v)
    return jnp.where(s > 0, jnp.sqrt(jnp.where(s > 0, s, 1.0)), 0.0)


@jax.jit
def cross(a: Float[Array, "3"], b: Float[Array, "3"]) -> Float[Array, "3"]:
    """Cross product of two 3-vectors.

    By cyclic shifts: a third of the operations that components would take to trace, compile and differentiate.
    """
    return _shift(a * _shift(b) - _shift(a) * b)


def _shift(a: Float[Array, "3"]) -> Float[Array, "3"]:
    return jnp.concatenate((a[1:], a[:1]))


@jax.jit
def hat(a: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Skew matrix of a 3-vector: hat(a) b = a × b."""
    zero = jnp.zeros_like(a[0])
    return jnp.stack(
        (
            jnp.stack((zero, -a[2], a[1])),
            jnp.stack((a[2], zero, -a[0])),
            jnp.stack((-a[1], a[0], zero)),
        )
    )
