"""The cotangent bundle of a Lie group, right-trivialised, as the magnetic group G⋉g*."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.spaces.base import AbstractGroup, Vector, norm


class CotangentPoint(NamedTuple):
    """A point of T*G: the element of the group, and the momentum μ in g*."""

    g: Any
    mu: Vector


class Cotangent(AbstractGroup):
    r"""T*G as the group G⋉g*, acting on itself from the left: points (g, μ) with μ = R_g* p in g*.

    (g₁, μ₁)(g₂, μ₂) = (g₁g₂, μ₁ + Ad*_{g₁⁻¹} μ₂). Here `move(y, σ) = exp(σ)·y`, so algebra elements (ξ, ν) are
    spatial and a vector field is (ξ, ν) = (f₁, f₂) with ġ = ξg, μ̇ = ν - ad*_ξ μ; a Hamiltonian H(g, μ) has f₁ = ∂H/∂μ
    and f₂ = -R_g* ∂H/∂g. Celledoni et al., "Lie group integrators for mechanical systems", (11)–(14).

    With P(ξ) = dexp*_{-ξ}, which is the integral of the coadjoint action along exp(sξ), s in [0, 1],

        exp(ξ, ν) = (exp ξ, P(ξ)ν),   dexp_{(ξ,ν)}(η, κ) = (η̂, P(ξ)κ + DP(ξ)[η] ν + ad*_η̂ P(ξ)ν),   η̂ = dexp_ξ η,

    exact for every group; DP by differentiating the closed form. The part P reaches as far as `dexp` of the group.

    **Arguments:**

    - `group`: the group G.
    """

    group: AbstractGroup

    @property
    def dim(self) -> int:
        return 2 * self.group.dim

    @property
    def blocks(self) -> tuple[int, ...]:
        return 2 * self.group.blocks

    def split(self, v: Vector) -> tuple[Vector, Vector]:
        """The parts in g and in g* of an algebra element."""
        return v[: self.group.dim], v[self.group.dim :]

    def move(self, q: CotangentPoint, theta: Vector) -> CotangentPoint:
        return self.compose(self.increment(theta), q)

    def rate(self, theta: Vector, v: Vector) -> Vector:
        return self.dexpinv(theta, v)

    def bracket(self, u: Vector, v: Vector) -> Vector:
        return self.ad(u, v)

    def difference(self, q0: CotangentPoint, q1: CotangentPoint) -> Vector:
        return self.log(self.compose(q1, self.inverse(q0)))

    def origin(self) -> CotangentPoint:
        return CotangentPoint(self.group.origin(), jnp.zeros(self.group.dim))

    def compose(self, a: CotangentPoint, b: CotangentPoint) -> CotangentPoint:
        (g, mu), (other, further) = a, b
        return CotangentPoint(self.group.compose(g, other), mu + self.group.coadjoint(g, further))

    def inverse(self, a: CotangentPoint) -> CotangentPoint:
        g, mu = a
        return CotangentPoint(self.group.inverse(g), -self.group.Ad_dual(g, mu))

    def exp(self, theta: Vector) -> CotangentPoint:
        xi, nu = self.split(theta)
        return CotangentPoint(self.group.exp(xi), self.group.dexp_dual(-xi, nu))

    def increment(self, theta: Vector) -> CotangentPoint:
        xi, nu = self.split(theta)
        return CotangentPoint(self.group.increment(xi), self.group.dexp_dual(-xi, nu))

    def log(self, q: CotangentPoint) -> Vector:
        xi = self.group.log(q[0])
        return jnp.concatenate((xi, self.group.dexpinv_dual(-xi, q[1])))

    def Ad(self, q: CotangentPoint, v: Vector) -> Vector:
        eta, kappa = self.split(v)
        g_part = self.group.Ad(q[0], eta)
        return jnp.concatenate((g_part, self.group.coadjoint(q[0], kappa) + self.group.ad_dual(g_part, q[1])))

    def ad(self, u: Vector, v: Vector) -> Vector:
        (xi, nu), (eta, kappa) = self.split(u), self.split(v)
        G = self.group
        return jnp.concatenate((G.ad(xi, eta), G.ad_dual(eta, nu) - G.ad_dual(xi, kappa)))

    def Ad_dual(self, q: CotangentPoint, mu: Vector) -> Vector:
        alpha, a = self.split(mu)
        G = self.group
        g_part = G.Ad_dual(q[0], alpha - G.ad_dual(a, q[1]))
        return jnp.concatenate((g_part, G.Ad(G.inverse(q[0]), a)))

    def ad_dual(self, u: Vector, mu: Vector) -> Vector:
        (xi, nu), (alpha, a) = self.split(u), self.split(mu)
        G = self.group
        return jnp.concatenate((G.ad_dual(xi, alpha) - G.ad_dual(a, nu), -G.ad(xi, a)))

    def dexp(self, theta: Vector, v: Vector) -> Vector:
        (xi, nu), (eta, kappa) = self.split(theta), self.split(v)
        m, dm = self._moment(xi, nu, eta)
        spatial = self.group.dexp(xi, eta)
        return jnp.concatenate((spatial, self.group.dexp_dual(-xi, kappa) + dm + self.group.ad_dual(spatial, m)))

    def dexpinv(self, theta: Vector, v: Vector) -> Vector:
        (xi, nu), (spatial, momentum) = self.split(theta), self.split(v)
        eta = self.group.dexpinv(xi, spatial)
        m, dm = self._moment(xi, nu, eta)
        kappa = self.group.dexpinv_dual(-xi, momentum - dm - self.group.ad_dual(spatial, m))
        return jnp.concatenate((eta, kappa))

    def _moment(self, xi: Vector, nu: Vector, eta: Vector) -> tuple[Vector, Vector]:
        """P(ξ)ν and its derivative along η."""
        return jax.jvp(lambda x: self.group.dexp_dual(-x, nu), (xi,), (eta,))

    def residual(self, q: CotangentPoint) -> Float[Array, ""]:
        return self.group.residual(q[0])

    def project(self, q: CotangentPoint) -> CotangentPoint:
        g, mu = q
        return CotangentPoint(self.group.project(g), mu)

    def random(self, key: Array) -> CotangentPoint:
        position, momentum = jax.random.split(key)
        return CotangentPoint(self.group.random(position), jax.random.normal(momentum, (self.group.dim,)))

    def scale(self, q: CotangentPoint) -> Float[Array, " blocks"]:
        sizes = self.group.blocks
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        momenta = [norm(q[1][start : start + size]) for start, size in zip(starts, sizes, strict=True)]
        return jnp.concatenate((self.group.scale(q[0]), jnp.stack(momenta)))
