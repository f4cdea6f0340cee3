"""Powers of a space: many copies, stored as stacked arrays and batched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.checks import count, short_repr
from polhode.spaces.base import AbstractGroup, AbstractSpace, Vector

Points = Any
Space = TypeVar("Space", bound=AbstractSpace)


def power(space: AbstractSpace, n: int) -> Power | PowerGroup:
    """n copies of a space: a `PowerGroup` if `space` is a group, otherwise a `Power`."""
    if not isinstance(space, AbstractSpace):
        raise ValueError(f"`space` must be a space, got {short_repr(space)}.")
    n = count("n", n, "copies of a space")
    return PowerGroup(space, n) if isinstance(space, AbstractGroup) else Power(space, n)


class AbstractPower(AbstractSpace, Generic[Space]):
    """Powers of spaces and of groups: every array of a point has a leading axis n."""

    space: eqx.AbstractVar[Space]
    n: eqx.AbstractVar[int]

    def __check_init__(self):
        count("n", self.n, "copies of a space")

    @property
    def dim(self) -> int:
        return self.n * self.space.dim

    @property
    def blocks(self) -> tuple[int, ...]:
        return self.n * self.space.blocks

    def split(self, v: Vector) -> Float[Array, "n part"]:
        """The parts of an algebra element, one row for each copy."""
        return v.reshape(self.n, self.space.dim)

    def move(self, q: Points, theta: Vector) -> Points:
        return jax.vmap(self.space.move)(q, self.split(theta))

    def rate(self, theta: Vector, v: Vector) -> Vector:
        return self._of_vectors(self.space.rate, theta, v)

    def bracket(self, u: Vector, v: Vector) -> Vector:
        return self._of_vectors(self.space.bracket, u, v)

    def difference(self, q0: Points, q1: Points) -> Vector:
        return jax.vmap(self.space.difference)(q0, q1).reshape(-1)

    def origin(self) -> Points:
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.n, *x.shape)), self.space.origin())

    def residual(self, q: Points) -> Float[Array, ""]:
        return jnp.max(jax.vmap(self.space.residual)(q))

    def project(self, q: Points) -> Points:
        return jax.vmap(self.space.project)(q)

    def random(self, key: Array) -> Points:
        return jax.vmap(self.space.random)(jax.random.split(key, self.n))

    def scale(self, q: Points) -> Float[Array, " blocks"]:
        return jax.vmap(self.space.scale)(q).reshape(-1)

    def invariants(self, q: Points) -> dict[str, Array]:
        return jax.vmap(self.space.invariants)(q)

    def _of_vectors(self, method: Callable[[Vector, Vector], Vector], u: Vector, v: Vector) -> Vector:
        return jax.vmap(method)(self.split(u), self.split(v)).reshape(-1)


class Power(AbstractPower[AbstractSpace]):
    """n copies of a space: point arrays are stacked along a leading axis n, algebra elements are flat (n·dim,).

    `power(space, n)` is the same and gives a group where `space` is one.

    **Arguments:**

    - `space`: the space repeated.
    - `n`: number of copies, at least 1.
    """

    space: AbstractSpace
    n: int


class PowerGroup(AbstractPower[AbstractGroup], AbstractGroup):
    """n copies of a group: element arrays are stacked along a leading axis n, algebra elements are flat (n·dim,).

    **Arguments:**

    - `space`: the group repeated.
    - `n`: number of copies, at least 1.
    """

    space: AbstractGroup
    n: int

    def compose(self, a: Points, b: Points) -> Points:
        return jax.vmap(self.space.compose)(a, b)

    def inverse(self, a: Points) -> Points:
        return jax.vmap(self.space.inverse)(a)

    def exp(self, theta: Vector) -> Points:
        return jax.vmap(self.space.exp)(self.split(theta))

    def increment(self, theta: Vector) -> Points:
        return jax.vmap(self.space.increment)(self.split(theta))

    def log(self, q: Points) -> Vector:
        return jax.vmap(self.space.log)(q).reshape(-1)

    def Ad(self, q: Points, v: Vector) -> Vector:
        return jax.vmap(self.space.Ad)(q, self.split(v)).reshape(-1)

    def Ad_dual(self, q: Points, mu: Vector) -> Vector:
        return jax.vmap(self.space.Ad_dual)(q, self.split(mu)).reshape(-1)

    def coadjoint(self, q: Points, mu: Vector) -> Vector:
        return jax.vmap(self.space.coadjoint)(q, self.split(mu)).reshape(-1)

    def ad(self, u: Vector, v: Vector) -> Vector:
        return self._of_vectors(self.space.ad, u, v)

    def ad_dual(self, u: Vector, mu: Vector) -> Vector:
        return self._of_vectors(self.space.ad_dual, u, mu)

    def dexp(self, theta: Vector, v: Vector) -> Vector:
        return self._of_vectors(self.space.dexp, theta, v)

    def dexpinv(self, theta: Vector, v: Vector) -> Vector:
        return self._of_vectors(self.space.dexpinv, theta, v)

    def dexp_dual(self, theta: Vector, mu: Vector) -> Vector:
        return self._of_vectors(self.space.dexp_dual, theta, mu)

    def dexpinv_dual(self, theta: Vector, mu: Vector) -> Vector:
        return self._of_vectors(self.space.dexpinv_dual, theta, mu)
