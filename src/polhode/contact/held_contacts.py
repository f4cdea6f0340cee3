"""Mechanical systems with frictional contacts whose modes are held: closed or open, sticking or sliding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.contact_problem import discs
from polhode.contact.elimination import eliminate
from polhode.contact.scales import Scales
from polhode.contact.system import AbstractContactSystem
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical, Multipliers
from polhode.systems.mechanical.contact_set import AbstractContactSet, ContactKinematics, ContactLaw

INACTIVE = 1e30
"""The value of event functions of contacts while nothing can happen."""

SLOW = 1e-12
"""Part of the speed of a system up to which its contacts are at rest."""

_ROOM = 4 * SLOW
"""The same by which a slip has to go back beyond zero to end."""

_BLUR = 1e-7
"""The same up to which friction has the direction that the slip had before: that of a slip that ends has no meaning."""

_PULLS = 1e-9
"""Part of the largest normal force by which one has to pull, or a tangential one to exceed its bound, to change modes:
above what rounding leaves of undetermined forces."""

_COMPLIANCE = 1e-7
"""Compliance of undetermined forces, in units of effective masses; the corrections take out what it changes."""

_CORRECTIONS = 3

_CLOSED = 1e-14
"""Largest gap of closed contacts at the ends of steps, relative to the largest position, and residual of joints,
relative to the larger of 1 and the largest coordinate."""

_PROJECTIONS = 12


class ContactModes(eqx.Module):
    """Modes of k contacts, which belong to features of shapes rather than to slots.

    - `labels`: of the features. - `closed`: which contacts are closed.
    - `own`: slots whose friction has a bound of its own, as that of joints: it belongs to them, whatever they touch.
    - `held`: rows of relative velocities that are zero: normal ones of closed contacts, and those that stick.
    - `direction`: of velocities in rows that slide, unit vectors for each tangential part; zero for all others.
    - `slack`: depth that gaps of open contacts may have.
    - `speed`, `force`: sizes of velocities along rows and of normal forces where these modes began.
    """

    labels: Int[Array, " k"]
    closed: Bool[Array, " k"]
    held: Bool[Array, "k rows"]
    direction: Float[Array, "k rows"]
    slack: Float[Array, " k"]
    speed: Float[Array, "k rows"]
    force: Float[Array, ""]
    own: Bool[Array, " k"]

    @classmethod
    def of_open(cls, k: int, rows: int) -> ContactModes:
        """All contacts are open."""
        none = jnp.zeros((k, rows))
        return cls(
            jnp.full(k, -1, jnp.int64),
            jnp.zeros(k, bool),
            none.astype(bool),
            none,
            jnp.zeros(k),
            jnp.ones((k, rows)),
            jnp.ones(()),
            jnp.zeros(k, bool),
        )

    def at(self, labels: Int[Array, " k"]) -> ContactModes:
        """The same in the slots in which features are now; those that are new are open."""
        same = jnp.where(labels[:, None] == self.labels[None, :], 1.0, 0.0)
        move = lambda x: jnp.einsum("ij,j...->i...", same, x.astype(float))  # noqa: E731
        stays = self.own[:, None] & (jnp.arange(self.held.shape[1]) > 0)
        return ContactModes(
            labels, move(self.closed) > 0, jnp.where(stays, self.held, move(self.held) > 0),
            jnp.where(stays, self.direction, move(self.direction)), move(self.slack),
            self.speed, self.force, self.own,
        )  # fmt: skip


class ContactMotion(NamedTuple):
    """Contacts in a state.

    - `kinematics`: gaps and rows W. - `slips`: relative velocities u, shape (k, rows).
    - `bend`: u̇ where v is frozen, so that u̇ = W v̇ + `bend`. - `labels`: of the features.
    """

    kinematics: ContactKinematics
    slips: Float[Array, "k rows"]
    bend: Float[Array, "k rows"]
    labels: Int[Array, " k"]

    @classmethod
    def of(cls, system: AbstractMechanical, t: Array, q: Point, v: Vector) -> ContactMotion:
        """That of a state of a system with contacts."""
        contacts = contacts_of(system)
        along = lambda s: contacts.slips(system, t + s, system.flow(q, v, s), v)  # noqa: E731
        u, bend = jax.jvp(along, (jnp.zeros(()),), (jnp.ones(()),))
        at = contacts.kinematics(system, t, q)
        return cls(at, u, bend, contacts.label(at.feature))


class FreeResponse(NamedTuple):
    """A system in a position without contact forces, and what unit forces of its contacts change.

    - `motions`, `shares`: changes of accelerations and of multipliers of joints, by rows. - `factors`: of the system.
    """

    rows: Float[Array, "k rows n"]
    motions: Float[Array, "k rows n"]
    shares: Float[Array, "k rows m"]
    factors: Any

    @classmethod
    def at(cls, system: AbstractMechanical, t: Array, q: Point, rows: Float[Array, "k rows n"]) -> FreeResponse:
        """In a position."""
        B, M = system.jacobian(t, q), system.mass(t, q)
        factors, none = system.kkt.factor(M, B, B), jnp.zeros(system.m)
        X, shares = jax.vmap(lambda row: system.kkt.solve(factors, row, none))(rows.reshape(-1, system.n))
        return cls(rows, X.reshape(rows.shape), shares.reshape(*rows.shape[:2], system.m), factors)

    @property
    def own(self) -> Float[Array, "k rows"]:
        """Reciprocal effective masses of the rows."""
        return jnp.sum(self.rows * self.motions, axis=2)

    def accelerations(self, system: AbstractMechanical, t: Array, q: Point, v: Vector) -> tuple[Vector, Multipliers]:
        """v̇ and multipliers of joints without contact forces."""
        Z = system.curvature(t, q, v) if system.m else jnp.zeros(0)
        return system.kkt.solve(self.factors, system.force(t, q, v), -Z)

    def push(
        self, accelerations: tuple[Vector, Multipliers], forces: Float[Array, "k rows"]
    ) -> tuple[Vector, Multipliers]:
        """Accelerations and multipliers of joints under further forces of the contacts."""
        vdot, joints = accelerations
        vdot = vdot + jnp.einsum("ki,kin->n", forces, self.motions)
        return vdot, joints + jnp.einsum("ki,kim->m", forces, self.shares)

    def with_drag(self, drag: Float[Array, "k rows"]) -> FreeResponse:
        """The same where normal forces bring others along, by so much of them."""
        motions, shares = (x.at[:, 0].add(jnp.einsum("ki,kij->kj", drag, x)) for x in (self.motions, self.shares))
        return self._replace(motions=motions, shares=shares)

    @property
    def delassus(self) -> Float[Array, "k_rows k_rows"]:
        """Changes of relative accelerations by unit forces."""
        n = self.rows.shape[2]
        return self.rows.reshape(-1, n) @ self.motions.reshape(-1, n).T


class Balance(NamedTuple):
    """Accelerations, multipliers of joints, forces of contacts, their relative velocities, and their modes."""

    accelerations: Vector
    joints: Multipliers
    forces: Float[Array, "k rows"]
    slips: Float[Array, "k rows"]
    modes: ContactModes


class HeldContacts(AbstractContactSystem):
    r"""A mechanical system with contacts in given modes; the modes are arrays, so changes compile nothing again.

    With $u = Wv + \chi$, $M\dot v = f - B^T\mu + W^T\lambda$: $\dot u = 0$ in rows that are held, and
    $\lambda_T$ of sliding contacts is on the bound of friction, against $u_T$. Where $u_T$ passes through zero,
    the force goes on in its direction, so that it is smooth beyond the end of the slide.
    Undetermined forces are those of least norm.

    - `base`: the system. - `modes`: of its contacts. - `losses`: energy that impacts have taken so far.
    """

    base: Any
    modes: ContactModes
    losses: Float[Array, "k 3"]

    @classmethod
    def of(cls, system: AbstractMechanical) -> HeldContacts:
        """The system itself if it has modes, or with all contacts open."""
        if isinstance(system, HeldContacts):
            return system
        contacts = contacts_of(system)
        k, rows = contacts.count, contacts.law.rows
        return cls(system, ContactModes.of_open(k, rows), jnp.zeros((k, 3)))

    @property
    def contact_set(self) -> AbstractContactSet | None:
        return self.base.contact_set

    def accelerations(self, t: Array, q: Point, v: Vector) -> tuple[Vector, Multipliers]:
        return self.balance(t, q, v)[:2]

    @eqx.filter_jit
    def balance(self, t: Array, q: Point, v: Vector) -> Balance:
        """Forces and accelerations in these modes; traced once for all stages and events of a step, which share it."""
        motion = ContactMotion.of(self.base, t, q, v)
        modes = self.modes.at(motion.labels)
        free_response = FreeResponse.at(self.base, t, q, motion.kinematics.rows)
        drag, rub = sliding_friction(self.base, motion, modes.direction, modes.speed)
        loaded = free_response.with_drag(drag)
        free, joints = free_response.push(free_response.accelerations(self.base, t, q, v), rub)
        missing = -(motion.kinematics.rows @ free + motion.bend)
        forces = least_forces(loaded.delassus, free_response.own, modes.held)(missing)
        vdot = free + jnp.einsum("ki,kin->n", forces, loaded.motions)
        joints = joints + jnp.einsum("ki,kim->m", forces, loaded.shares)
        return Balance(vdot, joints, forces + drag * forces[:, :1] + rub, motion.slips, modes)

    def gap_margin(self, t: Array, q: Point) -> Array:
        """The smallest gap of open contacts, with their slack; negative where one closes."""
        at = contacts_of(self.base).kinematics(self.base, t, q)
        modes = self.modes.at(contacts_of(self.base).label(at.feature))
        return jnp.min(jnp.where(modes.closed, INACTIVE, at.gap + modes.slack), initial=INACTIVE)

    def mode_margin(self, t: Array, q: Point, v: Vector) -> Array:
        """A number that is negative where a closed contact opens, begins to slide, or stops sliding."""
        *_, forces, slips, modes = self.balance(t, q, v)
        hold = contacts_of(self.base).kinematics(self.base, t, q).hold
        # What sticks begins to slide at the bound of rest.
        factors = contacts_of(self.base).law.at_rest().bounds
        normal = forces[:, 0] / modes.force
        margins = [jnp.where(modes.closed, normal + _PULLS, INACTIVE)]
        most = friction_bounds(normal, None if hold is None else hold / modes.force)
        for disc in discs(forces.shape[1]):
            bound = jnp.where(factors[:, disc] > 0, factors[:, disc], 1.0)
            needed = length(jnp.where(modes.held[:, disc], forces[:, disc] / bound, 0.0) / modes.force)
            sticks = jnp.any(modes.held[:, disc], axis=1)
            margins.append(jnp.where(sticks, most * (1 + _PULLS) + _PULLS - needed, INACTIVE))
            ahead = jnp.sum(modes.direction[:, disc] * slips[:, disc] / modes.speed[:, disc], axis=1) + _ROOM
            slides = jnp.any(modes.direction[:, disc] != 0, axis=1)
            margins.append(jnp.where(slides, ahead, INACTIVE))
        return jnp.min(jnp.stack(margins), initial=INACTIVE)

    def close(self, t: Array, q: Point, v: Vector) -> State:
        """The state near a given one in which joints and closed contacts are closed, and what sticks is at rest."""
        q = self._close_gaps(t, q)
        at = contacts_of(self.base).kinematics(self.base, t, q)
        held = self.modes.at(contacts_of(self.base).label(at.feature)).held
        free_response = FreeResponse.at(self.base, t, q, at.rows)
        if self.base.m:
            rate = self.base.constraint_rate(t, q, v)
            v = v + self.base.kkt.solve(free_response.factors, jnp.zeros(self.n), -rate)[0]
        return q, stop_rows(free_response, held, at.rows @ v + at.drift, v)

    def _close_gaps(self, t: Array, q: Point) -> Point:
        contacts, system = contacts_of(self.base), self.base
        first = contacts.kinematics(system, t, q)
        free_response = FreeResponse.at(system, t, q, first.rows[:, :1])
        closed = self.modes.at(contacts.label(first.feature)).closed
        solve = least_forces(free_response.delassus, free_response.own, closed[:, None])
        size = jnp.maximum(1.0, jnp.max(jnp.stack([jnp.max(jnp.abs(x), initial=0.0) for x in jax.tree.leaves(q)])))

        scales = Scales.of(system, q)

        def residual(q: Point) -> tuple[Multipliers, Float[Array, " k"]]:
            at = contacts.kinematics(system, t, q)
            closed = self.modes.at(contacts.label(at.feature)).closed
            joints = system.constraint(t, q) if system.m else jnp.zeros(0)
            return joints, jnp.where(closed, at.gap, 0.0)

        def far(rest: tuple[Multipliers, Float[Array, " k"]]) -> Array:
            joints, gaps = rest
            open_by = jnp.max(jnp.abs(joints), initial=0.0) / size
            return jnp.maximum(open_by, jnp.max(jnp.abs(gaps) / scales.size, initial=0.0)) > _CLOSED

        def closer(loop: Any) -> Any:
            q, (joints, gaps), number = loop
            change = jnp.zeros(self.n)
            if system.m:
                change = system.kkt.solve(free_response.factors, change, -joints)[0]
            missing = -gaps[:, None] - free_response.rows @ change
            change = change + jnp.einsum("ki,kin->n", solve(missing), free_response.motions)
            q = system.flow(q, change, 1.0)
            return q, residual(q), number + 1

        more = lambda loop: far(loop[1]) & (loop[2] < _PROJECTIONS)  # noqa: E731
        return jax.lax.while_loop(more, closer, (q, residual(q), jnp.asarray(0)))[0]


def contacts_of(system: AbstractMechanical) -> AbstractContactSet:
    """The contacts of a system that has some."""
    assert system.contact_set is not None
    return system.contact_set


def stop_rows(
    free_response: FreeResponse, held: Bool[Array, "k rows"], slips: Float[Array, "k rows"], v: Vector
) -> Vector:
    """The velocity nearest to v, in the metric of the kinetic energy, with which the rows that are held are at rest."""
    impulses = least_forces(free_response.delassus, free_response.own, held)(-slips)
    return v + jnp.einsum("ki,kin->n", impulses, free_response.motions)


def least_forces(
    delassus: Float[Array, "r r"], own: Float[Array, "k rows"], held: Bool[Array, "k rows"]
) -> Callable[[Float[Array, "k rows"]], Float[Array, "k rows"]]:
    """The function from relative accelerations to the forces of least norm that cause them in the rows that are held.

    - `own`: reciprocal effective masses; rows that nothing can move have no force.
    """
    shape, usable = own.shape, (held & (own > 0)).reshape(-1)
    scale = jnp.where(usable, 1 / jnp.sqrt(jnp.where(usable, own.reshape(-1), 1.0)), 0.0)
    A = scale[:, None] * delassus * scale + jnp.diag(jnp.where(usable, 0.0, 1.0))
    solve, _ = eliminate(A + jnp.diag(jnp.where(usable, _COMPLIANCE, 0.0)))

    def forces(missing: Float[Array, "k rows"]) -> Float[Array, "k rows"]:
        right = scale * missing.reshape(-1)
        z = solve(right)
        for _ in range(_CORRECTIONS):
            z = z + solve(right - A @ z)
        return (scale * z).reshape(shape)

    return forces


def friction_bounds(normal: Float[Array, " k"], hold: Float[Array, " k"] | None) -> Float[Array, " k"]:
    """Bounds of friction with coefficients of 1: normal forces, or bounds of its own."""
    return normal if hold is None else jnp.where(hold >= 0, hold, normal)


def sliding_friction(
    system: AbstractMechanical, motion: ContactMotion, direction: Float[Array, "k rows"], speed: Float[Array, "k rows"]
) -> tuple[Float[Array, "k rows"], Float[Array, "k rows"]]:
    """Friction of what slides in these directions: for a normal force of 1, and that which has bounds of its own."""
    drag, hold = sliding_drag(contacts_of(system).law, direction, motion.slips, speed), motion.kinematics.hold
    if hold is None:
        return drag, jnp.zeros_like(drag)
    own = (hold >= 0)[:, None]
    return jnp.where(own, 0.0, drag), jnp.where(own, hold[:, None] * drag, 0.0)


def sliding_drag(
    law: ContactLaw, direction: Float[Array, "k rows"], slips: Float[Array, "k rows"], speed: Float[Array, "k rows"]
) -> Float[Array, "k rows"]:
    """Forces of friction and moments for a normal force of 1, in parts that have a direction of sliding."""
    factors, parts = law.at_slips(slips).bounds, [jnp.zeros((len(slips), 1))]
    for disc in discs(slips.shape[1]):
        along, mu = direction[:, disc], factors[:, disc]
        u = slips[:, disc] / (_BLUR * speed[:, disc])
        # What is on the bound while others hold it has round-off for a slip: friction that followed it would be stiff.
        square = jnp.sum(u * u, axis=1, keepdims=True)
        u = (square * u + along / (1 + square)) / (1 + square)
        back = jnp.sum(u * along, axis=1, keepdims=True) < 0
        u = mu * jnp.where(back, -u, u)
        size = length(u)[:, None]
        u = jnp.where(size > 0, u / jnp.where(size > 0, size, 1.0), along)
        slides = jnp.any(along != 0, axis=1, keepdims=True)
        parts.append(jnp.where(slides, -mu * u, 0.0))
    return jnp.concatenate(parts, axis=1)


def length(part: Float[Array, "k w"]) -> Float[Array, " k"]:
    """Lengths of rows, with derivatives of zero where they vanish."""
    square = jnp.sum(part * part, axis=1)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
