"""The events of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from polhode.jax_context import primal_of
from polhode.systems.base import State


class Events(eqx.Module):
    """Events of a run in order of time; every array has leading axis n.

    Outside JAX's transformations, and under `grad`, `jvp`, `jacfwd` and the like, n is the number of events.
    Under `jit` and `vmap`, where that number is traced, n is `max_events`; unused rows have the time NaN, the number
    -1 and NaN in their states, and `happened` and `count` say which rows are events and how many.

    - `t`: (n,), instants, in the unit of time. - `number`: (n,), index in the given events.
    - `before`, `after`: states, with the same structure as those of frames.
    - `names`: of the given events, by number.
    """

    t: Float[Array, " n"]
    number: Int[Array, " n"]
    before: State
    after: State
    names: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, stats: Mapping[str, Any], meta: Mapping[str, Any], states: State) -> Events:
        """From the stats and meta of a run, whose states have the structure of the stacked `states`."""
        leaves, structure = jax.tree.flatten(states)
        table = stats.get(
            "events", {"t": [], "number": [], "before": [[] for _ in leaves], "after": [[] for _ in leaves]}
        )
        numbers = _strip_derivatives(table["number"])
        if np.ndim(numbers) != 1:
            raise ValueError("A batch of runs has many tables of events; take one: jax.tree.map(lambda x: x[k], run).")
        # Runs inside JAX's transformations have unused rows.
        rows = slice(None) if isinstance(numbers, Tracer) else np.asarray(numbers, int) >= 0

        def part(values: Any, like: Any) -> Array:
            xp: Any = jnp if isinstance(values, Tracer) else np
            return xp.asarray(values, like.dtype).reshape(len(numbers), *np.shape(like)[1:])[rows]

        def build_states(parts: Any) -> State:
            return jax.tree.unflatten(structure, [part(x, like) for x, like in zip(parts, leaves, strict=True)])

        return cls(
            part(table["t"], np.zeros(1)),
            part(numbers, np.zeros(1, int)),
            build_states(table["before"]),
            build_states(table["after"]),
            tuple(event["name"] for event in meta.get("events", ())),
        )

    @property
    def name(self) -> list[str]:
        """The name of each event. Raises ValueError where the numbers are traced by JAX; use `names` there."""
        return [self.names[k] for k in self._numbers("`name`", "`names[k]` is that of number k") if k >= 0]

    @property
    def happened(self) -> Bool[Array, " n"]:
        """Which rows are events: all, except under `jit` and `vmap`."""
        return self.number >= 0

    @property
    def count(self) -> Int[Array, ""]:
        """Number of events; under `jit` and `vmap` a traced integer."""
        return self.happened.sum()

    def __len__(self) -> int:
        """Number of events. Raises ValueError where it is traced by JAX; use `count` there."""
        return int(np.sum(self._numbers("`len`", "`count` has it as an array") >= 0))

    def __str__(self) -> str:
        if isinstance(self.t, Tracer) or isinstance(self.number, Tracer):
            return f"events traced by JAX, room for {self.t.shape[0]}"
        rows = [f"{name}  t = {t:.15g}" for t, name in zip(self.t[self.happened], self.name, strict=True)]
        return "\n".join(rows) or "no events"

    def _numbers(self, what: str, remedy: str) -> np.ndarray:
        if isinstance(self.number, Tracer):
            raise ValueError(
                f"{what} of events needs to know which came, and inside jit and vmap that is traced by JAX; {remedy}, "
                "and `happened` says which rows are events."
            )
        return np.asarray(self.number)


def _strip_derivatives(values: Any) -> Any:
    """Values without their derivatives, which stay traced under `jit` and `vmap`."""
    while (inner := primal_of(values)) is not values:
        values = inner
    return values
