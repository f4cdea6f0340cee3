"""Half-explicit Runge–Kutta Lie group methods for constrained mechanical systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from polhode.checks import short_repr
from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo, plain_number
from polhode.integrators.explicit import half_explicit_projection as projection
from polhode.integrators.explicit._half_explicit_stages import (
    StagePlace,
    Stages,
    advance_velocity,
    place_at,
    run_stages,
    solve_mass,
    solve_stage,
)
from polhode.integrators.explicit._stages import combine, hermite, move_if
from polhode.integrators.tableaus.half_explicit import HalfExplicitTableau
from polhode.linalg.blocks import apply_transposed
from polhode.result_codes import Result
from polhode.spaces.base import Vector
from polhode.spaces.linear import Rn
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical, Multipliers


class HalfExplicit(AbstractIntegrator):
    r"""Half-explicit Runge–Kutta Lie group method for the index-2 form of constrained mechanical systems.

    Positions and velocities are advanced explicitly, $Q_i = q_n\exp(\Theta_i)$, and each stage solves one linear
    system for the acceleration and the multiplier that bring the *next* stage onto the velocity constraint:

    $$M(Q_i)\dot V_i + B(Q_i)^T\Lambda_i = f(t_i, Q_i, V_i), \qquad B(Q_{i+1})V_{i+1} + \partial_t\Phi = 0,$$

    with $V_{i+1} = v_n + h\sum_{j\le i} a_{i+1,j}\dot V_j$ and $\lambda_{n+1} = \sum_i d_i\Lambda_i$. No nonlinear
    equations; constraints may depend on time. Without constraints it is the Runge–Kutta–Munthe-Kaas method of
    the first s stages, with velocities in a linear space.

    - Order: of q and v that of the tableau; of the multipliers `tableau.multiplier_order`.
    - Preserves: the space and the velocity constraint to round-off; with `projection="position"` also the position
      constraint, to its tolerance. Otherwise positions drift off their constraint at the method's order.
    - Carry: state, multipliers, and the acceleration that belongs to them. The first multipliers come from the
      constraint on the level of accelerations; the initial state must satisfy the constraint and its derivative.
    - Error estimate, with embedded weights b̂: difference of increments and of velocities in the algebra. The embedded
      velocity satisfies the constraint, because the last stage is solved again with b̂ as its next row; without that
      the estimate would lose an order.
    - Interpolation: cubic Hermite polynomials in the algebra and of the velocity, which is then brought onto its
      constraint. Meant for groups.

    **Arguments:**

    - `tableau`: coefficients.
    - `projection`: "none", or "position" to move the end of each step back to the constraint, along M⁻¹Bᵀ.
    - `tolerance`: largest |Φ| left by the projection, in the constraint's unit.

    **Fails with:** `singular_constraints` where a stage's linear system has no finite solution, `nonfinite_state`,
    and `newton_not_converged` where the projection misses its tolerance.

    ??? cite "Reference"
        Half-explicit Runge–Kutta Lie group integrators for constrained mechanical systems and beams (D. Tumiotto and
        co-authors), equations (12) to (15) and (21). The velocity of the embedded solution follows their code.
        V. Brasey, E. Hairer, Half-explicit Runge–Kutta methods for differential-algebraic systems of index 2, SIAM
        J. Numer. Anal. 30 (1993); M. Arnold, Half-explicit Runge–Kutta methods with explicit stages for
        differential-algebraic systems of index 2, BIT 38 (1998).
    """

    kinds: ClassVar = (AbstractMechanical,)
    has_momentary_multipliers: ClassVar = True
    one_step: ClassVar = True
    divisible: ClassVar = True
    tableau: HalfExplicitTableau = eqx.field(static=True)
    projection: Literal["none", "position"] = eqx.field(static=True, default="none")
    tolerance: float = eqx.field(static=True, default=1e-8)

    def __check_init__(self) -> None:
        if self.projection not in ("none", "position"):
            raise ValueError(f"`projection` must be 'none' or 'position', got {short_repr(self.projection)}.")
        if not plain_number("tolerance", self.tolerance, "of the projection") > 0:
            raise ValueError(f"`tolerance` must be positive, got {self.tolerance}; 1e-8 is usual.")

    @property
    def promises(self) -> dict[str, str]:
        """See `AbstractIntegrator`."""
        base = {"manifold": "round-off", "velocity": "round-off"}
        return base if self.projection == "none" else {**base, "position": "newton"}

    @property
    def order(self) -> int:
        return self.tableau.order

    @property
    def error_order(self) -> int | None:
        return self.tableau.order_hat

    @property
    def evaluations(self) -> int:
        reuses_last = self.tableau.stages < self.tableau.all_stages and self.projection == "none"
        return self.tableau.all_stages - int(reuses_last)

    def newton_tolerance(self, h: float | None) -> float:
        """Tolerance of the projection."""
        del h
        return self.tolerance

    def init(self, system: AbstractMechanical, t: Array, h: Array, state: State) -> Carry:
        vdot, multipliers = system.accelerations(t, *state)
        if system.m == 0:
            return Carry(state, vdot)
        # Forces in place of accelerations that don't exist: the first step then sees that only multipliers are missing.
        vdot = jnp.where(jnp.isfinite(jnp.sum(vdot)), vdot, system.force(t, *state))
        return Carry(state, vdot, multipliers)

    def step(self, system: AbstractMechanical, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        tableau, s = self.tableau, self.tableau.stages
        stages = run_stages(tableau, system, t, h, carry)
        end = stages.places[s]
        _, v = carry.state
        q, v = end.q, advance_velocity(v, h, tableau.A[s, :s], stages.accelerations)
        multipliers = carry.multipliers
        if system.m:
            multipliers = combine(jnp.ones(()), [float(d) for d in tableau.d], stages.multipliers)
        error = None
        if tableau.b_hat is not None:
            theta_hat, v_hat = _embedded_solution([float(b) for b in tableau.b_hat], system, t, h, carry.state, stages)
            error = jnp.concatenate((end.theta - theta_hat, v - v_hat))
        result, residual = stages.result, None
        if self.projection == "position" and system.m:
            (q, v), residual = projection.onto_position(system, end.t, (q, v))
            not_converged = jnp.int32(Result.newton_not_converged)
            result = jnp.where((result == 0) & (residual > self.tolerance), not_converged, result)
            end = place_at(system, end.t, q, end.theta)
        elif (system.m == 0 or tableau.first_same_as_last) and len(stages.accelerations) > s:
            return Carry((q, v), stages.accelerations[s], multipliers), StepInfo(result, error)
        vdot = _acceleration(system, end, v, multipliers)
        return Carry((q, v), vdot, multipliers), StepInfo(result, error, residual=residual)

    def interpolate(
        self, system: AbstractMechanical, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> State:
        (q0, v0), (q1, v1) = carry0.state, carry1.state
        space = system.configuration
        theta = space.difference(q0, q1)
        rate0 = h * system.kinematics(q0, v0)
        rate1 = h * space.rate(theta, system.kinematics(q1, v1))
        # Not the carried accelerations: they have the order of the multipliers, which may be too low.
        vdot0, _ = system.accelerations(t, q0, v0)
        vdot1, _ = system.accelerations(t + h, q1, v1)
        q = hermite(space, q0, theta, rate0, rate1, s)
        v = hermite(Rn(system.n), v0, v1 - v0, h * vdot0, h * vdot1, s)
        if system.m == 0:
            return q, v
        if self.projection == "position":
            return projection.onto_position(system, t + s * h, (q, v))[0]
        return projection.onto_velocity(system, t + s * h, (q, v))


def _embedded_solution(
    b_hat: Sequence[float], system: AbstractMechanical, t: Array, h: Array, state: State, stages: Stages
) -> tuple[Any, Vector]:
    """Increment and velocity of the embedded solution."""
    q0, v0 = state
    last = len(b_hat) - 1
    theta = combine(h, b_hat, stages.rates)
    vdot, last_vdot = stages.accelerations[:last], stages.accelerations[last]
    if system.m:
        there = place_at(system, t + h, move_if(system.configuration, q0, theta), theta)
        last_vdot = solve_stage(system, stages.places[last], there, stages.forces[last], v0, h, b_hat, vdot)[0]
    return theta, advance_velocity(v0, h, b_hat, [*vdot, last_vdot])


def _acceleration(system: AbstractMechanical, place: StagePlace, v: Vector, multipliers: Multipliers | None) -> Vector:
    """M⁻¹(f - Bᵀλ) at the end of a step, for the start of the next one."""
    force = system.force(place.t, place.q, v)
    if multipliers is not None:
        force = force - apply_transposed(place.B, multipliers, system.n)
    return solve_mass(system, place.t, place.q, force)
