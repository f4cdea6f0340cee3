"""The equations of an energy–momentum step of bodies with joints."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.integrators._newton import AbstractEquations, Residual
from polhode.systems.lagrangian import LivensState
from polhode.systems.moving_bodies import AbstractMovingBodies, Increments, Multipliers


class BodiesPlace(NamedTuple):
    """The end of the step."""

    end: LivensState


class BodiesEquations(AbstractEquations):
    """Balance of momenta and closed joints, for the unknowns (increments, λ)."""

    system: AbstractMovingBodies
    t: Array
    h: Array
    start: LivensState

    def guess(self, multipliers: Multipliers) -> tuple[Increments, Multipliers]:
        """Unknowns to begin with."""
        return self.system.guess(self.h, self.start), multipliers

    def multipliers(self, place: BodiesPlace, x: tuple[Increments, Multipliers]) -> Multipliers:
        """λ at the solution."""
        return x[1]

    def place(self, x: tuple[Increments, Multipliers]) -> BodiesPlace:
        return BodiesPlace(self.system.reached(self.h, self.start, x[0]))

    def residual(self, place: BodiesPlace, x: tuple[Increments, Multipliers]) -> Residual:
        balance, size = self.system.balance(self.t, self.h, self.start, *x)
        few = size / 32
        if self.system.m == 0:
            return Residual((balance,), (few,), (few,))
        gaps = self.system.gaps(self.t, self.h, self.start, x[0])
        closed = (1 + _largest(place.end.q)) / 8
        return Residual((balance, gaps), (few, closed), (few, closed))

    def factor(self, place: BodiesPlace, x: tuple[Increments, Multipliers]) -> Any:
        return self.system.kkt.factor(*self.system.matrices(self.t, self.h, self.start, *x))

    def correct(self, factors: Any, parts: tuple[Array, ...]) -> tuple[Increments, Multipliers]:
        return self.system.kkt.solve(factors, -parts[0], -parts[1] if self.system.m else jnp.zeros(0))

    def negligible(self, place: BodiesPlace, correction: tuple[Increments, Multipliers]) -> Array:
        return _largest(correction[0]) <= 8 * jnp.finfo(float).eps * (1 + _largest(place.end.q))


def _largest(x: Array) -> Float[Array, ""]:
    return jnp.max(jnp.abs(x), initial=0.0)
