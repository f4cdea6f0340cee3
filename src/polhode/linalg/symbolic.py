"""Symbolic elimination: the places that every entry is read from and written to, without its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polhode.linalg.blocks import Matrix
from polhode.linalg.ordering import Part, Pattern, elimination_rounds
from polhode.linalg.segment_sum import GatherSum

_BATCH_OPERATIONS = 20_000
"""Operations that take as long as one more batch does, about 8 µs (x86-64, one thread)."""


class Batch(NamedTuple):
    """g parts with s unknowns and d neighbours each: positions in the remaining matrix and right-hand side.

    One beyond the last position stands for 0 and two beyond for 1; with these, smaller parts are padded.

    - `pivot`, `right`, `below`: shapes (s, s, g), (s, d, g), (d, s, g), in the matrix.
    - `unknowns`: shape (s, g), in the right-hand side.
    - `neighbours`: shape (d, g), in the part of the solution already known in back substitution.
    """

    pivot: np.ndarray
    right: np.ndarray
    below: np.ndarray
    unknowns: np.ndarray
    neighbours: np.ndarray

    @property
    def operations(self) -> int:
        """Multiplications and additions of factorising."""
        s, d, g = self.right.shape
        return g * operations(s, d)


class Round(NamedTuple):
    """Batches eliminated at the same time, and the sums into the remaining matrix and right-hand side."""

    batches: list[Batch]
    matrix: GatherSum
    vector: GatherSum


class Plan:
    """The elimination of matrices with one pattern. Plans of equal patterns are equal.

    **Arguments:**

    - `A`, `P`: places of the blocks.
    - `n`, `m`: number of velocities and constraints.
    - `padded`: whether smaller parts are eliminated together with larger ones as if they were of the same size. That
      costs more arithmetic and saves batches: right for arrays, wrong where a step is run on scalars.
    """

    def __init__(self, A: Pattern, P: Pattern, n: int, m: int, padded: bool) -> None:
        self._identity = (A, P, n, m, padded)
        self._n, self._size = n, n + m
        rounds = [_group(parts, padded) for parts in elimination_rounds(A, P, n, m)]
        positions, self.where = _back_substitution_positions(rounds, self._size)
        self._entries = keys = self._all_entries(rounds)
        unknowns = np.arange(self._size)
        self.rounds: list[Round] = []
        for groups, solution in zip(rounds, positions, strict=True):
            is_eliminated = np.zeros(self._size, bool)
            is_eliminated[np.concatenate([part.unknowns for group in groups for part in group])] = True
            later_keys = keys[~(is_eliminated[keys // self._size] | is_eliminated[keys % self._size])]
            later = unknowns[~is_eliminated[unknowns]]
            batches = [self._batch(group, keys, unknowns, solution) for group in groups]
            neighbours = [_stack([part.neighbours for part in group]) for group in groups]
            fill = [self._keys(i[:, None], i[None]) for i in neighbours]
            self.rounds.append(
                Round(
                    batches,
                    GatherSum(_find(later_keys, [keys, *fill]), later_keys.size),
                    GatherSum(_find(later, [unknowns, *neighbours]), later.size),
                )
            )
            keys, unknowns = later_keys, later

    @property
    def operations(self) -> int:
        """Multiplications and additions of factorising."""
        return sum(batch.operations for r in self.rounds for batch in r.batches)

    @property
    def batches(self) -> int:
        """Number of batches."""
        return sum(len(r.batches) for r in self.rounds)

    @property
    def largest(self) -> int:
        """Unknowns of the largest part."""
        return max((batch.pivot.shape[0] for r in self.rounds for batch in r.batches), default=0)

    def gather_sum(self, A: Matrix, P: Matrix, Q: Matrix, compliant: bool) -> GatherSum:
        """The sum of the blocks of A, P and Q, and -E if `compliant`, into the entries of the first round."""
        n = self._n
        keys = [self._keys(g.rows.numbers[:, :, None], g.cols.numbers[:, None, :]) for g in A]
        keys += [self._keys(g.cols.numbers[:, None, :], n + g.rows.numbers[:, :, None]) for g in P]
        keys += [self._keys(n + g.rows.numbers[:, :, None], g.cols.numbers[:, None, :]) for g in Q]
        diagonal = np.arange(n, self._size) if compliant else np.zeros(0, np.int64)
        places = _find(self._entries, [*keys, self._keys(diagonal, diagonal)])
        if (places < 0).any():
            raise ValueError(
                "A matrix has blocks at places that were not announced to `kkt_solver`; pass it all groups of blocks "
                "that `factor` will ever receive."
            )
        return GatherSum(places, self._entries.size)

    def _all_entries(self, rounds: list[list[list[Part]]]) -> np.ndarray:
        """Every entry that is ever not zero, sorted: each is read when the part of its row or column is eliminated."""
        keys = [np.zeros(0, np.int64)]
        for part in (part for groups in rounds for group in groups for part in group):
            u, d = part
            keys += [self._keys(*np.meshgrid(i, j)).reshape(-1) for i, j in ((u, u), (u, d), (d, u))]
        return np.unique(np.concatenate(keys))

    def _keys(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """One number for each entry (i, j), -1 where there is none."""
        return np.where((i < 0) | (j < 0), -1, i * self._size + j)

    def _batch(self, group: list[Part], keys: np.ndarray, unknowns: np.ndarray, solution: np.ndarray) -> Batch:
        u, d = _stack([part.unknowns for part in group]), _stack([part.neighbours for part in group])
        pivot = _positions(keys, self._keys(u[:, None], u[None]))
        padding = (u < 0)[:, None] & np.eye(u.shape[0], dtype=bool)[:, :, None]
        return Batch(
            np.where(padding, keys.size + 1, pivot).astype(np.int32),
            _positions(keys, self._keys(u[:, None], d[None])),
            _positions(keys, self._keys(d[:, None], u[None])),
            _positions(unknowns, u),
            np.where(d < 0, 0, solution[d]).astype(np.int32),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


def operations(s: int, d: int) -> int:
    """Multiplications and additions of eliminating s unknowns with d neighbours."""
    return s * (s * s + 2 * s + 3 * s * d + 3 * d * d) * 2 // 3


def _group(parts: list[Part], padded: bool) -> list[list[Part]]:
    """Parts of one round in batches: of equal sizes, or of sizes that are worth padding."""
    groups: dict[tuple[int, int], list[Part]] = {}
    for part in parts:
        groups.setdefault((part.unknowns.size, part.neighbours.size), []).append(part)
    if not padded:
        return list(groups.values())
    batches: list[tuple[int, int, list[Part]]] = []
    for (s, d), members in sorted(groups.items(), reverse=True):
        if batches:
            s0, d0, others = batches[-1]
            s1, d1 = max(s0, s), max(d0, d)
            more = operations(s1, d1) * (len(others) + len(members))
            if more - operations(s0, d0) * len(others) - operations(s, d) * len(members) < _BATCH_OPERATIONS:
                batches[-1] = s1, d1, others + members
                continue
        batches.append((s, d, members))
    return [members for _, _, members in batches]


def _back_substitution_positions(rounds: list[list[list[Part]]], size: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Positions of the unknowns in the solution known before each round of back substitution, and at the end.

    The solution grows at its end, by the batches of one round after the other, padding included.
    """
    where, at, positions = np.full(size, -1), 0, []
    for groups in reversed(rounds):
        positions.append(where.copy())
        for group in groups:
            u = _stack([part.unknowns for part in group])
            where[u[u >= 0]] = at + np.flatnonzero(u.reshape(-1) >= 0)
            at += u.size
    return positions[::-1], where


def _stack(numbers: Sequence[np.ndarray]) -> np.ndarray:
    """Index arrays as columns of one array, padded with -1."""
    out = np.full((max(x.size for x in numbers), len(numbers)), -1, np.int64)
    for k, x in enumerate(numbers):
        out[: x.size, k] = x
    return out


def _find(keys: np.ndarray, numbers: Sequence[np.ndarray]) -> np.ndarray:
    """Positions of numbers in a sorted array, -1 where they are not; all in one line."""
    flat = np.concatenate([w.reshape(-1) for w in numbers]) if numbers else np.zeros(0, np.int64)
    if not keys.size:
        return np.full(flat.size, -1)
    at = np.minimum(np.searchsorted(keys, flat), keys.size - 1)
    return np.where(keys[at] == flat, at, -1)


def _positions(keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Positions in a sorted array, one beyond its end where there is none."""
    positions = _find(keys, [numbers]).reshape(numbers.shape)
    return np.where(positions < 0, keys.size, positions).astype(np.int32)
