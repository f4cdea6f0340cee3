"""Direct products of spaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, overload

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.spaces.base import AbstractGroup, AbstractSpace, Vector
from polhode.spaces.linear import Rn
from polhode.spaces.rotations import S3, SO3

Points = tuple[Any, ...]
Space = TypeVar("Space", bound=AbstractSpace)


@overload
def product(*spaces: AbstractGroup) -> ProductGroup: ...
@overload
def product(*spaces: AbstractSpace) -> Product | ProductGroup: ...
def product(*spaces: AbstractSpace) -> Product | ProductGroup:
    """The direct product: a `ProductGroup` if all factors are groups, otherwise a `Product`."""
    groups = tuple(space for space in spaces if isinstance(space, AbstractGroup))
    return ProductGroup(*groups) if len(groups) == len(spaces) else Product(*spaces)


def direct_so3_r3() -> ProductGroup:
    """SO(3)×R³: points (R, x), velocities (Ω, u) with u = ẋ in the inertial frame."""
    return ProductGroup(SO3(), Rn(3))


def direct_s3_r3() -> ProductGroup:
    """S³×R³: points (p, x), velocities (Ω, u) with u = ẋ in the inertial frame."""
    return ProductGroup(S3(), Rn(3))


class AbstractProduct(AbstractSpace, Generic[Space]):
    """Products of spaces and of groups: points are tuples, algebra elements are concatenated."""

    spaces: eqx.AbstractVar[tuple[Space, ...]]

    @property
    def dim(self) -> int:
        return sum(space.dim for space in self.spaces)

    @property
    def blocks(self) -> tuple[int, ...]:
        return tuple(size for space in self.spaces for size in space.blocks)

    def split(self, v: Vector) -> tuple[Vector, ...]:
        """The parts of an algebra element, one for each factor."""
        return _split(self.spaces, v)

    def move(self, q: Points, theta: Vector) -> Points:
        return tuple(s.move(a, x) for s, a, x in zip(self.spaces, q, self.split(theta), strict=True))

    def rate(self, theta: Vector, v: Vector) -> Vector:
        parts = zip(self.spaces, self.split(theta), self.split(v), strict=True)
        return _join(s.rate(x, y) for s, x, y in parts)

    def bracket(self, u: Vector, v: Vector) -> Vector:
        return _join(s.bracket(x, y) for s, x, y in zip(self.spaces, self.split(u), self.split(v), strict=True))

    def difference(self, q0: Points, q1: Points) -> Vector:
        return _join(s.difference(a, b) for s, a, b in zip(self.spaces, q0, q1, strict=True))

    def origin(self) -> Points:
        return tuple(space.origin() for space in self.spaces)

    def residual(self, q: Points) -> Float[Array, ""]:
        return jnp.max(jnp.stack([s.residual(a) for s, a in zip(self.spaces, q, strict=True)]))

    def project(self, q: Points) -> Points:
        return tuple(s.project(a) for s, a in zip(self.spaces, q, strict=True))

    def random(self, key: Array) -> Points:
        keys = jax.random.split(key, len(self.spaces))
        return tuple(s.random(k) for s, k in zip(self.spaces, keys, strict=True))

    def scale(self, q: Points) -> Float[Array, " blocks"]:
        return _join(s.scale(a) for s, a in zip(self.spaces, q, strict=True))

    def invariants(self, q: Points) -> dict[str, Array]:
        parts = enumerate(zip(self.spaces, q, strict=True))
        return {f"{name}[{i}]": value for i, (s, a) in parts for name, value in s.invariants(a).items()}


class Product(AbstractProduct[AbstractSpace]):
    """Direct product of spaces: points are tuples of points, algebra elements are concatenated.

    `product(...)` is the same and gives a group where all factors are groups.

    **Arguments:**

    - `spaces`: one or more spaces.
    """

    spaces: tuple[AbstractSpace, ...]

    def __init__(self, *spaces: AbstractSpace):
        self.spaces = _check_spaces(spaces)


class ProductGroup(AbstractProduct[AbstractGroup], AbstractGroup):
    """Direct product of groups: points are tuples of elements, algebra elements are concatenated.

    **Arguments:**

    - `spaces`: one or more groups.
    """

    spaces: tuple[AbstractGroup, ...]

    def __init__(self, *spaces: AbstractGroup):
        self.spaces = _check_spaces(spaces)
        strangers = [type(space).__name__ for space in spaces if not isinstance(space, AbstractGroup)]
        if strangers:
            raise ValueError(f"`ProductGroup` takes groups only, got {', '.join(strangers)}; use `product(...)`.")

    def compose(self, a: Points, b: Points) -> Points:
        return tuple(s.compose(x, y) for s, x, y in zip(self.spaces, a, b, strict=True))

    def inverse(self, a: Points) -> Points:
        return tuple(s.inverse(x) for s, x in zip(self.spaces, a, strict=True))

    def exp(self, theta: Vector) -> Points:
        return tuple(s.exp(x) for s, x in zip(self.spaces, self.split(theta), strict=True))

    def increment(self, theta: Vector) -> Points:
        return tuple(s.increment(x) for s, x in zip(self.spaces, self.split(theta), strict=True))

    def log(self, q: Points) -> Vector:
        return _join(s.log(a) for s, a in zip(self.spaces, q, strict=True))

    def Ad(self, q: Points, v: Vector) -> Vector:
        return _join(s.Ad(a, x) for s, a, x in zip(self.spaces, q, self.split(v), strict=True))

    def Ad_dual(self, q: Points, mu: Vector) -> Vector:
        return _join(s.Ad_dual(a, x) for s, a, x in zip(self.spaces, q, self.split(mu), strict=True))

    def coadjoint(self, q: Points, mu: Vector) -> Vector:
        return _join(s.coadjoint(a, x) for s, a, x in zip(self.spaces, q, self.split(mu), strict=True))

    def ad(self, u: Vector, v: Vector) -> Vector:
        return _join(s.ad(x, y) for s, x, y in self._pairs(u, v))

    def ad_dual(self, u: Vector, mu: Vector) -> Vector:
        return _join(s.ad_dual(x, y) for s, x, y in self._pairs(u, mu))

    def dexp(self, theta: Vector, v: Vector) -> Vector:
        return _join(s.dexp(x, y) for s, x, y in self._pairs(theta, v))

    def dexpinv(self, theta: Vector, v: Vector) -> Vector:
        return _join(s.dexpinv(x, y) for s, x, y in self._pairs(theta, v))

    def dexp_dual(self, theta: Vector, mu: Vector) -> Vector:
        return _join(s.dexp_dual(x, y) for s, x, y in self._pairs(theta, mu))

    def dexpinv_dual(self, theta: Vector, mu: Vector) -> Vector:
        return _join(s.dexpinv_dual(x, y) for s, x, y in self._pairs(theta, mu))

    def _pairs(self, u: Vector, v: Vector) -> Iterator[tuple[AbstractGroup, Vector, Vector]]:
        return zip(self.spaces, self.split(u), self.split(v), strict=True)


def _check_spaces(spaces: tuple[Any, ...]) -> tuple[Any, ...]:
    if not spaces:
        raise ValueError("A product needs at least one space; for a single point use `Rn(0)`.")
    return spaces


def _split(spaces: tuple[AbstractSpace, ...], v: Vector) -> tuple[Vector, ...]:
    parts, start = [], 0
    for space in spaces:
        parts.append(v[start : start + space.dim])
        start += space.dim
    return tuple(parts)


def _join(parts: Iterable[Array]) -> Array:
    return jnp.concatenate(list(parts))
