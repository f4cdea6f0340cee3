"""The contact problem of a round of Moreau's method: which contacts close, and the laws of those that do."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.contact_problem import ContactProblem, slip_rows
from polhode.integrators.nonsmooth.contact_conditions import STEADY_ROUNDS
from polhode.integrators.nonsmooth.midpoint_step import MidpointStep, delassus_matrix
from polhode.integrators.nonsmooth.slide_directions import SlideDirections, against, narrow, persistent, slide
from polhode.spaces.base import Vector
from polhode.systems.mechanical import Multipliers


class End(NamedTuple):
    """The unknowns of rounds: the velocity at the end of a step, and the way that impulses after its middle lose.

    - `joints`: impulses of joints where friction grows with these, else none of them.
    """

    velocity: Vector
    shift: Vector
    joints: Multipliers


class StepImpulses(NamedTuple):
    """Impulses of a step, and relative velocities before and after them.

    - `jump`: change of velocity by those that act at the instant of an impact.
    """

    contacts: Float[Array, "k rows"]
    joints: Multipliers
    before: Float[Array, "k rows"]
    after: Float[Array, "k rows"]
    jump: Vector


class Round(NamedTuple):
    """One round of the iteration for the end of a step, x, with the impulses as `place`.

    - `change`: of the velocity, and `size` of what changes it, as roots of energies.
    - `slides`: contacts whose friction had a direction. - `may_slide`: those that may have one in the next round.
    - `reaches`: contacts that closed in it. - `wedged`: whether a round with such directions had no solution.
    - `keep`: residual of contact problems with which the next round keeps the impulses of this one.
    - `jammed`: contacts that do not bounce, as one without them had no solution: see `spread_jams`.
    """

    x: End
    place: StepImpulses
    change: Array
    size: Array
    solved: Bool[Array, ""]
    slides: Bool[Array, " k"]
    may_slide: Bool[Array, " k"]
    reaches: Bool[Array, " k"]
    keep: Array
    wedged: Bool[Array, ""]
    jammed: Bool[Array, " k"]
    number: Int[Array, ""]


class ClosedContacts(NamedTuple):
    """Contacts of a step by what they do in it.

    - `reaches`: those that close until the middle of the next step. - `closes`: with them those that stay closed.
    - `acts`: all that may have an impulse.
    """

    reaches: Bool[Array, " k"]
    closes: Bool[Array, " k"]
    acts: Bool[Array, " k"]


def slide_directions(step: MidpointStep, last: Round, free: Vector, moved: Float[Array, "k_rows n"]) -> SlideDirections:
    """Friction of contacts that slide before and after, against the mean of both velocities.

    Where it would press a contact more than its normal force opens it (Painlevé's region), nothing slides on; nor where
    several contacts do that to each other, which a round without a solution shows.
    """
    along = slip_rows(step.contacts.rows.shape[1])
    before, after = step.slips_at_start()[:, along], step.slips_at_end(last.x.velocity)[:, along]
    # Friction with a bound of its own is along a line.
    goes_on = step.pressed & (step.first_part[:, 0] == 0) & ~step.impact.here & ~step.contacts.held_slots()
    goes_on &= ~last.wedged
    # Smoothed friction has a direction of its own.
    goes_on = goes_on if step.smoothing is None else jnp.zeros_like(goes_on)
    on = persistent(narrow(goes_on, last.may_slide, last.number), before, after, step.slips(free))
    drag, W = against(step.law, before + after), step.contacts.rows
    own = jnp.einsum("kn,kin->ki", W[:, 0], moved.reshape(W.shape)[:, : along.stop])
    opens = own[:, 0] + jnp.sum(drag * own[:, 1:], axis=1) > 0
    return slide(on & opens, drag)


def first_parts(step: MidpointStep, impulses: Float[Array, "k rows"], after: Float[Array, "k rows"]) -> Array:
    """Impulses of contacts that go on to close in the next step."""
    if step.smoothing is not None:
        return jnp.zeros_like(impulses)
    begins = ~step.pressed & ~step.impact.here & (impulses[:, 0] > 0)
    begins &= (step.contacts.gap + step.bend > step.touch_gap) & (after[:, 0] < 0)
    # Friction with a bound of its own has that in each step.
    return jnp.where(begins[:, None] & ~step.held_rows, impulses, 0.0)


def pose_problem(
    step: MidpointStep,
    free: Vector,
    closed: ClosedContacts,
    sliding: SlideDirections,
    columns: Float[Array, "k_rows n"],
    jammed: Bool[Array, " k"],
) -> tuple[ContactProblem, Float[Array, "k rows"]]:
    """The contact problem of a round, for sums of impulses of this step and those of impacts that it completes.

    With the latter. Laws of friction hold for the sum: where the slip reverses within an impact, they would give
    another one for parts.

    `jammed` contacts only stop, at the velocity of rest, which all laws allow.
    """
    h, law, (k, rows, _) = step.h, step.law.without_bounces(jammed), step.contacts.rows.shape
    before, without = step.slips(step.start[1]), step.slips(free)
    change, turn = without - before, step.turn[:, 0]
    approach = jnp.minimum(before[:, 0] - turn, 0.0)
    reaches, closes, acts = closed
    # A bounce that ends within the step is none.
    short = -2 * law.restitution * approach <= jnp.abs(change[:, 0] + 2 * turn)
    bounces = reaches & (approach < 0) & (law.restitution > 0) & ~short
    # Shapes that have entered each other are left there, as pushing them out would add energy.
    # Gaps of closed ones are noise, and points of one body that close each its own ask for motions no rigid body has.
    closing = -(jnp.where(step.contacts.gap > step.touch_gap, step.contacts.gap, 0.0) + step.bend) / h
    closing = jnp.where(jammed, jnp.minimum(closing, 0.0), closing)
    least = jnp.where(bounces, -law.restitution * approach - turn, closing)
    target = (without + jnp.where(jammed[:, None], 0.0, step.turn)).at[:, 0].set(without[:, 0] - least)
    along = slip_rows(rows)
    target = target.at[:, along].add(law.tangential_restitution[:, None] * before[:, along])
    # Laws of a located impact hold for the velocities of its instant.
    hit = before + (0.5 + step.impact.delay / h)[:, None] * change
    factors = jnp.tile(law.tangential_restitution[:, None], (1, along.stop)).at[:, 0].set(law.restitution)
    bounced = hit.at[:, : along.stop].multiply(1 + factors)
    # What only stops is at rest at the end, where velocities agree with the joints of the middle: those at the instant
    # are off by their turn within half a step, and no impulse of a jam takes that up.
    bounced = jnp.where(jammed[:, None], without, bounced)
    target = jnp.where(step.impact_rows, bounced, target)
    first_part = jnp.where(closes[:, None], step.first_part, 0.0)
    delassus = delassus_matrix(step.contacts, columns, acts)
    problem = ContactProblem(
        delassus=delassus,
        velocity=target.reshape(-1) - delassus @ first_part.reshape(-1),
        friction=sliding.friction(law),
        drilling=law.drilling,
        rolling=law.rolling,
        active=closes | step.impact.here if step.smoothing is None else jnp.isfinite(closing) & ~step.impact.waits,
        compliance=jnp.zeros(k * rows),
        least=first_part[:, 0],
        hold=None if step.contacts.hold is None else h * step.contacts.hold,
        smoothing=step.smoothing,
    )
    return problem, first_part


def spread_jams(jammed: Bool[Array, " k"], misses: Bool[Array, " k"], problem: ContactProblem) -> Bool[Array, " k"]:
    """Contacts that do not bounce, after a round without a solution: those that miss their laws, and all around them.

    No impulse within the cone of friction gives a lever that jams, or a ball in a narrow slit, the velocity of its
    bounce. At rest they satisfy the laws without it.
    """
    k = len(jammed)
    blocks = jnp.abs(problem.delassus).reshape(k, problem.rows, k, problem.rows)
    coupled = jnp.sum(blocks, axis=(1, 3)) > 0
    return jammed | misses | jnp.any(coupled & (jammed | misses)[None], axis=1)


def find_closed(step: MidpointStep, last: Round, free: Vector) -> ClosedContacts:
    """Which contacts close in a step that has the velocity `free` without them."""
    without, approach = step.slips(free), jnp.minimum(step.slips(step.start[1])[:, 0], 0.0)
    h, gap, now = step.h, step.contacts.gap + step.bend, step.slips(last.x.velocity)[:, 0]
    # Bodies that fall together don't approach each other before the lower one is stopped, as the last round says.
    reaches = gap + h * jnp.minimum(jnp.minimum(approach, without[:, 0]), now) <= step.touch_gap
    # One that is new has to enter, as others may carry the body: the tile before that which a ball comes to.
    new = (step.contacts.gap > step.touch_gap) & ~step.pressed
    enters = (gap + h * now < -step.touch_gap) | ((last.place.contacts[:, 0] > 0) & (last.number > 0))
    reaches &= ~new | enters
    # Rounds that close contacts in turn settle: laws of one that need not close leave it without an impulse.
    reaches |= last.reaches & (last.number >= STEADY_ROUNDS)
    # Those of a stack at rest, whose gaps are round-off, need no round each.
    weight = jnp.max(jnp.abs(without[:, 0] - step.slips(step.start[1])[:, 0]), initial=0.0)
    closes = (reaches | (step.pressed & (gap <= h * weight))) & ~step.impact.waits
    acts = closes | step.pressed | step.impact.here | step.contacts.held_slots()
    return ClosedContacts(reaches, closes, acts if step.smoothing is None else jnp.ones_like(acts))
