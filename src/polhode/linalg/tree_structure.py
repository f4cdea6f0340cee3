"""Recognises matrices of chains and trees of bodies by their pattern, and orders the bodies for elimination."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polhode.linalg.ordering import Pattern


class EliminationTree(NamedTuple):
    """Bodies in the order of elimination, each with constraints.

    - `blocks`: the unknowns of each. - `parents`: for each the later one that it is coupled to, or -1.
    """

    blocks: list[np.ndarray]
    parents: np.ndarray


def elimination_tree(A: Pattern, P: Pattern, n: int, m: int) -> EliminationTree | None:
    """The blocks of a matrix whose bodies form chains or trees, or None if they don't.

    Velocities in one diagonal block of A form a body. λ of a constraint belongs to the later one of its bodies in
    chains, and in trees to the earlier one, which has those of one joint only.
    """
    body = bodies_of(A, P, n)
    if body is None:
        return None
    of_row = [(rows, np.sort(body[cols], axis=1)) for rows, cols in constraints_of(P)]
    pairs = {(int(b[0]), int(b[-1])) for _, bodies in of_row for b in bodies}
    if any(np.any((b != b[:, :1]) & (b != b[:, -1:])) for _, b in of_row):
        return None
    pairs |= {(min(i, j), max(i, j)) for i, j in coupled_bodies(A, body)}
    count, pairs = int(body.max()) + 1, {p for p in pairs if p[0] != p[1]}
    order, owner = _paths(count, pairs), np.max
    if order is None:
        alone = {int(b[0]) for _, bodies in of_row for b in bodies if b[0] == b[-1]}
        order, owner = _branches(count, pairs, sorted(range(count), key=lambda b: b not in alone)), np.min
    if order is None:
        return None
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    parents = np.full(count, -1)
    for i, j in pairs:
        first, last = sorted((int(place[i]), int(place[j])))
        parents[first] = last
    blocks: list[list[int]] = [np.flatnonzero(body == b).tolist() for b in order]
    joint_ends: list[set[int]] = [set() for _ in order]
    for rows, bodies in of_row:
        for constraints, ends in zip(rows, bodies, strict=True):
            b = int(owner(place[ends]))
            blocks[b] += [n + int(row) for row in constraints]
            joint_ends[b].add(int(np.max(place[ends])))
    if owner is np.min and any(len(others) > 1 for others in joint_ends):
        # Its constraints with the parent and with the ground may be more than one body can meet.
        return None
    return EliminationTree([np.array(block) for block in blocks], parents)


def bodies_of(A: Pattern, P: Pattern, n: int) -> np.ndarray | None:
    """Number of the body of each velocity; None if some velocity has no diagonal block.

    A single velocity that appears in one constraint only, such as that of a rotor, is taken for one of another body of
    that constraint.
    """
    body = _diagonal_bodies(A, n)
    if body is None:
        return None
    sizes = np.bincount(body)
    single = set(np.flatnonzero(sizes == 1).tolist())
    if not single:
        return body
    single -= {k for pair in coupled_bodies(A, body) if pair[0] != pair[1] for k in pair}
    near: dict[int, list[list[int]]] = {}
    for _, columns in constraints_of(P):
        for ends in map(np.unique, body[columns]):
            for k in single.intersection(ends.tolist()):
                near.setdefault(k, []).append([b for b in ends.tolist() if sizes[b] > 1])
    whole = np.arange(len(sizes))
    for k, others in near.items():
        if len(others) == 1 and others[0]:
            whole[k] = max(others[0])
    return np.unique(whole[body], return_inverse=True)[1]


def _diagonal_bodies(A: Pattern, n: int) -> np.ndarray | None:
    body = np.full(n, -1)
    count = 0
    for rows, cols in A:
        if rows == cols and (body[rows.numbers] < 0).all():
            body[rows.numbers] = count + np.arange(len(rows.numbers))[:, None]
            count += len(rows.numbers)
    return None if not n or (body < 0).any() else body


def constraints_of(P: Pattern) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each element with constraints its rows and all columns, groups with the same rows taken together."""
    groups: dict[bytes, tuple[np.ndarray, list[np.ndarray]]] = {}
    for rows, cols in P:
        groups.setdefault(rows.numbers.tobytes(), (rows.numbers, []))[1].append(cols.numbers)
    return [(rows, np.concatenate(columns, axis=1)) for rows, columns in groups.values()]


def coupled_bodies(A: Pattern, body: np.ndarray) -> set[tuple[int, int]]:
    """Pairs of bodies that blocks of A couple."""
    couples, count = set[tuple[int, int]](), int(body.max()) + 1
    for rows, cols in A:
        # As one number each, which are sorted much faster than rows.
        pairs = body[rows.numbers][:, :, None] * count + body[cols.numbers][:, None, :]
        i, j = np.divmod(np.unique(pairs), count)
        couples.update(zip(i.tolist(), j.tolist(), strict=True))
    return couples


def _neighbours(count: int, pairs: set[tuple[int, int]]) -> list[list[int]]:
    near: list[list[int]] = [[] for _ in range(count)]
    for i, j in sorted(pairs):
        near[i].append(j)
        near[j].append(i)
    return near


def _paths(count: int, pairs: set[tuple[int, int]]) -> list[int] | None:
    """All bodies in an order in which only successive ones are coupled, or None if there is no such order."""
    near = _neighbours(count, pairs)
    if any(len(others) > 2 for others in near):
        return None
    order: list[int] = []
    is_visited = np.zeros(count, bool)
    for start in (b for b in range(count) if len(near[b]) < 2):
        b: int | None = None if is_visited[start] else start
        while b is not None:
            is_visited[b] = True
            order.append(b)
            b = next((other for other in near[b] if not is_visited[other]), None)
    return order if len(order) == count else None


def _branches(count: int, pairs: set[tuple[int, int]], roots: list[int]) -> list[int] | None:
    """All bodies of trees, each before the one that leads to the root, or None if there are loops.

    The longest branch of each comes first, so that few others wait. `roots`: all bodies, those first that should be.
    """
    near = _neighbours(count, pairs)
    parent, outwards, is_visited = np.full(count, -1), list[int](), np.zeros(count, bool)
    for root in roots:
        stack = [] if is_visited[root] else [root]
        is_visited[root] = True
        while stack:
            outwards.append(b := stack.pop())
            for other in near[b]:
                if not is_visited[other]:
                    is_visited[other], parent[other] = True, b
                    stack.append(other)
    return _leaves_first(outwards, parent) if len(pairs) == int(np.sum(parent >= 0)) else None


def _leaves_first(outwards: list[int], parent: np.ndarray) -> list[int]:
    size = np.ones(len(outwards), np.int64)
    children: list[list[int]] = [[] for _ in outwards]
    for b in reversed(outwards):
        if parent[b] >= 0:
            size[parent[b]] += size[b]
            children[parent[b]].append(b)
    order: list[int] = []
    stack = [b for b in outwards if parent[b] < 0]
    while stack:
        order.append(b := stack.pop())
        # Backwards, so that the largest comes last here and first in the end.
        stack += sorted(children[b], key=lambda c: -size[c])
    return order[::-1]
