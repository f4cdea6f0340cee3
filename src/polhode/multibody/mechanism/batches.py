"""Parts of equal structure grouped into batches, for which a function is traced once and vmapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.compiler.primitives.row_loop import map_rows
from polhode.linalg.known_places import take

LOOP_ABOVE = 8
"""Size of groups above which they are evaluated in a loop instead of a vmap."""


class BatchResult(NamedTuple):
    """Results of a group of parts. - `members`: their numbers. - `values`: a tree, with a leading axis along them."""

    members: list[int]
    values: Any


def vmap_alike(
    function: Callable[..., Any], parts: Sequence[Any], rows: Callable[[list[int]], tuple[Any, ...]]
) -> list[BatchResult]:
    """`function(part, *rows)` of each of `parts`, batched by groups of equal structure.

    **Arguments:**

    - `parts`: pytrees; a group has the same structure, shapes, and leaves other than arrays.
    - `rows`: a function of the numbers of parts, whose results have a leading axis along them.
    """
    results = []
    for members in structural_groups(parts):
        arrays, others = zip(*(eqx.partition(parts[k], eqx.is_array) for k in members), strict=True)
        batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)

        def of_one(_: None, part: Any, *row: Any, rest: Any = others[0]) -> Any:
            return function(eqx.combine(part, rest), *row)

        results.append(
            BatchResult(members, map_rows(of_one, None, batch, *rows(members), loop=len(members) > LOOP_ABOVE))
        )
    return results


def in_order(results: Sequence[tuple[list[int], Array]]) -> Array:
    """Rows of all parts in the order of the parts, (rows, …), from (members, k, …) of each group."""
    owners = np.concatenate([np.repeat(members, values.shape[1]) for members, values in results])
    flat = jnp.concatenate([values.reshape(-1, *values.shape[2:]) for _, values in results])
    return take(flat, np.argsort(owners, kind="stable"))


class RaggedRows(NamedTuple):
    """Rows of different lengths.

    - `flat`: all rows, concatenated. - `firsts`, `sizes`: first index and length of each.
    """

    flat: Array
    firsts: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, results: Sequence[tuple[list[int], Array]]) -> RaggedRows:
        """From (members, k) of each group."""
        sizes = np.zeros(sum(len(members) for members, _ in results), int)
        for members, values in results:
            sizes[members] = values.shape[1]
        return cls(in_order(results), np.cumsum(sizes) - sizes, sizes)

    def rows(self, numbers: Sequence[int]) -> Array:
        """The given rows, which must have equal lengths."""
        indices = np.asarray(numbers)
        return take(self.flat, self.firsts[indices][:, None] + np.arange(int(self.sizes[indices[0]])))


def structural_groups(parts: Sequence[Any]) -> list[list[int]]:
    """Numbers of parts that have the same structure, shapes, and leaves other than arrays."""
    groups: dict[Any, list[int]] = {}
    for k, part in enumerate(parts):
        leaves, structure = jax.tree.flatten(part)
        key = tuple((x.shape, x.dtype) if eqx.is_array(x) else ("other", id(x)) for x in leaves)
        groups.setdefault((structure, key), []).append(k)
    return list(groups.values())
