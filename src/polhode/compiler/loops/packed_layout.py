"""Layout of trees of arrays in slots of eight bytes, as machine code reads and writes them."""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from typing import Any

import jax
import numpy as np

_SLOT = np.dtype(np.int64)


class Layout:
    """Layout of the leaves of a tree, one after the other.

    **Arguments:**

    - `tree`: arrays, or anything with a shape and a dtype.
    """

    def __init__(self, tree: Any) -> None:
        leaves, self.structure = jax.tree.flatten(tree)
        self.leaves = [_type(np.shape(x), _dtype(x)) for x in leaves]
        self.sizes = [math.prod(x.shape) for x in self.leaves]
        self._ends = list(itertools.accumulate(self.sizes))
        self.size = sum(self.sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and (self.structure, self.leaves) == (other.structure, other.leaves)

    def __getstate__(self) -> tuple[Any]:
        return (jax.tree.unflatten(self.structure, self.leaves),)

    def __setstate__(self, state: tuple[Any]) -> None:
        self.__init__(*state)

    @property
    def scalars(self) -> list[jax.ShapeDtypeStruct]:
        """All elements, one by one."""
        by_leaf = [jax.ShapeDtypeStruct((), x.dtype) for x in self.leaves]
        return [x for x, n in zip(by_leaf, self.sizes, strict=True) for _ in range(n)]

    def dtype_at(self, slot: int) -> Any:
        """The type of the element in a slot."""
        return self.leaves[bisect.bisect_right(self._ends, slot)].dtype

    def pack(self, tree: Any) -> np.ndarray:
        """The tree's elements in slots."""
        slots, at = np.empty(self.size, _SLOT), 0
        for x, n, like in zip(jax.tree.leaves(tree), self.sizes, self.leaves, strict=True):
            slots[at : at + n].view(_slot_dtype(like.dtype))[:] = np.asarray(x).reshape(-1)
            at += n
        return slots

    def pack_rows(self, batch: Any) -> np.ndarray:
        """Rows of slots from a tree with one more leading dimension."""
        leaves = jax.tree.leaves(batch)
        slots, at = np.empty((len(leaves[0]), self.size), _SLOT), 0
        for x, n, like in zip(leaves, self.sizes, self.leaves, strict=True):
            slots[:, at : at + n] = np.ascontiguousarray(x, _slot_dtype(like.dtype)).reshape(len(slots), n).view(_SLOT)
            at += n
        return slots

    def unpack(self, slots: np.ndarray) -> Any:
        """The tree from slots: any number of rows of them, which become leading dimensions."""
        rows, at, out = slots.shape[:-1], 0, []
        for n, like in zip(self.sizes, self.leaves, strict=True):
            part = np.ascontiguousarray(slots[..., at : at + n]).view(_slot_dtype(like.dtype))
            out.append(part.astype(like.dtype).reshape((*rows, *like.shape)))
            at += n
        return jax.tree.unflatten(self.structure, out)


_type: Any = functools.cache(jax.ShapeDtypeStruct)
"""Making one takes microseconds, and systems have thousands of arrays of few types."""


def _slot_dtype(dtype: Any) -> Any:
    return np.float64 if dtype == np.float64 else _SLOT


def _dtype(x: Any) -> Any:
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
