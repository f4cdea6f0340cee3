"""The same motion as a system of another kind."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array

from polhode.systems.base import AbstractSystem, Observable, State

NONHOLONOMIC = (
    "some constraints hold velocities only, such as those of rolling, and there a constraint is one on coordinates"
)
"""Why systems with nonholonomic constraints can't be written as those that know a function g(q) only."""


class Converted(NamedTuple):
    """A system of another kind, with maps between its states and those of its source.

    - `system`: of the kind that was asked for. - `into`: from a state of the source to one of `system`. - `back`: the
      other way; None where both have the same states.
    """

    system: AbstractSystem
    into: Callable[[State], State] | None = None
    back: Callable[[State], State] | None = None

    def entered(self, state: State) -> State:
        """A state of the source as one of `system`."""
        return state if self.into is None else self.into(state)

    def left(self, state: State) -> State:
        """A state of `system` as one of the source."""
        return state if self.back is None else self.back(state)

    def watched(self, observable: Callable[[Array, State], Any]) -> Callable[[Array, State], Any]:
        """A function of time and states of the source as one of states of `system`."""
        return observable if self.back is None else Watched(observable, self.back)


class Watched(eqx.Module):
    """A function of time and of states of the source of a conversion, evaluated at states of the other system."""

    observable: Callable[[Array, State], Any]
    back: Callable[[State], State]

    def __call__(self, t: Array, state: State) -> Any:
        return self.observable(t, self.back(state))


class AbstractWritten(AbstractSystem):
    """A system that a conversion makes of another one, `base`: it is looked at as `base` is, by the states of that."""

    base: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def left(self, state: State) -> State:
        """A state of this system as one of `base`."""

    def failure(self, t: Array, state: State) -> Array | None:
        return self.base.failure(t, self.left(state))

    def diagnose(self, t: float, state: State) -> str:
        return self.base.diagnose(t, self.left(state))

    def breakpoints(self) -> tuple[float, ...]:
        return self.base.breakpoints()

    def watched(self, observable: Callable[[Array, State], Any]) -> Callable[[Array, State], Any]:
        """A function of time and states of `base` as one of states of this system."""
        return Watched(observable, self.left)

    def observed(self, observables: Mapping[str, Observable]) -> dict[str, Observable]:
        """Observables of `base` as ones of this system."""
        return {name: self.watched(f) for name, f in observables.items()}


class AbstractConversion(eqx.Module):
    """A way to write a system as one of another kind that has the same motions."""

    @property
    @abc.abstractmethod
    def kind(self) -> type[AbstractSystem]:
        """Class of the systems that it makes."""

    @property
    @abc.abstractmethod
    def note(self) -> str:
        """A remark for users, without a full stop; may be empty."""

    @property
    @abc.abstractmethod
    def obstacle(self) -> str:
        """Why the system can't be written that way, as the end of a sentence; empty if it can."""

    @abc.abstractmethod
    def at(self, state: State) -> Converted:
        """The converted system; `state` is one of the source, in whose neighbourhood the motion begins."""


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
