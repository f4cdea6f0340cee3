"""The fastest oscillation and decay that force elements allow, which bound the steps of explicit methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array

from polhode._scalar.rows import in_loops
from polhode.execution.once import interpreted
from polhode.linalg.blocks import Matrix
from polhode.model.consistency import to_sparse
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
    mass, rows = _matrices(system, t, state)
    found = Stiffest(0.0, 0.0, ())
    for columns, K, D in elements:
        weight = 1 / np.sqrt([shares[int(c)] for c in columns])
        M = mass[np.ix_(columns, columns)].toarray() * weight[:, None] * weight
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


def _matrices(system: MultibodySystem, t: float, state: State) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
    M, B = _mass_and_jacobian(system, jnp.asarray(t), state[0])
    return to_sparse(M, (system.n, system.n)).tocsr(), to_sparse(B, (system.m, system.n)).tocsr()


@interpreted
def _mass_and_jacobian(system: MultibodySystem, t: Array, q: Point) -> tuple[Matrix, Matrix]:
    return system.mass(t, q), system.jacobian(t, q)


def _allowed(rows: scipy.sparse.csr_array, columns: np.ndarray) -> np.ndarray:
    """Motions of the bodies of an element that the constraints among these bodies allow, as columns."""
    inside = rows[:, columns]
    own = np.flatnonzero(np.diff(inside.indptr) > 0)
    own = own[np.diff(rows.indptr)[own] == np.diff(inside.indptr)[own]]
    if not own.size:
        return np.eye(columns.size)
    return scipy.linalg.null_space(inside[own].toarray())


def _largest(Z: np.ndarray, K: np.ndarray, M: np.ndarray) -> float:
    """The largest eigenvalue of K against M on the columns of Z, 0 if there is no positive one."""
    if not Z.shape[1]:
        return 0.0
    values = scipy.linalg.eigh(Z.T @ K @ Z, Z.T @ M @ Z, eigvals_only=True)
    return float(max(values[-1], 0.0))
