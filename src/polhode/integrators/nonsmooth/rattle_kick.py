"""The second half of a step of RATTLE with contacts: velocities at its end, by the laws of impact and friction."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.contact_problem import ContactProblem, slip_rows
from polhode.contact.solver import solve
from polhode.contact.vectors import root
from polhode.integrators.explicit.half_explicit_projection import explicit_rate
from polhode.integrators.implicit._implicit_differentiation import freeze, with_implicit_derivative
from polhode.integrators.nonsmooth import momentum_balance as balance
from polhode.integrators.nonsmooth.impact_energy import connect, label_parts
from polhode.integrators.nonsmooth.rattle_drift import CONVERGED, STAYS, Departure, Drift
from polhode.linalg.blocks import Matrix, apply, scale_matrix
from polhode.spaces.base import Vector
from polhode.systems.mechanical import Multipliers
from polhode.systems.mechanical.contact_set import ContactKinematics

_FREE_ROUNDS = 6
"""Rounds in which contacts may go on to bounce and not to."""


class Arrival(eqx.Module):
    """The data of a step at its end, before its contacts act there.

    - `momentum`: without impulses of the contacts, those of the first half included.
    - `before`: relative velocities at the start.
    - `work`: kinetic energy at the start and work of loads, by velocity.
    - `carried`, `load_work`: what impulses of the first half have added to the momentum at the end, and to work.
    - `connected`, `mates`: velocities and contacts that are in one island with each contact.
    """

    step: Departure
    drift: Drift
    momentum: Vector
    mass: Matrix
    joints: Matrix
    rate: Multipliers
    factors: Any
    before: Float[Array, "k rows"]
    work: Vector
    carried: Float[Array, "k n"]
    load_work: Float[Array, "k n"]
    connected: Bool[Array, "k n"]
    mates: Bool[Array, "k k"]


class KickEnd(NamedTuple):
    """The unknowns of rounds: the velocity at the end of a step, and the impulses of the contacts in all of it."""

    velocity: Vector
    impulses: Float[Array, "k rows"]


class KickPlace(NamedTuple):
    """Results of these: relative velocities before impacts, and impulses of joints in the second half."""

    before: Float[Array, "k rows"]
    joints: Multipliers


class Kick(NamedTuple):
    """One round of the iteration for the velocity at the end of a step.

    - `slides`: contacts whose second half has laws by itself.
    - `quiet`: contacts that don't bounce, as others have turned them back: rounds would jump between both.
    - `change`, `size`: of the velocity, and of what changes it, as roots of energies.
    """

    x: KickEnd
    place: KickPlace
    slides: Bool[Array, " k"]
    quiet: Bool[Array, " k"]
    change: Array
    size: Array
    solved: Bool[Array, ""]
    number: Int[Array, ""]


def arrive(step: Departure, drift: Drift) -> Arrival:
    """The data of the second half of a step."""
    # The solver leaves round-off at contacts that have opened: nothing acts there.
    touches = (drift.contacts.gap <= step.touch_gap) | drift.contacts.held_slots()
    drift = drift._replace(impulses=jnp.where(touches[:, None], drift.impulses, 0.0))
    system, h, space = step.system, step.h, step.system.configuration
    end, q, xi = step.t + h, drift.q, h * drift.velocity
    first = jnp.einsum("kr,krn->kn", drift.impulses, drift.columns)
    last = jnp.einsum("kr,krn->kn", drift.impulses, drift.contacts.rows)
    momentum = balance.at_end(space, xi, drift.momentum) - jnp.sum(last, axis=0)
    momentum = momentum + 0.5 * h * balance.inertia_slope(system, end, q, drift.velocity)
    mass = system.mass(end, q)
    tangent = (*mass, *scale_matrix(system.damping(end, q, drift.velocity), 0.5 * h)) if system.has_loads else mass
    joints = system.jacobian(end, q)
    rate = explicit_rate(system, end, q) if system.m else jnp.zeros(0)
    forces = balance.loads(system, step.t, step.q, drift.velocity) + balance.loads(system, end, q, drift.velocity)
    moved = jnp.einsum("kr,krn->kn", drift.impulses, drift.moved.reshape(drift.columns.shape))
    parts = label_parts(system.n, mass, joints, system.m)
    connected, mates = connect(parts, drift.contacts.rows, drift.impulses[:, 0] > 0)
    return Arrival(
        step, drift, momentum, mass, joints, rate, system.kkt.factor(tangent, joints, joints),
        before=jnp.einsum("krn,n->kr", drift.columns, step.v) + step.contacts.drift,
        work=0.5 * step.v * step.momentum + 0.5 * h * forces * drift.velocity,
        carried=jax.vmap(lambda p: balance.carry_over(space, xi, p))(first) - last,
        load_work=0.5 * h * moved * forces,
        connected=connected, mates=mates,
    )  # fmt: skip


def kick(arrival: Arrival, max_rounds: int, tolerance: float) -> Kick:
    """Rounds for the velocity at the end of a step and for the impulses of the whole step.

    Their derivative is that of the equation x = next round of x, with all modes as they are.
    """
    last = _search(freeze(arrival), max_rounds, tolerance)

    def equation(x: KickEnd) -> tuple[KickEnd, KickPlace]:
        again = _round(arrival, tolerance, last._replace(x=x))
        return jax.tree.map(jnp.subtract, x, again.x), again.place

    return with_implicit_derivative(lambda *_: last, equation, lambda _, rest: rest, last.x, None)


def _search(arrival: Arrival, max_rounds: int, tolerance: float) -> Kick:
    step, drift = arrival.step, arrival.drift
    start = KickEnd(drift.velocity, 2.0 * drift.impulses), KickPlace(arrival.before, jnp.zeros(step.system.m))
    first = Kick(
        *start,
        drift.slides,
        jnp.zeros_like(drift.slides),
        jnp.asarray(jnp.inf),
        jnp.zeros(()),
        jnp.asarray(True),
        jnp.asarray(0),
    )

    def more(last: Kick) -> Array:
        return (last.change > CONVERGED * last.size + drift.noise) & (last.number < max_rounds)

    return jax.lax.while_loop(more, lambda last: _round(arrival, tolerance, last), first)


def _round(at: Arrival, tolerance: float, last: Kick) -> Kick:
    step, contacts = at.step, at.drift.contacts
    system, h, law = step.system, step.h, step.system.contact_set.law
    n, rows, end, (v, guess) = system.n, contacts.rows.shape[1], step.t + step.h, last.x
    force = balance.loads(system, end, at.drift.q, v)
    missing = at.momentum + 0.5 * h * force - apply(at.mass, v, n)
    rate = -apply(at.joints, v, system.m) - at.rate if system.m else at.rate
    change, joints = system.kkt.solve(at.factors, missing, rate)
    free = v + change
    flat, none = contacts.rows.reshape(-1, n), jnp.zeros(system.m)
    moved, shares = jax.vmap(lambda row: system.kkt.solve(at.factors, row, none))(flat)
    first = at.drift.impulses
    # One that arrives exactly at the end has its impact in the next step.
    closed = (first[:, 0] > 0) | ((contacts.gap <= step.touch_gap) & (step.contacts.gap <= step.touch_gap))
    # Contacts that slid in the first half have the laws of the second half by itself, unless it takes impulse back:
    # friction of the first half would be left without what presses.
    slides = last.slides & (guess[:, 0] >= first[:, 0])
    base = jnp.where(slides[:, None], first, 0.0)
    approach, slope, bounces = _approach(at, last, free, moved)
    pushed = free + base.reshape(-1) @ moved
    target = _slips(contacts, pushed)
    own = jnp.sum(contacts.rows[:, 0] * moved.reshape(contacts.rows.shape)[:, 0], axis=1)
    slope = _bound_slope(jnp.where(bounces, law.restitution, 0.0)[:, None] * slope, own)
    rebound = jnp.where(bounces, law.restitution * approach, 0.0) - slope @ (guess - base)[:, 0]
    target = target.at[:, 0].add(rebound)
    along = slip_rows(target.shape[1])
    # Rows at the start are those of bodies apart: an impact begins with slips where it is.
    slips = jnp.where(step.pressed[:, None], at.before, _slips(contacts, free))[:, along]
    target = target.at[:, along].add(law.tangential_restitution[:, None] * slips)
    # What has laws of the second half has friction of its end, all others that of the mean of the step.
    now = _slips(contacts, v)
    law = law.at_slips(jnp.where(slides[:, None], now, 0.5 * (at.before + now)))
    problem = ContactProblem(
        delassus=(flat @ moved.T).at[::rows, ::rows].add(slope),
        velocity=target.reshape(-1),
        friction=law.friction,
        drilling=law.drilling,
        rolling=law.rolling,
        active=closed,
        least=-base[:, 0],
        hold=_mean_hold(step.contacts, contacts, h),
    )
    solution = solve(problem, guess - base, tolerance)
    velocity = pushed + solution.impulses.reshape(-1) @ moved
    impulses = base + solution.impulses
    # With these impulses: rounds may end before those of the last one are the same.
    before = _before(at, impulses[:, 0], free)
    joints = joints + impulses.reshape(-1) @ shares
    size = step.norm(step.v) + step.norm(free - step.v)
    quiet = last.quiet | ((last.number >= _FREE_ROUNDS) & (impulses[:, 0] <= 0))
    x, place = KickEnd(velocity, impulses), KickPlace(before, joints)
    return Kick(x, place, slides, quiet, step.norm(velocity - v), size, solution.solved, last.number + 1)


def _approach(
    at: Arrival, last: Kick, free: Vector, moved: Float[Array, "k_rows n"]
) -> tuple[Float[Array, " k"], Float[Array, "k k"], Bool[Array, " k"]]:
    """Normal velocities with which contacts arrive, their derivatives by normal impulses, and which of them bounce.

    Steps move bodies up to the surface and not beyond, and impulses act at two places of it, so the energy at the end
    of a step is not that of an impact. Velocities before impacts are those for which impulses P change the energy of
    the motion by exactly ½P·(u⁻ + u⁺).
    """
    step, drift, law = at.step, at.drift, at.step.system.contact_set.law
    before, first = at.before[:, 0], drift.impulses[:, 0]
    without = _slips(drift.contacts, free)[:, 0]
    approaches = before < -step.scales.slow(STAYS, step.contacts, step.v, step.touch_gap / jnp.abs(step.h))
    arrives = (first > 0) & (approaches | (step.contacts.gap > step.touch_gap)) & (law.restitution > 0)
    own, excess = _energies(at, free, first > 0)
    alone = _alone(drift.contacts.rows[:, 0], moved, without, own + excess * _shares(at, arrives, first))
    normal = last.x.impulses[:, 0]
    pressing = arrives & (normal > 0) & (last.number > 0)
    total = jnp.sum(jnp.where(at.mates & pressing, normal, 0.0), axis=1)
    total, alike = jnp.where(total > 0, total, 1.0), jnp.where(pressing, normal, 1.0)
    together = without + 2 * (own / alike + excess / total)
    slope = -2 * (jnp.diag(own / alike**2) + jnp.where(at.mates & pressing, (excess / total**2)[:, None], 0.0))
    slope = jnp.where((pressing & (together < 0))[:, None], slope, 0.0)
    approach = jnp.minimum(jnp.where(arrives, jnp.where(pressing, together, alone), before), 0.0)
    # A bounce that ends within the step is none. Points that turn away by themselves, as corners that graze, have one.
    short = -2 * law.restitution * alone <= before - without
    return approach, slope, arrives & ~short & ~last.quiet


def _bound_slope(slope: Float[Array, "k k"], own: Float[Array, " k"]) -> Float[Array, "k k"]:
    """Derivatives of velocities by impulses, at most half of the reciprocal effective masses where they lower these.

    With more, problems would have several solutions or none.
    """
    lowers = jnp.sum(jnp.maximum(-slope, 0.0), axis=1)
    return slope * jnp.where(lowers > 0.5 * own, 0.5 * own / jnp.where(lowers > 0, lowers, 1.0), 1.0)[:, None]


def _before(at: Arrival, normal: Float[Array, " k"], free: Vector) -> Float[Array, "k rows"]:
    """Velocities before, with which impulses P take -½P·(u⁻ + u⁺) from the energy: in steps with impacts exactly so."""
    step, drift = at.step, at.drift
    first = drift.impulses[:, 0]
    begins = (first > 0) & ~step.pressed
    own, excess = _energies(at, free, (first > 0) & (normal > 0))
    share = own + excess * _shares(at, begins, normal)
    before = _slips(drift.contacts, free).at[:, 0].add(2 * share / jnp.where(normal > 0, normal, 1.0))
    return jnp.where(jnp.any(at.mates & begins, axis=1)[:, None], before, at.before)


def _energies(at: Arrival, free: Vector, acts: Bool[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """By which the motion without contacts differs from the work of loads: of each contact, and of the rest its island.

    What is in no island with an impact has no part in its energy.
    """
    own = jnp.where(acts[:, None], at.carried * free - at.load_work, 0.0)
    rest = 0.5 * free * apply(at.mass, free, at.step.system.n) - at.work - jnp.sum(own, axis=0)
    return jnp.sum(own, axis=1), jnp.where(at.connected, rest, 0.0).sum(axis=1)


def _shares(at: Arrival, which: Bool[Array, " k"], impulses: Float[Array, " k"]) -> Float[Array, " k"]:
    """Parts of the sum of these impulses in each island."""
    chosen = jnp.where(which, impulses, 0.0)
    total = jnp.sum(jnp.where(at.mates, chosen, 0.0), axis=1)
    return chosen / jnp.where(total > 0, total, 1.0)


def _alone(
    rows: Float[Array, "k n"], moved: Float[Array, "k_rows n"], without: Float[Array, " k"], excess: Float[Array, " k"]
) -> Float[Array, " k"]:
    """Velocities before impacts of contacts that have their share of the energy, and touch nothing else."""
    inverse_mass = jnp.sum(rows * moved.reshape(len(rows), -1, rows.shape[1])[:, 0], axis=1)
    return -root(without**2 - 2 * inverse_mass * excess)


def _mean_hold(first: ContactKinematics, last: ContactKinematics, h: Array) -> Float[Array, " k"] | None:
    """Largest impulses of friction of a step that has bounds of its own."""
    return None if first.hold is None or last.hold is None else 0.5 * h * (first.hold + last.hold)


def _slips(contacts: Any, v: Vector) -> Float[Array, "k rows"]:
    return jnp.einsum("krn,n->kr", contacts.rows, v) + contacts.drift
