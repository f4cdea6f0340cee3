"""Elimination order of saddle-point systems: parts of unknowns, in rounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polhode.linalg.blocks import Indices

Pattern = tuple[tuple[Indices, Indices], ...]


class Part(NamedTuple):
    """Unknowns eliminated at once, and those that they are coupled to at that moment."""

    unknowns: np.ndarray
    neighbours: np.ndarray


_BALANCE = 2
"""In one round, parts with up to this many times the smallest number of neighbours are eliminated. It lets cyclic
reduction take the inner links of a chain together with its ends, and leaves the hub of a star for later."""


def elimination_rounds(A: Pattern, P: Pattern, n: int, m: int) -> list[list[Part]]:
    """Rounds of parts that are not coupled to each other, so that each round can be done at once.

    Unknowns are 0 … n - 1 for x and n … n + m - 1 for λ. Those with the same couplings form a part: a body, a joint.
    Parts with few neighbours go first, as in the minimum-degree method, and λ of a constraint only when all x in it are
    eliminated. Then its pivot is -Q A⁻¹ Pᵀ, definite in every position of the system, and nothing needs pivoting.
    On a chain this is cyclic reduction.
    """
    couplings = _couplings(A, P, n, m)
    parts = _parts(couplings, n)
    part_of = np.empty(n + m, np.int64)
    for k, part in enumerate(parts):
        part_of[part] = k
    sizes = [part.size for part in parts]
    near = [set(part_of[_neighbours_of(part[0], couplings)].tolist()) - {k} for k, part in enumerate(parts)]
    is_constraint = [part[0] >= n for part in parts]
    pending = [len(near[k]) if is_constraint[k] else 0 for k in range(len(parts))]
    constraints_of = [[c for c in near[k] if is_constraint[c]] for k in range(len(parts))]

    rest, rounds = set(range(len(parts))), []
    while rest:
        selection = _independent(sorted(k for k in rest if not pending[k]), near, sizes)
        round_parts = []
        for k in selection:
            neighbours = sorted(near[k])
            round_parts.append(
                Part(parts[k], np.concatenate([parts[i] for i in neighbours] or [np.zeros(0, np.int64)]))
            )
            for i in neighbours:
                near[i].update(neighbours)
                near[i] -= {i, k}
            if not is_constraint[k]:
                for c in constraints_of[k]:
                    pending[c] -= 1
        rest.difference_update(selection)
        rounds.append(round_parts)
    return rounds


class Couplings(NamedTuple):
    """Pattern of couplings between unknowns: those of unknown k are `indices[indptr[k] : indptr[k + 1]]`, sorted."""

    indptr: np.ndarray
    indices: np.ndarray


def _couplings(A: Pattern, P: Pattern, n: int, m: int) -> Couplings:
    """The symmetrised pattern of the whole matrix, with the diagonal of A."""
    rows, cols = [np.arange(n)], [np.arange(n)]
    for pattern, shift in ((A, 0), (P, n)):
        for r, c in pattern:
            i = np.repeat(r.numbers + shift, c.numbers.shape[1], axis=1).reshape(-1)
            j = np.tile(c.numbers, (1, r.numbers.shape[1])).reshape(-1)
            rows += [i, j]
            cols += [j, i]
    i, j = np.concatenate(rows), np.concatenate(cols)
    places = np.unique(i.astype(np.int64) * (n + m) + j)
    return Couplings(np.searchsorted(places, np.arange(n + m + 1) * (n + m)), places % (n + m))


def _parts(couplings: Couplings, n: int) -> list[np.ndarray]:
    """Unknowns of one kind with equal couplings, in the order of their first members."""
    classes: dict[tuple[bool, bytes], list[int]] = {}
    for k in range(couplings.indptr.size - 1):
        neighbours = _neighbours_of(k, couplings)
        classes.setdefault((k < n, neighbours.tobytes()), []).append(k)
    return [np.array(members) for members in classes.values()]


def _independent(candidates: list[int], near: list[set[int]], sizes: list[int]) -> list[int]:
    """Candidates with few neighbours, no two of them coupled."""
    degree = {k: sum(sizes[i] for i in near[k]) for k in candidates}
    limit = _BALANCE * min(degree.values())
    selection: list[int] = []
    excluded_parts: set[int] = set()
    for k in sorted(candidates, key=lambda k: (degree[k], k)):
        if degree[k] <= limit and k not in excluded_parts:
            selection.append(k)
            excluded_parts |= near[k]
    return selection


def _neighbours_of(k: int, couplings: Couplings) -> np.ndarray:
    return couplings.indices[couplings.indptr[k] : couplings.indptr[k + 1]]
