"""RATTLE on Lie groups, with contacts."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from polhode.integrators.base import Carry, StepInfo
from polhode.integrators.nonsmooth.contact_record import ContactMemory, ContactRecord, dissipation
from polhode.integrators.nonsmooth.rattle_drift import Departure, Drift, drift
from polhode.integrators.nonsmooth.rattle_kick import Kick, arrive, kick
from polhode.integrators.nonsmooth.time_stepping import AbstractTimeStepping
from polhode.result_codes import Result
from polhode.spaces.base import AbstractGroup
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical

_FAILED = 1e-8
"""Change of velocities, relative to them, above which a step has failed after all rounds."""

_ON_JOINTS = 1e-10
"""Residual of joints, and depth of contacts, above which a step has failed, relative to the largest coordinate."""


class LieRattle(AbstractTimeStepping):
    """TODO."""

    max_iterations: int = eqx.field(static=True, default=25)
    tolerance: float = eqx.field(static=True, default=1e-10)

    def check(self, system: AbstractMechanical, t: Any, state: State) -> None:
        del t, state
        if not system.identity_kinematics or not isinstance(system.configuration, AbstractGroup):
            raise ValueError("rates of these coordinates are not those of a group; `moreau` takes them")
        if len(system.nonholonomic):
            raise ValueError("conditions on velocities, such as rolling, are none on positions; `moreau` takes them")

    def _advance(
        self,
        system: AbstractMechanical,
        t: Array,
        h: Array,
        state: State,
        memory: ContactMemory,
        pressed: Bool[Array, " k"],
    ) -> tuple[Carry, StepInfo]:
        step = Departure.at(system, t, h, *state, memory, pressed)
        first = drift(step, self.max_iterations, self.tolerance)
        arrival = arrive(step, first)
        last = kick(arrival, self.max_iterations, self.tolerance)
        contacts = first.contacts
        after = jnp.einsum("krn,n->kr", contacts.rows, last.velocity) + contacts.drift
        before = arrival.before.at[:, 0].set(last.approach)
        taken = memory.dissipation + dissipation(last.impulses, before, after)
        record = ContactRecord(last.impulses / h, after, taken)
        multipliers = record.pack((first.joints + last.joints) / h)
        carry = Carry((first.q, last.velocity), ContactMemory(last.impulses, contacts.feature, taken), multipliers)
        rounds = first.number + last.number
        return carry, StepInfo(_result(step, first, last), newton_iterations=rounds, residual=last.change)

    def interpolate(
        self, system: AbstractMechanical, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> State:
        """Along the motion of the step, with velocities between those of its ends."""
        del t, h
        (q0, v0), (q1, v1) = carry0.state, carry1.state
        space = system.configuration
        return space.move(q0, s * space.difference(q0, q1)), v0 + s * (v1 - v0)


def _result(step: Departure, first: Drift, last: Kick) -> Array:
    system = step.system
    scale = 1.0 + jnp.max(jnp.abs(last.velocity))
    depth = jnp.max(-first.contacts.gap, initial=0.0)
    open_by = jnp.max(jnp.abs(system.constraint(step.t + step.h, first.q))) if system.m else jnp.zeros(())
    failed = (jnp.maximum(first.change, last.change) > _FAILED * scale) | (jnp.maximum(depth, open_by) > _ON_JOINTS)
    code = jnp.where(failed, int(Result.newton_not_converged), 0)
    code = jnp.where(first.solved & last.solved, code, int(Result.contact_unsolved))
    return jnp.where(jnp.isfinite(jnp.sum(last.velocity)), code, int(Result.nonfinite_state)).astype(jnp.int32)
