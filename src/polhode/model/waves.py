"""The fastest oscillation and decay that force elements allow, which bound the steps of explicit methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.execution.once import interpreted
from polhode.execution.rows import in_loops
from polhode.linalg.blocks import Matrix
from polhode.model.consistency import dense, metric
from polhode.model.groups import ForceGroup
from polhode.model.tangents import load_blocks
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State

if TYPE_CHECKING:
    from polhode.model.multibody import MultibodySystem

_OSCILLATION, _DECAY = 2.0, 2.5
"""Products of step with frequency and with rate up to which explicit methods of order 3 to 5 are about stable."""


class Stiffest(NamedTuple):
    """Upper bounds of linear theory, each attained up to a small factor.

    - `frequency`: of oscillations, rad per time. - `rate`: of decay, per time.
    - `bodies`: names of the bodies that the stiffest element connects.
    """

    frequency: float
    rate: float
    bodies: tuple[str, ...]

    @property
    def step(self) -> float:
        """The largest step with which explicit methods of order 3 to 5 are about stable; inf without stiffness."""
        bounds = [c / x for c, x in ((_OSCILLATION, self.frequency), (_DECAY, self.rate)) if x > 0]
        return min(bounds, default=np.inf)


@in_loops()
def stiffest(system: MultibodySystem, t: float, state: State) -> Stiffest:
    """The stiffest element at a state, with the share of its bodies' mass that is its own, on its own constraints.

    The largest frequency of the whole is at most that of its stiffest part (B. M. Irons & G. Treharne): each quotient
    of quadratic forms lies below the largest of its parts. Constraints can only lower it.
    """
    elements = [*_elements(system, t, state)]
    shares: dict[int, int] = {}
    for columns, _, _ in elements:
        for column in {int(c) for c in columns}:
            shares[column] = shares.get(column, 0) + 1
    mass, rows = metric(system, jnp.asarray(t), state[0])
    found = Stiffest(0.0, 0.0, ())
    for columns, K, D in elements:
        weight = 1 / np.sqrt([shares[int(c)] for c in columns])
        M = dense(mass[np.ix_(columns, columns)]) * weight[:, None] * weight
        Z = _allowed(rows, columns)
        frequency = float(np.sqrt(_largest(Z, K, M)))
        rate = 0.0 if D is None else _largest(Z, D, M)
        if max(frequency / _OSCILLATION, rate / _DECAY) > max(found.frequency / _OSCILLATION, found.rate / _DECAY):
            names = tuple(name for name in system.names if set(system.columns(name)) & set(columns.tolist()))
            found = Stiffest(frequency, rate, names)
    return found


def _elements(system: MultibodySystem, t: float, state: State) -> Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Columns, stiffness and damping of each element that has any, one of several equal ones."""
    for group in system.forces:
        if not (group.elements.uses_poses or group.elements.uses_twists):
            continue
        K, D = (_square(part) for part in _tangents(system, group, jnp.asarray(t), *state))
        K, D = (np.zeros_like(D) if K is None else K), (np.zeros_like(K) if D is None else D)
        moving = [slot for slot in group.slots if slot.group is not None]
        columns = np.concatenate([slot.columns.numbers for slot in moving], axis=1)
        for e in range(len(columns)):
            if np.max(np.abs(K[e])) > 0 or np.max(np.abs(D[e])) > 0:
                yield columns[e], K[e], D[e]


@interpreted
def _tangents(system: MultibodySystem, group: ForceGroup, t: Array, q: Point, v: Vector) -> tuple[Matrix, Matrix]:
    """Along positions and along velocities; nothing for what loads don't depend on."""
    wanted = (False, group.elements.uses_poses), (True, group.elements.uses_twists)
    K, D = (
        tuple(load_blocks(system.bodies, group, t, q, v, along_velocities=along)) if used else ()
        for along, used in wanted
    )
    return K, D


def _square(blocks: Matrix) -> np.ndarray | None:
    """Symmetric parts of the tangents of all elements of a group."""
    if not blocks:
        return None
    side = int(np.sqrt(len(blocks)))
    values = [[np.asarray(blocks[side * i + j].values) for j in range(side)] for i in range(side)]
    whole = np.concatenate([np.concatenate(row, axis=2) for row in values], axis=1)
    return 0.5 * (whole + whole.swapaxes(1, 2))


def _allowed(rows: Any, columns: np.ndarray) -> np.ndarray:
    """Motions of the bodies of an element that the constraints among these bodies allow, as columns."""
    inside = rows[:, columns]
    own = np.flatnonzero((_entries(inside) > 0) & (_entries(inside) == _entries(rows)))
    if not own.size:
        return np.eye(columns.size)
    _, sizes, right = np.linalg.svd(dense(inside[own]))
    rank = int(np.sum(sizes > np.finfo(float).eps * max(own.size, columns.size) * sizes[0]))
    return right[rank:].T


def _entries(rows: Any) -> np.ndarray:
    """Numbers of entries that differ from zero, of each row."""
    return np.asarray((rows != 0).sum(axis=1)).reshape(-1)


def _largest(Z: np.ndarray, K: np.ndarray, M: np.ndarray) -> float:
    """The largest eigenvalue of K against M on the columns of Z, 0 if there is no positive one."""
    if not Z.shape[1]:
        return 0.0
    L = np.linalg.cholesky(Z.T @ M @ Z)
    half = np.linalg.solve(L, Z.T @ K @ Z)
    return float(max(np.linalg.eigvalsh(np.linalg.solve(L, half.T))[-1], 0.0))
