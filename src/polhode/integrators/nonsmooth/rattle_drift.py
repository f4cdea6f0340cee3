"""The first half of a step of RATTLE with contacts: the velocity of its middle, and with it the position at its end."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.contact_problem import ContactProblem, slip_rows
from polhode.contact.scales import Scales, energy_norm
from polhode.contact.solver import solve
from polhode.integrators.implicit._implicit_differentiation import freeze, with_implicit_derivative
from polhode.integrators.nonsmooth import momentum_balance as balance
from polhode.integrators.nonsmooth.contact_identity import ANY
from polhode.integrators.nonsmooth.contact_record import ContactMemory
from polhode.integrators.nonsmooth.slide_directions import against, narrow, persistent, slide
from polhode.linalg.blocks import Matrix, diagonal, scale_matrix
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical import Multipliers
from polhode.systems.mechanical.contact_set import ContactKinematics

CONVERGED = 1e-13
"""Change of velocities from round to round, relative to them, at which rounds end."""

CLOSED = 1e-10
"""Gap, in parts of its unit, up to which a contact counts as closed."""

STAYS = 1e-9
"""Normal velocity, relative to the largest one, up to which a contact stays."""

_FREE_ROUNDS = 4
_SETTLES = 0.7
_LEAST_PART = 1 / 16
"""Rounds with whole steps of Newton's method; ratio of changes up to which they settle; the least part of a step."""

_NOISE_GROWTH = 4.0
"""Factor of each further round for the round-off of gaps up to which shares of redundant contacts stay."""

_ROUND_OFF = 8 * float(jnp.finfo(float).eps)


class Departure(eqx.Module):
    """The data of a step at its start.

    - `system`: an `AbstractMechanical` with contacts on a group.
    - `mass`: at the start. - `scales`, `touch_gap`: of the contacts, and gaps up to which they count as closed.
    - `pressed`: contacts that carried a force at the end of the step before, and stay.
    - `guess`: of all impulses of the step.
    """

    system: Any
    t: Array
    h: Array
    q: Point
    v: Vector
    momentum: Vector
    mass: Matrix
    tangent: Matrix
    joints: Matrix
    contacts: ContactKinematics
    scales: Scales
    touch_gap: Float[Array, " k"]
    pressed: Bool[Array, " k"]
    guess: Float[Array, "k rows"]

    @classmethod
    def at(
        cls,
        system: Any,
        t: Array,
        h: Array,
        q: Point,
        v: Vector,
        memory: ContactMemory,
        pressed: Bool[Array, " k"],
        tolerance: float,
    ) -> Departure:
        """The data of a step from a state, with the memory of the step before.

        - `tolerance`: with which impulses were computed, relative.
        """
        mass = system.mass(t, q)
        tangent = (*mass, *scale_matrix(system.damping(t, q, v), 0.5 * h))
        contacts = system.contact_set.kinematics(system, t, q)
        same = (contacts.feature == memory.labels) | (memory.labels == ANY)
        # What has bounced there and falls back within this step begins another impact.
        scales = Scales.of(system, q)
        guess = jnp.where(same[:, None], memory.impulses, 0.0)
        # The last impulses are as they are up to the tolerance, and what they keep closed moves with that.
        moves = tolerance * scales.largest(jnp.abs(guess[:, 0]) * _inverse_masses(mass, contacts, system.n))
        touch_gap = scales.touch_gap(CLOSED) + jnp.abs(h) * jax.lax.stop_gradient(moves)
        slow = scales.slow(STAYS, contacts, v, touch_gap / jnp.abs(h))
        leaves = contacts.rows[:, 0] @ v + contacts.drift[:, 0] > slow
        return cls(
            system, t, h, q, v, system.momentum(t, q, v), mass, tangent, system.jacobian(t, q), contacts,
            scales=scales, touch_gap=touch_gap,
            pressed=pressed & same & (contacts.gap <= touch_gap) & ~leaves,
            guess=guess,
        )  # fmt: skip

    def norm(self, v: Vector) -> Array:
        """The size of a velocity as the root of an energy."""
        return energy_norm(self.mass, v, self.system.n)

    @property
    def gap_noise(self) -> Float[Array, "k 1"]:
        """Round-off of positions and gaps, as velocities."""
        return _ROUND_OFF * self.scales.size[:, None] / jnp.abs(self.h)


class Drift(NamedTuple):
    """The step up to the position at its end, and one round of the iteration for it.

    - `q`, `velocity`: at its end, and in its middle. - `momentum`: of the middle. - `contacts`: at its end.
    - `columns`, `moved`: rows of the contacts at its start, and changes of velocity by unit impulses there.
    - `impulses`, `joints`: of the first half. - `slides`: contacts that go on sliding.
    - `change`: what Newton's method would change. - `size`: of velocities, and of what loads change in the step.
    - `noise`: of velocities by round-off of positions; all three as roots of energies.
    - `part`: of which it takes so much, less where it cycles.
    - `undetermined`: whether shares of redundant contacts were free in a round.
    """

    q: Point
    velocity: Vector
    momentum: Vector
    contacts: ContactKinematics
    columns: Float[Array, "k rows n"]
    moved: Float[Array, "k_rows n"]
    impulses: Float[Array, "k rows"]
    joints: Multipliers
    slides: Bool[Array, " k"]
    change: Array
    size: Array
    noise: Array
    part: Array
    solved: Bool[Array, ""]
    undetermined: Bool[Array, ""]
    number: Int[Array, ""]


def _inverse_masses(mass: Matrix, contacts: ContactKinematics, n: int) -> Float[Array, " k"]:
    """Reciprocal masses along normals, of bodies without joints."""
    own = diagonal(mass, n)
    return contacts.rows[:, 0] ** 2 @ jnp.where(own > 0, 1 / jnp.where(own > 0, own, 1.0), 0.0)


def drift(step: Departure, max_rounds: int, tolerance: float) -> Drift:
    """Newton's method for the velocity in the middle of a step and for the impulses of its first half.

    Its derivative is that of the equation v = next round of v, with all modes as they are.
    """
    last = _search(freeze(step), max_rounds, tolerance)
    # Of what a step leads to, numbers without derivatives belong to the search.
    place, rest = eqx.partition(last, eqx.is_inexact_array)

    def equation(v: Vector) -> tuple[Vector, Drift]:
        held = _place(step, v)._replace(impulses=last.impulses, slides=last.slides, number=jnp.asarray(_FREE_ROUNDS))
        again = _round(step, tolerance, held)
        return v - again.velocity, eqx.filter(again, eqx.is_inexact_array)

    solution = _Solution(last.velocity, place)
    end = with_implicit_derivative(lambda *_: solution, equation, lambda _, rest: rest, last.velocity, None)
    return eqx.combine(end.place, rest)


class _Solution(NamedTuple):
    """The velocity in the middle of a step, and the other numbers of its last round."""

    x: Vector
    place: Drift


def _search(step: Departure, max_rounds: int, tolerance: float) -> Drift:
    first = _place(step, step.v)._replace(impulses=0.5 * step.guess)

    def more(last: Drift) -> Array:
        return (last.change > CONVERGED * last.size + last.noise) & (last.number < max_rounds)

    return jax.lax.while_loop(more, lambda last: _round(step, tolerance, last), first)


def _place(step: Departure, v: Vector) -> Drift:
    """The place that a velocity leads to."""
    system = step.system
    q = system.flow(step.q, v, step.h)
    end = step.t + step.h
    momentum = 0.5 * (system.momentum(step.t, step.q, v) + system.momentum(end, q, v))
    contacts = system.contact_set.kinematics(system, end, q)
    columns = system.contact_set.columns(system, step.q, step.contacts, contacts)
    k, rows, n = columns.shape
    return Drift(
        q, v, momentum, contacts, columns, jnp.zeros((k * rows, n)), jnp.zeros((k, rows)), jnp.zeros(system.m),
        step.pressed, change=jnp.asarray(jnp.inf), size=jnp.zeros(()), noise=jnp.zeros(()), part=jnp.ones(()),
        solved=jnp.asarray(True), undetermined=jnp.asarray(False), number=jnp.asarray(0),
    )  # fmt: skip


def _round(step: Departure, tolerance: float, at: Drift) -> Drift:
    system, h, space = step.system, step.h, step.system.configuration
    end, v, xi = step.t + h, at.velocity, step.h * at.velocity
    forces = balance.inertia_slope(system, step.t, step.q, v) + balance.loads(system, step.t, step.q, v)
    missing = step.momentum + 0.5 * h * forces - balance.at_start(space, xi, at.momentum)
    open_by = system.constraint(end, at.q) if system.m else jnp.zeros(0)
    factors = system.kkt.factor(step.tangent, step.joints, system.jacobian(end, at.q))
    change, joints = system.kkt.solve(factors, missing, -open_by / h)
    none = jnp.zeros(system.m)
    flat = at.columns.reshape(-1, system.n)
    moved, shares = jax.vmap(lambda row: system.kkt.solve(factors, row, none))(flat)
    rows, slips0 = _rows(step, at)
    law = system.contact_set.law
    mean_drift = 0.5 * (step.contacts.drift + at.contacts.drift)
    free = jnp.einsum("krn,n->kr", rows, v + change) + mean_drift
    # Gaps at the end of the step, in the place of normal velocities.
    gaps = at.contacts.gap / h + rows[:, 0] @ change
    reach = jnp.max(jnp.abs(at.contacts.rows[:, 0] @ v)) + jnp.max(jnp.abs(free[:, 0]))
    slips = jnp.einsum("krn,n->kr", rows, v) + mean_drift
    held, along = step.contacts.held_slots(), slip_rows(slips.shape[1])
    on = persistent(narrow(step.pressed & ~held, at.slides, at.number), slips0[:, along], slips[:, along], free)
    sliding = slide(on, against(law.at_slips(slips0), slips0[:, along]))
    law = law.at_slips(slips)
    columns = sliding.combine(moved)
    problem = ContactProblem(
        delassus=rows.reshape(-1, system.n) @ columns.T,
        velocity=free.at[:, 0].set(gaps).reshape(-1),
        friction=jnp.where((step.pressed | held)[:, None], sliding.friction(law), 0.0),
        drilling=_where(step.pressed, law.drilling),
        rolling=_where(step.pressed, law.rolling),
        active=at.contacts.gap <= h * reach + step.touch_gap,
        hold=None if step.contacts.hold is None else 0.5 * h * step.contacts.hold,
    )
    # Shares of redundant contacts, and the friction that comes with them, are not determined by round-off of gaps.
    # Each other solution moves what friction carries along, and gaps with it: the round-off that counts grows.
    grows = jnp.where(at.undetermined, jnp.maximum(at.number - _FREE_ROUNDS, 0), 0)
    solution = solve(problem, at.impulses, tolerance, noise=step.gap_noise * _NOISE_GROWTH**grows)
    scale = step.norm(step.v) + step.norm(v + change - step.v)
    change = change + solution.impulses.reshape(-1) @ columns
    impulses = sliding.complete(solution.impulses)
    size = step.norm(change)
    # Contacts that change with the end of the step, as of a body that tips over, may lead it to and fro.
    cycles = (at.number >= _FREE_ROUNDS) & (size > _SETTLES * at.change)
    part = jnp.where(cycles, jnp.maximum(0.5 * at.part, _LEAST_PART), jnp.minimum(2.0 * at.part, 1.0))
    return _place(step, v + part * change)._replace(
        moved=moved,
        impulses=impulses,
        joints=joints + impulses.reshape(-1) @ shares,
        change=size,
        size=scale,
        noise=step.scales.noise(_ROUND_OFF, at.columns, moved, h),
        part=part,
        solved=solution.solved,
        undetermined=at.undetermined | ~solution.determined,
        slides=on,
        number=at.number + 1,
    )


def _rows(step: Departure, at: Drift) -> tuple[Float[Array, "k rows n"], Float[Array, "k rows"]]:
    """Rows of the contact problem, and slips at the start of the step.

    Normal ones are derivatives of gaps at the end with respect to the velocity, others means of both ends of the step,
    so that what rolls is of order 2.
    """
    space, xi = step.system.configuration, step.h * at.velocity
    normal = jax.vmap(lambda row: space.dexp_dual(-xi, row))(at.contacts.rows[:, 0])
    rows = (0.5 * (at.columns + at.contacts.rows)).at[:, 0].set(normal)
    return rows, jnp.einsum("krn,n->kr", at.columns, step.v) + step.contacts.drift


def _where(pressed: Bool[Array, " k"], lengths: Float[Array, " k"] | None) -> Float[Array, " k"] | None:
    return None if lengths is None else jnp.where(pressed, lengths, 0.0)
