"""The equations of an energy–momentum step of bodies with joints."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.integrators._newton import AbstractEquations, Residual
from polhode.systems.lagrangian import LivensState
from polhode.systems.moving_bodies import AbstractMovingBodies, Increments, Multipliers

_STRICTER = 128
"""Factors that are kept bring residuals down bit by bit, always from the same side: what is left would add up."""


_ROUND_OFF = 1e-12
"""What impulses are, in parts of the momenta, where they are nothing but round-off."""


class BodiesUnknowns(NamedTuple):
    """Increments, multipliers of the joints, and those of their time derivatives, empty where these are left alone."""

    x: Increments
    multipliers: Multipliers
    rates: Multipliers


class BodiesPlace(NamedTuple):
    """The state from which the mean velocities start, and the end of the step."""

    begin: LivensState
    end: LivensState


class BodiesEquations(AbstractEquations):
    """Balance of momenta and closed joints."""

    system: AbstractMovingBodies
    t: Array
    h: Array
    start: LivensState

    def place(self, x: BodiesUnknowns) -> BodiesPlace:
        return BodiesPlace(self.start, self.system.reached(self.h, self.start, x.x))

    def residual(self, place: BodiesPlace, x: BodiesUnknowns) -> Residual:
        balance, size = self.system.balance(self.t, self.h, place.begin, x.x, x.multipliers)
        few = size / _STRICTER
        if self.system.m == 0:
            return Residual((balance,), (few,), (few,))
        gaps = self.system.gaps(self.t, self.h, self.start, x.x)
        return Residual((balance, gaps), *(2 * ((few, self._closed(place)),)))

    def _closed(self, place: BodiesPlace) -> Float[Array, ""]:
        return (1 + _largest(place.end.q)) / 8

    def factor(self, place: BodiesPlace, x: BodiesUnknowns) -> Any:
        return self.system.kkt.factor(*self.system.matrices(self.t, self.h, place.begin, x.x, x.multipliers))

    def correct(self, factors: Any, parts: tuple[Array, ...]) -> BodiesUnknowns:
        moved = self.system.kkt.solve(factors, -parts[0], -parts[1] if self.system.m else jnp.zeros(0))
        return BodiesUnknowns(*moved, jnp.zeros(0))

    def negligible(self, place: BodiesPlace, correction: BodiesUnknowns) -> Array:
        return _largest(correction.x) <= 8 * jnp.finfo(float).eps * (1 + _largest(place.end.q))


class RatesEquations(BodiesEquations):
    r"""The same with velocities that keep the joints' time derivatives at the end of the step.

    Impulses $-\sigma B_0^T\mu$ before and $B_1^T\mu$ after the step make $B_1v_1 = -\partial_t\Phi$; σ is such that the
    work of both cancels, so that the energy is that of the step between them. Being forces of joints, they don't
    change the momenta of the whole. Without them the part of the velocities across the joints changes its sign from
    step to step, and can grow.

    With `keep` zero there are no impulses.
    """

    keep: Float[Array, ""]

    def place(self, x: BodiesUnknowns) -> BodiesPlace:
        system = self.system
        before = system.reaction(self.t, self.start, x.rates)
        # Where the step ends is known before its impulses.
        after = system.reaction(self.t + self.h, system.reached(self.h, self.start, x.x), x.rates)
        begin = system.kicked(self.start, -self._share(before, after) * before)
        return BodiesPlace(begin, system.kicked(system.reached(self.h, begin, x.x), after))

    def _share(self, before: Array, after: Array) -> Float[Array, ""]:
        """σ from ½σ²a₀ - σb = ½a₁: what both impulses do to the kinetic energy once the rates are kept."""
        system = self.system
        if system.rheonomic:
            return jnp.ones(())
        a0, a1 = system.admitted(before), system.admitted(after)
        # Impulses that are round-off, as where nothing moves, have no ratio.
        least = jnp.maximum(_ROUND_OFF**2 * jnp.abs(self.start.p @ self.start.v), jnp.finfo(float).tiny)
        some = (a0 > least) & (a1 > least)
        a0, a1 = jnp.where(some, a0, 1.0), jnp.where(some, a1, 1.0)
        b = system.work(before, self.start)
        return jnp.where(some, (b + jnp.sqrt(b * b + a0 * a1)) / a0, 1.0)

    def residual(self, place: BodiesPlace, x: BodiesUnknowns) -> Residual:
        base = super().residual(place, x)
        speed = 0.5 * self._closed(place) / jnp.abs(self.h) + _largest(place.end.v) / 32
        scales = (*base.scales, speed)
        return Residual((*base.parts, self.keep * self.system.rates(self.t + self.h, place.end)), scales, scales)

    def correct(self, factors: Any, parts: tuple[Array, ...]) -> BodiesUnknowns:
        """With the matrix of the joints alone: both impulses change the rates by B M⁻¹Bᵀμ each, to first order, and the
        multipliers make up at once for what they change in the balance.
        """
        balance, gaps, rates = parts
        kkt, h = self.system.kkt, self.h
        x, multipliers = kkt.solve(factors, -balance, -gaps)
        _, weight = kkt.solve(factors, jnp.zeros_like(balance), rates - 2 / h * gaps)
        weight = self.keep * weight
        return BodiesUnknowns(x, multipliers - 0.5 * h * weight, 0.25 * h**2 * weight)

    def negligible(self, place: BodiesPlace, correction: BodiesUnknowns) -> Array:
        """The impulses must have settled as well: the matrix is that of the joints alone."""
        settled = _largest(correction.rates) <= 2 * jnp.finfo(float).eps * _largest(place.end.p)
        return settled & super().negligible(place, correction)


def _largest(x: Array) -> Float[Array, ""]:
    return jnp.max(jnp.abs(x), initial=0.0)
