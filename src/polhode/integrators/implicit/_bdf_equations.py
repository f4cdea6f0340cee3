"""The equations of one step of a BDF method, with and without constraints."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.integrators.implicit._alpha_equations import (
    IterationMatrix,
    Place,
    Prediction,
    balance_of,
    balance_round_off,
    is_negligible,
    iteration_matrix,
    positions_of,
)
from polhode.integrators.implicit._equations import AbstractEquations, Residual
from polhode.linalg.blocks import Matrix, apply, apply_transposed
from polhode.spaces.base import Vector
from polhode.systems.mechanical import AbstractMechanical
from polhode.systems.mechanical.tangent import largest_of


class Formula(NamedTuple):
    r"""A multistep formula, θ = theta + γ(θ̇ - slope) and v = speed + γ(v̇ - vdot), with values of polynomials through
    the past.

    `prediction` holds the time at the end, the point about which θ is measured, theta, speed, γ² and γ.
    """

    prediction: Prediction
    slope: Vector
    vdot: Vector

    def place(self, space: Any, rate: Vector, vdot: Vector) -> Place:
        """The end of the step for θ̇ = `rate` and v̇ = `vdot`."""
        theta = self.prediction.theta + self.prediction.velocity * (rate - self.slope)
        return Place(
            theta,
            space.move(self.prediction.q0, theta),
            self.prediction.v + self.prediction.velocity * (vdot - self.vdot),
        )

    def with_offset(self, theta: Vector, v: Vector) -> Formula:
        """The same with values of the polynomials changed by `theta` and `v`."""
        prediction = self.prediction._replace(theta=self.prediction.theta + theta, v=self.prediction.v + v)
        return self._replace(prediction=prediction)


class Linearisation(NamedTuple):
    """A factorised iteration matrix, and the point of linearisation."""

    matrix: IterationMatrix
    theta: Vector
    v: Vector


class FreeEquations(AbstractEquations):
    r"""M v̇ - f = 0 and θ̇ = rate(θ, v) at the end of the step, for x = (v̇, θ̇)."""

    system: AbstractMechanical
    formula: Formula

    def place(self, x: tuple[Array, ...]) -> Place:
        return self.formula.place(self.system.configuration, x[1], x[0])

    def residual(self, place: Place, x: tuple[Array, ...]) -> Residual:
        vdot, rate = x
        balance, terms = balance_of(self.system, self.formula.prediction.t, place, vdot, jnp.zeros(0))
        kinematics = rate - self.system.configuration.rate(place.theta, place.v)
        scale = self.formula.prediction.velocity * largest_of(vdot)
        return Residual((balance, kinematics), (terms, scale), (terms, largest_of(rate) + largest_of(place.v)))

    def factor(self, place: Place, x: tuple[Array, ...]) -> Linearisation:
        return _linearise(self.system, self.formula, place, ())

    def amplified_round_off(self, factors: Linearisation, residual: Residual) -> tuple[Array, ...]:
        return balance_round_off(factors.matrix, residual)

    def negligible(self, place: Place, correction: tuple[Array, ...]) -> Array:
        return _is_negligible(self.formula, place, correction[1])

    def correct(self, factors: Linearisation, parts: tuple[Array, ...]) -> tuple[Vector, Vector]:
        balance, kinematics = parts
        vdot = self.system.kkt.solve(factors.matrix.matrix, -balance, jnp.zeros(0))[0]
        return vdot, _rate_change(self.system, self.formula, factors, vdot, -kinematics)

    def with_formula(self, formula: Formula) -> FreeEquations:
        """The same with another formula."""
        return FreeEquations(self.system, formula)

    def add_rate(self, x: tuple[Array, ...], rate: Vector) -> tuple[Array, ...]:
        """x with θ̇ + `rate`."""
        return x[0], x[1] + rate

    def split(self, x: tuple[Array, ...]) -> tuple[Vector, Vector]:
        """v̇ and θ̇."""
        return x[0], x[1]


class ConstrainedEquations(AbstractEquations):
    r"""Φ = 0 and B v + ∂Φ/∂t = 0 at the end of the step, for x = (v̇, λ, θ̇, η).

    Positions move by $\dot\theta = \mathrm{rate}(\theta, v) - M^{-1}B^T\eta$ (Gear, Gupta and Leimkuhler), with M and B
    at the start of the step, `mass` and `jacobian`; `projector` are the factors of their saddle-point matrix. As
    η vanishes with the error of the step, it need not be carried from the point to the local coordinates. Nonholonomic
    rows have no Φ; there the correction of positions must not slip, B M⁻¹Bᵀη = 0.
    """

    system: AbstractMechanical
    formula: Formula
    mass: Matrix
    jacobian: Matrix
    projector: Any

    def place(self, x: tuple[Array, ...]) -> Place:
        return self.formula.place(self.system.configuration, x[2], x[0])

    def residual(self, place: Place, x: tuple[Array, ...]) -> Residual:
        vdot, multipliers, rate, eta = x
        prediction, n = self.formula.prediction, self.system.n
        balance, terms = balance_of(self.system, prediction.t, place, vdot, multipliers)
        speeds = self.system.constraint_rate(prediction.t, place.q, place.v)
        gaps, size = positions_of(self.system, prediction.t, place)
        kinematic_rate = self.system.configuration.rate(place.theta, place.v)
        inertia = apply(self.mass, rate, n), apply(self.mass, kinematic_rate, n)
        shift = apply_transposed(self.jacobian, eta, n)
        rows = self.system.nonholonomic
        if len(rows):
            slip = apply(self.jacobian, rate - kinematic_rate, self.system.m)
            gaps = gaps.at[rows].set(prediction.velocity * slip[rows])
        a = largest_of(vdot)
        scales = (terms, prediction.velocity * a, prediction.velocity * terms, prediction.position * a)
        magnitudes = (
            terms,
            size * (1 + largest_of(place.v)),
            largest_of(inertia[0]) + largest_of(inertia[1]) + largest_of(shift),
            size,
        )
        return Residual((balance, speeds, inertia[0] - inertia[1] + shift, gaps), scales, magnitudes)

    def factor(self, place: Place, x: tuple[Array, ...]) -> Linearisation:
        return _linearise(self.system, self.formula, place, self.system.jacobian(self.formula.prediction.t, place.q))

    def amplified_round_off(self, factors: Linearisation, residual: Residual) -> tuple[Array, ...]:
        return balance_round_off(factors.matrix, residual)

    def negligible(self, place: Place, correction: tuple[Array, ...]) -> Array:
        return _is_negligible(self.formula, place, correction[2])

    def correct(self, factors: Linearisation, parts: tuple[Array, ...]) -> tuple[Array, ...]:
        balance, speeds, shift, gaps = parts
        kkt, prediction = self.system.kkt, self.formula.prediction
        vdot, multipliers = kkt.solve(factors.matrix.matrix, -balance, -speeds / prediction.velocity)
        rate = _rate_change(self.system, self.formula, factors, vdot, jnp.zeros_like(vdot))
        along = rate + self.system.configuration.bracket(factors.theta, rate) / 2
        constraint_change = apply(self.jacobian, along, self.system.m)
        if len(self.system.nonholonomic):
            constraint_change = constraint_change.at[self.system.nonholonomic].set(0.0)
        defect = -gaps / prediction.velocity - constraint_change
        z, eta = kkt.solve(self.projector, -shift, defect)
        return vdot, multipliers, rate + z, eta

    def with_formula(self, formula: Formula) -> ConstrainedEquations:
        """The same with another formula."""
        return ConstrainedEquations(self.system, formula, self.mass, self.jacobian, self.projector)

    def add_rate(self, x: tuple[Array, ...], rate: Vector) -> tuple[Array, ...]:
        """x with θ̇ + `rate`."""
        return x[0], x[1], x[2] + rate, x[3]

    def split(self, x: tuple[Array, ...]) -> tuple[Vector, Vector]:
        """v̇ and θ̇."""
        return x[0], x[2]


def propagate_error(
    equations: FreeEquations | ConstrainedEquations,
    place: Place,
    factors: Linearisation,
    x: tuple[Array, ...],
    error: Vector,
) -> Vector:
    r"""Errors of (θ, v) at the end of a step whose formulas are off by `error`.

    The derivative of the solution: with r the change of rate(θ, v), v̇ changes by ẇ, where
    $(M + γC + γ^2K)\dot w + B^T\mu = -C\,δv - K(δθ + γr)$ and constraints hold, so that δv + γẇ and δθ + γr + γ²ẇ are
    left. For small steps of systems without constraints that is `error`; stiff forces and constraints leave only
    part of it.
    """
    formula, dim = equations.formula, equations.system.configuration.dim
    theta, v = error[:dim], error[dim:]
    rate = equations.system.configuration.rate(place.theta, v)

    def parts(s: Array) -> tuple[Array, ...]:
        shifted_equations = equations.with_formula(formula.with_offset(s * theta, s * v))
        at = shifted_equations.add_rate(x, s * rate)
        return shifted_equations.residual(shifted_equations.place(at), at).parts

    _, change = jax.jvp(parts, (jnp.zeros(()),), (jnp.ones(()),))
    vdot, more = equations.split(equations.correct(factors, change))
    step = formula.prediction.velocity
    return jnp.concatenate((theta + step * (rate + more), v + step * vdot))


def _linearise(system: AbstractMechanical, formula: Formula, place: Place, B: Matrix) -> Linearisation:
    return Linearisation(iteration_matrix(system, formula.prediction, place, True, B, B), place.theta, place.v)


def _is_negligible(formula: Formula, place: Place, rate: Vector) -> Array:
    return is_negligible(formula.prediction, place, rate / formula.prediction.velocity)


def _rate_change(
    system: AbstractMechanical, formula: Formula, factors: Linearisation, vdot: Vector, more: Vector
) -> Vector:
    """Change of θ̇ = rate(θ, v) + `more` with v̇, where θ follows, up to the square of the rotation."""
    space, step = system.configuration, formula.prediction.velocity
    rate = space.rate(factors.theta, step * vdot) + more
    return rate - step / 2 * space.bracket(rate, factors.v)
