"""The same motion as a system of another kind."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
from jaxtyping import Array

from polhode.systems.base import AbstractConversion, AbstractSystem, Converted, ConvertedObservable, Observable, State

NONHOLONOMIC = (
    "some constraints hold velocities only, such as those of rolling, and there a constraint is one on coordinates"
)
"""Why systems with nonholonomic constraints can't be written as those that know a function g(q) only."""


class AbstractConvertedSystem(AbstractSystem):
    """A system that a conversion makes of another one, `base`: it is looked at as `base` is, by the states of that."""

    base: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def to_base(self, state: State) -> State:
        """A state of this system as one of `base`."""

    def failure(self, t: Array, state: State) -> Array | None:
        return self.base.failure(t, self.to_base(state))

    def diagnose(self, t: float, state: State) -> str:
        return self.base.diagnose(t, self.to_base(state))

    def breakpoints(self) -> tuple[float, ...]:
        return self.base.breakpoints()

    def convert_observable(self, observable: Callable[[Array, State], Any]) -> Callable[[Array, State], Any]:
        """A function of time and states of `base` as one of states of this system."""
        return ConvertedObservable(observable, self.to_base)

    def convert_observables(self, observables: Mapping[str, Observable]) -> dict[str, Observable]:
        """Observables of `base` as ones of this system."""
        return {name: self.convert_observable(f) for name, f in observables.items()}


class AbstractReformulation(AbstractConvertedSystem):
    """One that can be run by itself: states of `base` are written as its own."""

    @abc.abstractmethod
    def start(self, *state: Any) -> State:
        """The state that belongs to a state of `base`, given by its parts."""


class Conversion(AbstractConversion):
    """A system of another kind that is known already.

    **Arguments:**

    - `system`: of another kind.
    - `into`, `back`: functions from a state of the source to one of `system`, and the other way; None where both have
      the same states.
    - `said`: what users should know of it.
    """

    system: AbstractSystem
    into: Callable[[State], State] | None = None
    back: Callable[[State], State] | None = None
    said: str = eqx.field(static=True, default="")

    @property
    def kind(self) -> type[AbstractSystem]:
        return type(self.system)

    @property
    def note(self) -> str:
        return self.said

    @property
    def obstacle(self) -> str:
        return ""

    def at(self, state: State) -> Converted:
        del state
        return Converted(self.system, self.into, self.back)
