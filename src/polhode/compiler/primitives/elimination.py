"""Primitive of the elimination of trees, which machine code does in loops in memory: unrolled, it is a large program.

All other back ends get the program that it stands for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import numpy as np
from jax.extend import core
from jax.interpreters import ad, batching, mlir

Paths = tuple[tuple[int, ...], ...]
"""For each unknown those that carry it, from the root on: the path of the last one, and that one."""

ELIMINATION = core.Primitive("elimination")
"""It has the parameters `jaxpr`, the program that it stands for, and `plan`, an `Elimination`."""


def eliminate(program: Callable[[Any], Any], a: Any, paths: Paths) -> Any:
    """`program(a)`, which factorises a matrix from the last unknown to the first.

    Entries of other pairs than those of an unknown with itself or with one of its path are zero. In the result
    reciprocal pivots are on the diagonal, rows of pivots on their left, and columns times the reciprocals above them.
    From entries before it, a pivot subtracts products of column and row.
    """
    return ELIMINATION.bind(a, jaxpr=jax.make_jaxpr(program)(a), plan=Elimination(paths))


@final
@dataclasses.dataclass(frozen=True)
class Elimination:
    """Elimination along paths, see `Paths`.

    In memory there are for each unknown its row, then its column, and all pivots at the end.
    """

    paths: Paths

    @property
    def unknowns(self) -> int:
        return len(self.paths)

    @property
    def is_full(self) -> bool:
        """Whether all that come before an unknown carry it, so that no entry is known to be zero."""
        return all(path == tuple(range(k)) for k, path in enumerate(self.paths))

    @property
    def longest(self) -> int:
        return max(map(len, self.paths))

    @property
    def depths(self) -> np.ndarray:
        return np.array([len(path) for path in self.paths])

    @property
    def entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of all entries: on the diagonal, left of it and above it."""
        own, other = self._pairs
        diagonal = np.arange(self.unknowns)
        return np.concatenate((diagonal, own, other)), np.concatenate((diagonal, other, own))

    def carriers(self, stride: int) -> np.ndarray:
        """The paths in rows of this length."""
        rows = np.zeros((self.unknowns, stride), np.int64)
        for row, path in zip(rows, self.paths, strict=True):
            row[: len(path)] = path
        return rows

    def places(self, stride: int) -> list[int]:
        """Where the entries are in memory, with rows and columns of this length."""
        own, _ = self._pairs
        rows = 2 * own * stride + np.concatenate([np.arange(len(path)) for path in self.paths])
        pivots = 2 * self.unknowns * stride + np.arange(self.unknowns)
        return np.concatenate((pivots, rows, rows + stride)).tolist()

    @property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        own = np.repeat(np.arange(self.unknowns), self.depths)
        return own, np.array([k for path in self.paths for k in path], int)


def _evaluate(a: Any, *, jaxpr: core.ClosedJaxpr, plan: Elimination) -> Any:
    del plan
    return core.jaxpr_as_fun(jaxpr)(a)[0]


def _derivative(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    along = tuple(ad.instantiate_zeros(x) for x in tangents)
    return jax.jvp(lambda a: _evaluate(a, **params), tuple(primals), along)


def _batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, int]:
    return jax.vmap(lambda a: _evaluate(a, **params), in_axes=tuple(dims))(*args), 0


ELIMINATION.def_impl(_evaluate)
ELIMINATION.def_abstract_eval(lambda _, *, jaxpr, plan: jaxpr.out_avals[0])
ad.primitive_jvps[ELIMINATION] = _derivative
batching.primitive_batchers[ELIMINATION] = _batch
mlir.register_lowering(ELIMINATION, mlir.lower_fun(_evaluate, multiple_results=False))
