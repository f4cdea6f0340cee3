"""Equilibria of bodies that touch: Signorini's law and friction, by motion that comes to rest."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.analysis.statics.by_name import EquilibriumReader
from polhode.analysis.statics.result import Equilibrium, EquilibriumError
from polhode.compiler.numpy_jit import numpy_jit
from polhode.contact.held_contacts import ContactModes, HeldContacts
from polhode.contact.scales import Scales
from polhode.contact.sparse.listed_contacts import ListedContacts
from polhode.frames import Frames
from polhode.integrators.nonsmooth.contact_record import contacts_of
from polhode.integrators.nonsmooth.kinetic_damping import KineticDamping
from polhode.integrators.nonsmooth.moreau import Moreau
from polhode.jax_context import inside_transformation
from polhode.linalg.blocks import apply
from polhode.multibody.system import MultibodySystem
from polhode.problem import Problem
from polhode.result_codes import Result
from polhode.results.observer import BatchedObserver, Observer
from polhode.simulation.simulate import simulate
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical
from polhode.systems.mechanical.abstract import START_TOLERANCE

_BALANCED = 1e-8
"""Largest unbalanced force at an equilibrium, relative to the largest of them."""

_NEARLY, _FINE = 1e-4, 1e-13
"""The same, up to which forces of contacts are found again, and the tolerance of their problem then.

Corners of a box that stick at different depths hold it against turning by small arms: the tolerance of steps leaves
more than what counts as balanced.
"""

_MOST_CONTACTS = 200
"""Contacts up to which overlaps are closed at the end, by a dense matrix."""

_TOUCH = 1e-12
"""Gap up to which shapes touch, in parts of its unit."""

_STEPS, _LOOKS = 1000, 40
"""Steps between two looks at the balance of forces, and how many looks there are."""


class _Rest(NamedTuple):
    """Forces in a position: multipliers of joints and contacts, what is unbalanced, and the largest force."""

    multipliers: Any
    unbalanced: float
    largest: float


def has_contacts(problem: Any) -> bool:
    """Whether bodies of a problem, or of a system, touch."""
    system = problem.system if isinstance(problem, Problem) else problem
    return bool(getattr(system, "has_contacts", False))


def equilibrium_of_contacts(problem: Any, state0: State, t: float | None, plain: bool) -> Equilibrium:
    """A position in which contacts hold everything, from the start on along a motion that is stopped often.

    `plain`: whether there are neither load steps nor times. Raises ValueError and EquilibriumError.
    """
    if not isinstance(problem, Problem):
        raise ValueError(
            "Equilibria of bodies that touch are found along a motion, in steps: give a `Problem`, which has their "
            "size, got a system. `model.problem(…)` makes one."
        )
    if not plain:
        raise ValueError(
            "Where bodies touch, the way to an equilibrium is a motion and not a sequence of loads: leave `steps` and "
            "`times` out, and change loads in models of their own."
        )
    if inside_transformation() or not checks.is_concrete(problem.state0, problem.system):
        raise ValueError(
            "Equilibria of bodies that touch can't be traced by JAX, as contacts open and close on the way there."
        )
    start = problem.t_span[0] if t is None else checks.number("t", t, "at which loads are taken")
    q, _ = problem.system.as_state(problem.state0 if state0 is None else state0, "state0")
    at_rest = (q, jnp.zeros(_mechanical(problem).n))
    rest, steps, looks = _forces(problem, start, at_rest), 0, 0
    while not rest.unbalanced <= _BALANCED * rest.largest:
        if looks == _LOOKS:
            reason = (
                f"After {steps} steps of {problem.h:g}, stopped wherever they sped down, forces are still unbalanced "
                f"by {rest.unbalanced:.2g} of {rest.largest:.2g}: something falls, slides or rolls on without end, or "
                "needs more steps; take larger ones, `h`, or a start that is closer."
            )
            raise EquilibriumError(reason, _result(problem, start, at_rest, rest, steps, converged=False))
        # Where a step fails, the next block begins from there, at rest, with other steps.
        at_rest, taken = _closer(problem, start, at_rest, problem.h * 0.5 ** (looks % 3))
        steps, looks = steps + taken, looks + 1
        rest = _forces(problem, start, at_rest)
    apart = _part(problem, start, at_rest)
    closed = _forces(problem, start, apart)
    if closed.unbalanced <= _BALANCED * closed.largest:
        at_rest, rest = apart, closed
    return _result(problem, start, at_rest, rest, steps, converged=True)


def _mechanical(problem: Problem) -> AbstractMechanical:
    assert isinstance(problem.system, AbstractMechanical)
    return problem.system


def _forces(problem: Problem, t: float, state: State) -> _Rest:
    """Forces in a position at rest: those of a step from there. What they leave unbalanced begins to move."""
    rest = _step_forces(problem, t, state, Moreau())
    if not _BALANCED * rest.largest < rest.unbalanced <= _NEARLY * rest.largest:
        return rest
    fine = _step_forces(problem, t, state, Moreau(tolerance=_FINE))
    return fine if fine.unbalanced < rest.unbalanced else rest


def _step_forces(problem: Problem, t: float, state: State, method: Moreau) -> _Rest:
    system, h = _mechanical(problem), problem.h
    run = simulate(problem, method, h=h, t0=t, t1=t + h, state0=state, throw=False)
    q, v = jax.tree.map(lambda x: x[-1], run.state)
    momentum = apply(system.mass(jnp.asarray(t), q), jnp.asarray(v), system.n)
    force = system.force(jnp.asarray(t), state[0], jnp.zeros(system.n))
    sizes = [float(np.max(np.abs(np.asarray(x)), initial=0.0)) for x in (momentum, force)]
    unbalanced = sizes[0] / h if run.stats["result"] == Result.successful else np.inf
    return _Rest(np.asarray(run.multipliers)[0], unbalanced, sizes[1])


def _closer(problem: Problem, t: float, state: State, h: float) -> tuple[State, int]:
    """Where the motion has come to, and after how many steps."""
    end = t + _STEPS * h
    run = simulate(problem, KineticDamping(), h=h, t0=t, t1=end, state0=state, throw=False)
    system, last = _mechanical(problem), len(run.t) - 1
    place = lambda k: jax.tree.map(lambda x: jnp.asarray(x[k]), run.state[0])  # noqa: E731
    # Within an impact shapes overlap by O(h²), from which no run begins.
    while last and float(np.min(contacts_of(system).gaps(system, jnp.asarray(t), place(last)))) < -START_TOLERANCE:
        last -= 1
    return (place(last), jnp.zeros(system.n)), last


def _part(problem: Problem, t: float, state: State) -> State:
    """The position next to one at rest in which nothing overlaps: impacts on the way there have left O(h²).

    Heaps in lists, and more than `_MOST_CONTACTS`, stay as they are.
    """
    system = _mechanical(problem)
    contacts = contacts_of(system)
    if isinstance(contacts, ListedContacts) or contacts.count > _MOST_CONTACTS:
        return state
    return _close(system, jnp.asarray(t, float), *state), state[1]


@numpy_jit
def _close(system: Any, t: Array, q: Point, v: Vector) -> Point:
    contacts = contacts_of(system)
    at = contacts.kinematics(system, t, q)
    # What is as near as others overlap touches.
    closed = at.gap <= jnp.maximum(-jnp.min(at.gap, initial=0.0), Scales.of(system, q).touch_gap(_TOUCH))
    none = ContactModes.of_open(contacts.count, contacts.law.rows)
    modes = dataclasses.replace(none, labels=contacts.label(at.feature), closed=closed)
    return HeldContacts(system, modes, jnp.zeros((contacts.count, 3))).close(t, q, v)[0]


def _result(problem: Problem, t: float, state: State, rest: _Rest, steps: int, *, converged: bool) -> Equilibrium:
    system = _mechanical(problem)
    stacked = jax.tree.map(lambda x: np.asarray(x)[None], state)
    frames = BatchedObserver(Observer(system, problem.outputs, {}), 1).frames(np.array([t]), stacked, None)
    gap = float(np.max(np.abs(np.asarray(system.constraint(jnp.asarray(t), state[0]))), initial=0.0))
    residuals = {"balance": jnp.array([rest.unbalanced]), "position": jnp.array([gap])}
    multipliers = jnp.asarray(rest.multipliers)
    reader = None
    if problem.named is not None and isinstance(system, MultibodySystem):
        reader = EquilibriumReader(problem.named, system)
    return Equilibrium(
        t=jnp.asarray(t),
        state=state,
        multipliers=multipliers,
        residual=residuals["balance"][0],
        gap=residuals["position"][0],
        path=Frames(jnp.array([t]), stacked, frames.outputs, {}, residuals, multipliers[None]),
        loads=jnp.ones(1),
        iterations=jnp.array([steps]),
        corrections=jnp.zeros((1, 0)),
        converged=jnp.asarray(converged),
        meta={} if problem.named is None else {"names": problem.named.metadata},
        reader=reader,
    )
