"""Physical quantities of states: outputs, invariants and residuals."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from polhode.captured.programs import compiled, found
from polhode.execution.kept import Keeping
from polhode.execution.limits import is_long
from polhode.execution.literals import NotNative
from polhode.execution.mapping import RowMap
from polhode.execution.once import interpreted
from polhode.execution.placement import on_host
from polhode.frames import Frames
from polhode.problems.base import Observable
from polhode.systems.base import AbstractSystem, State


class Seen(NamedTuple):
    """Outputs, invariants and residuals of a state."""

    outputs: dict[str, Any]
    invariants: dict[str, Any]
    residuals: dict[str, Any]


class Observer(eqx.Module):
    """Evaluates everything that is reported about a state.

    - `beside`: residuals besides those of the system itself.
    """

    system: AbstractSystem
    outputs: dict[str, Observable]
    invariants: dict[str, Observable]
    beside: Callable[[Array, State], dict[str, Array]] | None

    def __init__(
        self,
        system: AbstractSystem,
        outputs: Mapping[str, Observable],
        invariants: Mapping[str, Observable],
        beside: Callable[[Array, State], dict[str, Array]] | None = None,
    ) -> None:
        self.system = system
        self.outputs = dict(outputs)
        self.invariants = dict(invariants)
        self.beside = beside

    def __call__(self, t: Array, state: State) -> Seen:
        """Outputs, invariants and residuals of one state."""
        outputs = {name: f(t, state) for name, f in self.outputs.items()}
        invariants = {name: f(t, state) for name, f in self.invariants.items()}
        for name, value in self.system.state_space.invariants(state).items():
            invariants.setdefault(name, value)
        residuals = self.system.residuals(t, state)
        if self.beside is not None:
            residuals = {**self.beside(t, state), **residuals}
        return Seen(outputs, invariants, residuals)


class Watch:
    """Looks at the states of one run, with what users' functions have captured when it first looks.

    What is no machine code is done for `rows` at a time, so that only one size is compiled: by XLA, or by NumPy where
    states are large, since the time to compile grows with them, and where it is only looked at once.
    """

    def __init__(self, observer: eqx.Module, rows: int, *, once: bool = False) -> None:
        self._observer, self._rows, self._once = observer, rows, once
        self._look: Callable[[Any], Any] | None = None

    def seen(self, *stacked: Any) -> Any:
        """Values of the observer at stacked instants, as NumPy arrays."""
        stacked = jax.tree.map(np.asarray, stacked)
        if self._look is None:
            self._look = _native(self._observer, stacked) or self._by_rows(stacked)
        return self._look(stacked)

    def frames(self, t: Any, state: State, multipliers: Any) -> Frames:
        """Frames of stacked states, as NumPy arrays."""
        seen: Seen = self.seen(t, state)
        return Frames(t, state, seen.outputs, seen.invariants, seen.residuals, multipliers)

    def empty(self, state: State, multipliers: Any) -> Frames:
        """Frames of no instants at all."""
        states, forces = jax.tree.map(lambda x: np.asarray(x)[None], (state, multipliers))
        return jax.tree.map(lambda x: x[:0], self.frames(np.zeros(1), states, forces))

    def _by_rows(self, stacked: Any) -> Callable[[Any], Any]:
        long = self._once or is_long(jax.tree.map(lambda x: x[0], stacked))
        if long and on_host(self._observer):
            return lambda states: self._in_parts(_observed, states, self._rows if len(states[0]) > 1 else 1)
        return lambda states: self._in_parts(_observe, states, self._rows)

    def _in_parts(self, observe: Callable[..., Any], stacked: Any, rows: int) -> Any:
        count = len(stacked[0])
        whole = -(-count // rows) * rows
        padded = jax.tree.map(lambda x: np.concatenate([x, np.repeat(x[-1:], whole - count, axis=0)]), stacked)
        parts = [
            observe(self._observer, *jax.tree.map(lambda x, k=k: x[k : k + rows], padded))
            for k in range(0, whole, rows)
        ]
        return jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)


def _native(observer: eqx.Module, stacked: Any) -> Callable[[Any], Any] | None:
    """Machine code for what is seen of instants stacked like these, if there can be any."""
    if not on_host(observer):
        return None
    examples = observer, jax.tree.map(lambda x: x[0], stacked)
    (mapping,), (inputs, _) = found(_compiled, *examples, keeping=_KEEPING)
    return None if mapping is None else functools.partial(mapping.rows, mapping.arguments(inputs))


def _compiled(inputs: Any, rest: Any) -> tuple[RowMap | None]:
    """The observer in machine code, if it can be."""

    def see(given: Any, row: Any) -> Any:
        return eqx.combine(given, rest[0])(*row)

    try:
        return (RowMap.of(see, *inputs),)
    except NotNative:
        return (None,)


def _watch(found: tuple[RowMap | None], write: Callable[[], None]) -> None:
    if found[0] is not None:
        found[0].code.when_improved = write


_KEEPING: Keeping[tuple[RowMap | None]] = Keeping(
    dump=lambda found: () if found[0] is None else (found[0].code, found[0].out),
    load=lambda made, inputs: (RowMap(*made, *inputs) if made else None,),
    watch=_watch,
)


def _all(observer: Any, *stacked: Any) -> Any:
    # A module itself JAX would write out in full, for messages.
    return jax.vmap(lambda *row: observer(*row))(*stacked)


_observe = compiled(_all)
_observed = interpreted(_all)
