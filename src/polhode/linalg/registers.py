"""Registers for recursions along trees: the few values that wait between a block and its parent."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


class Registers(NamedTuple):
    """Allocation of the few registers for contributions of blocks to their parents. Booleans, shapes (count, r).

    - `source`: the register with the contributions of the children; none for a leaf. - `target`: that of the parent,
      to which this block adds; none for a root. - `accumulates`: registers that hold a value to add to.
    """

    source: Any
    accumulates: Any
    target: Any

    @classmethod
    def of(cls, parents: np.ndarray, roots_add_zero: bool) -> Registers:
        """Of blocks in the order of elimination, from the later one that each adds to, or -1.

        `roots_add_zero`: whether what roots add is zero, so that it does no harm in the register of another chain.
        """
        targets = parents[parents >= 0]
        if len(np.unique(targets)) == len(targets) and (roots_add_zero or len(targets) == len(parents) - 1):
            # Nothing branches: one register, which all read and write.
            whole = np.ones((len(parents), 1), bool)
            return cls(whole, ~whole, whole)
        in_use: dict[int, int] = {}
        rows: list[tuple[int | None, int | None, bool]] = []
        for b, parent in enumerate(parents.tolist()):
            mine, first = in_use.pop(b, None), parent not in in_use
            if parent >= 0 and first:
                in_use[parent] = next(r for r in range(len(in_use) + 1) if r not in in_use.values())
            rows.append((mine, in_use[parent] if parent >= 0 else None, first))
        places = np.arange(1 + max((r for row in rows for r in row[:2] if r is not None), default=0))
        source, target = (np.array([places == (-1 if row[k] is None else row[k]) for row in rows]) for k in (0, 1))
        return cls(source, ~target | ~np.array([row[2] for row in rows])[:, None], target)

    @property
    def count(self) -> int:
        return self.source.shape[1]


def read(registers: Array, where: Array) -> Array:
    """The value of one register, zero if there is none."""
    first, *others = (jnp.where(here, register, 0.0) for here, register in zip(where, registers, strict=True))
    return sum(others, start=first)


def add(registers: Array, value: Array, places: Registers) -> Array:
    """Registers with `value` added to its target, or put there if the old value has been read."""
    rows = zip(registers, places.accumulates, places.target, strict=True)
    return jnp.stack(
        [jnp.where(target, jnp.where(accumulates, old + value, value), old) for old, accumulates, target in rows]
    )


def put(registers: Array, value: Array, where: Array) -> Array:
    """Registers with one replaced."""
    return jnp.stack([jnp.where(here, value, old) for here, old in zip(where, registers, strict=True)])
