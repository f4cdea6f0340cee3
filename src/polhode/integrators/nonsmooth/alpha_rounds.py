"""Rounds of a step of the nonsmooth generalized-α method: one Newton iteration of each stage, and the modes."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.contact_problem import OPEN, SLIDE, STICK, slip_rows
from polhode.contact.scales import energy_norm
from polhode.integrators.implicit._alpha_equations import place_at
from polhode.integrators.implicit._implicit_differentiation import freeze, with_implicit_derivative
from polhode.integrators.nonsmooth.alpha_memory import SmoothContacts
from polhode.integrators.nonsmooth.alpha_place import AlphaPlace, AlphaStep, Contacts, Unknowns, evaluate
from polhode.integrators.nonsmooth.alpha_stages import Kick, Smooth, accelerate, close_gaps, strike
from polhode.integrators.nonsmooth.contact_identity import Match
from polhode.integrators.nonsmooth.contact_record import contacts_of, dissipation, size_of
from polhode.integrators.nonsmooth.long_ways import have_passed, radii_of
from polhode.integrators.nonsmooth.slide_directions import FREE_ROUNDS, goes_ahead, least_speed, narrow
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical import Multipliers

_CONVERGED = 1e-13
"""Change of velocities from round to round, relative to them, at which rounds end."""

_NOISE = 1e-10
"""Change below which rounds end that don't get better: contacts of large mass ratios are solved up to this."""

_ROUND_OFF = 8 * float(jnp.finfo(float).eps)

_BLUR = 1e3
"""The same in parts of round-off of positions in a step."""

_SETTLES = 0.5
"""Ratio of changes of two rounds up to which they converge well."""

_CREEPS = 0.99
"""Largest ratio of ways that is taken for one by which they change."""

_SLIDE_ROUNDS, _MODE_ROUNDS = 6, 12
"""Rounds after which no contact begins to slide, and none changes its mode any more."""


class AlphaEnd(NamedTuple):
    """The end of a step.

    - `joints`: multipliers there, with means of their impulses. - `contacts`: their memory. - `shift`: (a - v̇)/h.
    - `forces`, `impulses`, `slips`, `taken`: of all contacts of the system: smooth forces and relative velocities at
      the end, and energy by kinds.
    """

    q: Point
    v: Vector
    joints: Multipliers
    contacts: SmoothContacts
    shift: Vector
    forces: Float[Array, "k rows"]
    impulses: Float[Array, "k rows"]
    slips: Float[Array, "k rows"]
    taken: Float[Array, "k 3"]


class AlphaRound(NamedTuple):
    """One round.

    - `mode`, `labels`: of the contacts. - `slides`: contacts whose friction of impulses had a direction.
    - `pushes`: contacts that pushed positions.
    - `depth`, `left_out`: of the deepest contact, in parts of positions, and whether one closes for which there is no
      room.
    - `change`, `size`, `noise`: of velocities, of what changes them in the step, and of these by round-off of
      positions, as roots of energies.
    - `way`: changes of unknowns before they were relaxed, as velocities.
    - `hold`: largest friction forces along coordinates.
    - `missed`: whether shapes have passed through each other.
    - `settled`: whether modes are those of the round before.
    """

    x: Unknowns
    place: AlphaEnd
    mode: Int[Array, " c"]
    labels: Int[Array, " c"]
    slides: Bool[Array, " c"]
    pushes: Bool[Array, " c"]
    depth: Array
    left_out: Bool[Array, ""]
    hold: Float[Array, " c"]
    missed: Bool[Array, ""]
    change: Array
    change_before: Array
    way: tuple[Vector, Vector, Vector]
    size: Array
    noise: Array
    settled: Bool[Array, ""]
    solved: Bool[Array, ""]
    number: Int[Array, ""]


def iterate(step: AlphaStep, max_rounds: int) -> AlphaRound:
    """The last round. Its derivative is that of the equation x = next round of x, with all modes as they are."""
    last = _search(freeze(step), max_rounds)
    held = last._replace(number=jnp.asarray(_MODE_ROUNDS))

    def equation(x: Unknowns) -> tuple[Unknowns, AlphaEnd]:
        again = _advance(step, held._replace(x=x))
        return jax.tree.map(jnp.subtract, x, again.x), again.place

    return with_implicit_derivative(lambda *_: last, equation, lambda _, rest: rest, last.x, None)


def _search(step: AlphaStep, max_rounds: int) -> AlphaRound:
    def more(last: AlphaRound) -> Array:
        is_noise = (last.change > 0.9 * last.change_before) & (last.change <= _NOISE * last.size + _BLUR * last.noise)
        converged = (last.change <= _CONVERGED * last.size + last.noise) | is_noise
        return ~(converged & last.settled) & (last.number < max_rounds)

    return jax.lax.while_loop(more, lambda last: _advance(step, last), _start(step))


def _start(step: AlphaStep) -> AlphaRound:
    memory, past, n = step.memory, step.memory.contacts, step.system.n
    x = Unknowns(memory.vdot, *(jnp.zeros(n),) * 3)
    none, zeros = jnp.zeros(()), jnp.zeros(size_of(step.system))
    joints, taken = jnp.zeros(step.system.m), jnp.zeros_like(memory.dissipation)
    end = AlphaEnd(step.q, step.v, joints, past, memory.shift, zeros, zeros, zeros, taken)
    no, none_of_them, endless = jnp.asarray(False), memory.mode < OPEN, jnp.asarray(jnp.inf)
    return AlphaRound(
        x, end, memory.mode, memory.labels, slides=none_of_them, pushes=none_of_them, depth=none, left_out=no,
        hold=jnp.zeros(memory.mode.shape), missed=no, change=endless, change_before=endless, size=none, noise=none,
        way=(jnp.zeros(n), jnp.zeros(n), jnp.zeros(n)),
        settled=no, solved=no, number=jnp.asarray(0),
    )  # fmt: skip


def _advance(step: AlphaStep, last: AlphaRound) -> AlphaRound:
    at = evaluate(step, last.x)
    match = Match.of(at.contacts.identity, last.labels)
    x, mode = last.x, _modes_before(last, at, match)
    has_force = (mode != OPEN) & step.smooth_contacts
    smooth = accelerate(step, at, x, has_force, mode == SLIDE, match.recall(last.place.contacts.force))
    jump = close_gaps(step, at, x, smooth)
    # One that friction of its own impact moves away again has that impact, or rounds would cycle.
    before = (match.recall(jnp.where(last.pushes, 1.0, 0.0)) > 0) & (last.number >= FREE_ROUNDS)
    jump = jump._replace(pushes=jump.pushes | before)
    may_slide = narrow(has_force, match.recall(jnp.where(last.slides, 1.0, 0.0)) > 0, last.number)
    kick = strike(step, at, smooth, jump, may_slide, match.recall(last.place.contacts.impulses))
    new = Unknowns(smooth.vdot, jump.jump, kick.kick, kick.rub)
    way = _way(step, new, x)
    # Friction that turns a body away from the place of its impact leads rounds to and fro; that of one which just
    # begins to slide lets them creep.
    relaxes = (last.number >= _MODE_ROUNDS) & (last.number % 3 == 2) & (last.change > _SETTLES * last.change_before)
    factor = jnp.where(relaxes, _relaxation(way, last.way), 1.0)
    new = jax.tree.map(lambda n, o: jnp.where(relaxes, o + factor * (n - o), n), new, x)
    new_mode = _narrow(mode, _modes(kick, at.contacts), last.number)
    changes = _way(step, new, x)
    mass = step.system.mass(step.t, at.smooth.q)
    norm = lambda v: energy_norm(mass, v, step.system.n)  # noqa: E731
    return AlphaRound(
        new, _end(step, at, smooth, kick, new, new_mode), new_mode, at.contacts.identity, kick.slides, jump.pushes,
        depth=jnp.max(-at.contacts.gap / at.contacts.scales.size, initial=0.0),
        left_out=at.contacts.present.left_out <= jnp.max(at.contacts.touch_gap, initial=0.0),
        hold=at.contacts.hold,
        missed=jnp.any(_have_passed(step, at)),
        change=jnp.max(jnp.stack([norm(part) for part in changes])),
        change_before=last.change,
        way=way,
        size=norm(step.v) + norm(kick.free - step.v),
        noise=at.contacts.scales.noise(_ROUND_OFF, at.contacts.rows, at.contacts.columns, step.h),
        settled=jnp.all(new_mode == mode),
        solved=smooth.solved & jump.solved & kick.solved,
        number=last.number + 1,
    )  # fmt: skip


def _way(step: AlphaStep, new: Unknowns, x: Unknowns) -> tuple[Vector, Vector, Vector]:
    """Changes of unknowns in a round, as velocities."""
    return step.h * (new.vdot - x.vdot), (new.jump - x.jump) * _inverse(step.h), new.kick - x.kick


def _relaxation(way: tuple[Vector, ...], before: tuple[Vector, ...]) -> Array:
    """By how much of its way a round goes: to where rounds lead that creep by the same factor each (Aitken), half of it
    where they go to and fro, or around."""
    inner = lambda a, b: sum(x @ y for x, y in zip(a, b, strict=True))  # noqa: E731
    square = inner(before, before)
    ratio = jnp.where(square > 0, inner(way, before) / jnp.where(square > 0, square, 1.0), 0.0)
    return jax.lax.stop_gradient(jnp.where(ratio > _SETTLES, 1 / (1 - jnp.minimum(ratio, _CREEPS)), 0.5))


def _have_passed(step: AlphaStep, at: AlphaPlace) -> Bool[Array, " c"]:
    """Contacts of shapes that have passed through each other in the whole of a step."""
    spheres = radii_of(contacts_of(step.system), at.contacts.present.number)
    leaves = have_passed(2 * step.h, at.contacts.gap, at.contacts.slips_of(step.v), *spheres)
    return leaves & ~at.contacts.was_closed


def _modes_before(last: AlphaRound, at: AlphaPlace, match: Match) -> Int[Array, " c"]:
    """Modes after the round before; those that it didn't know stick if they touch.

    Of what lies flat, such as a cylinder on its side, round-off says which of its features touch.
    """
    mode, touches = match.recall(last.mode.astype(float)), at.contacts.gap <= at.contacts.touch_gap
    return jnp.where(match.is_old, mode, jnp.where(touches, STICK, OPEN)).astype(jnp.int32)


def _modes(kick: Kick, contacts: Contacts) -> Int[Array, " c"]:
    """Modes at the end of a step: closed contacts are those that don't leave each other.

    Those along coordinates have that of their friction, whether they are at a stop or not.
    """
    least = least_speed(kick.without, contacts.together)
    closed = contacts.held | (kick.closed & (kick.after[:, 0] <= least))
    slides = jnp.sqrt(jnp.sum(kick.after[:, slip_rows(kick.after.shape[1])] ** 2, axis=1)) > least
    return jnp.where(closed, jnp.where(slides, SLIDE, STICK), OPEN).astype(jnp.int32)


def _narrow(mode: Int[Array, " c"], new: Int[Array, " c"], number: Array) -> Int[Array, " c"]:
    """Modes that a round may give: after a few, those that can't be told from each other settle."""
    stays = (new == SLIDE) & (mode != SLIDE) & (number >= _SLIDE_ROUNDS)
    return jnp.where(number < _MODE_ROUNDS, jnp.where(stays, mode, new), mode)


def _end(step: AlphaStep, at: AlphaPlace, smooth: Smooth, kick: Kick, x: Unknowns, mode: Array) -> AlphaEnd:
    """The end of a step with all that has to be remembered of it.

    The filter forgets the past of contacts whose forces jump.
    """
    contacts, c = at.contacts, step.c
    place = place_at(step.system, step.prediction, x.vdot, x.vdot)
    q, v = step.system.configuration.move(place.q, x.jump), place.v + x.kick
    shape = (*smooth.force.shape, step.system.n)
    columns = contacts.columns.reshape(contacts.rows.shape)[:, : shape[1]].reshape(shape)
    lag = (smooth.mean - smooth.force) * _inverse(step.h)
    push, push_lag = (jnp.einsum("ci,cin->cn", each, columns) for each in (smooth.force, lag))
    memory, inverse = step.memory, _inverse(step.h)
    start = memory.vdot + step.h * memory.shift
    mean = c.explicit(memory.vdot, start) + c.ratio * x.vdot
    gone = contacts.match.rest(memory.contacts.pushes(c, step.h)[1])
    changed = _jumps(contacts, kick, mode)[:, None]
    shift = (mean - gone - x.vdot) * inverse - jnp.sum(jnp.where(changed, push_lag, 0.0), axis=0)
    kept = SmoothContacts(
        smooth.force, jnp.where(changed, 0.0, lag), push, jnp.where(changed, 0.0, push_lag), kick.impulses
    )
    joints = smooth.joints + kick.joints * inverse
    rows = size_of(step.system)[1]
    everywhere = lambda values: contacts.present.spread(values, len(memory.dissipation))[:, :rows]  # noqa: E731
    spins = contacts.rows.shape[1] - shape[1]
    return AlphaEnd(
        q, v, joints, kept, shift, everywhere(jnp.pad(smooth.force, ((0, 0), (0, spins)))),
        everywhere(kick.impulses), everywhere(kick.after),
        contacts.present.spread(dissipation(kick.impulses, kick.before, kick.after), len(memory.dissipation)),
    )  # fmt: skip


def _jumps(contacts: Contacts, kick: Kick, mode: Int[Array, " c"]) -> Bool[Array, " c"]:
    """Contacts whose forces jump: those that have changed their mode, and those that now slide another way."""
    along = contacts.along
    turns = (mode == SLIDE) & ~goes_ahead(kick.before[:, along], kick.after[:, along])
    return (mode != contacts.past_mode) | turns


def _inverse(h: Array) -> Array:
    """1/h, or 0 for a step of no length, which has accelerations and no impulses."""
    return jnp.where(h != 0, 1 / jnp.where(h != 0, h, 1.0), 0.0)
