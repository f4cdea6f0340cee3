"""The energy–momentum method on Livens' principle."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.integrators.base import AbstractSymmetricSecondOrder, Carry, StepInfo
from polhode.integrators.energy_momentum.attempts import with_rates
from polhode.integrators.energy_momentum.bodies import BodiesEquations, BodiesUnknowns, RatesEquations
from polhode.integrators.energy_momentum.lagrangian import (
    AbstractLivensEquations,
    AllUnknowns,
    NullSpace,
    ReducedUnknowns,
)
from polhode.integrators.energy_momentum.step import BodiesStep
from polhode.integrators.implicit._equations import AbstractEquations
from polhode.integrators.implicit._newton import Newton, NewtonResult, solve
from polhode.multibody.conversions.livens import LivensMultibody
from polhode.systems.lagrangian import AbstractLagrangian, AbstractParametrisedLagrangian, LivensState

_FLOOR = 1e-15
"""Newton's method iterates to round-off: remaining residuals would make the energy drift."""


UNKNOWNS: dict[str, type[AbstractLivensEquations]] = {
    "all": AllUnknowns,
    "reduced": ReducedUnknowns,
    "null-space": NullSpace,
}


class AbstractLivensMethod(AbstractSymmetricSecondOrder):
    """Methods of order 2 on Livens' principle, which differ in the averages of derivatives."""

    kinds: ClassVar = (AbstractLagrangian,)
    promises_at_steps: ClassVar = True

    unknowns: eqx.AbstractVar[Literal["all", "reduced", "null-space"]]
    max_iterations: eqx.AbstractVar[int]
    discrete: ClassVar[bool]

    def __check_init__(self) -> None:
        checks.choice("unknowns", self.unknowns, UNKNOWNS)
        _ = self._solver

    @property
    def implicit(self) -> bool:
        return True

    @property
    def interpolation_order(self) -> int:
        return 2

    @property
    def _solver(self) -> Newton:
        return Newton("full", _FLOOR, _FLOOR, self.max_iterations)

    def check(self, system: AbstractLagrangian | LivensMultibody, t: Any, state: LivensState) -> None:
        """Refuses coordinates without kinetic energy, and the null-space form for systems without increments."""
        del t, state
        if isinstance(system, LivensMultibody) and not system.base.inert:
            raise ValueError(
                "Energy–momentum methods take coordinates with kinetic energy; the integral of a controller has none. "
                "Take `generalized-alpha` or `bdf` with formulation='SO3xR3'."
            )
        able = AbstractParametrisedLagrangian, LivensMultibody
        if self.unknowns == "null-space" and not isinstance(system, able):
            raise ValueError(
                f"This {system.kind_name} has no parametrisation of its constraints by increments, as an "
                "`AbstractParametrisedLagrangian` has, which `unknowns='null-space'` needs. Use 'reduced' (`reml`)."
            )

    def promises_for(self, system: AbstractLagrangian | LivensMultibody, state: LivensState) -> dict[str, str]:
        promises = {**super().promises_for(system, state), **dict.fromkeys(system.kept_momenta, "round-off")}
        rates = isinstance(system, LivensMultibody) and system.keeps_rates
        return {**promises, "velocity": "newton"} if rates else promises

    def init(self, system: AbstractLagrangian | LivensMultibody, t: Array, h: Array, state: LivensState) -> Carry:
        state = LivensState(*state)
        memory = None
        if isinstance(system, LivensMultibody):
            rates = jnp.zeros(system.m if system.keeps_rates else 0)
            guess = BodiesUnknowns(BodiesStep(system).guess(h, state), jnp.zeros(system.m), rates)
            equations = _equations(system, t, h, state, jnp.ones(()))
            past = guess._replace(x=guess.x / h)
            memory = _Memory((past, past, past), jnp.zeros((), bool), equations.factor(equations.place(guess), guess))
        return Carry(state, memory, jnp.zeros(system.m) if system.m else None)

    def restart(self, system: AbstractLagrangian | LivensMultibody, t: Array, h: Array, carry: Carry) -> Carry:
        """Loads are evaluated at the middle of steps only, so there is nothing to rebuild."""
        del system, t, h
        return carry

    def newton_tolerance(self, h: float | None) -> float:
        """Round-off of velocities, which are differences of positions over h."""
        return 4 * float(np.finfo(float).eps) * (1 + (1 / abs(h) if h else 1.0))

    def step(
        self, system: AbstractLagrangian | LivensMultibody, t: Array, h: Array, carry: Carry
    ) -> tuple[Carry, StepInfo]:
        if isinstance(system, LivensMultibody):
            if system.keeps_rates:
                return with_rates(self, system, t, h, carry)
            return self.attempt(system, t, h, carry, jnp.zeros(()))
        begin = jnp.zeros(0) if carry.multipliers is None else carry.multipliers
        equations = UNKNOWNS[self.unknowns](system, t, h, carry.state, self.discrete)
        solution = solve(equations, equations.guess(begin), None, self._solver)
        multipliers = equations.multipliers(solution.place, solution.x) if system.m else None
        return Carry(solution.place.end, None, multipliers), _info(solution)

    def attempt(self, system: LivensMultibody, t: Array, h: Array, carry: Carry, keep: Array) -> tuple[Carry, StepInfo]:
        """A step of bodies whose velocities satisfy the joints' rates if `keep` is one, and need not if it is zero."""
        memory: _Memory = carry.memory
        guess = memory.extrapolate()
        guess = guess._replace(x=h * guess.x, rates=keep * guess.rates)
        newton = Newton("modified", 0.0, _FLOOR, self.max_iterations, lifetime=12)
        solution = solve(_equations(system, t, h, carry.state, keep), guess, memory.factors, newton)
        unknowns = solution.x._replace(x=solution.x.x / h)
        multipliers = solution.x.multipliers if system.m else None
        return Carry(solution.place.end, memory.after(unknowns, solution.factors), multipliers), _info(solution)

    def interpolate(
        self, system: AbstractLagrangian, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> LivensState:
        return curve(carry0.state, carry1.state, h, s)


class _Memory(NamedTuple):
    """Solutions of the last three steps, latest first, mean velocities in place of increments; whether a step was made;
    and factors for reuse.
    """

    past: tuple[BodiesUnknowns, BodiesUnknowns, BodiesUnknowns]
    begun: Array
    factors: Any

    def extrapolate(self) -> BodiesUnknowns:
        """A guess for the next step by a parabola through averages, which are smooth even where ends scatter."""
        return jax.tree.map(lambda a, b, c: 3 * (a - b) + c, *self.past)

    def after(self, solution: BodiesUnknowns, factors: Any) -> _Memory:
        # The guess at the start is dropped after the first step.
        latest, middle = (
            jax.tree.map(lambda a, b: jnp.where(self.begun, a, b), old, solution) for old in self.past[:2]
        )
        return _Memory((solution, latest, middle), jnp.ones((), bool), factors)


def _equations(system: LivensMultibody, t: Array, h: Array, start: LivensState, keep: Array) -> AbstractEquations:
    plain = BodiesEquations(BodiesStep(system), t, h, start)
    return RatesEquations(plain, keep) if system.keeps_rates else plain


def _info(solution: NewtonResult) -> StepInfo:
    return StepInfo(result=solution.result, newton_iterations=solution.iterations, residual=solution.residual)


def curve(start: LivensState, end: LivensState, h: Array, s: Array) -> LivensState:
    """Velocities that change linearly from v₀ to v₁, and the positions that belong to them: they end at q₁."""
    linear = lambda a, b: a + s * (b - a)  # noqa: E731
    q = start.q + h * s * (start.v + 0.5 * s * (end.v - start.v))
    return LivensState(q, linear(start.v, end.v), linear(start.p, end.p))


class EnergyMomentum(AbstractLivensMethod):
    r"""The energy–momentum method on Livens' principle (EML).

    $$\Delta q = h\bar v,\quad \Delta p = h(\bar\partial_qL + f - \bar\nabla g^T\lambda),\quad
    \bar p = \bar\partial_vL,\quad g(q_1) = 0$$

    with discrete derivatives of L and g over the step.

    - Order: 2 for q, v and p. One multiplier a step; those of single steps scatter by O(h), alternating except for
      `emh`, and the mean of two consecutive ones is of order 2 at the instant between their steps.
    - Preserves: the generalised energy p·v - L without loads, and the constraints, to round-off, at any step at which
      Newton's method converges; momenta as far as the discrete derivatives respect their symmetry (always for
      quadratic ones; otherwise through `systems.Through`). The constraints' time derivative and p = ∂L/∂v hold on
      average over the step, not at its ends: velocities, and T + V with them, scatter about the motion by O(h²).
      For models with invariant joints they hold at the ends of steps, to the tolerance of Newton's method; a step for
      which no such velocities are found is made in four parts.
    - Implicit; singular mass matrices are welcome as long as constraints and forces fix the motion.
    - Interpolation: linear in v and p, quadratic in q, which leaves the constraints by O(h³) between steps.
    - Result codes: `newton_not_converged`, `singular_constraints`, `nonfinite_state`.

    **Arguments:**

    - `unknowns`: "all" (v₁, p₁, q₁, λ), "reduced" (q₁, λ), or "null-space": increments along the constraints, for
      systems that know them (quaternion bodies). The solution is the same. Models with `formulation="livens"` always
      use increments along |q| = 1 and the multipliers of the joints.
    - `max_iterations`: of Newton's method in a step.

    ??? cite "Reference"
        P. L. Kinon, P. Betsch, Conserving integration of multibody systems with singular and non-constant mass matrix
        including quaternion-based rigid body dynamics, equations (72), (86), (103) and (105).
    """

    kinds: ClassVar = (AbstractLagrangian, LivensMultibody)
    promises: ClassVar = {"position": "round-off", "energy": "round-off"}
    discrete: ClassVar[bool] = True

    unknowns: Literal["all", "reduced", "null-space"] = eqx.field(static=True, default="reduced")
    max_iterations: int = eqx.field(static=True, default=40)


class LivensMidpoint(AbstractLivensMethod):
    r"""The midpoint rule on Livens' principle (MPL): derivatives of L and g at (q̄, v̄).

    Without constraints it is the variational integrator of the Lagrangian h L(q̄, Δq/h), hence symplectic.

    - Order: 2 for q, v and p.
    - Preserves: constraints to round-off, momenta of symmetries that act linearly; energies only where they are
      quadratic.
    - Interpolation: linear in v and p, quadratic in q, which leaves the constraints by O(h³) between steps.
    - Result codes: `newton_not_converged`, `singular_constraints`, `nonfinite_state`.

    **Arguments:** as of `EnergyMomentum`.

    ??? cite "Reference"
        P. L. Kinon, P. Betsch, Conserving integration of multibody systems with singular and non-constant mass matrix
        including quaternion-based rigid body dynamics, Table 1.
    """

    promises: ClassVar = {"position": "round-off"}
    discrete: ClassVar[bool] = False

    unknowns: Literal["all", "reduced", "null-space"] = eqx.field(static=True, default="reduced")
    max_iterations: int = eqx.field(static=True, default=40)
