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

    def frames(self, t: Any, state: State, multipliers: Any, rows: int) -> Frames:
        """Frames of stacked states, as NumPy arrays; evaluated `rows` at a time, so that only one size is compiled."""
        count = len(t)
        whole = -(-count // rows) * rows
        padded = jax.tree.map(lambda x: np.concatenate([x, np.repeat(x[-1:], whole - count, axis=0)]), (t, state))
        parts = [_observe(self, *_rows(padded, k, k + rows)) for k in range(0, whole, rows)]
        outputs, invariants, residuals = jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)
        return Frames(t, state, outputs, invariants, residuals, multipliers)

    def empty(self, state: State, rows: int) -> Frames:
        """Frames of a run that saved nothing."""
        one = self.frames(np.zeros(1), jax.tree.map(lambda x: np.asarray(x)[None], state), None, rows)
        return jax.tree.map(lambda x: x[:0], one)


def _rows(tree: Any, start: int, stop: int) -> Any:
    return jax.tree.map(lambda x: x[start:stop], tree)


@eqx.filter_jit
def _observe(observer: Observer, t: Array, state: State) -> tuple[dict, dict, dict]:
    return jax.vmap(observer)(t, state)
