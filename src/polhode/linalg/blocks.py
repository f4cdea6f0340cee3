"""Sparse matrices as stacked dense blocks at fixed places, one for each element."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.known_places import add_entries, take


@dataclasses.dataclass(frozen=True, eq=False, init=False, repr=False)
class Indices:
    """Row or column numbers of stacked blocks: an integer array of shape (n, size), fixed when a system is made.

    Hashable, so that it can be part of a compiled program's identity.
    """

    numbers: np.ndarray

    def __init__(self, numbers: Any) -> None:
        array = np.array(numbers, dtype=np.int64, order="C")
        array.setflags(write=False)
        object.__setattr__(self, "numbers", array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Indices) and np.array_equal(self.numbers, other.numbers)

    def __hash__(self) -> int:
        return hash((self.numbers.shape, self.numbers.tobytes()))

    def __repr__(self) -> str:
        return f"Indices{self.numbers.shape}"


class Blocks(eqx.Module):
    """Dense blocks of one shape, `values[e]` at rows `rows[e]` and columns `cols[e]`; overlapping entries add up.

    **Arguments:**

    - `values`: shape (n, r, c).
    - `rows`, `cols`: shapes (n, r) and (n, c).
    """

    values: Float[Array, "n r c"]
    rows: Indices = eqx.field(static=True)
    cols: Indices = eqx.field(static=True)

    @classmethod
    def zeros(cls, rows: Indices, cols: Indices) -> Blocks:
        """Zero blocks, for their pattern."""
        (n, r), c = rows.numbers.shape, cols.numbers.shape[1]
        values: Any = np.zeros((n, r, c))
        return cls(values, rows, cols)

    def times(self, factor: Any) -> Blocks:
        """The blocks multiplied by a number."""
        return Blocks(factor * self.values, self.rows, self.cols)


Matrix = tuple[Blocks, ...]
"""A sum of block groups."""


def dense_block(values: Float[Array, "r c"]) -> Matrix:
    """A full matrix as one block."""
    r, c = values.shape
    return (Blocks(values[None], Indices(np.arange(r)[None]), Indices(np.arange(c)[None])),)


def scale_matrix(matrix: Matrix, factor: Any) -> Matrix:
    """`factor` times the matrix."""
    return tuple(group.times(factor) for group in matrix)


def absolute(matrix: Matrix) -> Matrix:
    """The blocks with the absolute values of their entries: where they overlap, a bound of those of their sum."""
    return tuple(Blocks(jnp.abs(group.values), group.rows, group.cols) for group in matrix)


def apply(matrix: Matrix, x: Float[Array, " cols"], rows: int) -> Float[Array, " rows"]:
    """Matrix times vector."""
    return _accumulate(
        rows, ((g.rows, jnp.einsum("nrc,nc->nr", g.values, take(x, g.cols.numbers))) for g in matrix), x.dtype
    )


def apply_transposed(matrix: Matrix, y: Float[Array, " rows"], cols: int) -> Float[Array, " cols"]:
    """Transposed matrix times vector."""
    return _accumulate(
        cols, ((g.cols, jnp.einsum("nrc,nr->nc", g.values, take(y, g.rows.numbers))) for g in matrix), y.dtype
    )


def to_dense(matrix: Matrix, shape: tuple[int, int]) -> Float[Array, "rows cols"]:
    """The matrix as one array."""
    out = jnp.zeros(shape)
    for g in matrix:
        out = add_entries(out, g.values, g.rows.numbers[:, :, None], g.cols.numbers[:, None, :])
    return out


def diagonal(matrix: Matrix, n: int) -> Float[Array, " n"]:
    """The diagonal of a square matrix, as far as blocks with equal rows and columns hold it."""
    parts = [(g.rows, jnp.einsum("nii->ni", g.values)) for g in matrix if g.rows == g.cols]
    return accumulate(n, parts)


def pattern(matrix: Matrix) -> tuple[tuple[Indices, Indices], ...]:
    """Rows and columns of the blocks of a matrix."""
    return tuple((g.rows, g.cols) for g in matrix)


def accumulate(size: int, parts: Sequence[tuple[Indices, Array]]) -> Float[Array, " size"]:
    """The vector of length `size` that collects the rows of `parts` at their places."""
    return _accumulate(size, parts, jnp.result_type(float))


def _accumulate(size: int, parts: Iterable[tuple[Indices, Array]], dtype: Any) -> Array:
    out = jnp.zeros(size, dtype)
    for places, values in parts:
        covers = _covers(places, size)
        out = out + values.reshape(-1) if covers else add_entries(out, values, places.numbers)
    return out


def _covers(places: Indices, size: int) -> bool:
    """Whether the places are 0, 1, …, size - 1 in this order."""
    numbers = places.numbers
    return numbers.size == size and bool((numbers.reshape(-1) == np.arange(size)).all())
