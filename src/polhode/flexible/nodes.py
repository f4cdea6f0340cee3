"""Nodes of a flexible body to which parts may be attached: single nodes and averaged patches."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from polhode import checks
from polhode.checks import short_repr
from polhode.flexible.matrices import skew

_FLAT = 1e-8
"""Second moment, relative to the largest, below which nodes lie on a line and don't define a rotation."""


@dataclasses.dataclass(frozen=True, eq=False)
class Patch:
    """Several nodes as one: their weighted mean place, and the rotation that fits their displacements best.

    A load on it is spread over them by their weights, as by an interpolation element ("RBE3"): it doesn't stiffen.

    **Arguments:**

    - `nodes`: numbers of at least three nodes that don't lie on a line, unless they have rotations of their own.
    - `weights`: positive, one for each; equal by default.
    """

    nodes: Any
    weights: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class Attachment:
    """A node as rows acting on the displacements of the finite elements.

    - `name`; `point`: its place without deformation.
    - `rows`: of its displacement and, if it `turns`, of its small rotation, shape (3 or 6, n).
    """

    name: str
    point: Float[np.ndarray, "3"]
    rows: Float[np.ndarray, "r n"]

    @property
    def turns(self) -> bool:
        """Whether it has a rotation."""
        return len(self.rows) == 6


def attachments(nodes: Any, points: Float[np.ndarray, "N 3"], width: int) -> tuple[Attachment, ...]:
    """Nodes by name, from numbers, lists of numbers and patches. Raises ValueError, with the name, for others."""
    if not isinstance(nodes, Mapping) or not nodes:
        raise ValueError(
            '`nodes` must map names to numbers of nodes, such as {"root": 0, "tip": [40, 41, 42]}: there joints and '
            f"forces are attached. Got {short_repr(nodes)}."
        )
    return tuple(_attachment(checks.word("nodes", name, "a name"), at, points, width) for name, at in nodes.items())


def _attachment(name: str, nodes: Any, points: Float[np.ndarray, "N 3"], width: int) -> Attachment:
    patch = nodes if isinstance(nodes, Patch) else Patch(nodes)
    numbers = _numbers(name, patch.nodes, len(points))
    weights = _weights(name, patch.weights, len(numbers))
    place = weights @ points[numbers]
    translation_rows = _scatter_rows(numbers, weights[:, None, None] * np.eye(3), 0, len(points), width)
    if width == 6:
        rotation_rows = _scatter_rows(numbers, weights[:, None, None] * np.eye(3), 3, len(points), width)
        return Attachment(name, place, np.concatenate((translation_rows, rotation_rows)))
    if len(numbers) == 1:
        return Attachment(name, place, translation_rows)
    levers = skew(points[numbers] - place)
    moments = np.einsum("n,nji,njk->ik", weights, levers, levers)
    sizes = np.linalg.eigvalsh(moments)
    if not sizes[0] > _FLAT * sizes[-1]:
        raise ValueError(
            f"The nodes {numbers.tolist()} of {name!r} lie on a line, so they don't say how it turns. Take at least "
            "three nodes that don't, or one alone, which joins points only."
        )
    # Least squares of u - θ × ρ.
    blocks = np.linalg.solve(moments, np.swapaxes(weights[:, None, None] * levers, 0, 1).reshape(3, -1))
    rotation_rows = _scatter_rows(numbers, blocks.reshape(3, -1, 3).swapaxes(0, 1), 0, len(points), width)
    return Attachment(name, place, np.concatenate((translation_rows, rotation_rows)))


def _numbers(name: str, values: Any, count: int) -> Int[np.ndarray, " k"]:
    numbers = np.atleast_1d(np.asarray(values if np.isscalar(values) else list(values)))
    whole = numbers.ndim == 1 and numbers.size and numbers.dtype.kind in "iu"
    if not whole or numbers.min() < 0 or numbers.max() >= count or len(set(numbers.tolist())) < numbers.size:
        raise ValueError(
            f"`nodes` has {short_repr(values)} for {name!r}; there are nodes 0 to {count - 1}, each to be named once."
        )
    return numbers


def _weights(name: str, values: Any, count: int) -> Float[np.ndarray, " k"]:
    if values is None:
        return np.full(count, 1.0 / count)
    weights = checks.numbers("weights", values, f"of the nodes of {name!r}")
    if weights.shape != (count,) or not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError(f"`weights` of {name!r} must be {count} positive numbers, got {short_repr(values)}.")
    return weights / weights.sum()


def _scatter_rows(
    numbers: Int[np.ndarray, " k"], blocks: Float[np.ndarray, "k 3 3"], first: int, count: int, width: int
) -> Float[np.ndarray, "3 n"]:
    """Three rows on the displacements of all nodes, with `blocks` at the nodes `numbers`."""
    rows = np.zeros((3, count, width))
    rows[:, numbers, first : first + 3] = blocks.swapaxes(0, 1)
    return rows.reshape(3, -1)
