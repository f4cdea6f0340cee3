"""Stages of half-explicit Runge–Kutta methods: unrolled for small systems, a loop for large ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.scalars.cost import cost
from polhode.integrators.base import Carry
from polhode.integrators.explicit import half_explicit_projection as projection
from polhode.integrators.explicit._stages import barrier, combine, move_if
from polhode.integrators.tableaus.half_explicit import HalfExplicitTableau
from polhode.linalg.blocks import Matrix, apply
from polhode.linalg.inverse_border import bordered_solver
from polhode.linalg.solver_choice import kkt_solver
from polhode.result_codes import Result
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical, Multipliers

_SMALL, _LARGE, _OPERATIONS = 18, 60, 60_000
"""Numbers of velocities up to which stages are unrolled, and from which on they are a loop; between them the
operations of all stages decide, before structural zeros are gone. A rod of 16 edges with order 5 compiles in 7 s as a
loop, in 77 s unrolled."""


class StagePlace(NamedTuple):
    """A stage's time and configuration q_n exp(θ), θ = None for the start, with B and ∂Φ/∂t there."""

    t: Array
    q: Point
    theta: Any
    B: Matrix
    drift: Multipliers


class Stages(NamedTuple):
    """Values at the stages of one step; entry 0 is the start of the step."""

    places: list[StagePlace]
    rates: list[Vector]
    accelerations: list[Vector]
    forces: list[Any]
    multipliers: list[Any]
    result: Array


def run_stages(tableau: HalfExplicitTableau, system: AbstractMechanical, t: Array, h: Array, carry: Carry) -> Stages:
    (q0, v0), first = carry.state, carry.multipliers
    nu0 = system.kinematics(q0, v0)
    theta = combine(h, tableau.A[1, :1], [nu0])
    begin = place_at(system, t + float(tableau.c[1]) * h, move_if(system.configuration, q0, theta), theta)
    # There are none where there are no constraints.
    result = jnp.zeros((), jnp.int32) if first is None else _singular(jnp.sum(carry.memory), first)
    initial = Stages(
        [StagePlace(t, q0, None, (), jnp.zeros(system.m)), begin], [nu0], [carry.memory], [None], [first], result
    )
    run = _run_loop if _is_large(tableau, system, begin, h, v0) else _run_unrolled
    return run(tableau, system, t, h, carry.state, initial)


def _is_large(tableau: HalfExplicitTableau, system: AbstractMechanical, place: StagePlace, h: Array, v: Vector) -> bool:
    """Whether the stages have too many operations to be run on scalars, so that a loop over them compiles sooner."""
    if not _SMALL < system.n < _LARGE:
        return system.n >= _LARGE

    def stage(place: StagePlace, v: Vector) -> Any:
        return _solve_from(system, place, place, system.force(place.t, place.q, v), v, h)

    return cost(jax.make_jaxpr(stage)(place, v).jaxpr) * _count(tableau, system) > _OPERATIONS


def _run_unrolled(
    tableau: HalfExplicitTableau, system: AbstractMechanical, t: Array, h: Array, state: State, initial: Stages
) -> Stages:
    """The stages after the first, unrolled."""
    A, c, (q0, v0), result = tableau.A, tableau.c, state, initial.result
    places, rates, vdot, forces, multipliers, _ = initial
    for i in range(1, _count(tableau, system)):
        here = places[i]
        v = advance_velocity(v0, h, A[i, :i], vdot)
        rates.append(_rate(system, here, v))
        theta = combine(h, A[i + 1, : i + 1], rates)
        q = move_if(system.configuration, q0, theta)
        places.append(place_at(system, t + float(c[i + 1]) * h, q, theta))
        force = system.force(here.t, here.q, v)
        x, multiplier, code = solve_stage(system, here, places[-1], force, v0, h, A[i + 1, : i + 1], vdot)
        vdot.append(x)
        forces.append(force)
        multipliers.append(multiplier)
        result = jnp.where(result == 0, code, result)
    return Stages(places, rates, vdot, forces, multipliers, result)


class _Loop(NamedTuple):
    """The stages so far as rows of tables, zero after them, and the place of the next one."""

    place: StagePlace
    rates: Float[Array, "stages n"]
    accelerations: Float[Array, "stages n"]
    result: Array


def _run_loop(
    tableau: HalfExplicitTableau, system: AbstractMechanical, t: Array, h: Array, state: State, initial: Stages
) -> Stages:
    """The stages after the first as a loop, which compiles one of them only: for large systems."""
    count, (q0, v0) = _count(tableau, system), state
    begin = initial.places[1]
    begin = begin._replace(theta=jnp.zeros_like(initial.rates[0]) if begin.theta is None else begin.theta)
    table = jnp.zeros((count, system.n))

    def stage(loop: _Loop, row: tuple[Array, ...]) -> tuple[_Loop, tuple[StagePlace, Vector, Multipliers]]:
        here_only, weights, explicit_weights, own_weight, c = row
        here = loop.place
        v = barrier(v0 + h * (weights @ loop.accelerations))
        rates = jnp.where(here_only, _rate(system, here, v), loop.rates)
        theta = h * ((explicit_weights + own_weight * here_only[:, 0]) @ rates)
        there = barrier(place_at(system, t + c * h, system.configuration.move(q0, theta), theta))
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
    return Stages(
        [initial.places[0], begin, *(row(places, k) for k in range(count - 1))],
        [end.rates[k] for k in range(count)],
        [end.accelerations[k] for k in range(count)],
        [None, *(forces[k] for k in range(count - 1))],
        [initial.multipliers[0], *(multipliers[k] for k in range(count - 1))],
        end.result,
    )


def _rate(system: AbstractMechanical, here: StagePlace, v: Vector) -> Vector:
    """θ̇ at a stage with velocities v."""
    nu = system.kinematics(here.q, v)
    return nu if here.theta is None else system.configuration.rate(here.theta, nu)


def _count(tableau: HalfExplicitTableau, system: AbstractMechanical) -> int:
    """Stages to compute; those that only serve the multipliers are left out where there are none."""
    if system.m:
        return tableau.all_stages
    return tableau.stages if tableau.b_hat is None else len(tableau.b_hat)


def place_at(system: AbstractMechanical, t: Array, q: Point, theta: Any) -> StagePlace:
    if system.m == 0:
        return StagePlace(t, q, theta, (), jnp.zeros(0))
    return StagePlace(t, q, theta, system.jacobian(t, q), projection.explicit_rate(system, t, q))


def solve_stage(
    system: AbstractMechanical,
    here: StagePlace,
    there: StagePlace,
    force: Vector,
    v0: Vector,
    h: Array,
    weights: Sequence[float] | np.ndarray,
    vdot: list[Vector],
) -> tuple[Vector, Multipliers, Array]:
    """Acceleration and multiplier `here` with which v0 + h Σ weights·v̇ satisfies the constraint `there`, eq. (14).

    Also a result code. The constraint's row is divided by h times the last weight.
    """
    return _solve_from(system, here, there, force, advance_velocity(v0, h, weights[:-1], vdot), h * float(weights[-1]))


def _solve_from(
    system: AbstractMechanical, here: StagePlace, there: StagePlace, force: Vector, v: Vector, h: Array
) -> tuple[Vector, Multipliers, Array]:
    """Acceleration and multiplier `here` with which v + h v̇ satisfies the constraint `there`, and a result code."""
    if system.m == 0:
        return solve_mass(system, here.t, here.q, force), jnp.zeros(0), jnp.zeros((), jnp.int32)
    target = -(apply(there.B, v, system.m) + there.drift) / h
    inverse = system.inverse_mass(here.t, here.q)
    if inverse is None:
        x, multipliers = system.kkt.solution(system.mass(here.t, here.q), here.B, there.B, force, target)
    else:
        x, multipliers = bordered_solver(inverse, here.B, there.B, system.n, system.m)(force, target)
    return x, multipliers, _singular(jnp.sum(force) + jnp.sum(target), multipliers)


def _singular(data: Array, multipliers: Multipliers) -> Array:
    """The code for a singular matrix: finite data without finite multipliers. The time loop finds other infinities."""
    singular = jnp.isfinite(data) & ~jnp.isfinite(jnp.sum(multipliers))
    return jnp.where(singular, int(Result.singular_constraints), 0).astype(jnp.int32)


def solve_mass(system: AbstractMechanical, t: Array, q: Any, force: Vector) -> Vector:
    """M⁻¹ f."""
    inverse = system.inverse_mass(t, q)
    if inverse is not None:
        return inverse(force)
    mass = system.mass(t, q)
    solver = kkt_solver(mass, (), system.n, 0)
    return solver.solve(solver.factor(mass, (), ()), force, jnp.zeros(0))[0]


def advance_velocity(v0: Vector, h: Array, weights: Sequence[float] | np.ndarray, vdot: list[Vector]) -> Vector:
    """v0 + h Σ weights·v̇."""
    step = combine(h, weights, vdot)
    return v0 if step is None else v0 + step
