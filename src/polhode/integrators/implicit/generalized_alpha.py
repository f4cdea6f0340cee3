"""The generalized-α method on configuration spaces, with or without constraints."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo
from polhode.integrators.explicit._stages import hermite
from polhode.integrators.implicit._alpha_coefficients import Coefficients
from polhode.integrators.implicit._alpha_equations import Index3, Prediction, StabilizedIndex2
from polhode.integrators.implicit._equations import AbstractEquations
from polhode.integrators.implicit._newton import Newton, solve
from polhode.integrators.nonsmooth.nonsmooth_alpha import NonsmoothGeneralizedAlpha
from polhode.linalg.blocks import apply
from polhode.result_codes import Result
from polhode.spaces.base import Point, Vector
from polhode.systems.base import AbstractSystem
from polhode.systems.mechanical import AbstractMechanical


class Memory(NamedTuple):
    """The method's memory from step to step, besides state and multipliers.

    - `vdot`: accelerations. - `shift`: (a - v̇)/h, the method's own acceleration a in a form that does not depend on the
      step size. - `slope`, `h`: (aₙ₊₁ - aₙ)/h of the last step, and its size; h = 0 before the first one.
    - `bend`: the slope's change by time over the last two steps; 0 before there are two.
    - `factors`: those of modified Newton, otherwise None.
    """

    vdot: Vector
    shift: Vector
    slope: Vector
    bend: Vector
    h: Array
    factors: Any


class GeneralizedAlpha(AbstractIntegrator):
    r"""The generalized-α method on a configuration space of any kind, also with constraints.

    $$q_{n+1} = \mathrm{move}\bigl(q_n,\ h v_n + h^2(\tfrac12-\beta)a_n + h^2\beta a_{n+1}\bigr), \quad
    v_{n+1} = v_n + h(1-\gamma)a_n + h\gamma a_{n+1},$$

    $$(1-\alpha_m)a_{n+1} + \alpha_m a_n = (1-\alpha_f)\dot v_{n+1} + \alpha_f \dot v_n, \quad
    M\dot v = f - B^T\lambda,\ \Phi = 0 \text{ at } t_{n+1}.$$

    - Order: 2 for q, v and λ, on every space.
    - Preserves: the space to round-off; Φ = 0 to the tolerance of Newton's method, with
      `constraint="stabilized-index-2"` also B v = 0. Energy of high frequencies is dissipated, down to nothing in one
      step for `rho_inf=0`; `rho_inf=1` does not dissipate.
    - Error estimate: with $\Delta = \alpha_m-\alpha_f$, $h^2(\beta+\Delta/2-\tfrac16)(a_{n+1}-a_n)$ for positions and
      $h^3 c\,\dddot v$ for velocities, $\dddot v$ from the change of $(a_{n+1}-a_n)/h$ since the last step; both O(h³),
      the local error of order 2. When the step changes, a moves along, $a_n = \dot v_n + \Delta h\ddot v$.
      Constrained index 3 estimates positions only: its velocities across the constraint carry an error O(h²) that
      belongs to the step size, so multipliers are disturbed at every change of step;
      `constraint="stabilized-index-2"` has no such error.
    - Interpolation: cubic Hermite on the manifold.
    - Raises ValueError for systems whose velocities are not those of the configuration (`identity_kinematics`).
    - Result codes: `newton_not_converged`, `singular_constraints`, `nonfinite_state`.

    **Arguments:**

    - `rho_inf`: spectral radius at infinite frequency, in [0, 1].
    - `newton`: "full" factorises in every iteration, "simplified" once a step, and again where iterations reduce the
      residual slowly; "modified" keeps factors as long as they serve, over steps too. "automatic" is "simplified" where
      the iteration matrix costs as much as several residuals, in joint coordinates, otherwise "full".
    - `tangent_operator`: whether the iteration matrix holds the tangent operator T of the increment. Without it the
      solution is the same; Newton's method takes more iterations where a step turns by more than about 0.01 rad.
    - `constraint`: "index-3" imposes Φ = 0; "stabilized-index-2" both Φ = 0 and its time derivative, with positions
      moved by $\dot q = q\cdot(v - M^{-1}B^T\eta)$. "automatic" is index 3 with constant steps, and the other one with
      tolerances or events, where steps change.
    - `start`: "acceleration" takes a₀ = v̇₀; multipliers of index 3 then have errors O(h) in the first steps, which
      decay like `rho_inf`ⁿ. "perturbed" takes $a_0 = \dot v_0 + \Delta h\,\ddot v_0$ and, for index 3, moves v₀ by
      O(h²) across the constraint, where the method's velocities lie anyway (Arnold, Brüls and Cardona): multipliers are
      then of order 2 from the first step on, for `rho_inf=1` too.
    - `predictor`: where Newton's method begins. "extrapolated": accelerations as they were at the last step and
      changed over it and the one before, and the multipliers of the last step; "zero": no accelerations and no
      multipliers, as in Algorithms 4 and 5, which takes up to one iteration a step more.
    - `rtol`, `atol`: of the residuals, relative to the first one of the step, and to what accelerations of their
      present size make up in it: forces, and h²|v̇| in Φ. What is left acts like a constant force: 1e-8 would spoil the
      order of a mechanism that runs over 50,000 steps.
    - `max_iterations`: of Newton's method in a step; simplified iterations that fail are followed by as many full ones.
    - `smooth_contacts`: whether contacts that stay closed have forces in the smooth motion, in the form for bodies that
      touch; without them it is of order 1.

    ??? cite "Reference"
        O. Brüls, A. Cardona, On the use of Lie group time integrators in multibody dynamics, J. Comput. Nonlinear
        Dynam. 5 (2010); M. Arnold, O. Brüls, A. Cardona, Error analysis of generalized-α Lie group time integration
        methods for constrained mechanical systems, Numer. Math. 129 (2015); S. Holzinger, M. Arnold, J. Gerstmayr,
        Algorithms 4 and 5.
    """

    kinds: ClassVar = (AbstractMechanical,)
    has_momentary_multipliers: ClassVar = True
    divisible: ClassVar = True

    rho_inf: float = eqx.field(static=True, default=0.9)
    newton: Literal["automatic", "full", "simplified", "modified"] = eqx.field(static=True, default="automatic")
    tangent_operator: bool = eqx.field(static=True, default=True)
    constraint: Literal["automatic", "index-3", "stabilized-index-2"] = eqx.field(static=True, default="automatic")
    start: Literal["acceleration", "perturbed"] = eqx.field(static=True, default="acceleration")
    predictor: Literal["extrapolated", "zero"] = eqx.field(static=True, default="extrapolated")
    rtol: float = eqx.field(static=True, default=1e-12)
    atol: float = eqx.field(static=True, default=1e-12)
    max_iterations: int = eqx.field(static=True, default=100)
    smooth_contacts: bool = eqx.field(static=True, default=True)

    def __check_init__(self) -> None:
        if isinstance(self.rho_inf, bool) or not (isinstance(self.rho_inf, float | int) and 0 <= self.rho_inf <= 1):
            raise ValueError(
                f"`rho_inf` must be a number in [0, 1], got {short_repr(self.rho_inf)}; 0.9 damps high frequencies "
                "gently."
            )
        checks.flag("smooth_contacts", self.smooth_contacts)
        if not isinstance(self.tangent_operator, bool):
            raise ValueError(f"`tangent_operator` must be True or False, got {short_repr(self.tangent_operator)}.")
        checks.choice("newton", self.newton, ("automatic", "full", "simplified", "modified"))
        checks.choice("constraint", self.constraint, ("automatic", "index-3", "stabilized-index-2"))
        checks.choice("start", self.start, ("acceleration", "perturbed"))
        checks.choice("predictor", self.predictor, ("extrapolated", "zero"))
        _ = Newton("full", self.rtol, self.atol, self.max_iterations)

    @property
    def promises(self) -> dict[str, str]:
        """See `AbstractIntegrator`."""
        base = {"manifold": "round-off", "position": "newton"}
        return {**base, "velocity": "newton"} if self.constraint == "stabilized-index-2" else base

    @property
    def order(self) -> int:
        return 2

    @property
    def error_order(self) -> int | None:
        return 2

    @property
    def implicit(self) -> bool:
        return True

    @property
    def evaluations(self) -> int:
        """One residual, to begin with; each of `StepInfo.newton_iterations` adds one."""
        return 1

    @property
    def coefficients(self) -> Coefficients:
        """α_m, α_f, β and γ."""
        return Coefficients.optimal(self.rho_inf)

    def for_system(self, system: AbstractSystem) -> AbstractIntegrator:
        """The nonsmooth method where bodies touch. Raises ValueError for options that it doesn't have."""
        if not system.has_contacts:
            return self
        kept = {"rho_inf": self.rho_inf, "smooth_contacts": self.smooth_contacts}
        options = {"max_iterations": self.max_iterations, **kept}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name not in options and value != field.default:
                raise ValueError(
                    f"Bodies touch, and with contacts `generalized-alpha` has no option `{field.name}`, got "
                    f"{short_repr(value)}. Leave it out; it has {', '.join(f'`{name}`' for name in options)}."
                )
        return NonsmoothGeneralizedAlpha(max_rounds=self.max_iterations, **kept)

    def for_changing_steps(self, system: AbstractSystem) -> AbstractIntegrator:
        """With the stabilised constraint where it is chosen automatically."""
        has_constraints = isinstance(system, AbstractMechanical) and system.m > 0
        if self.constraint != "automatic" or not has_constraints:
            return self
        return dataclasses.replace(self, constraint="stabilized-index-2")

    def _is_index_3(self, system: AbstractMechanical) -> bool:
        return system.m > 0 and self.constraint != "stabilized-index-2"

    def _solver(self, system: AbstractMechanical) -> Newton:
        chosen = "simplified" if system.has_costly_tangent else "full"
        kind = chosen if self.newton == "automatic" else self.newton
        return Newton(kind, self.rtol, self.atol, self.max_iterations)

    def check(self, system: AbstractMechanical, t: Any, state: Any) -> None:
        """Refuses quasi-velocities. Raises ValueError."""
        del t, state
        if not self.smooth_contacts:
            raise ValueError("Nothing touches here, and `smooth_contacts` is an option for contacts: leave it out.")
        if not system.identity_kinematics:
            raise ValueError(
                f"The generalized-α method needs velocities that are those of the configuration, and "
                f"{type(system).__name__} has others (quasi-velocities). Use a half-explicit method, or a formulation "
                "on a Lie group."
            )

    def init(self, system: AbstractMechanical, t: Array, h: Array, state: tuple[Point, Vector]) -> Carry:
        q, v = state
        vdot, multipliers = system.accelerations(t, q, v)
        shift = zero = jnp.zeros_like(vdot)
        if self.start == "perturbed":
            v, shift = self._perturbed_start(system, t, h, state, vdot)
        factors = None
        if self._solver(system).keeps_factors:
            equations = self._equations(system, t, h, q, zero, v)
            guess = self._guess(system, vdot, multipliers if system.m else None)
            factors = equations.factor(equations.place(guess), guess)
        memory = Memory(vdot, shift, zero, zero, jnp.zeros(()), factors)
        return Carry((q, v), memory, multipliers if system.m else None)

    def restart(self, system: AbstractMechanical, t: Array, h: Array, carry: Carry) -> Carry:
        """Accelerations are those after the jump; velocities stay as they are, whatever `start` says."""
        q, v = carry.state
        vdot, multipliers = system.accelerations(t, q, v)
        zero = jnp.zeros_like(vdot)
        shift = self.coefficients.shift * _jerk(system, t, q, v, vdot) if self.start == "perturbed" else zero
        memory = carry.memory._replace(vdot=vdot, shift=shift, slope=zero, bend=zero, h=jnp.zeros(()))
        return carry._replace(memory=memory, multipliers=multipliers if system.m else None)

    def after_part(self, system: AbstractMechanical, t: Array, carry: Carry) -> Carry:
        """Accelerations begin again with a = v̇, and velocities lose their part across constraints.

        Both belong to the length of the last step: (a - v̇)/h of a short one is as large as the change of forces over
        h, and velocities of index 3 that are O(h²) across constraints turn into accelerations O(h²/h') of a next step
        h'.
        """
        (q, v), memory, multipliers = carry
        vdot = memory.vdot
        if system.m:
            B = system.jacobian(t, q)
            factors = system.kkt.factor(system.mass(t, q), B, B)
            v = v - system.kkt.solve(factors, jnp.zeros_like(v), system.constraint_rate(t, q, v))[0]
            vdot, multipliers = system.kkt.solve(factors, system.force(t, q, v), -system.curvature(t, q, v))
        zero = jnp.zeros_like(vdot)
        memory = memory._replace(vdot=vdot, shift=zero, slope=zero, bend=zero, h=jnp.zeros(()))
        return carry._replace(state=(q, v), memory=memory, multipliers=multipliers)

    def newton_tolerance(self, h: float | None) -> float:
        del h
        return max(self.rtol, self.atol)

    def step(self, system: AbstractMechanical, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        (q, v), memory = carry.state, carry.memory
        c = self.coefficients
        a = memory.vdot + h * memory.shift
        a_explicit = c.explicit(memory.vdot, a)
        theta = h * v + c.displacement(h, a, a_explicit)
        speed = v + c.increment(h, a, a_explicit)
        equations = self._equations(system, t + h, h, q, theta, speed)
        guess = self._guess(system, self.extrapolate(memory, h), carry.multipliers)
        # Constant velocities, as of bodies that stick.
        second = (v - speed) / (h * (c.gamma * c.ratio)), *guess[1:]
        solution = solve(equations, guess, memory.factors, self._solver(system), second)
        vdot, multipliers = solution.x[:2]
        a_new = a_explicit + c.ratio * vdot
        slope = (a_new - a) / h
        bend = jnp.where(memory.h != 0, (slope - memory.slope) * (2 / (h + memory.h)), 0.0)
        new = Memory(vdot, (a_new - vdot) / h, slope, bend, h, solution.factors)
        info = StepInfo(
            result=_explain(solution.result, carry.state, memory.vdot),
            error=self._error(system, h, slope, bend),
            newton_iterations=solution.iterations,
            residual=solution.residual,
        )
        return Carry((solution.place.q, solution.place.v), new, multipliers if system.m else None), info

    def interpolate(
        self, system: AbstractMechanical, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> tuple[Point, Vector]:
        space = system.configuration
        (q0, v0), (q1, v1) = carry0.state, carry1.state
        theta = space.difference(q0, q1)
        q = hermite(space, q0, theta, h * v0, h * space.rate(theta, v1), s)
        slopes = (1 - s) * carry0.memory.vdot - s * carry1.memory.vdot
        v = (1 - s) ** 2 * (1 + 2 * s) * v0 + s * s * (3 - 2 * s) * v1 + h * s * (1 - s) * slopes
        return q, v

    def _perturbed_start(
        self, system: AbstractMechanical, t: Array, h: Array, state: tuple[Point, Vector], vdot: Vector
    ) -> tuple[Vector, Vector]:
        """v₀ and (a₀ - v̇₀)/h, for which the first step commits the same errors as all others."""
        q, v = state
        c, jerk = self.coefficients, _jerk(system, t, q, v, vdot)
        if self._is_index_3(system):
            # What the increment lacks, h³(-C v̈ - [v, v̇]/12), as a velocity; only its part across the constraint.
            lack = -h * h * (c.position_error * jerk + system.configuration.bracket(v, vdot) / 12)
            B = system.jacobian(t, q)
            factors = system.kkt.factor(system.mass(t, q), B, B)
            across = apply(B, lack, system.m)
            if len(system.nonholonomic):
                # Nonholonomic rows are not perturbed.
                across = across.at[system.nonholonomic].set(0.0)
            v = v + system.kkt.solve(factors, jnp.zeros_like(v), across)[0]
        return v, c.shift * jerk

    def _equations(
        self, system: AbstractMechanical, t: Array, h: Array, q0: Point, theta: Vector, v: Vector
    ) -> AbstractEquations:
        c = self.coefficients
        prediction = Prediction(t, q0, theta, v, h * h * (c.beta * c.ratio), h * (c.gamma * c.ratio))
        if system.m == 0 or self._is_index_3(system):
            return Index3(system, prediction, self.tangent_operator)
        M, B = system.mass(t - h, q0), system.jacobian(t - h, q0)
        return StabilizedIndex2(system, prediction, M, B, system.kkt.factor(M, B, B), self.tangent_operator)

    def extrapolate(self, memory: Memory, h: Array) -> Vector:
        """Accelerations after another step, by a parabola."""
        # The last slope is that of a: in the middle of the last step, and shifted.
        later = (h + memory.h) / 2 - self.coefficients.shift * memory.h
        return memory.vdot + h * (memory.slope + later * memory.bend)

    def _guess(
        self, system: AbstractMechanical, vdot: Vector, multipliers: Array | None
    ) -> tuple[Float[Array, " size"], ...]:
        """Initial guess of Newton's method: accelerations, multipliers, and no correction of positions."""
        pair = vdot, jnp.zeros(0) if multipliers is None else multipliers
        zero = jnp.zeros(system.n), jnp.zeros(system.m)
        if self.predictor == "zero":
            pair = zero
        return pair if system.m == 0 or self._is_index_3(system) else (*pair, *zero)

    def _error(self, system: AbstractMechanical, h: Array, slope: Vector, bend: Vector) -> Array:
        """Local errors of position and velocity, in the algebra of the state space."""
        c = self.coefficients
        position = h**3 * c.position_error * slope
        if self._is_index_3(system):
            # Velocities across the constraint depend on the step size. Where it changes, that swamps the estimate.
            return jnp.concatenate((position, jnp.zeros_like(slope)))
        return jnp.concatenate((position, h**3 * c.velocity_error * bend))


def _jerk(system: AbstractMechanical, t: Array, q: Point, v: Vector, vdot: Vector) -> Vector:
    """v̈ along the motion."""
    at = jnp.zeros(())
    along = lambda s: system.accelerations(t + s, system.flow(q, v, s), v + s * vdot)[0]  # noqa: E731
    return jax.jvp(along, (at,), (jnp.ones_like(at),))[1]


def _explain(result: Array, state: tuple[Point, Vector], vdot: Vector) -> Array:
    """`result`, or singular constraints where a finite state has no finite accelerations to start from."""
    finite = jnp.isfinite(sum(jnp.sum(x) for x in jax.tree.leaves(state)))
    singular = (result != 0) & finite & ~jnp.isfinite(jnp.sum(vdot))
    return jnp.where(singular, int(Result.singular_constraints), result).astype(jnp.int32)
