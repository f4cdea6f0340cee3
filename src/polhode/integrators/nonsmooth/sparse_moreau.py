"""Moreau's method for many free bodies, at a cost that grows with the number of contacts."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.sparse.candidates import Candidates
from polhode.contact.sparse.contact_numbers import POINTS
from polhode.contact.sparse.free_bodies import ContactRows, FreeBodies
from polhode.contact.sparse.listed_contacts import ListedContacts, NearPoints
from polhode.contact.sparse.sparse_problem import SparseProblem
from polhode.contact.sparse.sparse_solver import ACCEPTED, SOLVED, PreparedProblem, solve
from polhode.integrators.base import Carry, StepInfo
from polhode.integrators.nonsmooth.contact_conditions import (
    CLOSED,
    FREE_ROUNDS,
    SETTLES,
    STEADY_ROUNDS,
    close,
)
from polhode.integrators.nonsmooth.contact_record import contacts_of, dissipation
from polhode.integrators.nonsmooth.listed_record import ListedMemory, ListedRecord
from polhode.integrators.nonsmooth.slide_directions import persistent
from polhode.integrators.nonsmooth.time_stepper import AbstractImpulseMethod
from polhode.linalg.blocks import apply
from polhode.multibody.abstract_system import AbstractMultibodySystem
from polhode.result_codes import Result
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical
from polhode.systems.mechanical.contact_set import ContactLaw

_SWEEPS = 200
"""Sweeps of a step after which sliding takes the law at the end of the step, and an accepted residual is enough."""

_FIRST = 1e-6
"""Relative tolerance of contact problems, and change of what is asked of them, of rounds that may not be the last."""

_NEARLY = 1e-5
"""Change of velocities that are asked of a contact problem, relative, at which rounds of a heap end."""

_STILL = 1e-12
"""Motion in a step, relative to the mean radius of bodies, up to which nothing turns."""

_FLUSH = 1e-5
"""Gap, in parts of the mean radius of bodies, up to which shapes that come to rest on each other are left apart."""


class _Step(eqx.Module):
    """The data of a step, evaluated in its middle.

    - `turn`: changes of relative velocities until the end of the step, as in `Moreau`.
    """

    system: AbstractMechanical
    t: Array
    h: Array
    start: State
    middle: Point
    near: NearPoints
    law: ContactLaw
    bodies: FreeBodies
    rows: ContactRows
    order: Int[Array, " b"]
    pressed: Bool[Array, " c"]
    first_part: Float[Array, "c rows"]
    turn: Float[Array, "c rows"]

    @property
    def gap(self) -> Float[Array, " c"]:
        """Gaps that steps close.

        Those of flush shapes are none: where four corners come to rest on a face, and the last one would close by some
        nm, sweeps move impulses from corner to corner until one opens.
        """
        gap = self.near.points.gap
        return jnp.where(jnp.abs(gap) <= _FLUSH * _lists_of(self.system).size, 0.0, gap)

    @property
    def touch_gap(self) -> Array:
        """Gap up to which a contact counts as closed."""
        return CLOSED * _lists_of(self.system).size

    def relative(self, change: Float[Array, "c rows"], v: Vector) -> Array:
        """The largest change of velocities of contacts, in parts of these and of a fall over the mean radius."""
        size = _lists_of(self.system).size
        units = jnp.where(jnp.arange(change.shape[1]) < 3, 1.0, size)
        slips = jnp.where(self.near.present[:, None], self.slips(v), 0.0)
        scale = jnp.sqrt(size * _gravity(self.system)) + jnp.max(jnp.abs(units * slips), initial=0.0)
        return jnp.max(jnp.abs(units * change), initial=0.0) / jnp.where(scale > 0, scale, 1.0)

    def slips(self, v: Vector) -> Float[Array, "c rows"]:
        """Relative velocities at the contacts."""
        return self.rows.slips(_lists_of(self.system).spatial(self.system, self.middle, v))


class _Pose(NamedTuple):
    """Data of the contact problem of a round, by the round before.

    - `free`: the velocity without impulses. - `velocity`: b of the problem.
    - `first_part`: impulses of impacts that this step completes. - `slides`: contacts whose friction goes on.
    """

    free: Vector
    velocity: Float[Array, "c rows"]
    first_part: Float[Array, "c rows"]
    slides: Bool[Array, " c"]


class _Round(NamedTuple):
    """One round of the iteration for the velocity at the end of a step, x, as in `Moreau`.

    - `pose`: what the next round has to solve. - `change`: of its velocities, relative, from those that this one has
      solved.
    - `lowest`: velocities along normals, the lowest ones since rounds count as slow.
    - `is_final`: whether this round had the tolerance of the step.
    """

    x: Vector
    impulses: Float[Array, "c rows"]
    pose: _Pose
    change: Array
    solved: Bool[Array, ""]
    may_slide: Bool[Array, " c"]
    lowest: Float[Array, " c"]
    number: Int[Array, ""]
    sweeps: Int[Array, ""]
    residual: Array
    fills: Bool[Array, ""]
    is_final: Bool[Array, ""]


class SparseMoreau(AbstractImpulseMethod):
    """The steps of `Moreau` for free bodies whose contacts are in lists: without matrices of contacts.

    **Arguments:** those of `Moreau`.
    """

    max_rounds: int = eqx.field(static=True, default=40)
    tolerance: float = eqx.field(static=True, default=1e-10)
    heap_tolerance: float = eqx.field(static=True, default=ACCEPTED)

    def init(self, system: AbstractMechanical, t: Array, h: Array, state: State) -> Carry:
        del t, h
        contacts = _lists_of(system)
        lists = Candidates.none(contacts.table, len(contacts.bodies(system, state[0]).mass))
        memory = ListedMemory.empty(contacts.room, contacts.law.rows, lists)
        return Carry(state, memory, ListedRecord.empty(contacts.room, contacts.law.rows).pack())

    def restart(self, system: AbstractMechanical, t: Array, h: Array, carry: Carry) -> Carry:
        first, contacts = self.init(system, t, h, carry.state), _lists_of(system)
        taken, coarse = carry.memory.taken, carry.memory.coarse
        record = ListedRecord.empty(contacts.room, contacts.law.rows)._replace(taken=taken, coarse=coarse)
        return Carry(first.state, first.memory._replace(taken=taken, coarse=coarse), record.pack())

    def step(self, system: AbstractMultibodySystem, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        memory: ListedMemory = carry.memory
        (q, v), contacts, gravity = carry.state, _lists_of(system), _gravity(system)
        middle, at = system.flow(q, v, 0.5 * h), t + 0.5 * h
        motion = system.motion(middle, v)
        lists = contacts.renew(memory.lists, motion.poses, contacts.reach(motion, h, gravity))
        near = contacts.near_points(lists, motion, h, gravity)
        labels = near.labels
        places, is_known = memory.find(labels)
        recall = lambda values: jnp.where(is_known[:, None], values[places], 0.0)  # noqa: E731
        guess = recall(memory.impulses)
        pressed = jnp.where(memory.begins, near.present, guess[:, 0] > 0)
        rows = contacts.rows_of(near, motion.poses)

        def turn() -> Array:
            ahead = system.motion(system.flow(middle, v, h), v)
            return contacts.turn(near, rows, lists, motion, ahead)

        moves = jnp.any(pressed) & (h * jnp.max(jnp.abs(v), initial=0.0) > _STILL * contacts.size)
        step = _Step(
            system, at, h, carry.state, middle, near, contacts.law_of(near), contacts.bodies(system, middle),
            rows, lists.order, pressed, recall(memory.first_part),
            jax.lax.cond(moves, turn, lambda: jnp.zeros_like(guess)),
        )  # fmt: skip
        last = self._search(step, guess)
        v1, impulses = last.x, last.impulses
        q1 = system.flow(middle, v1, 0.5 * h)
        before, after = step.slips(v), step.slips(v1)
        taken = memory.taken + jnp.sum(dissipation(impulses, before, after), axis=0)
        slips = jnp.where(near.present[:, None], after + step.turn, 0.0)
        residual = _residual(last)
        is_coarse = jnp.where(residual > SOLVED, 1.0, 0.0)
        coarse = jnp.stack((memory.coarse[0] + is_coarse, jnp.maximum(memory.coarse[1], is_coarse * residual)))
        record = ListedRecord(near.number, impulses / h, slips, taken, coarse)
        left = memory.keep(labels, impulses, _first_part(step, impulses, after), taken, coarse, lists)
        room = lists.is_complete & ~near.overflows
        result = jnp.where(room, _result(last, self.heap_tolerance), int(Result.too_many_contacts)).astype(jnp.int32)
        return Carry((q1, v1), left, record.pack()), StepInfo(result, newton_iterations=last.sweeps, residual=residual)

    def _search(self, step: _Step, guess: Float[Array, "c rows"]) -> _Round:
        """The last round.

        Rounds end when the next one would have the same problem. After a few of them, contacts that have closed stay
        closed, and friction that has stopped going on doesn't begin again: then there are only so many problems.
        """
        _, v = step.start
        factors = step.system.kkt.factor(step.system.mass(step.t, step.middle), (), ())
        everything, zero, no = jnp.ones(len(guess), bool), jnp.zeros((), int), jnp.asarray(False)
        far, high = jnp.asarray(jnp.inf), jnp.full(len(guess), jnp.inf)
        pose = _pose(step, factors, v, guess, everything, high)
        first = _Round(v, guess, pose, far, jnp.asarray(True), everything, high, zero, zero, far, no, no)

        def more(last: _Round) -> Array:
            same = last.change <= self.tolerance
            ends = same & ((last.residual <= self.tolerance) | (last.residual > _FIRST) | last.is_final)
            # Beyond a number of sweeps a coarser solution of a heap will do.
            coarse = (last.change <= _NEARLY) & (last.residual <= self.heap_tolerance)
            coarse = coarse & last.fills & (last.sweeps > _SWEEPS)
            # What a few rounds leave unsolved, more don't solve.
            limit = jnp.where(last.solved, self.max_rounds, min(STEADY_ROUNDS, self.max_rounds))
            return ~ends & ~coarse & (last.number < limit)

        problem = SparseProblem(
            bodies=step.bodies, rows=step.rows, velocity=pose.velocity, friction=step.law.friction,
            active=step.near.present, least=pose.first_part[:, 0], drilling=step.law.drilling,
            rolling=step.law.rolling, order=step.order,
        )  # fmt: skip
        contacts = PreparedProblem.of(problem)
        return jax.lax.while_loop(more, lambda last: self._round(step, factors, contacts, last), first)

    def _round(self, step: _Step, factors: Any, contacts: PreparedProblem, last: _Round) -> _Round:
        system, pose = step.system, last.pose
        problem = contacts.aim(pose.velocity, pose.first_part[:, 0])
        is_final = last.change <= _FIRST
        tolerance = jnp.where(is_final, self.tolerance, _FIRST)
        solution = solve(problem, last.impulses + pose.first_part, tolerance, self.heap_tolerance)
        own = solution.impulses - pose.first_part
        response = step.bodies.respond(step.rows.spread(own, len(step.bodies.mass)))
        x = pose.free + _lists_of(system).velocities(system, step.middle, response)
        sweeps = last.sweeps + solution.sweeps
        slow = (last.number >= FREE_ROUNDS) | (sweeps > _SWEEPS)
        may_slide = ~slow | (last.may_slide & pose.slides)
        lowest = jnp.where(slow, jnp.minimum(last.lowest, step.slips(x)[:, 0]), last.lowest)
        following = _pose(step, factors, x, own, may_slide, lowest)
        change = step.relative(following.velocity - pose.velocity, x)
        # Where directions of friction don't settle, as of slow sliding, the law at the end of the step takes over.
        doubtful = (last.number >= FREE_ROUNDS) & (last.number < STEADY_ROUNDS)
        may_slide = may_slide & (~doubtful | (change <= SETTLES * last.change))
        return _Round(
            x, own, following, change, solution.solved, may_slide, lowest, last.number + 1, sweeps,
            solution.residual, solution.fills, is_final,
        )  # fmt: skip

    def interpolate(
        self, system: AbstractMechanical, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> State:
        """Along the motion of both halves of the step; velocities change in its middle."""
        del t
        (q0, v0), (_, v1) = carry0.state, carry1.state
        first, second = jnp.minimum(s, 0.5) * h, jnp.maximum(s - 0.5, 0.0) * h
        q = system.flow(system.flow(q0, v0, first), v1, second)
        return q, jnp.where(s < 0.5, v0, v1)


def _lists_of(system: AbstractMechanical) -> ListedContacts:
    contacts = contacts_of(system)
    assert isinstance(contacts, ListedContacts)
    return contacts


def _gravity(system: Any) -> Array:
    return jnp.sqrt(jnp.sum(system.mechanism.gravity**2))


def _pose(
    step: _Step, factors: Any, x: Vector, impulses: Float[Array, "c rows"], may_slide: Array, lowest: Array
) -> _Pose:
    """The problem of a round that follows one with the velocity x at the end of the step."""
    system, h, (q0, v0) = step.system, step.h, step.start
    mean = 0.5 * (v0 + x)
    force = system.force(step.t, system.flow(q0, mean, 0.5 * h), mean)
    unbalanced = h * force - apply(system.mass(step.t, step.middle), x - v0, system.n)
    free = x + system.kkt.solve(factors, unbalanced, jnp.zeros(0))[0]
    before, without, after = step.slips(v0), step.slips(free), step.slips(x)
    at_start = before - step.turn
    slides = _slide_on(step, impulses, may_slide, at_start, without, after + step.turn)
    last = after.at[:, 0].min(lowest)
    conditions = close(h, step.law, step.gap, step.pressed, step.first_part, before, without, last, step.touch_gap)
    earlier = step.bodies.respond(step.rows.spread(conditions.first_part, len(step.bodies.mass)))
    # Against the sum of both velocities, so along their mean.
    bounced = step.law.tangential_restitution[:, None] * before[:, 1:3]
    against = jnp.where(slides[:, None], at_start[:, 1:3] - bounced, 0.0)
    target = conditions.target.at[:, 1:].add(step.turn[:, 1:]).at[:, 1:3].add(against)
    velocity = target - step.rows.slips(earlier)
    velocity = jnp.where(step.near.present[:, None], velocity, 0.0)
    return _Pose(free, velocity, conditions.first_part, slides)


def _slide_on(
    step: _Step, impulses: Array, may_slide: Array, before: Array, without: Array, after: Array
) -> Bool[Array, " c"]:
    """Contacts that slide before and after, whose friction acts against the mean of both velocities.

    All points of a pair do, or none: of two that hold a body, one would hold it at another velocity than the other one,
    and impulses between them would grow without an end.
    """
    goes_on = step.pressed & (step.first_part[:, 0] == 0) & may_slide
    on = persistent(goes_on, before[:, 1:3], after[:, 1:3], without)
    # Points of a pair are next to each other.
    pair = step.near.number // POINTS
    holds = (step.pressed | (impulses[:, 0] > 0)) & ~on
    for shift in range(1 - POINTS, POINTS):
        on = on & ~(jnp.roll(holds, shift) & (jnp.roll(pair, shift) == pair))
    return on


def _first_part(step: _Step, impulses: Float[Array, "c rows"], after: Float[Array, "c rows"]) -> Array:
    """Impulses of contacts that go on to close in the next step."""
    begins = ~step.pressed & (impulses[:, 0] > 0) & (step.near.points.gap > step.touch_gap) & (after[:, 0] < 0)
    return jnp.where(begins[:, None], impulses, 0.0)


def _residual(last: _Round) -> Array:
    """How far a step is from the solution of its equations, relative: by their laws, and by the last round."""
    return jnp.maximum(last.residual, last.change)


def _result(last: _Round, accepted: float) -> Array:
    code = jnp.where(_residual(last) > accepted, int(Result.newton_not_converged), 0)
    code = jnp.where(last.solved, code, int(Result.contact_unsolved))
    return jnp.where(jnp.isfinite(jnp.sum(last.x)), code, int(Result.nonfinite_state))
