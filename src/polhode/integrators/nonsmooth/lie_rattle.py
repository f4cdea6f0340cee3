"""RATTLE on Lie groups, with contacts."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from polhode.integrators.base import Carry, StepInfo
from polhode.integrators.nonsmooth.contact_record import ContactMemory, ContactRecord, contacts_of, dissipation
from polhode.integrators.nonsmooth.long_ways import pass_through, radii_of
from polhode.integrators.nonsmooth.rattle_drift import Departure, Drift, drift
from polhode.integrators.nonsmooth.rattle_kick import Kick, arrive, kick
from polhode.integrators.nonsmooth.time_stepper import AbstractTimeStepper, between, without_numbers
from polhode.result_codes import Result
from polhode.spaces.base import AbstractGroup
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical

_FAILED = 1e-8
"""Change of velocities, relative to them, above which a step has failed after all rounds."""

_MISSED = 1e4
"""The same in parts of round-off of positions in a step."""

_ON_JOINTS = 1e-10
"""Residual of joints, and depth of contacts, above which a step has failed, relative to the largest coordinate."""


class LieRattle(AbstractTimeStepper):
    r"""RATTLE on Lie groups with contacts: the form of `rattle` for bodies that touch.

    The variational method of the trapezoidal discrete Lagrangian, with q₁ = move(q₀, hv), v the velocity of the middle,
    p the momentum of both ends' mean mass, F all generalised forces with those of ∂M/∂q, and W rows of the contacts:

    $$\mathrm{dexp}^{-T}_{hv}\,p = M_0v_0 + \tfrac h2 F_0 - B_0^T\Lambda^1 + W_0^TP^1,\quad \Phi(q_1) = 0,\quad
    0 \le g(q_1) \perp P^1_N \ge 0,$$

    $$M_1v_1 = \mathrm{dexp}^{-T}_{-hv}\,p + \tfrac h2 F_1 - B_1^T\Lambda^2 + W_1^T(P - P^1),\quad
    B_1v_1 + \partial_t\Phi = 0,$$

    with the laws of impact and friction between v₁ and the impulses P of the whole step; those that slide on have them
    for P - P¹. Friction of P¹ is against the velocity at the start, or against the mean of both rows where it sticks.

    - Order: 2 in smooth motion, sticking, sliding along curves and rolling included; 1 across impacts.
    - Preserves: gaps and joints to round-off at the ends of steps, positions and velocities; linear and angular
      momentum of free systems to round-off, through impacts, as well as other momenta of symmetries, such as that of a
      sphere on a plane about its point of contact; at rest everything, to the last bits. The energy oscillates as that
      of smooth motion does, and contacts raise it no more than their law does: without friction or restitution
      never. Elastic impacts without friction keep it, since velocities before impacts follow from its balance.
    - A bounce that would be shorter than the step is none: so impacts that accumulate come to rest.
    - Steps are constant, h ω < 2 for the largest frequency ω of springs. Newton's method for the first half (rows at
      the end, columns at the start of the step), 2 to 8 rounds of a contact problem, more where contacts change
      with the end of the step, and 1 to 5 for the second.
    - Any coordinates whose rates are those of a group: absolute ones, and those of joints.
    - Result codes: `contact_unsolved`, `contact_missed`, `newton_not_converged`, `nonfinite_state`.

    **Arguments:**

    - `max_iterations`: rounds of each half of a step. - `tolerance`: of the contact problem, relative.

    ??? cite "Reference"
        J. E. Marsden, M. West, Discrete mechanics and variational integrators, Acta Numerica 10 (2001).
    """

    takes_holds: ClassVar = True
    takes_grips: ClassVar = True

    max_iterations: int = eqx.field(static=True, default=60)
    tolerance: float = eqx.field(static=True, default=1e-10)

    def promises_for(self, system: AbstractMechanical, state: State) -> dict[str, str]:
        promises = super().promises_for(system, state)
        # Groups on which impulses act as in space have both momenta.
        both = "linear_momentum" in promises and "angular_momentum" in system.invariants()
        return {**promises, "angular_momentum": "round-off"} if both else promises

    def check(self, system: AbstractMechanical, t: Any, state: State) -> None:
        del t, state
        if not system.identity_kinematics or not isinstance(system.configuration, AbstractGroup):
            raise ValueError("rates of these coordinates are not those of a group; `moreau` takes them")
        if len(system.nonholonomic):
            raise ValueError("conditions on velocities, such as rolling, are none on positions; `moreau` takes them")
        contacts = contacts_of(system)
        if contacts.capacity < contacts.count:
            raise ValueError(
                f"of the {contacts.count} points that could touch there is room for {contacts.capacity} at a time, and "
                f"this method takes all; `moreau` takes the nearest, or make room by `model.limit_contacts"
                f"({contacts.count})`, with steps that cost as many"
            )

    def _advance(
        self,
        system: AbstractMechanical,
        t: Array,
        h: Array,
        state: State,
        memory: ContactMemory,
        pressed: Bool[Array, " k"],
    ) -> tuple[Carry, StepInfo]:
        q, v = state
        step = Departure.at(system, t, h, q, v, memory, pressed, self.tolerance)
        first = drift(step, self.max_iterations, self.tolerance)
        arrival = arrive(step, first)
        last = kick(arrival, self.max_iterations, self.tolerance)
        contacts = first.contacts
        after = jnp.einsum("krn,n->kr", contacts.rows, last.x.velocity) + contacts.drift
        impulses = last.x.impulses
        taken = memory.dissipation + dissipation(impulses, last.place.before, after)
        record = ContactRecord(impulses / h, after, taken)
        multipliers = record.pack((first.joints + last.place.joints) / h)
        left = memory._replace(impulses=impulses, labels=contacts.feature.astype(jnp.int64), dissipation=taken)
        carry = Carry((first.q, last.x.velocity), left, multipliers)
        rounds = first.number + last.number
        return carry, StepInfo(_result(step, first, last), newton_iterations=rounds, residual=last.change)

    def _labels(self, system: AbstractMechanical, t: Array, state: State, trial: ContactMemory) -> Int[Array, " k"]:
        # Steps remember the contacts at their ends.
        del trial
        return contacts_of(system).kinematics(system, t, state[0]).feature.astype(jnp.int64)

    def interpolate(
        self, system: AbstractMechanical, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> State:
        """Along the motion of the step, with velocities between those of its ends."""
        del t, h
        return between(system, carry0.state, carry1.state, s)


def _pass(step: Departure, end: Drift) -> Bool[Array, " k"]:
    """Contacts whose shapes are behind each other at the end of a step."""
    here, there = step.contacts, end.contacts
    before, after = (jnp.einsum("krn,n->kr", at.rows, end.velocity) + at.drift for at in (here, there))
    return pass_through(step.h, here.gap, before, after, *radii_of(contacts_of(step.system), None))


def _result(step: Departure, first: Drift, last: Kick) -> Array:
    system = step.system
    depth = jnp.max(-first.contacts.gap / step.scales.size, initial=0.0)
    open_by = jnp.max(jnp.abs(system.constraint(step.t + step.h, first.q))) if system.m else jnp.zeros(())
    failed = (first.change > _FAILED * first.size + _MISSED * first.noise) | (
        last.change > _FAILED * last.size + _MISSED * first.noise
    )
    failed = failed | (jnp.maximum(depth, open_by) > _ON_JOINTS)
    code = jnp.where(failed, int(Result.newton_not_converged), 0)
    code = jnp.where(first.solved & last.solved, code, int(Result.contact_unsolved))
    missed = jnp.any(_pass(step, first) & (first.impulses[:, 0] <= 0))
    code = jnp.where(missed, int(Result.contact_missed), code)
    return without_numbers(code, last.x.velocity, first.contacts.hold)
