"""Outputs, invariants and residuals of states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from polhode.compiler.batched_function import BatchedFunction
from polhode.frames import Frames
from polhode.modules import Module
from polhode.systems.base import AbstractSystem, Observable, State


class Observation(NamedTuple):
    """Outputs, invariants and residuals of a state."""

    outputs: dict[str, Any]
    invariants: dict[str, Any]
    residuals: dict[str, Any]


class Observer(Module):
    """Evaluates all outputs, invariants and residuals of a state.

    - `more_residuals`: residuals besides those of the system itself, or None.
    """

    system: AbstractSystem
    outputs: dict[str, Observable]
    invariants: dict[str, Observable]
    more_residuals: Callable[[Array, State], dict[str, Array]] | None

    def __init__(
        self,
        system: AbstractSystem,
        outputs: Mapping[str, Observable],
        invariants: Mapping[str, Observable],
        more_residuals: Callable[[Array, State], dict[str, Array]] | None = None,
    ) -> None:
        self.system = system
        self.outputs = dict(outputs)
        self.invariants = dict(invariants)
        self.more_residuals = more_residuals

    def __call__(self, t: Array, state: State) -> Observation:
        """Outputs, invariants and residuals of one state."""
        outputs = {name: f(t, state) for name, f in self.outputs.items()}
        invariants = {name: f(t, state) for name, f in self.invariants.items()}
        for name, value in self.system.state_space.invariants(state).items():
            invariants.setdefault(name, value)
        residuals = self.system.residuals(t, state)
        if self.more_residuals is not None:
            residuals = {**self.more_residuals(t, state), **residuals}
        return Observation(outputs, invariants, residuals)


class BatchedObserver:
    """Evaluates an observer over stacked states of one run; closures of users are read at the first call."""

    def __init__(self, observer: eqx.Module, rows: int, *, once: bool = False) -> None:
        self.observe = BatchedFunction(observer, rows, once=once)
        """Values of the observer at stacked instants, as NumPy arrays."""

    def frames(self, t: Any, state: State, multipliers: Any) -> Frames:
        """Frames of stacked states, as NumPy arrays."""
        observation: Observation = self.observe(t, state)
        return Frames(t, state, observation.outputs, observation.invariants, observation.residuals, multipliers)

    def empty(self, state: State, multipliers: Any) -> Frames:
        """Frames of no instants at all."""
        states, forces = jax.tree.map(lambda x: np.asarray(x)[None], (state, multipliers))
        return jax.tree.map(lambda x: x[:0], self.frames(np.zeros(1), states, forces))
