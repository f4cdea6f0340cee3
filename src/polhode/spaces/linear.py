"""Linear spaces."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.checks import as_list, short_repr
from polhode.spaces.base import AbstractGroup, norm

Vec = Float[Array, " n"]


class Rn(AbstractGroup):
    """The vector space Rⁿ, a commutative group under addition: points and algebra elements have shape (n,).

    **Arguments:**

    - `n`: dimension.
    - `blocks`: sizes of the consecutive geometric vectors that a point holds, each measured by its Euclidean norm;
      one block of size n by default. Six coordinates of two positions are `Rn(6, blocks=(3, 3))`.
    """

    n: int = eqx.field(static=True)
    parts: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, n: int, blocks: tuple[int, ...] | None = None):
        if not _is_whole(n) or n < 0:
            raise ValueError(f"`n` must be a whole number, 0 or more, got {short_repr(n)}.")
        blocks = ((n,) if n else ()) if blocks is None else tuple(as_list("blocks", blocks, "sizes of vectors"))
        if not all(_is_whole(size) and size >= 1 for size in blocks) or sum(blocks) != n:
            raise ValueError(f"`blocks` must be positive sizes that add up to n = {n}, got {short_repr(blocks)}.")
        self.n = n
        self.parts = blocks

    @property
    def dim(self) -> int:
        return self.n

    @property
    def blocks(self) -> tuple[int, ...]:
        return self.parts

    def origin(self) -> Vec:
        return jnp.zeros(self.n)

    def compose(self, a: Vec, b: Vec) -> Vec:
        return a + b

    def inverse(self, a: Vec) -> Vec:
        return -a

    def exp(self, theta: Vec) -> Vec:
        return theta

    def log(self, q: Vec) -> Vec:
        return q

    def Ad(self, q: Vec, v: Vec) -> Vec:
        del q
        return v

    def ad(self, u: Vec, v: Vec) -> Vec:
        del u
        return jnp.zeros_like(v)

    def Ad_dual(self, q: Vec, mu: Vec) -> Vec:
        del q
        return mu

    def ad_dual(self, u: Vec, mu: Vec) -> Vec:
        del u
        return jnp.zeros_like(mu)

    def dexp(self, theta: Vec, v: Vec) -> Vec:
        del theta
        return v

    def dexpinv(self, theta: Vec, v: Vec) -> Vec:
        del theta
        return v

    def residual(self, q: Vec) -> Float[Array, ""]:
        del q
        return jnp.zeros(())

    def project(self, q: Vec) -> Vec:
        return q

    def random(self, key: Array) -> Vec:
        return jax.random.normal(key, (self.n,))

    def scale(self, q: Vec) -> Float[Array, " blocks"]:
        ends = [sum(self.blocks[: i + 1]) for i in range(len(self.blocks))]
        parts = [norm(q[end - size : end]) for size, end in zip(self.blocks, ends, strict=True)]
        return jnp.stack(parts) if parts else jnp.zeros(0)


def _is_whole(n: object) -> bool:
    return isinstance(n, int | np.integer) and not isinstance(n, bool)
