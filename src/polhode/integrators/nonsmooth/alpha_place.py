"""The data of a step of the nonsmooth generalized-α method, and what its stages need to know of one place."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.contact_problem import OPEN, slip_rows
from polhode.contact.scales import Scales
from polhode.integrators.implicit._alpha_coefficients import Coefficients
from polhode.integrators.implicit._alpha_equations import Place, Prediction, place_at
from polhode.integrators.nonsmooth.alpha_memory import AlphaMemory, SmoothContacts
from polhode.integrators.nonsmooth.contact_identity import Match, identities
from polhode.integrators.nonsmooth.contact_record import contacts_of
from polhode.linalg.blocks import Matrix, apply, scale_matrix
from polhode.linalg.tangent_operator import times_tangent
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical import AbstractMechanical, Multipliers
from polhode.systems.mechanical.contact_set import ContactLaw, PresentContacts, StribeckCurve

CLOSED = 1e-10
"""Gap, in parts of its unit, up to which a contact counts as closed."""


class AlphaStep(eqx.Module):
    """The data of a step.

    - `q`, `v`: at its start. - `smooth_contacts`: whether the smooth motion has forces of contacts.
    """

    system: Any
    c: Coefficients = eqx.field(static=True)
    h: Array
    q: Point
    v: Vector
    prediction: Prediction
    memory: AlphaMemory
    smooth_contacts: bool = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)

    @property
    def has_holds(self) -> bool:
        """Whether there is friction with bounds of its own."""
        return self.system.has_holds

    @property
    def t(self) -> Array:
        """The time at the end."""
        return self.prediction.t


class Unknowns(NamedTuple):
    """The results of rounds of a step.

    - `vdot`: accelerations of the smooth motion at the end. - `jump`, `kick`: what positions and velocities there lack
      after it. - `rub`: the part of the kick by friction.
    """

    vdot: Vector
    jump: Vector
    kick: Vector
    rub: Vector


class Contacts(NamedTuple):
    """Contacts at the end of a step: u = W v + χ are their relative velocities, and R v̇ + b accelerations.

    - `rows`, `drift`: W and χ. - `slips`: u. - `acceleration_rows`, `bias`: derivatives of accelerations by v̇, those of
      the step with it, and accelerations where v̇ = 0.
    - `columns`, `shares`: changes of velocity by unit impulses, and the multipliers of joints that come with them.
    - `smooth_columns`, `smooth_shares`: the same of accelerations by unit forces.
    - `first`: rows along normal and tangents, without spins about these.
    - `together`: contacts that act on each other, through others too.
    - `hold`, `hold_rate`: largest friction forces along coordinates and their rates; negative of shapes.
    - `scales`, `touch_gap`: theirs, and gaps up to which they count as closed.
    - `identity`: their numbers. - `match`: with those of the step before. - `past`, `past_mode`: memory of these.
    """

    present: PresentContacts
    rows: Float[Array, "c rows n"]
    drift: Float[Array, "c rows"]
    slips: Float[Array, "c rows"]
    acceleration_rows: Float[Array, "c first n"]
    bias: Float[Array, "c first"]
    columns: Float[Array, "c_rows n"]
    shares: Float[Array, "c_rows m"]
    smooth_columns: Float[Array, "c_first n"]
    smooth_shares: Float[Array, "c_first m"]
    together: Bool[Array, "c c"]
    identity: Int[Array, " c"]
    match: Match
    past: SmoothContacts
    past_mode: Int[Array, " c"]
    law: ContactLaw
    hold: Float[Array, " c"]
    hold_rate: Float[Array, " c"]
    scales: Scales
    touch_gap: Float[Array, " c"]

    @property
    def held(self) -> Bool[Array, " c"]:
        """Contacts along coordinates, whose friction has a bound of its own."""
        return self.hold >= 0

    @property
    def was_closed(self) -> Bool[Array, " c"]:
        """Those that touched in the step before."""
        return jnp.where(self.held, self.past.impulses[:, 0] > 0, self.past_mode != OPEN)

    @property
    def along(self) -> slice:
        """Rows of sliding."""
        return slip_rows(self.rows.shape[1])

    @property
    def gap(self) -> Float[Array, " c"]:
        return self.present.kinematics.gap

    @property
    def normal_rows(self) -> Float[Array, "c n"]:
        return self.rows[:, 0]

    @property
    def normal_columns(self) -> Float[Array, "c n"]:
        return self.columns.reshape(self.rows.shape)[:, 0]

    def slips_of(self, v: Vector) -> Float[Array, "c rows"]:
        """Relative velocities that belong to v."""
        return self.rows @ v + self.drift


class AlphaPlace(NamedTuple):
    """The end of a step as far as it is known.

    - `smooth`: where the smooth motion ends. - `q`, `v`: with jump and kick.
    - `missing`: forces less inertia there. - `joints`: B.
    - `accelerator`, `metric`: factors of M* = M + hγ′C + cK with joints, for accelerations and for impulses.
    """

    smooth: Place
    q: Point
    v: Vector
    missing: Vector
    joints: Matrix
    curvature: Multipliers
    accelerator: Any
    metric: Any
    contacts: Contacts


def evaluate(step: AlphaStep, x: Unknowns) -> AlphaPlace:
    """The end of a step as the stages of a round need it."""
    system, p = step.system, step.prediction
    smooth = place_at(system, p, x.vdot, x.vdot)
    q, v = system.configuration.move(smooth.q, x.jump), smooth.v + x.kick
    missing = system.force(p.t, smooth.q, smooth.v) - system.momentum(p.t, smooth.q, x.vdot)
    matrix = _tangent(system, p, smooth)
    joints, rates = _joint_rows(system, p, q, v)
    metric = system.kkt.factor(matrix, joints, joints)
    accelerator = system.kkt.factor(matrix, joints, rates) if system.m else metric
    curvature = system.curvature(p.t, q, v) if system.m else jnp.zeros(0)
    contacts = _contacts(step, q, v, accelerator, metric)
    return AlphaPlace(smooth, q, v, missing, joints, curvature, accelerator, metric, contacts)


def _tangent(system: AbstractMechanical, p: Prediction, place: Place) -> Matrix:
    """M + hγ′C + cKT, or M alone where only weight and inertia act."""
    mass = system.mass(p.t, place.q)
    if not system.has_loads:
        return mass
    damping = scale_matrix(system.damping(p.t, place.q, place.v), p.velocity)
    stiffness = times_tangent(system.stiffness(p.t, place.q, place.v), system.configuration, place.theta)
    return (*mass, *damping, *scale_matrix(stiffness, p.position))


def _joint_rows(system: AbstractMechanical, p: Prediction, q: Point, v: Vector) -> tuple[Matrix, Matrix]:
    """B, and the derivatives of B v̇ + Z by v̇ with the velocities that follow from it."""
    if not system.m:
        joints = system.jacobian(p.t, q)
        return joints, joints
    zero, one = jnp.zeros(()), jnp.ones(())
    along = lambda s: system.jacobian(p.t + s, system.flow(q, v, s))  # noqa: E731
    joints, rate = jax.jvp(along, (zero,), (one,))
    return joints, jax.tree.map(lambda B, Bdot: B + 2 * p.velocity * Bdot, joints, rate)


def _contacts(step: AlphaStep, q: Point, v: Vector, accelerator: Any, metric: Any) -> Contacts:
    system, p, memory = step.system, step.prediction, step.memory
    zero, one = jnp.zeros(()), jnp.ones(())

    def along(s: Array) -> tuple[tuple[Array, Array, Array], PresentContacts]:
        present = contacts_of(system).present(system, p.t + s, system.flow(q, v, s))
        at = present.kinematics
        hold = -jnp.ones(len(at.gap)) if at.hold is None else at.hold
        return (_widen(at.rows), _widen(at.drift), hold), present

    values, their_rates, present = jax.jvp(along, (zero,), (one,), has_aux=True)
    (rows, drift, hold), (rates, drift_rate, hold_rate) = values, their_rates
    columns, shares = _responses(system, metric, rows)
    first = slice(0, slip_rows(rows.shape[1]).stop)
    of_forces = columns.reshape(rows.shape)[:, first].reshape(-1, system.n), jnp.zeros((first.stop * len(rows), 0))
    if system.m:
        of_forces = _responses(system, accelerator, rows[:, first])
    identity = identities(contacts_of(system), present)
    match = Match.of(identity, memory.labels)
    past_mode = match.recall(memory.mode.astype(float)).astype(jnp.int32)
    scales = Scales.of(system, q, present.number)
    touch_gap = scales.touch_gap(CLOSED)
    acts = (present.kinematics.gap <= touch_gap) | (past_mode != OPEN) | (hold >= 0)
    return Contacts(
        present, rows, drift, rows @ v + drift,
        acceleration_rows=rows[:, first] + 2 * p.velocity * rates[:, first],
        bias=(rates @ v + drift_rate)[:, first],
        columns=columns, shares=shares, smooth_columns=of_forces[0], smooth_shares=of_forces[1],
        together=_together(acts, rows, columns),
        identity=identity, match=match, past=jax.tree.map(match.recall, memory.contacts),
        past_mode=past_mode, law=_widen_law(present.law), hold=hold, hold_rate=hold_rate,
        scales=scales, touch_gap=touch_gap,
    )  # fmt: skip


def _together(acts: Bool[Array, " c"], rows: Float[Array, "c rows n"], columns: Array) -> Bool[Array, "c c"]:
    """Contacts that act on each other: impulses of one move the other, or a third one that does so."""
    sizes = jnp.where(acts[:, None], jnp.sum(jnp.abs(rows), axis=1), 0.0)
    moved = jnp.where(acts[:, None], jnp.sum(jnp.abs(columns.reshape(rows.shape)), axis=1), 0.0)
    together = jnp.where(sizes @ moved.T > 0, 1.0, jnp.eye(len(rows)))
    for _ in range(math.ceil(math.log2(max(len(rows), 2)))):
        together = jnp.where(together @ together > 0, 1.0, 0.0)
    return together > 0


def _widen(rows: Array) -> Array:
    """Rows of contacts along coordinates with an empty one, to be as many as those of shapes."""
    return jnp.pad(rows, [(0, 0), (0, max(3 - rows.shape[1], 0)), *[(0, 0)] * (rows.ndim - 2)])


def _widen_law(law: ContactLaw) -> ContactLaw:
    pad = lambda x: jnp.pad(x, ((0, 0), (0, max(2 - x.shape[1], 0))))  # noqa: E731
    curve = None if law.stribeck is None else StribeckCurve(pad(law.stribeck.static), law.stribeck.speed)
    return dataclasses.replace(law, friction=pad(law.friction), stribeck=curve)


def _responses(system: AbstractMechanical, factors: Any, rows: Float[Array, "c rows n"]) -> tuple[Array, Array]:
    none = jnp.zeros(system.m)
    return jax.vmap(lambda row: system.kkt.solve(factors, row, none))(rows.reshape(-1, system.n))


def joint_rate(step: AlphaStep, place: AlphaPlace, vdot: Vector) -> Multipliers:
    """Accelerations of joints."""
    return apply(place.joints, vdot, step.system.m) + place.curvature if step.system.m else jnp.zeros(0)
