"""Contacts of systems from functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical.contact_set import AbstractContactSet, ContactKinematics, ContactLaw


class FunctionContacts(AbstractContactSet):
    r"""Unilateral constraints $g(t, q) \ge 0$ with friction against sliding velocities that are linear in v.

    **Arguments:**

    - `gap`: callable (t, q) → (k,).
    - `slip`: callable (t, q, v) → (k,) or (k, 2), affine in v; None without friction.
    - `number`: k.
    - `friction`: coefficients, a number or (k,). - `restitution`, `tangential_restitution`: of Newton's law, a number
      or (k,).

    **Raises** ValueError for numbers that make no sense.
    """

    gap: Callable[[Array, Point], Float[Array, " k"]]
    slip: Callable[[Array, Point, Vector], Array] | None
    law: ContactLaw
    number: int = eqx.field(static=True)

    def __init__(
        self,
        gap: Callable[[Array, Point], Array],
        slip: Callable[[Array, Point, Vector], Array] | None = None,
        *,
        number: int,
        friction: Any = 0.0,
        restitution: Any = 0.0,
        tangential_restitution: Any = 0.0,
    ) -> None:
        self.gap, self.slip, self.number = gap, slip, number

        def each(name: str, value: Any, largest: float) -> Array:
            shape = np.shape(value)
            numbers = checks.array(name, value, shape if shape == () else (number,), "of each contact")
            if checks.is_concrete(value) and not np.all((np.asarray(value) >= 0) & (np.asarray(value) <= largest)):
                bound = "" if np.isinf(largest) else f", and not above {largest:g}"
                raise ValueError(f"`{name}` must not be negative{bound}, got {checks.short_repr(value)}.")
            return jnp.broadcast_to(numbers, (number,))

        mu = each("friction", friction, np.inf)
        if slip is None and checks.is_concrete(mu) and np.any(np.asarray(mu)):
            raise ValueError("Friction needs sliding velocities: give `slip`, (t, q, v) → (k,).")
        self.law = ContactLaw(
            friction=jnp.stack((mu, mu), axis=1),
            restitution=each("restitution", restitution, 1.0),
            tangential_restitution=each("tangential_restitution", tangential_restitution, 1.0),
        )

    @property
    def count(self) -> int:
        return self.number

    def gaps(self, system: Any, t: Array, q: Point) -> Float[Array, " k"]:
        del system
        return self.gap(t, q)

    def kinematics(self, system: Any, t: Array, q: Point) -> ContactKinematics:
        velocities, zero = lambda v: self.slips(system, t, q, v), jnp.zeros(system.n)
        rows, drift = jax.jacfwd(velocities)(zero), velocities(zero)
        return ContactKinematics(self.gap(t, q), rows, drift, jnp.zeros(self.number, jnp.int32))

    def slips(self, system: Any, t: Array, q: Point, v: Vector) -> Float[Array, "k 3"]:
        zero, one = jnp.zeros(()), jnp.ones(())
        rate = jax.jvp(lambda s: self.gap(t + s, system.flow(q, v, s)), (zero,), (one,))[1]
        sliding = jnp.zeros((self.number, 2)) if self.slip is None else self.slip(t, q, v).reshape(self.number, -1)
        unused = jnp.zeros((self.number, 2 - sliding.shape[1]))
        return jnp.concatenate((rate[:, None], sliding, unused), axis=1)
