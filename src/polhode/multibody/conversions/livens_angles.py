"""Counted angles in models on Livens' principle."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, Self

import equinox as eqx
from jaxtyping import Array, Float

from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point
from polhode.spaces.constants import Constants
from polhode.spaces.linear import Rn
from polhode.spaces.products import product
from polhode.systems.base import State
from polhode.systems.conversion import AbstractConvertedSystem
from polhode.systems.lagrangian import CountedLivensState, LivensState


class AbstractLivensModel(AbstractConvertedSystem):
    """A model on Livens' principle; its states contain the angles that its base counts, if any.

    - `base`: the model with states (q, v); within a step it evaluates angles near those at the start of the step.
    """

    base: eqx.AbstractVar[Any]

    @property
    @abc.abstractmethod
    def n(self) -> int:
        """Number of coordinates."""

    @property
    def state_space(self) -> Any:
        counter = self.base.counter
        return product(*(Rn(self.n),) * 3, *(() if counter is None else (Constants(counter.count),)))

    @property
    def counts(self) -> bool:
        return self.base.counts

    def with_turns(self, state: State, turns: Float[Array, " k"]) -> State:
        """A state (q, v, p) with counted angles."""
        return state if self.base.counter is None else CountedLivensState(*plain(state), turns)

    def position(self, q: Point, state: State) -> Point:
        """A position of the base with the angles of a state; those at the start of the step for states without."""
        base: MultibodySystem = self.base
        return q if base.counter is None else base.with_turns(q, self._turns(state))

    def for_step_from(self, state: State) -> Self:
        if not self.counts:
            return self
        q, _ = self.to_base(state)
        return dataclasses.replace(self, base=self.base.near(q))

    def without_turns(self, state: State) -> State:
        return plain(state)

    def count_turns(self, before: State, after: State, h: Any) -> State:
        if self.base.counter is None:
            return after
        after = self.with_turns(after, self._turns(before))
        q, _ = self.base.count_turns(self.to_base(before), self.to_base(after), h)
        return self.with_turns(after, self.base.turns(q))

    def turn_failure(self, before: State, after: State) -> Array | None:
        if self.base.counter is None:
            return None
        return self.base.mechanism.half_turn_result(self._turns(after) - self._turns(before))

    def _turns(self, state: State) -> Float[Array, " k"]:
        if isinstance(state, CountedLivensState):
            return state.turns
        return self.base.counter.angles.reference


def plain(state: State) -> LivensState:
    """(q, v, p) alone."""
    return LivensState(*state[:3])
