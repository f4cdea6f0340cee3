"""Half-explicit Runge–Kutta Lie group methods for constrained mechanical systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.checks import short_repr
from polhode.compiler.scalars.cost import cost
from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo, plain_number
from polhode.integrators.explicit import half_explicit_projection as projection
from polhode.integrators.explicit._stages import barrier, combine, hermite, move_if
from polhode.integrators.tableaus.half_explicit import HalfExplicitTableau
from polhode.linalg.blocks import Matrix, apply, apply_transposed
from polhode.linalg.solver_choice import kkt_solver
from polhode.result_codes import Result
from polhode.spaces.base import Point, Vector
from polhode.spaces.linear import Rn
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical, Multipliers

_SMALL, _LARGE, _OPERATIONS = 18, 60, 60_000
"""Numbers of velocities up to which stages are unrolled, and from which on they are a loop; between them the
operations of all stages decide, before structural zeros are gone. A rod of 16 edges with order 5 compiles in 7 s as a
loop, in 77 s unrolled."""


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
    one_step: ClassVar = True
    tableau: HalfExplicitTableau = eqx.field(static=True)
    projection: Literal["none", "position"] = eqx.field(static=True, default="none")
    tolerance: float = eqx.field(static=True, default=1e-8)

    def __check_init__(self) -> None:
        if self.projection not in ("none", "position"):
            raise ValueError(f"`projection` must be 'none' or 'position', got {short_repr(self.projection)}.")
        if not plain_number("tolerance", self.tolerance, "of the projection") > 0:
            raise ValueError(f"`tolerance` must be positive, got {self.tolerance}; 1e-8 is usual.")

    @property
    def promises(self) -> dict[str, str]:  # pyright: ignore[reportIncompatibleVariableOverride]
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
        stages = _stages(tableau, system, t, h, carry)
        end = stages.places[s]
        _, v = carry.state
        q, v = end.q, _advance_velocity(v, h, tableau.A[s, :s], stages.accelerations)
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
            end = _place(system, end.t, q, end.theta)
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


class _Place(NamedTuple):
    """A stage's time and configuration q_n exp(θ), θ = None for the start, with B and ∂Φ/∂t there."""

    t: Array
    q: Point
    theta: Any
    B: Matrix
    drift: Multipliers


class _Stages(NamedTuple):
    """Values at the stages of one step; entry 0 is the start of the step."""

    places: list[_Place]
    rates: list[Vector]
    accelerations: list[Vector]
    forces: list[Any]
    multipliers: list[Any]
    result: Array


def _stages(tableau: HalfExplicitTableau, system: AbstractMechanical, t: Array, h: Array, carry: Carry) -> _Stages:
    (q0, v0), first = carry.state, carry.multipliers
    nu0 = system.kinematics(q0, v0)
    theta = combine(h, tableau.A[1, :1], [nu0])
    begin = _place(system, t + float(tableau.c[1]) * h, move_if(system.configuration, q0, theta), theta)
    # There are none where there are no constraints.
    result = jnp.zeros((), jnp.int32) if first is None else _singular(jnp.sum(carry.memory), first)
    initial = _Stages(
        [_Place(t, q0, None, (), jnp.zeros(system.m)), begin], [nu0], [carry.memory], [None], [first], result
    )
    run = _run_loop if _is_large(tableau, system, begin, h, v0) else _run_unrolled
    return run(tableau, system, t, h, carry.state, initial)


def _is_large(tableau: HalfExplicitTableau, system: AbstractMechanical, place: _Place, h: Array, v: Vector) -> bool:
    """Whether the stages have too many operations to be run on scalars, so that a loop over them compiles sooner."""
    if not _SMALL < system.n < _LARGE:
        return system.n >= _LARGE

    def stage(place: _Place, v: Vector) -> Any:
        return _solve_from(system, place, place, system.force(place.t, place.q, v), v, h)

    return cost(jax.make_jaxpr(stage)(place, v).jaxpr) * _count(tableau, system) > _OPERATIONS


def _run_unrolled(
    tableau: HalfExplicitTableau, system: AbstractMechanical, t: Array, h: Array, state: State, initial: _Stages
) -> _Stages:
    """The stages after the first, unrolled."""
    A, c, (q0, v0), result = tableau.A, tableau.c, state, initial.result
    places, rates, vdot, forces, multipliers, _ = initial
    for i in range(1, _count(tableau, system)):
        here = places[i]
        v = _advance_velocity(v0, h, A[i, :i], vdot)
        rates.append(_rate(system, here, v))
        theta = combine(h, A[i + 1, : i + 1], rates)
        q = move_if(system.configuration, q0, theta)
        places.append(_place(system, t + float(c[i + 1]) * h, q, theta))
        force = system.force(here.t, here.q, v)
        x, multiplier, code = _solve(system, here, places[-1], force, v0, h, A[i + 1, : i + 1], vdot)
        vdot.append(x)
        forces.append(force)
        multipliers.append(multiplier)
        result = jnp.where(result == 0, code, result)
    return _Stages(places, rates, vdot, forces, multipliers, result)


class _Loop(NamedTuple):
    """The stages so far as rows of tables, zero after them, and the place of the next one."""

    place: _Place
    rates: Float[Array, "stages n"]
    accelerations: Float[Array, "stages n"]
    result: Array


def _run_loop(
    tableau: HalfExplicitTableau, system: AbstractMechanical, t: Array, h: Array, state: State, initial: _Stages
) -> _Stages:
    """The stages after the first as a loop, which compiles one of them only: for large systems."""
    count, (q0, v0) = _count(tableau, system), state
    begin = initial.places[1]
    begin = begin._replace(theta=jnp.zeros_like(initial.rates[0]) if begin.theta is None else begin.theta)
    table = jnp.zeros((count, system.n))

    def stage(loop: _Loop, row: tuple[Array, ...]) -> tuple[_Loop, tuple[_Place, Vector, Multipliers]]:
        here_only, weights, explicit_weights, own_weight, c = row
        here = loop.place
        v = barrier(v0 + h * (weights @ loop.accelerations))
        rates = jnp.where(here_only, _rate(system, here, v), loop.rates)
        theta = h * ((explicit_weights + own_weight * here_only[:, 0]) @ rates)
        there = barrier(_place(system, t + c * h, system.configuration.move(q0, theta), theta))
        force = barrier(system.force(here.t, here.q, v))
        v_explicit = v0 + h * (explicit_weights @ loop.accelerations)
        x, multipliers, code = _solve_from(system, here, there, force, v_explicit, h * own_weight)
        result = jnp.where(loop.result == 0, code, loop.result)
        accelerations = jnp.where(here_only, x, loop.accelerations)
        return _Loop(there, rates, accelerations, result), (there, force, multipliers)

    start = _Loop(begin, table.at[0].set(initial.rates[0]), table.at[0].set(initial.accelerations[0]), initial.result)
    # Masks, because dynamic indices into a table would cost a lookup.
    own = np.eye(count, dtype=bool)[1:]
    next_rows = tableau.A[2 : count + 1, :count]
    rows = own[:, :, None], tableau.A[1:count, :count], np.where(own, 0.0, next_rows), next_rows[own], tableau.c[2:]
    rows = tuple(jnp.asarray(row[: count - 1]) for row in rows)
    end, (places, forces, multipliers) = jax.lax.scan(stage, start, rows)
    row = lambda tree, k: jax.tree.map(lambda a: a[k], tree)  # noqa: E731
    return _Stages(
        [initial.places[0], begin, *(row(places, k) for k in range(count - 1))],
        [end.rates[k] for k in range(count)],
        [end.accelerations[k] for k in range(count)],
        [None, *(forces[k] for k in range(count - 1))],
        [initial.multipliers[0], *(multipliers[k] for k in range(count - 1))],
        end.result,
    )


def _rate(system: AbstractMechanical, here: _Place, v: Vector) -> Vector:
    """θ̇ at a stage with velocities v."""
    nu = system.kinematics(here.q, v)
    return nu if here.theta is None else system.configuration.rate(here.theta, nu)


def _count(tableau: HalfExplicitTableau, system: AbstractMechanical) -> int:
    """Stages to compute; those that only serve the multipliers are left out where there are none."""
    if system.m:
        return tableau.all_stages
    return tableau.stages if tableau.b_hat is None else len(tableau.b_hat)


def _place(system: AbstractMechanical, t: Array, q: Point, theta: Any) -> _Place:
    if system.m == 0:
        return _Place(t, q, theta, (), jnp.zeros(0))
    return _Place(t, q, theta, system.jacobian(t, q), projection.explicit_rate(system, t, q))


def _solve(
    system: AbstractMechanical,
    here: _Place,
    there: _Place,
    force: Vector,
    v0: Vector,
    h: Array,
    weights: Sequence[float] | np.ndarray,
    vdot: list[Vector],
) -> tuple[Vector, Multipliers, Array]:
    """Acceleration and multiplier `here` with which v0 + h Σ weights·v̇ satisfies the constraint `there`, eq. (14).

    Also a result code. The constraint's row is divided by h times the last weight.
    """
    return _solve_from(system, here, there, force, _advance_velocity(v0, h, weights[:-1], vdot), h * float(weights[-1]))


def _solve_from(
    system: AbstractMechanical, here: _Place, there: _Place, force: Vector, v: Vector, h: Array
) -> tuple[Vector, Multipliers, Array]:
    """Acceleration and multiplier `here` with which v + h v̇ satisfies the constraint `there`, and a result code."""
    mass = system.mass(here.t, here.q)
    if system.m == 0:
        return _mass_solve(system, mass, force), jnp.zeros(0), jnp.zeros((), jnp.int32)
    target = -(apply(there.B, v, system.m) + there.drift) / h
    x, multipliers = system.kkt.solution(mass, here.B, there.B, force, target)
    return x, multipliers, _singular(jnp.sum(force) + jnp.sum(target), multipliers)


def _singular(data: Array, multipliers: Multipliers) -> Array:
    """The code for a singular matrix: finite data without finite multipliers. The time loop finds other infinities."""
    singular = jnp.isfinite(data) & ~jnp.isfinite(jnp.sum(multipliers))
    return jnp.where(singular, int(Result.singular_constraints), 0).astype(jnp.int32)


def _embedded_solution(
    b_hat: Sequence[float], system: AbstractMechanical, t: Array, h: Array, state: State, stages: _Stages
) -> tuple[Any, Vector]:
    """Increment and velocity of the embedded solution."""
    q0, v0 = state
    last = len(b_hat) - 1
    theta = combine(h, b_hat, stages.rates)
    vdot, last_vdot = stages.accelerations[:last], stages.accelerations[last]
    if system.m:
        there = _place(system, t + h, move_if(system.configuration, q0, theta), theta)
        last_vdot = _solve(system, stages.places[last], there, stages.forces[last], v0, h, b_hat, vdot)[0]
    return theta, _advance_velocity(v0, h, b_hat, [*vdot, last_vdot])


def _acceleration(system: AbstractMechanical, place: _Place, v: Vector, multipliers: Multipliers | None) -> Vector:
    """M⁻¹(f - Bᵀλ) at the end of a step, for the start of the next one."""
    force = system.force(place.t, place.q, v)
    if multipliers is not None:
        force = force - apply_transposed(place.B, multipliers, system.n)
    return _mass_solve(system, system.mass(place.t, place.q), force)


def _mass_solve(system: AbstractMechanical, mass: Matrix, force: Vector) -> Vector:
    solver = kkt_solver(mass, (), system.n, 0)
    return solver.solve(solver.factor(mass, (), ()), force, jnp.zeros(0))[0]


def _advance_velocity(v0: Vector, h: Array, weights: Sequence[float] | np.ndarray, vdot: list[Vector]) -> Vector:
    """v0 + h Σ weights·v̇."""
    step = combine(h, weights, vdot)
    return v0 if step is None else v0 + step
