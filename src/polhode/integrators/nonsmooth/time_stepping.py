"""What methods with contacts share: their options, their start and their memory."""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array

from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo
from polhode.integrators.nonsmooth.contact_record import ContactMemory
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical
from polhode.systems.mechanical.contact_set import AbstractContactSet


class AbstractTimeStepping(AbstractIntegrator):
    """A method whose steps balance impulses, so that impacts don't end them."""

    kinds: ClassVar = (AbstractMechanical,)
    promises: ClassVar = {"manifold": "round-off", "position": "round-off", "velocity": "newton"}
    promises_at_steps: ClassVar = True
    one_step: ClassVar = True
    takes_contacts: ClassVar = True

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

    def init(self, system: AbstractMechanical, t: Array, h: Array, state: State) -> Carry:
        contacts = system.contact_set
        memory = ContactMemory.empty(self._room(contacts), contacts.law.rows, contacts.count)
        # Forces at the start are those of a step from there.
        trial, _ = self._advance(system, t, h, state, memory, begins=True)
        start = trial.multipliers.at[-memory.dissipation.size :].set(0.0)
        return Carry(state, trial.memory._replace(dissipation=memory.dissipation), start)

    def restart(self, system: AbstractMechanical, t: Array, h: Array, carry: Carry) -> Carry:
        first, taken = self.init(system, t, h, carry.state), carry.memory.dissipation
        multipliers = first.multipliers.at[-taken.size :].set(taken.reshape(-1))
        return Carry(first.state, first.memory._replace(dissipation=taken), multipliers)

    def step(self, system: AbstractMechanical, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        return self._advance(system, t, h, carry.state, carry.memory)

    def _room(self, contacts: AbstractContactSet) -> int:
        """Contacts that a step takes into account."""
        return contacts.capacity

    @abc.abstractmethod
    def _advance(
        self,
        system: AbstractMechanical,
        t: Array,
        h: Array,
        state: State,
        memory: ContactMemory,
        begins: bool = False,
    ) -> tuple[Carry, StepInfo]:
        """One step; `begins`: whether closed contacts count as pressed, as nothing is known from a step before."""
