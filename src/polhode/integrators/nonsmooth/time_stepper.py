"""Parts that methods with contacts share: their options, their start and their memory."""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo
from polhode.integrators.nonsmooth.contact_record import ContactMemory, contacts_of, record_length, size_of
from polhode.result_codes import Result
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical


class AbstractImpulseMethod(AbstractIntegrator):
    """A method whose steps balance impulses, so that impacts don't end them."""

    kinds: ClassVar = (AbstractMechanical,)
    promises: ClassVar = {"manifold": "round-off", "position": "round-off", "velocity": "newton"}
    promises_at_steps: ClassVar = True
    one_step: ClassVar = True
    takes_contacts: ClassVar = True
    needs_contacts: ClassVar = True

    tolerance: eqx.AbstractVar[float]

    def promises_for(self, system: AbstractMechanical, state: State) -> dict[str, str]:
        return {**super().promises_for(system, state), **dict.fromkeys(system.kept_momenta, "round-off")}

    @property
    def order(self) -> int:
        return 2

    @property
    def implicit(self) -> bool:
        return True

    @property
    def evaluations(self) -> int:
        return 1

    @property
    def interpolation_order(self) -> int:
        return 1

    def newton_tolerance(self, h: float | None) -> float:
        del h
        return 1e-12


class AbstractTimeStepper(AbstractImpulseMethod):
    """Such a method for contacts in fixed slots, with a memory of impulses."""

    starts_by_trial: ClassVar = True

    def init(self, system: AbstractMechanical, t: Array, h: Array, state: State) -> Carry:
        before = self.before_trial(system, state)
        trial, _ = self.step(system, t, h, before)
        return self.after_trial(system, t, before, trial)

    def before_trial(self, system: AbstractMechanical, state: State) -> Carry:
        memory = ContactMemory.empty(contacts_of(system).capacity, *size_of(system), system.n)
        return Carry(state, memory, jnp.zeros(system.m + record_length(system)))

    def after_trial(self, system: AbstractMechanical, t: Array, before: Carry, trial: Carry) -> Carry:
        # Forces at the start are those of a step from there, which has taken no energy yet.
        k, rows = size_of(system)
        assert trial.multipliers is not None
        multipliers = trial.multipliers.at[system.m + 2 * k * rows :].set(0.0)
        labels = self._labels(system, t, before.state, trial.memory)
        return Carry(before.state, before.memory._replace(impulses=trial.memory.impulses, labels=labels), multipliers)

    def _labels(self, system: AbstractMechanical, t: Array, state: State, trial: ContactMemory) -> Int[Array, " c"]:
        """Labels of the contacts that a step from a state takes into account, in the order of the trial step."""
        del system, t, state
        return trial.labels

    def restart(self, system: AbstractMechanical, t: Array, h: Array, carry: Carry) -> Carry:
        first, taken = self.init(system, t, h, carry.state), carry.memory.dissipation
        assert first.multipliers is not None
        multipliers = first.multipliers.at[-taken.size :].set(taken.reshape(-1))
        return Carry(first.state, first.memory._replace(dissipation=taken), multipliers)

    def step(self, system: AbstractMechanical, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        return self._advance(system, t, h, carry.state, carry.memory, carry.memory.pressed)

    @abc.abstractmethod
    def _advance(
        self,
        system: AbstractMechanical,
        t: Array,
        h: Array,
        state: State,
        memory: ContactMemory,
        pressed: Bool[Array, " k"],
    ) -> tuple[Carry, StepInfo]:
        """One step; `pressed`: contacts that carried a force before it, if they are the same ones."""


def without_numbers(code: Array, velocity: Float[Array, " n"], hold: Float[Array, " k"] | None) -> Array:
    """The result of a step, `code` unless velocities or bounds of friction are no numbers.

    Such a bound leaves velocities as they are, without a solution of its laws, or makes them no numbers.
    """
    code = jnp.where(jnp.isfinite(jnp.sum(velocity)), code, int(Result.nonfinite_state))
    if hold is not None:
        code = jnp.where(jnp.any(jnp.isnan(hold)), int(Result.invalid_friction), code)
    return code.astype(jnp.int32)


def between(system: AbstractMechanical, start: State, end: State, s: Array) -> State:
    """The state at the fraction s of a step that goes straight from one position to the other."""
    (q0, v0), (q1, v1) = start, end
    space = system.configuration
    return space.move(q0, s * space.difference(q0, q1)), v0 + s * (v1 - v0)
