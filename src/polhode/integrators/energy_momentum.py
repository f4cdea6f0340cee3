"""The energy–momentum method on Livens' principle."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from polhode import checks
from polhode.integrators._bodies_equations import BodiesEquations
from polhode.integrators._livens_equations import AbstractLivensEquations, AllUnknowns, NullSpace, Reduced
from polhode.integrators._newton import Newton, solve
from polhode.integrators.base import AbstractSymmetricSecondOrder, Carry, StepInfo
from polhode.systems.lagrangian import AbstractLagrangian, AbstractParametrisedLagrangian, LivensState
from polhode.systems.moving_bodies import AbstractMovingBodies

_FLOOR = 1e-15
"""Newton's method goes on to round-off: what it leaves would be a drift of the energy."""

UNKNOWNS: dict[str, type[AbstractLivensEquations]] = {"all": AllUnknowns, "reduced": Reduced, "null-space": NullSpace}


class AbstractLivensMethod(AbstractSymmetricSecondOrder):
    """What the methods of order 2 on Livens' principle share; they differ in the averages of derivatives."""

    kinds: ClassVar = (AbstractLagrangian,)

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

    def check(self, system: AbstractLagrangian | AbstractMovingBodies, t: Any, state: LivensState) -> None:
        """Refuses the null-space form for systems that don't know increments along their constraints."""
        del t, state
        able = AbstractParametrisedLagrangian, AbstractMovingBodies
        if self.unknowns == "null-space" and not isinstance(system, able):
            raise ValueError(
                f"{type(system).__name__} has no parametrisation of its constraints by increments, as an "
                "`AbstractParametrisedLagrangian` has, which `unknowns='null-space'` needs. Use 'reduced' (`reml`)."
            )

    def promised(self, system: AbstractLagrangian | AbstractMovingBodies, state: LivensState) -> dict[str, str]:
        return {**super().promised(system, state), **dict.fromkeys(system.kept_momenta, "round-off")}

    def init(self, system: AbstractLagrangian | AbstractMovingBodies, t: Array, h: Array, state: LivensState) -> Carry:
        state = LivensState(*state)
        memory = system.guess(h, state) / h if isinstance(system, AbstractMovingBodies) else None
        return Carry(state, memory, jnp.zeros(system.m) if system.m else None)

    def step(
        self, system: AbstractLagrangian | AbstractMovingBodies, t: Array, h: Array, carry: Carry
    ) -> tuple[Carry, StepInfo]:
        equations = self._equations(system, t, h, carry.state)
        begin = jnp.zeros(0) if carry.multipliers is None else carry.multipliers
        guess = equations.guess(begin)
        if carry.memory is not None:
            # Velocities at the ends of steps scatter about the motion; those of the last step on average don't.
            guess = h * carry.memory, begin
        solved = solve(equations, guess, None, self._solver)
        info = StepInfo(result=solved.result, newton_iterations=solved.iterations, residual=solved.residual)
        multipliers = equations.multipliers(solved.place, solved.x) if system.m else None
        memory = None if carry.memory is None else solved.x[0] / h
        return Carry(solved.place.end, memory, multipliers), info

    def _equations(
        self, system: AbstractLagrangian | AbstractMovingBodies, t: Array, h: Array, start: LivensState
    ) -> AbstractLivensEquations | BodiesEquations:
        if isinstance(system, AbstractMovingBodies):
            return BodiesEquations(system, t, h, start)
        return UNKNOWNS[self.unknowns](system, t, h, start, self.discrete)

    def interpolate(
        self, system: AbstractLagrangian, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> LivensState:
        return curve(carry0.state, carry1.state, h, s)


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

    - Order: 2 for q, v and p; one multiplier a step, an average of order 2 at its middle.
    - Preserves: the generalised energy p·v - L without loads, and the constraints, to round-off, at any step at which
      Newton's method converges; momenta as far as the discrete derivatives respect their symmetry (always for
      quadratic ones; otherwise through `systems.Through`). The constraints' time derivative and p = ∂L/∂v hold on
      average over the step, not at its ends: velocities, and T + V with them, scatter about the motion by O(h²).
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

    kinds: ClassVar = (AbstractLagrangian, AbstractMovingBodies)
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
