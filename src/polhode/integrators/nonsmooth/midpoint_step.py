"""A step whose impulses act in its middle: its data there, its end, and the motion without contacts."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.compiler.primitives.row_loop import map_rows
from polhode.contact.scales import Scales, energy_norm
from polhode.integrators.explicit.half_explicit_projection import explicit_rate
from polhode.integrators.nonsmooth.contact_record import contacts_of
from polhode.integrators.nonsmooth.joint_projection import move_onto_joints
from polhode.linalg.blocks import Matrix, apply, scale_matrix
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical, Multipliers
from polhode.systems.mechanical.contact_set import ContactKinematics, ContactLaw

LOOPED = 6
"""Contacts from which on what each does to the others is a loop: shorter, and without those that can't act."""


class Impact(eqx.Module):
    """The first impact with a bounce within a step, if its contacts are apart from all others.

    - `here`: its contacts. - `delay`: its time, from the middle of the step; zero for all others.
    - `waits`: contacts that will bounce in the next step, so that they don't in this one. - `instant`: of the first.
    - `loads`: forces of a body at rest in the middle of the step, which work along what the delay shifts.
    """

    here: Bool[Array, " k"]
    delay: Float[Array, " k"]
    waits: Bool[Array, " k"]
    instant: Array
    loads: Vector


class MidpointStep(eqx.Module):
    """The data of a step from `start`, evaluated in its middle at time t.

    - `bend`: what gaps gain until the middle of the next step, beyond what their rates at the start let expect.
    - `turn`: the same of relative velocities and spins until the end of the step.
    - `scales`, `touch_gap`: of contacts, and gaps up to which they count as closed.
    - `pressed`: contacts that carried a force in the step before. - `first_part`: impulses of impacts that go on.
    - `smoothing`: the energy κ of smoothed laws, which all contacts have all the time; None for the laws.
    """

    system: AbstractMechanical
    t: Array
    h: Array
    start: State
    middle: Point
    mass: Matrix
    columns: Matrix
    contacts: ContactKinematics
    law: ContactLaw
    bend: Float[Array, " k"]
    turn: Float[Array, "k rows"]
    scales: Scales
    touch_gap: Float[Array, " k"]
    pressed: Bool[Array, " k"]
    first_part: Float[Array, "k rows"]
    impact: Impact
    smoothing: Array | None = None

    @property
    def held_rows(self) -> Bool[Array, "k rows"]:
        """Rows of friction with bounds of its own."""
        return self.contacts.held_slots()[:, None] & (np.arange(self.contacts.rows.shape[1]) > 0)

    @property
    def impact_rows(self) -> Bool[Array, "k rows"]:
        """Rows whose laws hold at the instant of the impact; friction with bounds of its own has the whole step."""
        return self.impact.here[:, None] & ~self.held_rows

    @property
    def impact_share(self) -> Array:
        """The instant of the impact in fractions of the step; 1 without one."""
        return jnp.where(jnp.any(self.impact.here), 0.5 + self.impact.instant / self.h, 1.0)

    def slips(self, v: Vector) -> Float[Array, "k rows"]:
        """Relative velocities of the contacts in the middle."""
        return self.contacts.rows @ v + self.contacts.drift

    def slips_at_start(self) -> Float[Array, "k rows"]:
        """Relative velocities at the start, up to O(h²).

        Those in the middle with the velocity there, v₀, are others where coordinates turn with a body: what rolls
        seems to approach what carries it.
        """
        return self.slips(self.start[1]) - self.turn

    def slips_at_end(self, v1: Vector) -> Float[Array, "k rows"]:
        """The same at the end, with the velocity there."""
        return self.slips(v1) + self.turn

    def with_friction_at(self, v1: Vector, joints: Multipliers) -> MidpointStep:
        """The step with friction by mean slips and by impulses of joints, where it depends on these."""
        mean = 0.5 * (self.slips_at_start() + self.slips_at_end(v1))
        step = dataclasses.replace(self, law=self.law.at_slips(mean))
        contacts = contacts_of(self.system)
        if not contacts.reads_joint_forces:
            return step
        hold = contacts.loaded_hold(self.system, self.t, self.middle, self.contacts, joints / self.h)
        return dataclasses.replace(step, contacts=self.contacts._replace(hold=hold))

    def norm(self, v: Vector) -> Array:
        """The size of a velocity as the root of an energy."""
        return energy_norm(self.mass, v, self.system.n)

    def end(self, v1: Vector, shift: Vector) -> tuple[Point, Array]:
        """The position at the end, on the joints, and what residual of them is left.

        `shift`: displacement that impulses lose by acting after the middle. Turns before and after the instant of an
        impact don't commute, and angular momenta hold only in their order.
        """
        system, h, instant = self.system, self.h, self.impact.instant
        place = system.flow(self.middle, instant * v1 - shift, 1.0)
        q = system.flow(place, v1, 0.5 * h - instant)
        if not system.m:
            return q, jnp.zeros(())
        factors = system.kkt.factor(self.mass, self.columns, self.columns)
        return move_onto_joints(system, self.t + 0.5 * h, q, factors)


class FreeMotion(eqx.Module):
    """The end of a step without contacts, and the factors of the matrix that it has been computed with."""

    velocity: Vector
    joints: Multipliers
    factors: Any


class UnitResponse(eqx.Module):
    """Effects of unit impulses of the contacts; nothing for contacts that can't act.

    - `moved`: changes of velocity. - `shares`: impulses of the joints.
    """

    moved: Float[Array, "k_rows n"]
    shares: Float[Array, "k_rows m"]


def constant_factors(step: MidpointStep) -> Any:
    """Factors for all rounds; None where each has its own."""
    if step.system.m or step.system.has_loads:
        return None
    return _factor(step, step.mass, step.columns)


def move_freely(step: MidpointStep, factors: Any, v1: Vector, shift: Vector) -> FreeMotion:
    """The motion without contacts, by forces and joints for the velocity v1 at the end of the step."""
    system, h, (q0, v0) = step.system, step.h, step.start
    mean = 0.5 * (v0 + v1)
    place = system.flow(q0, mean, 0.5 * h)
    unbalanced = h * system.force(step.t, place, mean) - apply(step.mass, v1 - v0, system.n)
    rate, rows = jnp.zeros(system.m), step.columns
    if system.m:
        q1, _ = step.end(v1, shift)
        end = step.t + 0.5 * h
        rows = system.jacobian(end, q1)
        rate = -apply(rows, v1, system.m) - explicit_rate(system, end, q1)
    if factors is None:
        # At the last velocity, as stops and dry friction may begin within the step.
        factors = _factor(step, _tangent(step, place, mean), rows)
    change, joints = system.kkt.solve(factors, unbalanced, rate)
    return FreeMotion(v1 + change, joints, factors)


def respond(step: MidpointStep, factors: Any, acts: Bool[Array, " k"]) -> UnitResponse:
    """The response to unit impulses of those contacts that may act."""
    (k, rows, n), m, kkt = step.contacts.rows.shape, step.system.m, step.system.kkt

    def of_contact(_: None, W: Float[Array, "rows n"], acts: Array) -> tuple[Array, Array]:
        solve = lambda: jax.vmap(lambda row: kkt.solve(factors, row, jnp.zeros(m)))(W)  # noqa: E731
        return jax.lax.cond(acts, solve, lambda: (jnp.zeros((rows, n)), jnp.zeros((rows, m))))

    moved, shares = map_rows(of_contact, None, step.contacts.rows, acts, loop=k >= LOOPED)
    return UnitResponse(moved.reshape(k * rows, n), shares.reshape(k * rows, m))


def delassus_matrix(
    contacts: ContactKinematics, columns: Float[Array, "k_rows n"], acts: Bool[Array, " k"]
) -> Float[Array, "k_rows k_rows"]:
    """Relative velocities by unit impulses of those contacts that may act; `columns`: their changes of velocity."""
    k, rows, n = contacts.rows.shape

    def of_contact(W: Float[Array, "k_rows n"], columns: Float[Array, "rows n"], acts: Array) -> Array:
        return jax.lax.cond(acts, lambda: columns @ W.T, lambda: jnp.zeros((rows, k * rows)))

    W = contacts.rows.reshape(-1, n)
    return map_rows(of_contact, W, columns.reshape(k, rows, n), acts, loop=k >= LOOPED).reshape(k * rows, -1).T


def touch_tolerance(h: Array, scales: Scales, contacts: ContactKinematics, v: Vector) -> Float[Array, " k"]:
    """Gaps up to which contacts count as closed: round-off, and a millionth of the way of the fastest in a step."""
    return scales.touch_gap(0.0) + 1e-6 * h * scales.largest(jnp.abs(contacts.rows[:, 0] @ v))


def _factor(step: MidpointStep, tangent: Matrix, rows: Matrix) -> Any:
    return step.system.kkt.factor(tangent, step.columns, rows)


def _tangent(step: MidpointStep, q: Point, v: Vector) -> Matrix:
    """M + ½hC + ¼h²K, or M alone where only weight and inertia act."""
    system, h = step.system, step.h
    if not system.has_loads:
        return step.mass
    damping = scale_matrix(system.damping(step.t, q, v), 0.5 * h)
    if not system.identity_kinematics:
        return (*step.mass, *damping)
    return (*step.mass, *damping, *scale_matrix(system.stiffness(step.t, q, v), 0.25 * h**2))
