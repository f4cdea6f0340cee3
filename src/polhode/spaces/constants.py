"""Numbers that no motion changes."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.spaces.base import AbstractGroup, Vector

Numbers = Float[Array, " k"]


class Constants(AbstractGroup):
    """k numbers beside a configuration in which no motion moves: points have shape (k,), algebra elements shape (0,).

    They hold counts along a motion, such as the turns of joints; only the counter replaces them.

    **Arguments:**

    - `k`: how many.
    """

    k: int = eqx.field(static=True)

    @property
    def dim(self) -> int:
        return 0

    @property
    def blocks(self) -> tuple[int, ...]:
        return ()

    def origin(self) -> Numbers:
        return jnp.zeros(self.k)

    def compose(self, a: Numbers, b: Numbers) -> Numbers:
        return a + b

    def inverse(self, a: Numbers) -> Numbers:
        return -a

    def move(self, q: Numbers, theta: Vector) -> Numbers:
        del theta
        return q

    def exp(self, theta: Vector) -> Numbers:
        del theta
        return jnp.zeros(self.k)

    def log(self, q: Numbers) -> Vector:
        del q
        return jnp.zeros(0)

    def Ad(self, q: Numbers, v: Vector) -> Vector:
        del q
        return v

    def ad(self, u: Vector, v: Vector) -> Vector:
        del u
        return v

    def Ad_dual(self, q: Numbers, mu: Vector) -> Vector:
        del q
        return mu

    def ad_dual(self, u: Vector, mu: Vector) -> Vector:
        del u
        return mu

    def dexp(self, theta: Vector, v: Vector) -> Vector:
        del theta
        return v

    def dexpinv(self, theta: Vector, v: Vector) -> Vector:
        del theta
        return v

    def residual(self, q: Numbers) -> Float[Array, ""]:
        del q
        return jnp.zeros(())

    def project(self, q: Numbers) -> Numbers:
        return q

    def random(self, key: Array) -> Numbers:
        del key
        return jnp.zeros(self.k)

    def scale(self, q: Numbers) -> Float[Array, " blocks"]:
        del q
        return jnp.zeros(0)
