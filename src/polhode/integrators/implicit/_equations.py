"""Interface of the equations of an implicit step, for Newton's method."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
from jaxtyping import Array

from polhode.modules import Module

Unknowns = Any
Place = Any
Factors = Any


class Residual(NamedTuple):
    """The equations at one point.

    - `parts`: residuals; quantities of different dimension are different parts.
    - `scales`: for each part, the share of accelerations of their present size; tolerances are relative to that.
    - `magnitudes`: for each part, the size of the terms that cancel in it, hence of its round-off in units of 2⁻⁵².
    - `noise`: the same of amplified round-off: iterations continue below it while they help.
    """

    parts: tuple[Array, ...]
    scales: tuple[Array, ...]
    magnitudes: tuple[Array, ...]
    noise: tuple[Array, ...] | None = None


class AbstractEquations(Module):
    """Equations F(x) = 0 of one step, with an approximation of their derivative.

    `place` computes what residual and matrix share.
    """

    @abc.abstractmethod
    def place(self, x: Unknowns) -> Place:
        """The quantities at x that `residual` and `factor` share."""

    @abc.abstractmethod
    def residual(self, place: Place, x: Unknowns) -> Residual:
        """F(x), not scaled."""

    def residual_near(self, place: Place, x: Unknowns, near: Residual) -> Residual:
        """The same near a place with the residual `near`, whose sizes it may have."""
        del near
        return self.residual(place, x)

    @abc.abstractmethod
    def factor(self, place: Place, x: Unknowns) -> Factors:
        """A factorised approximation J of F'(x)."""

    @abc.abstractmethod
    def correct(self, factors: Factors, parts: tuple[Array, ...]) -> Unknowns:
        """-J⁻¹ F, linear in the parts of F."""

    @abc.abstractmethod
    def negligible(self, place: Place, correction: Unknowns) -> Array:
        """Whether a correction moves positions by no more than their round-off."""

    def amplified_round_off(self, factors: Factors, residual: Residual) -> tuple[Array, ...] | None:
        """Round-off in each part that the matrix amplifies from that of positions; None if unknown."""
        del factors, residual
        return None


@final
class TracedOnce(AbstractEquations):
    """Equations of which every part is traced once, wherever it is used: tracing takes longest before the first step.

    - `arrays`: of the equations. - `parts`: functions of these and the arguments of each part.
    """

    arrays: Any
    parts: Any = eqx.field(static=True)

    @classmethod
    def of(cls, equations: AbstractEquations) -> TracedOnce:
        arrays, rest = eqx.partition(equations, eqx.is_array)

        def part(name: str) -> Any:
            return jax.jit(lambda arrays, *args: getattr(eqx.combine(arrays, rest), name)(*args))

        names = "place", "residual", "residual_near", "factor", "correct", "negligible", "amplified_round_off"
        return cls(arrays, {name: part(name) for name in names})

    def place(self, x: Unknowns) -> Place:
        return self.parts["place"](self.arrays, x)

    def residual(self, place: Place, x: Unknowns) -> Residual:
        return self.parts["residual"](self.arrays, place, x)

    def residual_near(self, place: Place, x: Unknowns, near: Residual) -> Residual:
        return self.parts["residual_near"](self.arrays, place, x, near)

    def factor(self, place: Place, x: Unknowns) -> Factors:
        return self.parts["factor"](self.arrays, place, x)

    def correct(self, factors: Factors, parts: tuple[Array, ...]) -> Unknowns:
        return self.parts["correct"](self.arrays, factors, parts)

    def negligible(self, place: Place, correction: Unknowns) -> Array:
        return self.parts["negligible"](self.arrays, place, correction)

    def amplified_round_off(self, factors: Factors, residual: Residual) -> tuple[Array, ...] | None:
        return self.parts["amplified_round_off"](self.arrays, factors, residual)
