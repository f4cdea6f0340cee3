"""The equations of one step of the generalized-α method, for both levels of the constraint."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.integrators.implicit._equations import AbstractEquations, Residual
from polhode.linalg.blocks import Matrix, apply, apply_transposed
from polhode.linalg.tangent_operator import times_tangent
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical import AbstractMechanical
from polhode.systems.mechanical.tangent import Weights, largest_coordinate, largest_of


class Place(NamedTuple):
    """Increment Δq, point and velocity at the end of the step."""

    theta: Vector
    q: Point
    v: Vector


class IterationMatrix(NamedTuple):
    """A factorised iteration matrix, and a bound of the round-off of forces that stiffness and damping amplify from
    that of positions and velocities, in units of 2⁻⁵².
    """

    matrix: Any
    magnified: Float[Array, ""]


class Prediction(NamedTuple):
    """The end of a step with vanishing final acceleration, and its change with an acceleration w.

    Δq = theta + position·w, v = v + velocity·w; `t` is the time at the end, `q0` the point at the start.
    """

    t: Array
    q0: Point
    theta: Vector
    v: Vector
    position: Array
    velocity: Array


class Index3(AbstractEquations):
    r"""M v̇ - f + Bᵀλ = 0 and Φ = 0 at the end of the step, for x = (v̇, λ); in nonholonomic rows B v + b = 0.

    With the increments of position divided by c = h²β(1-α_f)/(1-α_m) the iteration matrix
    [[M + h γ′ C + c K T, Bᵀ], [B T, 0]] tends to that of accelerations for h → 0 (Bottasso's scaling): its condition
    does not depend on the step. The derivatives of M and Bᵀ in K are left out. Nonholonomic rows are multiplied by
    β h/γ, which makes lengths of them with the same derivative B c.
    """

    system: AbstractMechanical
    prediction: Prediction
    tangent: bool = eqx.field(static=True)

    def place(self, x: tuple[Vector, Array]) -> Place:
        return place_at(self.system, self.prediction, x[0], x[0])

    def residual(self, place: Place, x: tuple[Vector, Array]) -> Residual:
        balance, terms = balance_of(self.system, self.prediction.t, place, *x)
        if self.system.m == 0:
            return Residual((balance,), (terms,), (terms,))
        position, size = positions_of(self.system, self.prediction.t, place)
        rows = self.system.nonholonomic
        if len(rows):
            p = self.prediction
            length = p.position / p.velocity
            rate = self.system.constraint_rate(p.t, place.q, place.v)
            position = position.at[rows].set(length * rate[rows])
            size = size * (1 + jnp.abs(length) * largest_of(place.v))
        return Residual((balance, position), (terms, self.prediction.position * largest_of(x[0])), (terms, size))

    def residual_near(self, place: Place, x: tuple[Vector, Array], near: Residual) -> Residual:
        if self.system.m:
            return self.residual(place, x)
        balance = self.system.balance(self.prediction.t, place.q, place.v, x[0])
        return near._replace(parts=(balance,))

    def factor(self, place: Place, x: tuple[Vector, Array]) -> IterationMatrix:
        B = self.system.jacobian(self.prediction.t, place.q)
        Q = times_tangent(B, self.system.configuration, place.theta) if self.tangent else B
        return iteration_matrix(self.system, self.prediction, place, self.tangent, B, Q)

    def amplified_round_off(self, factors: IterationMatrix, residual: Residual) -> tuple[Array, ...]:
        return balance_round_off(factors, residual)

    def negligible(self, place: Place, correction: tuple[Vector, Array]) -> Array:
        return is_negligible(self.prediction, place, correction[0])

    def correct(self, factors: IterationMatrix, parts: tuple[Array, ...]) -> tuple[Vector, Array]:
        position = parts[1] / self.prediction.position if self.system.m else jnp.zeros(0)
        return self.system.kkt.solve(factors.matrix, -parts[0], -position)


class StabilizedIndex2(AbstractEquations):
    r"""Φ = 0 and B v + ∂Φ/∂t = 0 at the end of the step, for x = (v̇, λ, z, η).

    Positions move by $\dot q = q\cdot(v - M^{-1}B^T\eta)$ (Gear, Gupta and Leimkuhler), with M and B at the start of
    the step: Δq = theta + c (v̇ + z), M z + Bᵀη = 0. The correction of velocities is found first, that of positions from
    it; both are saddle-point systems like those of index 3. `mass`, `jacobian` and the factors `projector` of the
    second one belong to the start of the step, so that corrections never leave M z + Bᵀη = 0. Nonholonomic rows have no
    Φ; there the correction of positions must not slip, B z = 0.
    """

    system: AbstractMechanical
    prediction: Prediction
    mass: Matrix
    jacobian: Matrix
    projector: Any
    tangent: bool = eqx.field(static=True)

    def place(self, x: tuple[Array, ...]) -> Place:
        return place_at(self.system, self.prediction, x[0] + x[2], x[0])

    def residual(self, place: Place, x: tuple[Array, ...]) -> Residual:
        vdot, multipliers, z, eta = x
        t, n = self.prediction.t, self.system.n
        balance, terms = balance_of(self.system, t, place, vdot, multipliers)
        rate = self.system.constraint_rate(t, place.q, place.v)
        position, size = positions_of(self.system, t, place)
        rows = self.system.nonholonomic
        if len(rows):
            position = position.at[rows].set(self.prediction.position * apply(self.jacobian, z, self.system.m)[rows])
        Mz, Bη = apply(self.mass, z, n), apply_transposed(self.jacobian, eta, n)
        speed, shift, a = size * (1 + largest_of(place.v)), largest_of(Mz) + largest_of(Bη), largest_of(vdot)
        scales = (terms, self.prediction.velocity * a, terms, self.prediction.position * a)
        return Residual((balance, rate, Mz + Bη, position), scales, (terms, speed, shift, size))

    def factor(self, place: Place, x: tuple[Array, ...]) -> IterationMatrix:
        B = self.system.jacobian(self.prediction.t, place.q)
        return iteration_matrix(self.system, self.prediction, place, self.tangent, B, B)

    def amplified_round_off(self, factors: IterationMatrix, residual: Residual) -> tuple[Array, ...]:
        return balance_round_off(factors, residual)

    def negligible(self, place: Place, correction: tuple[Array, ...]) -> Array:
        return is_negligible(self.prediction, place, correction[0] + correction[2])

    def correct(self, factors: IterationMatrix, parts: tuple[Array, ...]) -> tuple[Array, ...]:
        balance, rate, shift, position = parts
        p, kkt = self.prediction, self.system.kkt
        vdot, multipliers = kkt.solve(factors.matrix, -balance, -rate / p.velocity)
        constraint_change = apply(self.jacobian, vdot, self.system.m)
        if len(self.system.nonholonomic):
            constraint_change = constraint_change.at[self.system.nonholonomic].set(0.0)
        z, eta = kkt.solve(self.projector, -shift, -position / p.position - constraint_change)
        return vdot, multipliers, z, eta


def is_negligible(p: Prediction, place: Place, w: Vector) -> Array:
    """Whether accelerations w move positions by a few units of round-off at most."""
    size = largest_coordinate(place.q)
    return p.position * largest_of(w) <= 8 * jnp.finfo(float).eps * (1 + size)


def place_at(system: AbstractMechanical, p: Prediction, w: Vector, vdot: Vector) -> Place:
    theta = p.theta + p.position * w
    return Place(theta, system.configuration.move(p.q0, theta), p.v + p.velocity * vdot)


def balance_of(
    system: AbstractMechanical, t: Array, place: Place, vdot: Vector, multipliers: Array
) -> tuple[Vector, Float[Array, ""]]:
    """M v̇ - f + Bᵀλ, and the size of its terms."""
    inertia = system.momentum(t, place.q, vdot)
    force = system.force(t, place.q, place.v)
    size = largest_of(inertia) + largest_of(force)
    if system.m == 0:
        return inertia - force, size
    reaction = system.constraint_force(t, place.q, multipliers)
    return inertia - force + reaction, size + largest_of(reaction)


def positions_of(system: AbstractMechanical, t: Array, place: Place) -> tuple[Array, Float[Array, ""]]:
    """Φ, and the size of its terms, estimated from q."""
    size = largest_coordinate(place.q)
    return system.constraint(t, place.q), 1 + size


def iteration_matrix(
    system: AbstractMechanical, p: Prediction, place: Place, tangent: bool, B: Matrix, Q: Matrix
) -> IterationMatrix:
    """The derivative of M v̇ - f with respect to v̇ with Bᵀ and Q at its sides, factorised."""
    increment = place.theta if tangent else None
    sum_ = system.tangent(p.t, place.q, place.v, increment, Weights(1.0, p.velocity, p.position))
    rows = sum_.magnified
    return IterationMatrix(system.kkt.factor(sum_.matrix, B, Q), jnp.sqrt(jnp.sum(rows * rows)))


def balance_round_off(factors: IterationMatrix, residual: Residual) -> tuple[Array, ...]:
    """Round-off of the balance, amplified from the last places of positions and velocities; zero for other parts."""
    others = (jnp.zeros(()),) * (len(residual.parts) - 1)
    return (_PLACES / 32 * factors.magnified, *others)


_PLACES = 4
"""Positions and velocities are rounded when they are stored, and once or twice more on the way into forces."""
