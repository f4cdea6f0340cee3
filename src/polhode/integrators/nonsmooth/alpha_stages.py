"""The stages of a round of the nonsmooth generalized-α method: smooth motion, positions, velocities."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.contact.contact_problem import SLIDE, ContactProblem
from polhode.contact.solver import solve
from polhode.integrators.explicit.half_explicit_projection import explicit_rate
from polhode.integrators.nonsmooth.alpha_place import AlphaPlace, AlphaStep, Contacts, Unknowns, joint_rate
from polhode.integrators.nonsmooth.slide_directions import (
    against,
    can_open,
    least_speed,
    mean_drag,
    persistent,
    slide,
)
from polhode.linalg.blocks import apply
from polhode.spaces.base import Vector
from polhode.systems.mechanical import Multipliers

_AT_ONCE = 1e-9
"""A time within which no force stops what slides, for steps of no length."""


class Smooth(NamedTuple):
    """Accelerations at the end of a step, with forces of the contacts that stay closed.

    - `mean`: λ̄ there. - `reference`: impulses of these forces. - `slides`: contacts on the edge of the cone.
    """

    vdot: Vector
    force: Float[Array, "c 3"]
    mean: Float[Array, "c 3"]
    reference: Float[Array, "c rows"]
    joints: Multipliers
    slides: Bool[Array, " c"]
    solved: Bool[Array, ""]


class Jump(NamedTuple):
    """The jump of positions.

    - `pushes`: contacts that push. - `depth`: how deep shapes would enter each other without.
    """

    jump: Vector
    pushes: Bool[Array, " c"]
    depth: Float[Array, " c"]
    solved: Bool[Array, ""]


class Kick(NamedTuple):
    """The kick of velocities, the impulses of contacts, and those of joints.

    - `free`: velocities without impulses of contacts. - `without`: relative ones.
    - `before`, `after`: relative velocities between which impulses work.
    - `slides`: contacts whose friction had a direction. - `closed`: contacts that may have impulses.
    """

    kick: Vector
    rub: Vector
    impulses: Float[Array, "c rows"]
    joints: Multipliers
    free: Vector
    before: Float[Array, "c rows"]
    after: Float[Array, "c rows"]
    without: Float[Array, "c rows"]
    slides: Bool[Array, " c"]
    closed: Bool[Array, " c"]
    solved: Bool[Array, ""]


def accelerate(
    step: AlphaStep, at: AlphaPlace, x: Unknowns, closed: Bool[Array, " c"], slides: Bool[Array, " c"], guess: Array
) -> Smooth:
    """Newton's method for the smooth motion.

    - `closed`, `slides`: contacts with forces, and those of them that slide.
    """
    contacts, law = at.contacts, at.contacts.law.at_slips(at.contacts.slips)
    change, joints = step.system.kkt.solve(at.accelerator, at.missing, -joint_rate(step, at, x.vdot))
    rows, now = _smooth_rows(step, contacts, x, slides)
    without = now + rows @ change
    drag = against(law, contacts.slips[:, contacts.along])
    # Where friction would press a contact more than its force opens it, only impulses act.
    held = contacts.held
    # A coordinate is at a stop that it doesn't leave.
    at_stop = (contacts.gap <= contacts.touch_gap) & (
        contacts.slips[:, 0]
        <= least_speed(contacts.slips, contacts.together) + least_speed(step.h * without, contacts.together)
    )
    hold = jnp.where(held & closed, contacts.hold, jnp.where(held, 0.0, -1.0))
    closed = closed & (can_open(rows, contacts.smooth_columns, drag) | ~slides) & (at_stop | ~held)
    # In a step of no length forces change no direction.
    sliding = slide(slides & closed & (step.h == 0) & ~held, drag)
    columns = sliding.combine(contacts.smooth_columns)
    problem = ContactProblem(
        delassus=rows.reshape(-1, step.system.n) @ columns.T,
        velocity=without.reshape(-1),
        friction=sliding.friction(law),
        active=closed,
        hold=hold if step.has_holds else None,
    )
    solution = solve(problem, jnp.where((closed | held)[:, None], guess, 0.0), step.tolerance)
    force = sliding.complete(solution.impulses)
    vdot = x.vdot + change + solution.impulses.reshape(-1) @ columns
    start, explicit = contacts.past.means(step.c, step.h)
    mean = explicit + step.c.ratio * force
    spins = contacts.rows.shape[1] - contacts.along.stop
    reference = jnp.pad(step.c.increment(step.h, start, mean), ((0, 0), (0, spins)))
    joints = joints + force.reshape(-1) @ contacts.smooth_shares
    slides = slides & (sliding.on | (solution.mode == SLIDE))
    return Smooth(vdot, force, mean, reference, joints, slides, solution.solved)


def _smooth_rows(
    step: AlphaStep, contacts: Contacts, x: Unknowns, slides: Bool[Array, " c"]
) -> tuple[Float[Array, "c 3 n"], Float[Array, "c 3"]]:
    """Derivatives by v̇ of what laws of the smooth motion are about, and its present values.

    These are accelerations, and of contacts that slide the velocities that accelerations lead to along tangents: so
    friction has the direction that it gives them.
    """
    rows = contacts.acceleration_rows
    now = contacts.rows[:, : contacts.along.stop] @ x.vdot + contacts.bias
    rows = rows.at[:, 1:].set(jnp.where(slides[:, None, None], contacts.rows[:, contacts.along], rows[:, 1:]))
    lead = step.prediction.velocity
    reached = contacts.slips[:, contacts.along] / jnp.where(lead != 0, lead, _AT_ONCE)
    return rows, now.at[:, 1:].set(jnp.where(slides[:, None], reached, now[:, 1:]))


def close_gaps(step: AlphaStep, at: AlphaPlace, x: Unknowns, smooth: Smooth) -> Jump:
    """Newton's method for positions on the joints, in which no shape enters another."""
    system, contacts, p = step.system, at.contacts, step.prediction
    moved = p.position * (smooth.vdot - x.vdot)
    start, _ = contacts.past.means(step.c, step.h)
    reference = step.c.displacement(step.h, start, smooth.mean)[:, 0]
    jump, _ = system.kkt.solve(at.metric, jnp.zeros(system.n), _openings(step, at, x.jump, moved))
    # Positions of what rubs lack half of the friction that the smooth motion has not.
    jump = jump + 0.5 * step.h * x.rub - reference @ contacts.normal_columns - _leftovers(step, at)[0]
    gap = contacts.gap + contacts.normal_rows @ (moved + jump - x.jump)
    deepest = jnp.maximum(-jnp.min(gap, initial=0.0), 0.0)
    problem = ContactProblem(
        delassus=contacts.normal_rows @ contacts.normal_columns.T,
        velocity=gap,
        friction=jnp.zeros((len(gap), 2)),
        active=(contacts.gap <= contacts.touch_gap) | (gap <= deepest + contacts.touch_gap),
    )
    solution = solve(problem, jnp.maximum(reference, 0.0)[:, None], step.tolerance)
    pushes = solution.impulses[:, 0]
    return Jump(jump + pushes @ contacts.normal_columns, pushes > 0, -gap, solution.solved)


def _openings(step: AlphaStep, at: AlphaPlace, jump: Vector, moved: Vector) -> Multipliers:
    """The value of B times a jump for joints to close; conditions on velocities alone say that it doesn't slip."""
    system = step.system
    if not system.m:
        return jnp.zeros(0)
    target = apply(at.joints, jump - moved, system.m) - system.constraint(step.t, at.q)
    return target.at[system.nonholonomic].set(0.0) if len(system.nonholonomic) else target


def strike(
    step: AlphaStep, at: AlphaPlace, smooth: Smooth, jump: Jump, may_slide: Bool[Array, " c"], guess: Array
) -> Kick:
    """Velocities and impulses of the whole step by the laws of impact and friction.

    - `may_slide`: contacts whose friction may have a direction.
    """
    system, contacts, law, past = step.system, at.contacts, at.contacts.law, at.contacts.past
    speed = step.prediction.v + step.prediction.velocity * smooth.vdot
    rate = -apply(at.joints, speed, system.m) - explicit_rate(system, step.t, at.q) if system.m else jnp.zeros(0)
    closing, joints = system.kkt.solve(at.metric, jnp.zeros(system.n), rate)
    reference = smooth.reference
    free = speed + closing - reference.reshape(-1) @ contacts.columns - _leftovers(step, at)[1]
    before, without = _before(step, contacts), contacts.slips_of(free)
    may_slide = may_slide & ~contacts.held
    along, pressed = contacts.along, past.force[:, 0] > 0
    may_slide = may_slide & smooth.slides & pressed
    on = persistent(may_slide, before[:, along], contacts.slips[:, along], without, contacts.together)
    drag = _drag(contacts, reference, before)
    sliding = slide(on & can_open(contacts.rows, contacts.columns, drag), drag)
    law = law.at_slips(0.5 * (before + contacts.slips))
    columns = sliding.combine(contacts.columns)
    target = contacts.slips_of(free)
    target = target.at[:, 0].add(law.restitution * jnp.minimum(before[:, 0], 0.0))
    target = target.at[:, along].add(law.tangential_restitution[:, None] * before[:, along])
    closed = jump.pushes | ((contacts.gap <= contacts.touch_gap) & contacts.was_closed)
    hold = step.h * jnp.maximum(contacts.hold - 0.5 * step.h * contacts.hold_rate, 0.0)
    problem = ContactProblem(
        delassus=contacts.rows.reshape(-1, system.n) @ columns.T,
        velocity=target.reshape(-1),
        friction=sliding.friction(law),
        drilling=law.drilling,
        rolling=law.rolling,
        active=closed,
        hold=jnp.where(contacts.held, hold, -1.0) if step.has_holds else None,
    )
    solution = solve(problem, guess, step.tolerance)
    v = free + solution.impulses.reshape(-1) @ columns
    impulses = sliding.complete(solution.impulses)
    excess = impulses - reference
    rub = excess.at[:, 0].set(0.0).reshape(-1) @ contacts.columns
    joints = joints + excess.reshape(-1) @ contacts.shares
    after = contacts.slips_of(v)
    before = _approach(step, at, jump, before, without, after)
    return Kick(
        v - speed, rub, impulses, joints, free, before, after, without, sliding.on, closed, solution.solved
    )  # fmt: skip


def _before(step: AlphaStep, contacts: Contacts) -> Float[Array, "c rows"]:
    """Relative velocities at the start, by the rows at the end.

    Contacts that were closed don't approach, though these rows, turned with a body's frame, may say so.
    """
    before = contacts.slips_of(step.v)
    return before.at[:, 0].set(jnp.where(contacts.was_closed, 0.0, before[:, 0]))


def _drag(contacts: Contacts, reference: Float[Array, "c rows"], before: Float[Array, "c rows"]) -> Array:
    """Friction of what slides on, per normal impulse: that of the mean of the smooth motion, of order 2.

    Friction that falls or grows with speed is not cut at its value at either end of the step.
    """
    end = contacts.law.at_slips(contacts.slips)
    largest = jnp.maximum(end.friction, contacts.law.at_slips(before).friction)
    first = reference[:, : contacts.along.stop]
    return mean_drag(first, against(end, contacts.slips[:, contacts.along]), largest)


def _approach(step: AlphaStep, at: AlphaPlace, jump: Jump, before: Array, without: Array, after: Array) -> Array:
    """Velocities before impacts, with which impulses of the whole step take what the impact takes.

    A contact that arrives at the fraction s of the step has the velocity that loads have given it until then, and its
    impulse holds it against loads for the rest.
    """
    arrives = jump.pushes & ~at.contacts.was_closed
    way = -0.5 * step.h * (before[:, 0] + without[:, 0])
    share = jnp.clip(1.0 - jump.depth / jnp.where(way > 0, way, jnp.inf), 0.0, 1.0)
    speed = before[:, 0] + share * (without[:, 0] - before[:, 0])
    change = after[:, 0] - without[:, 0]
    part = (after[:, 0] - speed) / jnp.where(change > 0, change, 1.0)
    normal = part * (speed + after[:, 0]) - after[:, 0]
    return before.at[:, 0].set(jnp.where(arrives & (way > 0) & (change > 0), normal, before[:, 0]))


def _leftovers(step: AlphaStep, at: AlphaPlace) -> tuple[Vector, Vector]:
    """Displacements and changes of velocity by the smooth forces of contacts that are no more."""
    start, end = step.memory.contacts.pushes(step.c, step.h)
    rest = at.contacts.match.rest
    return rest(step.c.displacement(step.h, start, end)), rest(step.c.increment(step.h, start, end))
