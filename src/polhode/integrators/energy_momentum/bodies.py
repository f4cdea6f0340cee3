"""The equations of an energy–momentum step of bodies with joints."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.integrators.energy_momentum.step import BodiesStep, Increments, Multipliers
from polhode.integrators.implicit._equations import AbstractEquations, Residual
from polhode.linalg.blocks import apply
from polhode.systems.lagrangian import LivensState

_STRICTER = 16
"""With kept factors residuals shrink slowly and from one side: remainders would add up over the steps."""


_ROUND_OFF = 1e-12
"""Size of impulses, relative to the momenta, below which they are round-off."""


class BodiesUnknowns(NamedTuple):
    """Increments, multipliers of the joints, and those of their time derivatives, empty where these are not imposed."""

    x: Increments
    multipliers: Multipliers
    rates: Multipliers


class BodiesPlace(NamedTuple):
    """The state from which the mean velocities start, and the end of the step."""

    begin: LivensState
    end: LivensState


class RatesFactors(NamedTuple):
    """LU factors of the step matrix and of that of the velocity projection, plus the rank-one term of ∂σ/∂μ.

    - `slope`: ∂σ/∂μ, divided by 1 + ∂σ/∂μ · `turned`.
    - `turned`: the impulses that dσ = 1 causes.
    - `rates`: μ.
    """

    step: Any
    impulses: Any
    share: Float[Array, ""]
    slope: Multipliers
    turned: Multipliers
    rates: Multipliers


class BodiesEquations(AbstractEquations):
    """Balance of momenta and closed joints."""

    step: BodiesStep
    t: Array
    h: Array
    start: LivensState

    def place(self, x: BodiesUnknowns) -> BodiesPlace:
        return BodiesPlace(self.start, self.step.end_state(self.h, self.start, x.x))

    def residual(self, place: BodiesPlace, x: BodiesUnknowns) -> Residual:
        balance, size = self.step.balance(self.t, self.h, place.begin, x.x, x.multipliers)
        few = size / _STRICTER
        if self.step.system.m == 0:
            return Residual((balance,), (few,), (few,), (size,))
        gaps = self.step.gaps(self.t, self.h, self.start, x.x)
        scale = self.gap_scale(place)
        return Residual((balance, gaps), (few, scale), (few, scale), (size, scale))

    @property
    def end(self) -> Array:
        """The time at the end of the step."""
        return self.t + self.h

    def gap_scale(self, place: BodiesPlace) -> Float[Array, ""]:
        """Scale of gaps: that of coordinates."""
        return (1 + _largest(place.end.q)) / 8

    def factor(self, place: BodiesPlace, x: BodiesUnknowns) -> Any:
        return self.step.system.kkt.factor(*self.step.matrices(self.t, self.h, place.begin, x.x, x.multipliers))

    def correct(self, factors: Any, parts: tuple[Array, ...]) -> BodiesUnknowns:
        solution = self.step.system.kkt.solve(factors, -parts[0], -parts[1] if self.step.system.m else jnp.zeros(0))
        return BodiesUnknowns(*solution, jnp.zeros(0))

    def negligible(self, place: BodiesPlace, correction: BodiesUnknowns) -> Array:
        return _largest(correction.x) <= 8 * jnp.finfo(float).eps * (1 + _largest(place.end.q))


class RatesEquations(AbstractEquations):
    r"""`BodiesEquations` with velocities that keep the joints' time derivatives at the end of the step.

    Impulses $-\sigma B_0^T\mu$ before and $B_1^T\mu$ after the step make $B_1v_1 = -\partial_t\Phi$; σ is such that the
    work of both cancels, so that the energy is that of the step between them. Being forces of joints, they don't
    change the momenta of the whole. Without them the part of the velocities across the joints changes its sign from
    step to step, and can grow.

    With `keep` zero there are no impulses.
    """

    plain: BodiesEquations
    keep: Float[Array, ""]

    def place(self, x: BodiesUnknowns) -> BodiesPlace:
        step, start = self.plain.step, self.plain.start
        # Where the step ends is known before its impulses.
        end = step.end_state(self.plain.h, start, x.x)
        before, after = step.reaction(self.plain.t, start, x.rates), step.reaction(self.plain.end, end, x.rates)
        before = self._share(before, after)[0] * before
        # What velocities lack at the start of a step, they have at its end.
        return BodiesPlace(step.apply_impulse(start, -before), step.apply_impulse(end, before + after))

    def _share(self, before: Array, after: Array) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """σ from ½σ²a₀ - σb = ½a₁, the balance of kinetic energy of both impulses with satisfied rates; and σa₀ - b,
        or infinity where σ is fixed.
        """
        step, start = self.plain.step, self.plain.start
        if step.system.rheonomic:
            return jnp.ones(()), jnp.array(jnp.inf)
        a0, a1 = before @ step.velocity_change(before), after @ step.velocity_change(after)
        # Impulses that are round-off, as where nothing moves, have no ratio.
        least = jnp.maximum(_ROUND_OFF**2 * jnp.abs(start.p @ start.v), jnp.finfo(float).tiny)
        some = (a0 > least) & (a1 > least)
        a0, a1 = jnp.where(some, a0, 1.0), jnp.where(some, a1, 1.0)
        b = before @ step.system.velocities(start)
        root = jnp.sqrt(b * b + a0 * a1)
        return jnp.where(some, (b + root) / a0, 1.0), jnp.where(some, root, jnp.inf)

    def residual(self, place: BodiesPlace, x: BodiesUnknowns) -> Residual:
        base = self.plain.residual(place, x)
        scales = (*base.scales, self._speed(place))
        rates = self.keep * self._rates(place)
        return Residual((*base.parts, rates), scales, scales, (*(base.noise or ()), self._speed(place)))

    def factor(self, place: BodiesPlace, x: BodiesUnknowns) -> RatesFactors:
        step, start, m = self.plain.step, self.plain.start, self.plain.step.system.m
        before = step.reaction(self.plain.t, start, x.rates)
        after = step.reaction(self.plain.end, place.end, x.rates)
        share, root = self._share(before, after)
        M, both, B1 = step.impulse_matrices(self.plain.t, self.plain.h, start, place.end, share)
        impulses = step.system.kkt.factor(M, both, B1)
        # (σa₀ - b) dσ = ½da₁ - ½σ²da₀ + σdb, and 2 `both` - B₁ = σB₀.
        gain = step.velocity_change(before)
        rest = step.system.velocities(start) - share * gain
        slope = apply(B1, step.velocity_change(after) - rest, m) + 2 * apply(both, rest, m)
        slope = slope / root
        _, twice = step.system.kkt.solve(impulses, jnp.zeros(step.system.d), apply(B1, gain, m))
        response = -0.5 * twice
        slope = slope / (1 + slope @ response)
        return RatesFactors(self.plain.factor(place, x), impulses, share, slope, response, x.rates)

    def correct(self, factors: RatesFactors, parts: tuple[Array, ...]) -> BodiesUnknowns:
        """The step without impulses, impulses without other loads, and multipliers that compensate for the first
        impulse in the balance.
        """
        balance, gaps, rates = parts
        kkt = self.plain.step.system.kkt
        x, multipliers = kkt.solve(factors.step, -balance, -gaps)
        # (2/h) B dx = -(2/h) gaps, and impulses change the rates by B₁M⁻¹((σB₀ + B₁)ᵀdμ + B₀ᵀμ dσ).
        defect = self.keep * (rates - 2 / self.plain.h * gaps)
        _, twice = kkt.solve(factors.impulses, jnp.zeros_like(balance), defect)
        dshare = 0.5 * factors.slope @ twice
        change = 0.5 * twice - dshare * factors.turned
        first = factors.share * change + dshare * factors.rates
        return BodiesUnknowns(x, multipliers - 2 / self.plain.h * first, change)

    def negligible(self, place: BodiesPlace, correction: BodiesUnknowns) -> Array:
        """The rates must be there as well: the matrix for these is that of the joints alone."""
        few = 256 * jnp.finfo(float).eps * self._speed(place)
        there = _largest(self._rates(place)) <= few
        return ((self.keep == 0) | there) & self.plain.negligible(place, correction)

    def _rates(self, place: BodiesPlace) -> Multipliers:
        return self.plain.step.system.rates(self.plain.end, place.end)

    def _speed(self, place: BodiesPlace) -> Float[Array, ""]:
        return 0.5 * self.plain.gap_scale(place) / jnp.abs(self.plain.h) + _largest(place.end.v) / 32


def _largest(x: Array) -> Float[Array, ""]:
    return jnp.max(jnp.abs(x), initial=0.0)
