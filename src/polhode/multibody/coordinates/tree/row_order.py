"""Order of the rows of recursions along a tree, and the registers of the values that wait between them."""

from __future__ import annotations

import functools

import numpy as np

from polhode.linalg.registers import Registers

_NOWHERE = -1


class RowOrder:
    """Rows of a tree: one for each velocity, and one for each weld, parents first. Orders of equal trees are equal.

    The rows of a joint follow each other as if massless links were between them, the last of which is the link itself.

    - `parents`: for each link the number of the one that carries it, -1 for the ground.
    - `sizes`: for each link the number of its velocities.
    """

    def __init__(self, parents: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        self._identity = (parents, sizes)
        self.parents = np.asarray(parents)
        links = np.repeat(np.arange(len(sizes)), np.maximum(sizes, 1))
        last = np.cumsum(np.maximum(sizes, 1)) - 1
        first = np.append(0, last[:-1] + 1)
        above = np.arange(len(links)) - 1
        above[first] = [last[parent] if parent >= 0 else _NOWHERE for parent in parents]
        rows = _depth_first(above)
        place = np.argsort(rows)
        self.links = links[rows]
        self.is_first, self.is_last = (np.isin(rows, numbers) for numbers in (first, last))
        is_moving = np.asarray(sizes)[links] > 0
        velocities = np.where(is_moving, np.cumsum(is_moving) - 1, _NOWHERE)
        self.velocities = velocities[rows]
        # From the leaves to the ground, as registers count.
        count = len(rows)
        outer = above[rows][::-1]
        towards = np.where(outer >= 0, count - 1 - place[outer], _NOWHERE)
        self._registers = Registers.of(towards, roots_add_zero=False)

    @property
    def registers(self) -> Registers:
        """Registers of the rows from the ground to the leaves."""
        return Registers(*(places[::-1] for places in self._registers))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowOrder) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


@functools.lru_cache(maxsize=64)
def row_order(parents: tuple[int, ...], sizes: tuple[int, ...]) -> RowOrder:
    """The rows of a tree."""
    return RowOrder(parents, sizes)


def _depth_first(parents: np.ndarray) -> np.ndarray:
    """All rows, parents before children; of several children the one with the most rows behind it comes first."""
    count = np.ones(len(parents), int)
    children: list[list[int]] = [[] for _ in parents]
    for row in reversed(range(len(parents))):
        if parents[row] >= 0:
            count[parents[row]] += count[row]
            children[parents[row]].append(row)
    order: list[int] = []
    stack = sorted((row for row, parent in enumerate(parents) if parent < 0), key=lambda row: count[row])
    while stack:
        order.append(row := stack.pop())
        stack += sorted(children[row], key=lambda child: count[child])
    return np.array(order)
