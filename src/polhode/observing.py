"""Physical quantities of states: outputs, invariants and residuals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from polhode.problems.base import Observable
from polhode.solution import Frames
from polhode.systems.base import AbstractSystem, State


class Observer(eqx.Module):
    """Evaluates everything that is reported about a state."""

    system: AbstractSystem
    outputs: dict[str, Observable]
    invariants: dict[str, Observable]

    def __init__(
        self, system: AbstractSystem, outputs: Mapping[str, Observable], invariants: Mapping[str, Observable]
    ) -> None:
        self.system = system
        self.outputs = dict(outputs)
        self.invariants = dict(invariants)

    def __call__(self, t: Array, state: State) -> tuple[dict, dict, dict]:
        """Outputs, invariants and residuals of one state."""
        outputs = {name: f(t, state) for name, f in self.outputs.items()}
        invariants = {name: f(t, state) for name, f in self.invariants.items()}
        for name, value in self.system.state_space.invariants(state).items():
            invariants.setdefault(name, value)
        return outputs, invariants, self.system.residuals(t, state)

    def frames(self, t: Any, state: State, multipliers: Any) -> Frames:
        """Frames of stacked states, as NumPy arrays. Rows are padded to a few sizes, so that little is compiled."""
        count = len(t)
        rows = 1 << (count - 1).bit_length()
        padded = jax.tree.map(lambda x: np.concatenate([x, np.repeat(x[-1:], rows - count, axis=0)]), (t, state))
        observed = jax.tree.map(lambda x: np.asarray(x)[:count], _observe(self, *padded))
        return Frames(t, state, *observed, multipliers)

    def compile(self, rows: int, state: State, multipliers: Any) -> None:
        """Compile for blocks of `rows` states, so that run times exclude it."""
        del multipliers
        count = 1 << (rows - 1).bit_length()
        _observe(self, np.zeros(count), jax.tree.map(lambda x: np.broadcast_to(x, (count, *np.shape(x))), state))

    def empty(self, state: State) -> Frames:
        """Frames of a run that saved nothing."""
        one = self.frames(np.zeros(1), jax.tree.map(lambda x: np.asarray(x)[None], state), None)
        return jax.tree.map(lambda x: x[:0], one)


@eqx.filter_jit
def _observe(observer: Observer, t: Array, state: State) -> tuple[dict, dict, dict]:
    return jax.vmap(observer)(t, state)
