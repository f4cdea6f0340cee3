"""Where a step of Moreau's method leads its contacts: gaps ahead, and the impacts within it."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.contact.contact_problem import slip_rows
from polhode.contact.scales import Scales
from polhode.integrators.nonsmooth.contact_record import contacts_of
from polhode.integrators.nonsmooth.long_ways import pass_through, radii_of
from polhode.integrators.nonsmooth.midpoint_step import (
    Impact,
    MidpointStep,
    constant_factors,
    delassus_matrix,
    move_freely,
    respond,
)
from polhode.spaces.base import Point, Vector
from polhode.spaces.rotations import SO3
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical
from polhode.systems.mechanical.contact_set import ContactKinematics, PresentContacts

_STILL = 1e-12
"""Motion in a step, relative to the largest position, up to which gaps ahead are those of the middle."""

_ROUND_OFF = 64 * jnp.finfo(float).eps

_AT_ONCE = 1e-6
"""Part of a step within which impacts are simultaneous."""

_ACCELERATES = 2.0
"""Factor of the rate of a gap up to which loads of a step may raise it for an impact that is still located."""

_LATE = 0.05
"""Part of a step by which an impact that has waited for it may lie before its beginning."""

_APART = 1e-12
"""Part of its own effect up to which an impulse has none on another contact."""


class Outlook(NamedTuple):
    """Changes of contacts ahead of the middle of a step, beyond what their rows there say.

    - `bend`: gain of gaps until the middle of the next step. - `turn`: change of relative velocities and spins until
      the end of this one, by the turning of bodies, surfaces and frames of coordinates.
    """

    bend: Float[Array, " c"]
    turn: Float[Array, "c rows"]


def look_ahead(
    system: AbstractMechanical,
    t: Array,
    h: Array,
    state: State,
    middle: Point,
    present: PresentContacts,
    pressed: Bool[Array, " c"],
    scales: Scales,
) -> Outlook:
    """The contacts on the motion with the velocity at the start, until the middle of the next step.

    Gaps ahead show which contacts close. Their rates don't: a ball that comes to the edge of the next tile approaches
    it, and one that rolls in a hollow leaves its surface along the tangent. Where surfaces that press each other bend
    apart, they stay as near as they are, since what comes next may carry the body. Velocities ahead show those at the
    end of the step, where laws of friction hold: the point at which a disc rolls moves on while it does.

    Free bodies with body-fixed velocities go straight there. What gaps and slips gain by the screws that steps follow
    instead belongs to the coordinates and not to surfaces, and is there in any case.
    """
    _, v = state
    at, size = present.kinematics, scales.size
    gap, slips = at.gap, at.rows @ v + at.drift
    rate = slips[:, 0]

    def look() -> Outlook:
        along, later = _straighten(system.screws, v, h)
        there = contacts_of(system).ahead(system, t + h, system.flow(middle, along, h), later, present)
        own = there.gap - gap - h * rate
        # Another point of the same shapes says only that they are apart.
        other = jnp.maximum(there.nearest - gap - h * rate, 0.0)
        through = pass_through(h, gap, slips, there.slips, *radii_of(contacts_of(system), present.number))
        bend = jnp.where(there.same, own, jnp.where(gap > 0, other, 0.0))
        bend = jnp.where(through, 0.0, bend)
        bend = jnp.where(pressed, jnp.minimum(bend, 0.0), bend)
        noise = _ROUND_OFF * (size + jnp.abs(gap) + h * jnp.abs(rate))
        # Beyond the edge of a tile, the next one carries the body.
        carries = there.same & (own <= noise) & ~through
        change = there.slips - slips
        if len(system.screws):
            bend = bend + h * (at.rows[:, 0] @ (v - along))
            change = change + at.rows @ (v - later)
        turn = jnp.where(carries[:, None], 0.5 * change, 0.0)
        blur = _ROUND_OFF * (jnp.abs(at.rows) @ jnp.abs(v) + jnp.abs(at.drift))
        return Outlook(jnp.where(jnp.abs(bend) > noise, bend, 0.0), jnp.where(jnp.abs(turn) > blur, turn, 0.0))

    along = jnp.abs(at.rows[:, : slip_rows(at.rows.shape[1]).stop])
    moves = jnp.any(h * (along @ jnp.abs(v)) > _STILL * size[:, None])
    return jax.lax.cond(moves, look, lambda: Outlook(jnp.zeros_like(gap), jnp.zeros_like(slips)))


def _straighten(screws: np.ndarray, v: Vector, h: Array) -> tuple[Vector, Vector]:
    """Velocities whose flow takes free bodies straight for h, and those that they have after it."""
    if not len(screws):
        return v, v
    turning, moving = screws[:, :3], screws[:, 3:]
    omega, u = h * v[turning], v[moving]
    along = jax.vmap(SO3().dexpinv)(omega, u)
    later = jax.vmap(lambda theta, u: SO3().exp(-theta) @ u)(omega, u)
    return v.at[moving].set(along), v.at[moving].set(later)


def locate_impact(step: MidpointStep, present: PresentContacts) -> MidpointStep:
    """The step with its first impact, in which contacts that bounce have the geometry of the instant when they touch.

    Only of contacts that nothing else that touches is coupled with: others bounce in the middle of a step.
    """
    if not step.law.bounces:
        return step
    _, v = step.start
    rate = step.slips(v)[:, 0]
    arrives = (
        (step.slips_at_start()[:, 0] < 0)
        & (step.contacts.gap + step.bend + _ACCELERATES * step.h * rate <= step.touch_gap)
        & (step.law.restitution > 0)
    )
    none = step.contacts.rows, step.contacts.drift, step.impact
    rows, drift, impact = jax.lax.cond(jnp.any(arrives), lambda: _locate(step, present, arrives), lambda: none)
    return dataclasses.replace(step, contacts=step.contacts._replace(rows=rows, drift=drift), impact=impact)


def without_impact(k: int, n: int) -> Impact:
    """None of k contacts of a system of n velocities."""
    none = jnp.zeros(k, bool)
    return Impact(none, jnp.zeros(k), none, jnp.zeros(()), jnp.zeros(n))


def _locate(
    step: MidpointStep, present: PresentContacts, arrives: Bool[Array, " k"]
) -> tuple[Float[Array, "k rows n"], Float[Array, "k rows"], Impact]:
    """Rows, drift and the impact of such a step."""
    system, h, (_, v) = step.system, step.h, step.start
    free = move_freely(step, constant_factors(step), v, jnp.zeros(system.n))
    before, change = step.slips(v)[:, 0], (step.contacts.rows @ (free.velocity - v))[:, 0]
    # As rounds see which contacts close: loads of the step may bring them there.
    arrives &= step.contacts.gap + step.bend + h * (before + jnp.minimum(change, 0.0)) <= step.touch_gap
    # The gap is C + Bs + As² at s after the middle.
    A, B = step.bend / h**2 + 0.5 * change / h, before + 0.5 * change
    C = step.contacts.gap + 0.125 * h * change
    square = B**2 - 4 * A * C
    meets = arrives & (B < 0) & (square > 0)
    gain = change + 2 * step.turn[:, 0]
    speed = jnp.sqrt(jnp.where(meets, square, 1.0))
    delay = jnp.where(meets, 2 * C / (speed - jnp.where(meets, B, -1.0)), 0.0)
    bounces = meets & (2 * step.law.restitution * speed > jnp.abs(gain)) & (delay >= -(0.5 + _LATE) * h)
    every = jnp.ones(len(before), bool)
    delassus = delassus_matrix(step.contacts, respond(step, free.factors, every).moved, every)
    alone = bounces & ~_is_disturbed(step, delassus, before + change, bounces, delay)
    due = alone & (delay <= 0.5 * h)
    first = jnp.min(jnp.where(due, delay, jnp.inf), initial=jnp.inf)
    instant = jnp.where(jnp.isfinite(first), first, 0.0)
    gained = free.velocity - v

    def contacts_at(instant: Array) -> ContactKinematics:
        path = instant * v + 0.5 * (0.5 * h + instant) ** 2 / h * gained
        return contacts_of(system).again(system, step.t + instant, system.flow(step.middle, path, 1.0), present)

    there = contacts_at(instant)
    here = due & (delay <= first + _AT_ONCE * h) & (there.feature == step.contacts.feature)
    # Gaps of turning bodies are no parabolas: what is left of them there, the time of the impact takes up.
    rate = there.rows[:, 0] @ (v + (0.5 + instant / h) * gained) + there.drift[:, 0]
    late = jnp.where(here, there.gap / jnp.maximum(-rate, 0.5 * speed), 0.0)
    late = jnp.clip(jnp.where(jnp.any(here), jnp.sum(late) / jnp.maximum(jnp.sum(here), 1), 0.0), -_LATE * h, _LATE * h)
    waits = (alone & ~due) | (here & (instant + late > 0.5 * h))
    here &= ~waits
    delay, instant = delay + late, instant + late
    # Angular momenta hold where lines of action go through the points that bodies have at the instant itself.
    then = contacts_at(instant)
    on_time = here & (then.feature == there.feature)
    rows = jnp.where(here[:, None, None], there.rows, step.contacts.rows)
    rows = jnp.where(on_time[:, None, None], then.rows, rows)
    drift = jnp.where(on_time[:, None], then.drift, jnp.where(here[:, None], there.drift, step.contacts.drift))
    loads = system.force(step.t, step.middle, jnp.zeros_like(v))
    instant = jnp.where(jnp.any(here), instant, 0.0)
    return rows, drift, Impact(here, jnp.where(here, delay, 0.0), waits, instant, loads)


def _is_disturbed(
    step: MidpointStep,
    delassus: Float[Array, "k_rows k_rows"],
    without: Float[Array, " k"],
    bounces: Bool[Array, " k"],
    delay: Float[Array, " k"],
) -> Bool[Array, " k"]:
    """Contacts that others are coupled with which touch at another time of the step in which they bounce.

    For those that wait it is the next step; disturbed there, they would bounce in its middle, when they are through.
    """
    (k, rows, _), h = step.contacts.rows.shape, step.h
    rate = jnp.minimum(jnp.minimum(step.slips(step.start[1])[:, 0], without), 0.0)
    steps = jnp.where(delay > 0.5 * h, 2.0, 1.0)[:, None]
    closes = step.pressed | (step.contacts.gap + steps * steps * step.bend + steps * h * rate <= step.touch_gap)
    blocks = jnp.max(jnp.abs(delassus).reshape(k, rows, k, rows), axis=(1, 3))
    coupled = blocks > _APART * jnp.diag(blocks)[:, None]
    together = bounces & bounces[:, None] & (jnp.abs(delay - delay[:, None]) <= _AT_ONCE * h)
    return jnp.any(coupled & closes & ~together & ~jnp.eye(k, dtype=bool), axis=1)
