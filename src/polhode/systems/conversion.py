"""Systems that are converted from systems of other kinds with the same motion."""

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
"""Why systems with nonholonomic constraints can't be converted to kinds with constraints g(q) only."""


class AbstractConvertedSystem(AbstractSystem):
    """A system converted from `base`, whose outputs and diagnoses it takes by way of states of `base`."""

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

    def kinks(self) -> tuple[float, ...]:
        return self.base.kinks()

    def convert_observable(self, observable: Callable[[Array, State], Any]) -> Callable[[Array, State], Any]:
        """A function of time and states of `base` as one of states of this system."""
        return ConvertedObservable(observable, self.to_base)

    def convert_observables(self, observables: Mapping[str, Observable]) -> dict[str, Observable]:
        """Observables of `base` as ones of this system."""
        return {name: self.convert_observable(f) for name, f in observables.items()}


class AbstractReformulation(AbstractConvertedSystem):
    """A converted system with states of its own, which can be simulated directly."""

    @abc.abstractmethod
    def start(self, *state: Any) -> State:
        """The state that corresponds to a state of `base`, given by its parts."""


class Conversion(AbstractConversion):
    """A conversion to a given system.

    **Arguments:**

    - `system`: of another kind.
    - `into`, `back`: functions from a state of the source to one of `system`, and the inverse; None where both have
      the same states.
    - `remark_text`: a remark for users.
    """

    system: AbstractSystem
    into: Callable[[State], State] | None = None
    back: Callable[[State], State] | None = None
    remark_text: str = eqx.field(static=True, default="")

    @property
    def kind(self) -> type[AbstractSystem]:
        return type(self.system)

    @property
    def note(self) -> str:
        return self.remark_text

    @property
    def obstacle(self) -> str:
        return ""

    def at(self, state: State) -> Converted:
        del state
        return Converted(self.system, self.into, self.back)
