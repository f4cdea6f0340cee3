"""Static equilibria, and their path as loads grow."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.analysis.statics import _diagnosis
from polhode.analysis.statics._equations import Balance, Load, at_start, solver_of
from polhode.analysis.statics._load_step_errors import Failure, equations_at, explain
from polhode.analysis.statics._newton import (
    Equations,
    Limits,
    Programs,
    StepProgress,
    advance,
    corrected_solution,
    on_host,
    stop_gradients,
)
from polhode.analysis.statics._stability import unstable
from polhode.analysis.statics.by_name import EquilibriumReader
from polhode.analysis.statics.contact_equilibrium import equilibrium_of_contacts, has_contacts
from polhode.analysis.statics.result import Equilibrium, EquilibriumError
from polhode.checks import short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.placement import with_default_device
from polhode.frames import Frames
from polhode.jax_context import check_environment, inside_transformation
from polhode.linalg.kkt import AbstractKKT
from polhode.multibody.measurements.joints import LOADS
from polhode.multibody.system import MultibodySystem
from polhode.problem import Observable, Problem
from polhode.results.observer import BatchedObserver, Observer
from polhode.rods.shape_contact import EdgeSurface
from polhode.spaces.base import Point
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical, Multipliers


class _Task(NamedTuple):
    """A checked task: `loads` are those of all steps, the start's first; the first `free` of them may jump."""

    system: AbstractMechanical
    observer: Observer
    q: Point
    loads: Load
    limits: Limits
    free: int


@with_default_device
@eager_numpy()
def equilibrium(
    problem: Problem | AbstractMechanical,
    state0: State = None,
    *,
    t: float | None = None,
    steps: int = 1,
    times: Any = None,
    rtol: float = 1e-10,
    atol: float = 1e-12,
    max_iterations: int = 25,
) -> Equilibrium:
    r"""A configuration in which $f(t, q, 0) = B^T\lambda$ and $\Phi(t, q) = 0$, by Newton's method from `state0`.

    Full Newton on the configuration space: convergence is quadratic, in all coordinates. The tangent uses stresses that
    are predicted linearly from the last correction (MIP Newton: D. Magisano, L. Leonetti, G. Garcea, 2017, mixed
    integration points), so that stiff directions don't shorten the steps; at the solution it is exact.
    Where a load step fails to converge it is halved, up to ten times. Stable and unstable equilibria are found alike;
    `unstable` of the result tells them apart, and `polhode.modes` in full. Works inside `jax.jit`, `jax.grad`,
    `jax.jacfwd` and `jax.vmap`; first derivatives are those of the solution, by the implicit function theorem.

    **Arguments:**

    - `problem`: a `Problem`, or a bare mechanical system with `state0`.
    - `state0`: (q, v) to start from; v is not used.
    - `t`: the time that loads and constraints are taken at, by default the problem's first or 0.
    - `steps`: number of equal load steps. What is unbalanced at the start is held by fixed generalised forces, and
      these are taken away in `steps` parts; they are fixed in the coordinates' own frame, which for body-fixed
      velocities turns with the bodies.
    - `times`: find the equilibria at these times one after the other instead, for loads and constraints that are
      functions of time. At the first of them the imbalance of the start is taken away in one step.
    - `rtol`, `atol`: Newton's method ends with a correction of at most rtol times the largest coordinate plus atol, or
      when only round-off is left.
    - `max_iterations`: in one attempt at a step.

    **Raises** ValueError for bad input; `EquilibriumError`, with all equilibria found, where Newton's method doesn't
    converge or where the equilibrium leaves a motion without resistance. Warns with `UnstableEquilibriumWarning`,
    naming the bodies that move, where the equilibrium is unstable.

    Bodies that touch rest wherever friction holds them. The start is such a place if contact forces within their cones
    balance all others; then it is returned, with `iterations` 0. Otherwise a motion that is stopped whenever it slows
    down leads to one, as in `iterations` steps `h` of the problem. Forces are in `contacts` by name. Neither load steps
    nor transformations of JAX take such problems.
    """
    check_environment()
    if has_contacts(problem):
        return equilibrium_of_contacts(problem, state0, t, plain=times is None and steps == 1)
    task = _prepare(problem, state0, t, steps, times, Limits(rtol, atol, max_iterations))
    solver = solver_of(task.system, task.loads.t[0], task.q)
    balance, multipliers = at_start(task.system, solver, task.loads.t[0], task.q)
    if inside_transformation():
        return dataclasses.replace(_solve_traced(task, solver, balance, multipliers), meta=_metadata(problem))
    programs = Programs(balance, task.limits)
    history: list[StepProgress] = []
    q, reason = task.q, ""
    for k in range(len(task.loads.t) - 1):
        follow = k >= task.free
        progress = advance(programs, solver, task.limits, q, multipliers, _step_loads(task.loads, k), follow, on_host)
        before, (q, multipliers) = (q, multipliers), (progress.q, progress.multipliers)
        if not progress.fraction >= 1:
            place = f"{k + 1} of {len(task.loads.t) - 1}"
            reason = explain(Failure(programs, before, progress, _step_loads(task.loads, k), place, follow))
            history += [progress] if not history or progress.fraction > 0 else []
            break
        history.append(progress)
    result, last = _collect(task, programs, history, not reason)
    result = dataclasses.replace(result, meta=_metadata(problem), reader=_reader(problem))
    if not reason:
        loose = _diagnosis.describe_loose_motion(task.system, last.tangent, q)
        reason = f"The equilibrium is not isolated: {loose}" if loose else ""
        reason = reason or _diagnosis.describe_open_joints(task.system, float(result.t), result.state)
    if reason:
        raise EquilibriumError(reason, result)
    return dataclasses.replace(result, unstable=unstable(task.system, q, last.tangent))


def _metadata(problem: Any) -> dict[str, Any]:
    """The names of a model's problem."""
    name_table = problem.named if isinstance(problem, Problem) else None
    return {} if name_table is None else {"names": name_table.metadata}


def _reader(problem: Any) -> EquilibriumReader | None:
    """The reader of equilibria of a model's problem."""
    if not isinstance(problem, Problem) or problem.named is None or not isinstance(problem.system, MultibodySystem):
        return None
    return EquilibriumReader(problem.named, problem.system)


def _prepare(problem: Any, state0: State, t: Any, steps: Any, times: Any, limits: Limits) -> _Task:
    as_problem = problem if isinstance(problem, Problem) else None
    system, outputs = mechanical(problem)
    if state0 is None and as_problem is None:
        raise ValueError("A bare system needs `state0`, the pair (q, v) to start from; a Problem brings its own.")
    state = as_problem.state0 if state0 is None and as_problem is not None else state0
    q, _ = system.as_state(state, "state0")
    if times is not None and (t is not None or steps != 1):
        raise ValueError("`times` takes the place of `t` and `steps`; give either.")
    if not isinstance(limits.max_iterations, int) or limits.max_iterations < 1:
        raise ValueError(f"`max_iterations` must be an integer of at least 1, got {short_repr(limits.max_iterations)}.")
    if not (limits.rtol >= 0 and limits.atol >= 0 and limits.rtol + limits.atol > 0):
        raise ValueError(
            f"`rtol` and `atol` must not be negative nor both zero, got {short_repr(limits.rtol)} and "
            f"{short_repr(limits.atol)}."
        )
    if system.configuration.dim != system.n:
        raise ValueError(
            f"The configuration has {system.configuration.dim} directions and {system.n} velocities; equilibria are "
            "sought where there is one velocity for each direction. Use a group as configuration space."
        )
    if times is None:
        steps = checks.count("steps", steps, "load steps")
        begin = as_problem.t_span[0] if as_problem is not None else 0.0
        first = checks.array("t", begin if t is None else t, (), "time of the loads")
        loads = Load(jnp.full(steps + 1, first), jnp.arange(steps, -1, -1) / steps)
    else:
        instants = checks.array("times", times, np.shape(times), "times of the loads")
        if instants.ndim != 1 or instants.shape[0] == 0:
            raise ValueError(f"`times` must be a list of at least one time, got shape {instants.shape}.")
        loads = Load(jnp.concatenate((instants[:1], instants)), jnp.zeros(instants.shape[0] + 1).at[0].set(1.0))
    free = 1 if times is not None or steps == 1 else 0
    return _Task(system, Observer(system, _at_rest(problem, outputs), {}), q, loads, limits, free)


def _at_rest(problem: Any, outputs: dict[str, Observable]) -> dict[str, Observable]:
    """The outputs, in which joints carry what they do while drives stand still."""
    if LOADS not in outputs or not isinstance(problem, Problem):
        return outputs
    if problem.named is None or not isinstance(problem.system, MultibodySystem):
        return outputs
    return {**outputs, LOADS: problem.named.readings.loads_at_rest(problem.system)}


def _has_unfit_rod_contacts(system: MultibodySystem) -> bool:
    """Whether rods touch rods, or anything with friction."""
    return bool(system.mechanism.near_forces) or any(
        isinstance(group.elements, EdgeSurface) and group.elements.law.friction is not None
        for group in system.mechanism.forces
    )


def mechanical(problem: Any) -> tuple[AbstractMechanical, dict[str, Observable]]:
    """The mechanical system of an argument `problem`, and its outputs. Raises ValueError."""
    system = problem.system if isinstance(problem, Problem) else problem
    if isinstance(system, MultibodySystem) and _has_unfit_rod_contacts(system):
        raise ValueError(
            "Rods of this model touch rods, or something with friction, and equilibria and modes take contacts of rods "
            "with bodies alone, with friction=0. Give the sections `damping` and run it until it rests, or leave these "
            "contacts out."
        )
    if isinstance(problem, str) or (not isinstance(problem, Problem) and callable(getattr(problem, "problem", None))):
        raise checks.not_a_problem(problem)
    if not isinstance(system, AbstractMechanical):
        raise ValueError(
            f"Equilibria and modes need a mechanical system, got {type(system).__name__}. `Model.assemble` makes one, "
            "and so does polhode.systems.mechanical.Mechanical."
        )
    if system.has_contacts:
        raise ValueError(
            "Bodies of this system touch each other, and modes know nothing of contacts: they may stick, slide or "
            "open. Take the model without `contacts`, joints in place of what sticks, or law='compliant'."
        )
    if len(system.nonholonomic):
        raise ValueError(
            f"{type(system).__name__} has constraints that hold velocities only, such as those of rolling: it may rest "
            "wherever it has come to, so equilibria aren't isolated and modes have no meaning. Put a `Fixed` or "
            "`Revolute` joint in their place."
        )
    return system, dict(problem.outputs) if isinstance(problem, Problem) else system.outputs()


def _load(loads: Load, k: int) -> Load:
    return Load(loads.t[k], loads.held_share[k])


def _step_loads(loads: Load, k: int) -> tuple[Load, Load]:
    return _load(loads, k), _load(loads, k + 1)


def _solve_traced(task: _Task, solver: AbstractKKT, balance: Balance, multipliers: Multipliers) -> Equilibrium:
    """All steps as one traced expression; where a step fails, it and all that follow are NaN."""
    limits, loads = task.limits, stop_gradients(task.loads)
    programs = Programs(stop_gradients(balance), limits)
    pairs = tuple(jax.tree.map(lambda a: a[:-1], loads)), tuple(jax.tree.map(lambda a: a[1:], loads))

    def step(carry: Any, leg: Any, follow: bool) -> tuple[Any, StepProgress]:
        q, k = carry
        progress = advance(programs, solver, limits, q, k, (Load(*leg[0]), Load(*leg[1])), follow)
        hold = jnp.where(progress.fraction >= 1, 0.0, jnp.nan)
        progress = progress._replace(
            q=jax.tree.map(lambda a: a + hold, progress.q), multipliers=progress.multipliers + hold
        )
        return (progress.q, progress.multipliers), progress

    start = jax.lax.stop_gradient((task.q, multipliers))
    parts = []
    for follow, some in ((False, slice(task.free)), (True, slice(task.free, None))):
        legs_of_kind = jax.tree.map(lambda a, some=some: a[some], pairs)
        start, part = jax.lax.scan(functools.partial(step, follow=follow), start, legs_of_kind)
        parts.append(part)
    history = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
    ends = Load(task.loads.t[1:], task.loads.held_share[1:])
    # One after the other: sparse solvers don't take batches.
    q, multipliers = jax.lax.map(
        lambda x: corrected_solution(balance, solver, *x), (ends, history.q, history.multipliers)
    )
    history = history._replace(q=q, multipliers=multipliers)
    states = (q, jnp.zeros((len(task.loads.t) - 1, task.system.n)))
    outputs = jax.vmap(task.observer)(ends.t, states).outputs
    r, gap = jax.lax.map(lambda x: balance.residual(*x), (ends, q, multipliers))
    return _result(task, history, ends, outputs, (r, gap), jnp.all(history.fraction >= 1))


def _collect(
    task: _Task, programs: Programs, history: Sequence[StepProgress], converged: bool
) -> tuple[Equilibrium, Equations]:
    """All solutions, stacked, and the equations at the last place."""
    steps = jax.tree.map(lambda *x: jnp.stack(x), *history)
    ends, starts = (jax.tree.map(lambda a, s=s: a[s][: len(history)], task.loads) for s in (slice(1, None), slice(-1)))
    ends = jax.tree.map(lambda a, b: jnp.where(steps.fraction < 1, a + steps.fraction * (b - a), b), starts, ends)
    states = (steps.q, jnp.zeros((len(history), task.system.n)))
    frames = BatchedObserver(task.observer, 1).frames(np.asarray(ends.t), jax.tree.map(np.asarray, states), None)
    rest = [equations_at(programs, *_row((ends, steps.q, steps.multipliers), k)) for k in range(len(history))]
    r, gap = jnp.stack([x.r for x in rest]), jnp.stack([x.gap for x in rest])
    return _result(task, steps, ends, frames.outputs, (r, gap), jnp.asarray(converged)), rest[-1]


def _result(
    task: _Task, steps: StepProgress, ends: Load, outputs: dict[str, Array], rest: tuple[Array, Array], converged: Array
) -> Equilibrium:
    residuals = {"balance": _rows(rest[0]), "position": _rows(rest[1])}
    states = (steps.q, jnp.zeros_like(rest[0]))
    q, multipliers = jax.tree.map(lambda a: a[-1], (steps.q, steps.multipliers))
    return Equilibrium(
        t=ends.t[-1],
        state=(q, jnp.zeros(task.system.n)),
        multipliers=multipliers,
        residual=residuals["balance"][-1],
        gap=residuals["position"][-1],
        path=Frames(ends.t, states, outputs, {}, residuals, steps.multipliers),
        loads=1 - ends.held_share,
        iterations=steps.iterations,
        corrections=steps.corrections,
        converged=converged,
    )


def _row(tree: Any, k: int) -> Any:
    return jax.tree.map(lambda a: a[k], tree)


def _rows(values: Float[Array, "steps k"]) -> Float[Array, " steps"]:
    return jnp.max(jnp.abs(values), axis=1, initial=0.0)
