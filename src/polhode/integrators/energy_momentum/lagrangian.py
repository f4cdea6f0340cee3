"""The equations of one step of methods on Livens' principle, with three choices of unknowns."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.integrators.implicit._equations import AbstractEquations, Residual
from polhode.linalg.blocks import dense_block
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.solver_choice import fused_solver, kkt_solver, pivoting_solver
from polhode.systems.lagrangian import (
    AbstractLagrangian,
    AbstractParametrisedLagrangian,
    Coordinates,
    Derivatives,
    LivensState,
    Multipliers,
)


class Place(NamedTuple):
    """The end of a step, the averages over it, and the load at its middle."""

    end: LivensState
    mean: Derivatives
    load: Coordinates


class AbstractLivensEquations(AbstractEquations):
    r"""$\Delta q = h\bar v,\ \Delta p = h(\bar\partial_q L + f - \bar\nabla g^T\lambda),\ \bar p = \bar\partial_v L,\
    g(q_1) = 0$.

    `discrete`: with discrete derivatives, otherwise with those at the midpoint.
    """

    system: AbstractLagrangian
    t: Array
    h: Array
    start: LivensState
    discrete: bool = eqx.field(static=True)

    @abc.abstractmethod
    def guess(self, multipliers: Multipliers) -> Any:
        """Initial guess of the unknowns."""

    @abc.abstractmethod
    def multipliers(self, place: Place, x: Any) -> Multipliers:
        """λ at the solution."""

    def mean(self, q1: Coordinates, v1: Coordinates) -> tuple[Derivatives, Coordinates]:
        """Averages over the step, and the load."""
        q0, v0, _ = self.start
        average = self.system.discrete_derivatives if self.discrete else self.system.midpoint_derivatives
        load = self.system.load(self.t + 0.5 * self.h, 0.5 * (q0 + q1), 0.5 * (v0 + v1))
        return average(q0, v0, q1, v1), load

    def place_at(self, q1: Coordinates) -> Place:
        """The end with these coordinates: v₁ and p₁ follow from the first and the third equation."""
        q0, v0, p0 = self.start
        v1 = 2 / self.h * (q1 - q0) - v0
        mean, load = self.mean(q1, v1)
        return Place(LivensState(q1, v1, 2 * mean.kinetic_v - p0), mean, load)

    def imbalance(self, place: Place) -> tuple[Coordinates, Float[Array, ""]]:
        """Δp - h(∂L/∂q + f), and the size of the terms."""
        p0, p1, mean, h = self.start.p, place.end.p, place.mean, self.h
        impulse = h * (mean.kinetic_q - mean.potential + place.load)
        terms = (p0, p1, h * mean.kinetic_q, h * mean.potential, h * place.load)
        return p1 - p0 - impulse, _total(terms)

    def round_off(self, place: Place) -> tuple[Array, Array]:
        """Round-off of energies divided by short steps, over ε: in momenta, and in the balance."""
        if not self.discrete:
            return jnp.zeros(()), jnp.zeros(())
        (q0, v0, _), (q1, v1, _) = self.start, place.end
        momentum, force = self.system.roundoff_gain(q0, v0, q1, v1)
        return momentum, 2 * momentum + jnp.abs(self.h) * force

    def gap(self, place: Place) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """g(q₁) and its size, as tuples, empty without constraints."""
        if self.system.m == 0:
            return (), ()
        return (self.system.constraint(place.end.q),), (1 + _size(place.end.q),)

    def negligible(self, place: Place, correction: Any) -> Array:
        return _total(jax.tree.leaves(correction)[:1]) <= 8 * jnp.finfo(float).eps * _size(place.end.q)


class ReducedUnknowns(AbstractLivensEquations):
    """For the unknowns (q₁, λ)."""

    def guess(self, multipliers: Multipliers) -> tuple[Coordinates, Multipliers]:
        return self.system.initial_guess(self.h, self.start.q, self.start.v), multipliers

    def multipliers(self, place: Place, x: tuple[Coordinates, Multipliers]) -> Multipliers:
        return x[1]

    def place(self, x: tuple[Coordinates, Multipliers]) -> Place:
        return self.place_at(x[0])

    def residual(self, place: Place, x: tuple[Coordinates, Multipliers]) -> Residual:
        balance, size = self.imbalance(place)
        reaction = self.h * (x[1] @ place.mean.constraint)
        gap, sizes = self.gap(place)
        sizes = (size + _size(reaction), *sizes)
        return _residual((balance + reaction, *gap), sizes, self.round_off(place)[1:])

    def factor(self, place: Place, x: tuple[Coordinates, Multipliers]) -> Any:
        _, multipliers = x

        def balance(q1: Coordinates) -> Coordinates:
            there = self.place_at(q1)
            return self.imbalance(there)[0] + self.h * (multipliers @ there.mean.constraint)

        return _factors(self, jax.jacfwd(balance)(place.end.q), self.h * place.mean.constraint, place.end.q, 0)

    def correct(self, factors: Any, parts: tuple[Array, ...]) -> tuple[Coordinates, Multipliers]:
        return _correct(self, factors, parts[0], parts[1:])


class AllUnknowns(AbstractLivensEquations):
    """For the unknowns (v₁, p₁, q₁, λ), without any elimination by hand."""

    def guess(self, multipliers: Multipliers) -> tuple[Coordinates, Multipliers]:
        q1 = self.system.initial_guess(self.h, self.start.q, self.start.v)
        return jnp.concatenate((2 / self.h * (q1 - self.start.q) - self.start.v, self.start.p, q1)), multipliers

    def multipliers(self, place: Place, x: tuple[Coordinates, Multipliers]) -> Multipliers:
        return x[1]

    def place(self, x: tuple[Coordinates, Multipliers]) -> Place:
        v1, p1, q1 = jnp.split(x[0], 3)
        return Place(LivensState(q1, v1, p1), *self.mean(q1, v1))

    def residual(self, place: Place, x: tuple[Coordinates, Multipliers]) -> Residual:
        parts, sizes = self._parts(place, x[1])
        gap, more = self.gap(place)
        return _residual((*parts, *gap), (*sizes, *more), (jnp.zeros(()), *self.round_off(place)))

    def _parts(self, place: Place, multipliers: Multipliers) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        (q0, v0, p0), (q1, v1, p1), h = self.start, place.end, self.h
        kinematic = q1 - q0 - 0.5 * h * (v0 + v1)
        momentum = 0.5 * (p0 + p1) - place.mean.kinetic_v
        balance, size = self.imbalance(place)
        reaction = h * (multipliers @ place.mean.constraint)
        sizes = _total((q0, q1, h * v0, h * v1)), _total((p0, p1)), size + _size(reaction)
        return (kinematic, momentum, balance + reaction), sizes

    def factor(self, place: Place, x: tuple[Coordinates, Multipliers]) -> Any:
        def defect(y: Coordinates) -> Coordinates:
            return jnp.concatenate(self._parts(self.place((y, x[1])), x[1])[0])

        P = jnp.concatenate((jnp.zeros((self.system.m, 2 * self.system.n)), self.h * place.mean.constraint), axis=1)
        return _factors(self, jax.jacfwd(defect)(x[0]), P, place.end.q, 2 * self.system.n)

    def correct(self, factors: Any, parts: tuple[Array, ...]) -> tuple[Coordinates, Multipliers]:
        return _correct(self, factors, jnp.concatenate(parts[:3]), parts[3:])

    def negligible(self, place: Place, correction: tuple[Coordinates, Multipliers]) -> Array:
        return super().negligible(place, (correction[0][2 * self.system.n :],))


class NullSpace(AbstractLivensEquations):
    """For increments along the constraints, which drop out together with their multipliers."""

    system: AbstractParametrisedLagrangian

    def guess(self, multipliers: Multipliers) -> Coordinates:
        return self.system.increments(self.h, self.start.q, self.start.v)

    def multipliers(self, place: Place, x: Coordinates) -> Multipliers:
        # What is left of the balance lies in the span of the mean gradients.
        B = place.mean.constraint
        if self.system.m == 1:
            return -(B @ self.imbalance(place)[0]) / (self.h * jnp.sum(B * B))
        solver = kkt_solver((), (), self.system.m, 0)
        factors = solver.factor(dense_block(B @ B.T), (), ())
        return -solver.solve(factors, B @ self.imbalance(place)[0], jnp.zeros(0))[0] / self.h

    def place(self, x: Coordinates) -> Place:
        return self.place_at(self.system.advance(self.start.q, x))

    def residual(self, place: Place, x: Coordinates) -> Residual:
        balance, size = self.imbalance(place)
        return _residual((self.system.project(self.start.q, place.end.q, balance),), (size,), self.round_off(place)[1:])

    def factor(self, place: Place, x: Coordinates) -> Any:
        def defect(x: Coordinates) -> Coordinates:
            place = self.place(x)
            return self.system.project(self.start.q, place.end.q, self.imbalance(place)[0])

        return self._kkt.factor(dense_block(jax.jacfwd(defect)(x)), (), ())

    def correct(self, factors: Any, parts: tuple[Array, ...]) -> Coordinates:
        return self._kkt.solve(factors, -parts[0], jnp.zeros(0))[0]

    @property
    def _kkt(self) -> AbstractKKT:
        size = self.system.null_dim
        return (pivoting_solver if self.system.pivots else fused_solver)(size, 0)


def _residual(parts: tuple[Array, ...], sizes: tuple[Array, ...], noise: tuple[Array, ...]) -> Residual:
    """Residual with tolerances of round-off, since remainders show in the energy; no noise in the constraints."""
    few = tuple(size / 32 for size in sizes)
    return Residual(parts, few, few, noise + (len(parts) - len(noise)) * (jnp.zeros(()),))


class _Factors(NamedTuple):
    """Factors of [[A + c PᵀQ, Pᵀ], [Q, 0]], and c Pᵀ."""

    whole: Any
    extra: Array | None


def _factors(equations: AbstractLivensEquations, A: Array, P: Array, q1: Coordinates, before: int) -> _Factors:
    """Factors of the matrix of the unknowns and λ; g depends on the last n unknowns, after `before` others."""
    system = equations.system
    kkt = _kkt(equations, len(A))
    if system.m == 0:
        return _Factors(kkt.factor(dense_block(A), (), ()), None)
    Q = jnp.concatenate((jnp.zeros((system.m, before)), jax.jacfwd(system.constraint)(q1)), axis=1)
    if system.pivots:
        return _Factors(kkt.factor(dense_block(A), dense_block(P), dense_block(Q)), None)
    # The mass is singular across the constraints. Multiples of their rows, which don't change the solution, mend that.
    largest = jnp.max(jnp.abs(A[before:, before:]))
    # At rest there is nothing in these rows; any multiple will do.
    c = jnp.where(largest > 0, largest, 1.0) / jnp.maximum(jnp.abs(equations.h), jnp.finfo(float).tiny)
    extra = c * P.T
    return _Factors(kkt.factor(dense_block(A + extra @ Q), dense_block(P), dense_block(Q)), extra)


def _correct(
    equations: AbstractLivensEquations, factors: _Factors, balance: Array, gap: tuple[Array, ...]
) -> tuple[Array, Multipliers]:
    s = -gap[0] if gap else jnp.zeros(0)
    r = -balance if factors.extra is None else -balance + factors.extra @ s
    return _kkt(equations, len(balance)).solve(factors.whole, r, s)


def _kkt(equations: AbstractLivensEquations, n: int) -> AbstractKKT:
    return (pivoting_solver if equations.system.pivots else fused_solver)(n, equations.system.m)


def _size(x: Array) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(x * x))


def _total(terms: Any) -> Float[Array, ""]:
    sizes = [_size(x) for x in terms]
    return sum(sizes[1:], start=sizes[0])
