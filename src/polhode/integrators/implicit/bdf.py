"""Backward differentiation formulas of variable order and step on configuration spaces."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from polhode import checks
from polhode.integrators.base import AbstractIntegrator, Carry, Estimate, StepInfo
from polhode.integrators.implicit._alpha_equations import Prediction
from polhode.integrators.implicit._bdf_equations import ConstrainedEquations, Formula, FreeEquations, propagate_error
from polhode.integrators.implicit._bdf_start import extrapolate_backward, starting_points
from polhode.integrators.implicit._divided_differences import (
    divided_differences,
    local_coordinates,
    local_errors,
    predict,
    value_of_order,
)
from polhode.integrators.implicit._newton import Newton, NewtonResult, solve
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical import AbstractMechanical


class Memory(NamedTuple):
    """Data that the method takes from step to step besides state and multipliers.

    - `earlier`: states at as many other points as the highest order, stacked, the latest first.
    - `ages`: how long ago they were; negative for those within the first step.
    - `order`: of the next step. - `used`: of the last one.
    - `count`: steps since the start. - `settled`: steps since order or size changed.
    - `rejected`: attempts at the next step that failed. - `factors`: those of modified Newton, otherwise None.
    """

    earlier: tuple[Point, Vector]
    ages: Float[Array, " k"]
    order: Int[Array, ""]
    used: Int[Array, ""]
    count: Int[Array, ""]
    settled: Int[Array, ""]
    rejected: Int[Array, ""]
    factors: Any


class BDF(AbstractIntegrator):
    r"""Backward differentiation formulas of orders 1 to 5 on a configuration space of any kind, also with constraints.

    Local coordinates about the last point, $q(t) = \mathrm{move}(q_n, \theta(t))$, and velocities are polynomials of
    degree k through the new point and the last k ones, which satisfy the equations at the new one:
    $$\dot\theta = \mathrm{rate}(\theta, v) - M_n^{-1}B_n^T\eta,\quad M\dot v = f - B^T\lambda,\quad \Phi = 0,\quad
    B v + \partial_t\Phi = 0 \text{ at } t_{n+1}.$$
    Distances between the points may be any: coefficients are those of the actual steps.

    - Order: k for q, v and λ, on every space. With constant steps k is `max_order`. With tolerances it is 1 at first
      and goes up or down by one where that allows a longer step.
    - Preserves: the space to round-off; Φ = 0 and B v + ∂Φ/∂t = 0 to the tolerance of Newton's method. With
      constant steps motion that decays does so for k ≤ 2 whatever the step; from k = 3 on vibrations that are hardly
      damped may grow where steps resolve them poorly.
    - Error estimate: from divided differences of order k + 1 in the algebra of the state space, reduced by
      the linearised step to what stiff forces and constraints leave; with those of orders k and k + 2 the next order
      is chosen. Errors of multipliers are not estimated.
    - Interpolation: the polynomial through the same points, on the space.
    - Start with constant steps: from `max_order` points within the first step, by explicit steps of order 5. Where
      these don't resolve the motion, it starts with order 1, which goes up by one with each step; then the start has
      an error O(h²).
    - Raises ValueError for systems whose velocities are not those of the configuration (`identity_kinematics`).
    - Result codes: `newton_not_converged`, `singular_constraints`, `nonfinite_state`.

    **Arguments:**

    - `max_order`: the highest order, 1 to 5.
    - `newton`: "full" factorises in every iteration, "modified" keeps factors as long as they serve, over steps too.
    - `rtol`, `atol`: of the residuals, as `GeneralizedAlpha` has them.
    - `max_iterations`: of Newton's method in a step.

    ??? cite "Reference"
        V. Wieloch, M. Arnold, BDF integrators for constrained mechanical systems on Lie groups, J. Comput. Appl. Math.
        387 (2021); K. E. Brenan, S. L. Campbell, L. R. Petzold, Numerical Solution of Initial-Value Problems in
        Differential-Algebraic Equations (1996), chapter 5; C. W. Gear, B. Leimkuhler, G. K. Gupta, Automatic
        integration of Euler–Lagrange equations with constraints, J. Comput. Appl. Math. 12 (1985).
    """

    kinds: ClassVar = (AbstractMechanical,)
    has_momentary_multipliers: ClassVar = True
    promises: ClassVar = {"manifold": "round-off", "position": "newton", "velocity": "newton"}

    max_order: int = eqx.field(static=True, default=5)
    newton: Literal["full", "modified"] = eqx.field(static=True, default="full")
    rtol: float = eqx.field(static=True, default=1e-10)
    atol: float = eqx.field(static=True, default=1e-10)
    max_iterations: int = eqx.field(static=True, default=25)

    def __check_init__(self) -> None:
        checks.count("max_order", self.max_order, "the highest order of the formulas", most=5)
        checks.choice("newton", self.newton, ("full", "modified"))
        _ = self._solver

    @property
    def order(self) -> int:
        return self.max_order

    @property
    def first_order(self) -> int:
        return 1

    @property
    def error_order(self) -> int | None:
        return self.max_order

    @property
    def implicit(self) -> bool:
        return True

    @property
    def evaluations(self) -> int:
        """One residual, to begin with; each of `StepInfo.newton_iterations` adds one."""
        return 1

    @property
    def interpolation_order(self) -> int:
        return self.max_order

    @property
    def _solver(self) -> Newton:
        return Newton(self.newton, self.rtol, self.atol, self.max_iterations)

    def newton_tolerance(self, h: float | None) -> float:
        del h
        return max(self.rtol, self.atol)

    def check(self, system: AbstractMechanical, t: Any, state: Any) -> None:
        """Refuses quasi-velocities. Raises ValueError."""
        del t, state
        if not system.identity_kinematics:
            raise ValueError(
                f"BDF methods need velocities that are those of the configuration, and {type(system).__name__} has "
                "others (quasi-velocities). Use a half-explicit method, or a formulation on a Lie group."
            )

    def init(self, system: AbstractMechanical, t: Array, h: Array, state: tuple[Point, Vector]) -> Carry:
        q, v = state
        vdot, multipliers = system.accelerations(t, q, v)
        earlier, ages, is_resolved = starting_points(system, t, h, state, vdot, self.max_order)
        order = jnp.where(is_resolved, self.max_order, 1).astype(jnp.int32)
        zero = jnp.zeros((), jnp.int32)
        factors = None
        if self._solver.keeps_factors:
            slope = jnp.concatenate((system.kinematics(q, v), vdot))
            zeros = jnp.zeros_like(slope)
            equations, guess = self._equations(system, t, state, zeros, slope, h)
            factors = equations.factor(equations.place(guess), guess)
        memory = Memory(earlier, ages, order, order, zero, zero, zero, factors)
        return Carry(state, memory, multipliers if system.m else None)

    def step(self, system: AbstractMechanical, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        memory, k = carry.memory, carry.memory.order
        past = divided_differences(local_coordinates(system.state_space, carry.state, memory.earlier), memory.ages)
        # Before a start with order 1 there is a tangent, whatever the size of the attempt that it was made for: it
        # touches at the present point, and its distance in the estimate must not be longer than the step.
        tangent = (k == 1) & (memory.count == 0)
        distances = h + jnp.concatenate((jnp.zeros(1), jnp.where(tangent, 0.0, memory.ages)))
        value, slope = predict(past, distances, k)
        spans = [1 / jnp.sum(1 / distances[:p]) for p in range(1, self.max_order + 1)]
        equations, guess = self._equations(system, t + h, carry.state, value, slope, value_of_order(spans, k))
        solution = solve(equations, guess, memory.factors, self._solver)
        q, v = solution.place.q, solution.place.v
        _, v0 = carry.state
        end = jnp.concatenate((solution.place.theta, v - v0))
        errors = local_errors(past, distances, spans, end)
        factors = solution.factors if self._solver.keeps_factors else equations.factor(solution.place, solution.x)
        error, lower, higher = (
            propagate_error(equations, solution.place, factors, solution.x, value_of_order(errors, p))
            for p in (k, k - 1, k + 1)
        )
        info = StepInfo(
            result=solution.result,
            error=error,
            newton_iterations=solution.iterations,
            residual=solution.residual,
            order=k,
            others=(Estimate(lower, k - 1), Estimate(higher, k + 1)),
        )
        new = self._next_memory(h, carry, solution)
        return Carry((q, v), new, solution.x[1] if system.m else None), info

    def interpolate(
        self, system: AbstractMechanical, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> tuple[Point, Vector]:
        space, memory = system.state_space, carry1.memory
        past = divided_differences(local_coordinates(space, carry1.state, memory.earlier), memory.ages)
        distances = (s - 1) * h + jnp.concatenate((jnp.zeros(1), memory.ages))
        return space.move(carry1.state, predict(past, distances, memory.used)[0])

    def with_step_control(self, system: AbstractMechanical, t: Array, h: Array, carry: Carry) -> Carry:
        """With order 1, which needs nothing before the start but a slope."""
        vdot, _ = system.accelerations(t, *carry.state)
        earlier, ages = extrapolate_backward(system, h, carry.state, vdot, self.max_order)
        memory = carry.memory._replace(earlier=earlier, ages=ages, order=jnp.ones((), jnp.int32))
        return carry._replace(memory=memory)

    def select_order(self, carry: Carry, factors: tuple[Array, ...], accepted: bool) -> tuple[Carry, Array]:
        """The order that allows the longest step; it and the step are kept for k + 1 steps where errors allow that.

        Points at uneven distances make formulas of high order less stable, and estimates less reliable. So steps at
        most double, and don't grow by less than a fifth; other orders must promise a tenth more.
        """
        memory = carry.memory
        same, lower, higher = factors
        if not accepted:
            k = jnp.where((memory.order > 1) & (lower > same), memory.order - 1, memory.order)
            # Then there is a change that no polynomial through the past shows.
            order = jnp.where(memory.rejected >= 2, 1, k).astype(jnp.int32)
            new = memory._replace(order=order, settled=jnp.zeros_like(order), rejected=memory.rejected + 1)
            return carry._replace(memory=new), jnp.where(k != memory.order, lower, same)
        k, ready = memory.used, memory.settled > memory.used
        may_rise = ready & (k < self.max_order) & (memory.count >= k + 2)
        # Of orders that all allow the largest step the highest one.
        same = jnp.minimum(same, 2.0)
        lower = jnp.where(k > 1, jnp.minimum(0.9 * lower, 2.0), 0.0)
        higher = jnp.where(may_rise, jnp.minimum(0.9 * higher, 2.0), 0.0)
        best = jnp.maximum(jnp.maximum(lower, higher), same)
        best_order = jnp.where(best == higher, k + 1, jnp.where(best == same, k, k - 1))
        grows, shrinks = ready & (best >= 1.2), same < 1
        order = jnp.where(grows | shrinks, best_order, k).astype(jnp.int32)
        factor = jnp.where(grows, best, jnp.where(shrinks & (best < 1), jnp.clip(best, 0.5, 0.9), 1.0))
        changed = (order != k) | (factor != 1)
        settled = jnp.where(changed, 0, memory.settled).astype(jnp.int32)
        return carry._replace(memory=memory._replace(order=order, settled=settled)), factor

    def selected_order(self, carry: Carry) -> Array:
        return carry.memory.used

    def with_order(self, carry: Carry, order: Array) -> Carry:
        return carry._replace(memory=carry.memory._replace(order=order))

    def _equations(
        self,
        system: AbstractMechanical,
        t: Array,
        state: tuple[Point, Vector],
        value: Vector,
        slope: Vector,
        span: Array,
    ) -> tuple[FreeEquations | ConstrainedEquations, tuple[Array, ...]]:
        """Equations of a step to t, for which the past predicts `value` and `slope`, and their initial guess."""
        (q, v), space = state, system.configuration
        theta, dv = value[: space.dim], value[space.dim :]
        prediction = Prediction(t, q, theta, v + dv, span * span, span)
        formula = Formula(prediction, slope[: space.dim], slope[space.dim :])
        rate = space.rate(theta, prediction.v)
        if system.m == 0:
            return FreeEquations(system, formula), (formula.vdot, rate)
        M, B = system.mass(t, q), system.jacobian(t, q)
        none = jnp.zeros(system.m)
        return ConstrainedEquations(system, formula, M, B, system.kkt.factor(M, B, B)), (formula.vdot, none, rate, none)

    def _next_memory(self, h: Array, carry: Carry, solution: NewtonResult) -> Memory:
        """The memory after a step. Unless step control says otherwise, the order rises to the highest."""
        memory = carry.memory
        earlier = jax.tree.map(lambda x, rest: jnp.concatenate((x[None], rest[:-1])), carry.state, memory.earlier)
        return memory._replace(
            earlier=earlier,
            ages=h + jnp.concatenate((jnp.zeros(1), memory.ages[:-1])),
            order=jnp.minimum(memory.order + 1, self.max_order),
            used=memory.order,
            count=memory.count + 1,
            settled=memory.settled + 1,
            rejected=jnp.zeros_like(memory.rejected),
            factors=solution.factors,
        )
