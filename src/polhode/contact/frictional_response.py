"""Impacts with friction, and the modes in which contacts go on after them."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.contact.contact_problem import ContactProblem, ContactSolution, discs, slip_rows
from polhode.contact.held_contacts import (
    SLOW,
    ContactModes,
    ContactMotion,
    FreeResponse,
    contacts_of,
    friction_bounds,
    length,
    sliding_friction,
    stop_rows,
)
from polhode.contact.impact_laws import solve_poisson
from polhode.contact.scales import Scales
from polhode.contact.solver import solve
from polhode.contact.unilateral import TOUCH_TOLERANCE
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical
from polhode.systems.mechanical.contact_set import ContactLaw

_SLIPS = 1e-6
"""Speed, in parts of that of the system, from which a contact slides; what is slower sticks if friction can hold it."""

_ROUND_OFF = 1e-9
"""Part of the largest speed of the contacts that impacts leave where there should be none."""

_PRESSES = 1e-10
"""Normal force, in parts of the largest, from which a contact is closed."""

_AT_BOUND = 1e-8
"""Relative distance from the bound of friction within which a contact begins to slide."""

_TOLERANCE = 1e-12

_AT_ONCE = 1e-3
"""Part of the shortest flight within which contacts touch at the same instant."""

_DEPTH = 1e-12
"""Depth, relative to the largest position, that a contact without force may have."""


class FrictionalResponse(NamedTuple):
    """The state after an impact, and the modes after it.

    - `velocity`, `modes`. - `impulses`: of the impact, shape (k, rows). - `before`, `after`: relative velocities.
    - `locks`: contacts that slid in Painlevé's region: friction pressed them more than their normal force opened them.
    - `solved`: whether the laws have been satisfied, of impulses and of forces.
    """

    velocity: Vector
    modes: ContactModes
    impulses: Float[Array, "k rows"]
    before: Float[Array, "k rows"]
    after: Float[Array, "k rows"]
    locks: Bool[Array, " k"]
    solved: Bool[Array, ""]


class _Impact(NamedTuple):
    velocity: Vector
    impulses: Float[Array, "k rows"]
    slow: Array
    solved: Array


def respond_with_friction(
    system: AbstractMechanical, t: Array, state: State, modes: ContactModes, shortest: Array
) -> FrictionalResponse:
    r"""Velocities and modes after all impacts at an instant.

    First Newton's law with friction for the impulses of all that touches; then, where contacts have come to rest along
    their normals, $0 \le \dot u_N \perp \lambda_N \ge 0$ with Coulomb's law for accelerations decides which stay
    closed, and which of these slide.

    - `modes`: those before. - `shortest`: a contact closes instead of bouncing where its flight would be shorter.
    """
    q, v = state
    motion = ContactMotion.of(system, t, q, v)
    free_response = FreeResponse.at(system, t, q, motion.kinematics.rows)
    scales = Scales.of(system, q)
    # Instants of impacts are located up to a fraction of the shortest flight.
    way = _AT_ONCE * shortest * scales.largest(jnp.abs(motion.slips[:, 0]))
    touches = motion.kinematics.gap <= scales.touch_gap(TOUCH_TOLERANCE) + way
    touching = modes.at(motion.labels).closed | touches
    free, _ = free_response.accelerations(system, t, q, v)
    forced = jnp.abs(motion.kinematics.rows @ free + motion.bend) + _brake(motion.kinematics.hold, free_response.own)
    speed = scales.speeds(motion.kinematics, v, motion.slips, forced)
    impact = _impact(motion, v, free, speed, contacts_of(system).law, free_response, touching, shortest)
    after = motion.slips + jnp.einsum("kin,n->ki", motion.kinematics.rows, impact.velocity - v)
    resting = touching & (after[:, 0] <= impact.slow)
    new, solved = _modes(system, t, q, impact.velocity, free_response, resting, speed)
    # Contacts that open slowly, or carry nothing, must not close again because of rounding.
    depth = jnp.maximum(-motion.kinematics.gap, 0.0) + _DEPTH * scales.size
    slack = jnp.where(resting & ~new.closed, depth, 0.0)
    new = dataclasses.replace(new, slack=slack)
    velocity = stop_rows(free_response, new.held, after, impact.velocity)
    locks = touching & ~new.own & _is_locked(contacts_of(system).law, motion, free_response, speed)
    return FrictionalResponse(velocity, new, impact.impulses, motion.slips, after, locks, impact.solved & solved)


def _brake(hold: Float[Array, " k"] | None, own: Float[Array, "k rows"]) -> Float[Array, "k rows"]:
    """Relative accelerations by friction with a bound of its own: what it alone acts on has a speed by it."""
    return jnp.zeros_like(own) if hold is None else jnp.maximum(hold, 0.0)[:, None] * jnp.abs(own)


def _is_locked(law: ContactLaw, motion: ContactMotion, free_response: FreeResponse, speed: Array) -> Bool[Array, " k"]:
    """Contacts that slide without approaching, of which a normal force would not open them with its friction."""
    u = motion.slips
    law = law.at_slips(u)
    along = slip_rows(u.shape[1])
    scaled = law.friction * u[:, along]
    size = length(scaled)
    slides = size > _SLIPS * speed[:, 1]
    drag = -law.friction * scaled / jnp.where(slides, size, 1.0)[:, None]
    own = jnp.einsum("kn,kin->ki", motion.kinematics.rows[:, 0], free_response.motions[:, : along.stop])
    return slides & (u[:, 0] > -_SLIPS * speed[:, 0]) & (own[:, 0] + jnp.sum(drag * own[:, 1:], axis=1) <= 0)


def _impact(
    motion: ContactMotion,
    v: Vector,
    free: Vector,
    speeds: Float[Array, "k rows"],
    law: ContactLaw,
    free_response: FreeResponse,
    touching: Bool[Array, " k"],
    shortest: Array,
) -> _Impact:
    """Impulses of all that touches, if anything approaches.

    - `free`: accelerations without contacts. - `speeds`: of the system along rows.
    """
    law, u = law.at_slips(motion.slips), motion.slips
    fall = (motion.kinematics.rows @ free + motion.bend)[:, 0]
    still, speed = SLOW * speeds[:, 0], jnp.max(jnp.where(touching, jnp.abs(u[:, 0]), 0.0), initial=0.0)
    approach = jnp.where(touching & (u[:, 0] < -still), u[:, 0], 0.0)
    rests = 2 * law.restitution * jnp.abs(approach) <= shortest * jnp.maximum(-fall, 0.0)
    e = jnp.where(rests, 0.0, law.restitution)
    target = u if law.is_poisson else u.at[:, 0].add(e * approach)
    along = slip_rows(u.shape[1])
    target = target.at[:, along].add(law.tangential_restitution[:, None] * u[:, along])
    # Friction with a bound of its own has no part in an impact.
    hold = motion.kinematics.hold
    problem = ContactProblem(
        free_response.delassus, target.reshape(-1), law.friction, touching, law.drilling, law.rolling,
        hold=None if hold is None else jnp.minimum(hold, 0.0),
    )  # fmt: skip
    none = jnp.zeros_like(u)
    skip = lambda: (none, jnp.asarray(True))  # noqa: E731

    def hit() -> tuple[Array, Array]:
        solution = solve_poisson(problem, none, e, _TOLERANCE) if law.is_poisson else solve(problem, none, _TOLERANCE)
        return solution.impulses, solution.residual <= 1e3 * _TOLERANCE

    impulses, solved = jax.lax.cond(jnp.any(approach < 0), hit, skip)
    slow = 0.5 * shortest * jnp.max(jnp.where(touching, jnp.abs(fall), 0.0), initial=0.0) + _ROUND_OFF * speed + still
    return _Impact(v + jnp.einsum("ki,kin->n", impulses, free_response.motions), impulses, slow, solved)


def _modes(
    system: AbstractMechanical,
    t: Array,
    q: Point,
    v: Vector,
    free_response: FreeResponse,
    resting: Bool[Array, " k"],
    speed: Float[Array, "k rows"],
) -> tuple[ContactModes, Array]:
    """Modes of contacts of which some rest along their normals, and whether they were found."""
    law, motion = contacts_of(system).law.at_rest(), ContactMotion.of(system, t, q, v)
    u, parts = motion.slips, discs(motion.slips.shape[1])
    slipping, ways = jnp.zeros(u.shape, bool), jnp.zeros(u.shape)
    own = motion.kinematics.held_slots()
    for disc in parts:
        size = length(u[:, disc])[:, None]
        slips = (
            (resting | own)[:, None]
            & (size > _SLIPS * speed[:, disc][:, :1])
            & jnp.any(law.bounds[:, disc] > 0, axis=1, keepdims=True)
        )
        slipping = slipping.at[:, disc].set(slips)
        ways = ways.at[:, disc].set(jnp.where(slips, u[:, disc] / jnp.where(slips, size, 1.0), 0.0))
    solution, turns = _forces(system, t, q, v, motion, free_response, resting, slipping, ways, speed)
    forces = solution.impulses
    normal = forces[:, 0]
    most = friction_bounds(normal, motion.kinematics.hold)
    largest = jnp.maximum(jnp.max(normal, initial=0.0), jnp.max(most, initial=0.0))
    closed = resting & (normal > _PRESSES * largest)
    # A stop that presses carries its load by itself.
    held, rubs = jnp.zeros(u.shape, bool).at[:, 0].set(closed), jnp.where(own, ~closed, closed)
    for disc in parts:
        bound = law.bounds[:, disc]
        has = (bound > 0) & rubs[:, None] & ~slipping[:, disc]
        divided = jnp.where(has, forces[:, disc] / jnp.where(has, bound, 1.0), 0.0)
        sticks = length(divided) < (1 - _AT_BOUND) * most
        begins = jnp.where(has, -divided / jnp.where(has, bound, 1.0), 0.0)
        # What a brake leaves free goes where forces lead it.
        begins = jnp.where(has & own[:, None], turns[:, disc], begins)
        size = length(begins)[:, None]
        begins = jnp.where(size > 0, begins / jnp.where(size > 0, size, 1.0), 0.0)
        held = held.at[:, disc].set(has & sticks[:, None])
        going = jnp.where(rubs[:, None], ways[:, disc], 0.0)
        ways = ways.at[:, disc].set(jnp.where(sticks[:, None], going, going + begins))
    force = jnp.where(largest > 0, largest, 1.0)
    new = ContactModes(motion.labels, closed, held, ways, jnp.zeros(len(closed)), speed, force, own)
    return new, solution.residual <= 1e3 * _TOLERANCE


def _forces(
    system: AbstractMechanical,
    t: Array,
    q: Point,
    v: Vector,
    motion: ContactMotion,
    free_response: FreeResponse,
    resting: Bool[Array, " k"],
    slipping: Bool[Array, "k rows"],
    ways: Float[Array, "k rows"],
    speed: Float[Array, "k rows"],
) -> tuple[ContactSolution, Float[Array, "k rows"]]:
    """Forces of contacts that rest along their normals, and relative accelerations; what slides has known friction."""
    law: ContactLaw = contacts_of(system).law
    drag, rub = sliding_friction(system, motion, ways, speed)
    loaded = free_response.with_drag(drag)
    free, _ = free_response.push(free_response.accelerations(system, t, q, v), rub)
    missing = (motion.kinematics.rows @ free + motion.bend).reshape(-1)
    left = jnp.where(slipping, 0.0, law.at_rest().bounds)
    spins, hold = left.shape[1] == 6, motion.kinematics.hold
    if hold is not None:
        hold = jnp.where(slipping[:, 1], -1.0, hold)
    problem = ContactProblem(
        loaded.delassus, missing, left[:, slip_rows(left.shape[1])], resting,
        left[:, 3] if spins else None, left[:, 4] if spins else None, hold=hold,
    )  # fmt: skip
    solution = solve(problem, jnp.zeros_like(motion.slips), _TOLERANCE)
    return solution, (loaded.delassus @ solution.impulses.reshape(-1) + missing).reshape(motion.slips.shape)
