"""Rank and redundant constraints, computed once when a model is assembled; all arrays are NumPy's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import scipy

RANK_TOLERANCE = 1e-9
"""Rows whose distance from the span of the others is below this fraction of their length count as dependent on them.

Assembled positions satisfy their constraints to about 1e-12, so directions are known that well."""

_FEW = 60
"""Rows up to which NumPy does the elimination, and LAPACK for more: SciPy takes half a second to load."""

_ROUNDOFF = 64 * np.finfo(float).eps


class Redundancy(NamedTuple):
    """Rank and redundant constraints, as `redundancy` returns them.

    - `rank`: number of independent rows.
    - `independent`, `dependent`: row numbers, sorted; dependent rows follow from the independent ones.
    - `groups`: for each group with a dependent row, its name and the names of the groups that imply it.
    """

    rank: int
    independent: np.ndarray
    dependent: np.ndarray
    groups: dict[str, tuple[str, ...]]


def redundancy(
    B: np.ndarray,
    groups: Mapping[str, Sequence[int]],
    tolerance: float = RANK_TOLERANCE,
    terms: np.ndarray | None = None,
) -> Redundancy:
    """Rank and dependent rows of a constraint Jacobian.

    Groups are taken in their order, and a group that is independent of those before it is kept whole; within a group,
    QR with pivoting decides. Rows are scaled to length 1 and columns to the largest entry 1 beforehand, so that units
    of length and of constraints don't matter. A row of zeros is dependent.

    **Arguments:**

    - `B`: shape (m, n).
    - `groups`: row numbers of each joint, by name; together all rows, each once.
    - `terms`: sizes of the terms of each entry, where these may cancel: rows of nothing but round-off are rows of
      zeros.

    **Raises** ValueError if the groups don't hold every row once, or B is not finite.
    """
    m = B.shape[0]
    if sorted(row for rows in groups.values() for row in rows) != list(range(m)):
        raise ValueError(f"`groups` must hold each of the {m} rows of B exactly once; got {dict(groups)}.")
    if not np.isfinite(B).all():
        rows = np.flatnonzero(~np.isfinite(B).all(axis=1)).tolist()
        raise ValueError(f"B must be finite, but rows {rows} are not; check the initial position of the bodies there.")
    unit_rows = _normalise(B if terms is None else np.where(np.abs(B) > RANK_TOLERANCE * terms, B, 0.0))
    basis = np.zeros((B.shape[1], 0))
    indices: list[int] = []
    for rows in groups.values():
        new, pivots = _new_directions(unit_rows[list(rows)], basis, tolerance)
        basis = np.hstack((basis, new))
        indices += [rows[k] for k in pivots]
    independent = np.sort(np.array(indices, np.int64))
    dependent = np.setdiff1d(np.arange(m), independent)
    return Redundancy(
        len(indices), independent, dependent, _sources(unit_rows, independent, dependent, groups, tolerance)
    )


def _normalise(B: np.ndarray) -> np.ndarray:
    # What differs from zero by round-off alone must not be scaled up to a direction.
    sizes = np.abs(B)
    B = np.where(sizes > _ROUNDOFF * sizes.max(axis=1, initial=0.0, keepdims=True), B, 0.0)
    columns = np.abs(B).max(axis=0, initial=0.0)
    unit_columns = B / np.where(columns > 0, columns, 1.0)
    lengths = np.linalg.norm(unit_columns, axis=1, keepdims=True)
    return unit_columns / np.where(lengths > 0, lengths, 1.0)


def _new_directions(rows: np.ndarray, basis: np.ndarray, tolerance: float) -> tuple[np.ndarray, list[int]]:
    """An orthonormal basis of the rows' complement to `basis`, and the rows that span it: the longest first."""
    rest = _orthogonal_part(rows.T, basis)
    if rest.shape[1] > _FEW:
        q, r, pivots = cast(tuple[np.ndarray, ...], scipy.linalg.qr(rest, mode="economic", pivoting=True))
        rank = int(np.sum(np.abs(np.diag(r)) > tolerance))
        return q[:, :rank], sorted(int(k) for k in pivots[:rank])
    new, indices = rest[:, :0], []
    while len(indices) < rest.shape[1]:
        lengths = np.linalg.norm(rest, axis=0)
        longest = int(np.argmax(lengths))
        if not lengths[longest] > tolerance:
            break
        direction = _orthogonal_part(rest[:, [longest]] / lengths[longest], np.hstack((basis, new)))
        direction = direction / np.linalg.norm(direction)
        new, indices = np.hstack((new, direction)), [*indices, longest]
        rest = rest - direction @ (direction.T @ rest)
        rest[:, indices] = 0.0
    return new, sorted(indices)


def _orthogonal_part(columns: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """The part orthogonal to a basis. Projecting twice removes round-off."""
    for _ in range(2):
        columns = columns - basis @ (basis.T @ columns)
    return columns


def _sources(
    B: np.ndarray,
    independent: np.ndarray,
    dependent: np.ndarray,
    groups: Mapping[str, Sequence[int]],
    tolerance: float,
) -> dict[str, tuple[str, ...]]:
    """The groups whose rows make up the dependent rows of each group."""
    if not dependent.size:
        return {}
    weights = np.linalg.lstsq(B[independent].T, B[dependent].T, rcond=None)[0]
    group_of = {row: name for name, rows in groups.items() for row in rows}
    sources: dict[str, set[str]] = {}
    for column, row in enumerate(dependent):
        used = independent[np.abs(weights[:, column]) > np.sqrt(tolerance)]
        sources.setdefault(group_of[int(row)], set()).update(group_of[int(k)] for k in used)
    return {name: tuple(g for g in groups if g in others and g != name) for name, others in sources.items()}
