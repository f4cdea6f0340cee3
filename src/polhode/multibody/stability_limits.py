"""Upper bounds of frequency and decay rate of force elements: explicit stability limits of the step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array

from polhode.compiler.numpy_jit import numpy_jit
from polhode.linalg.blocks import Matrix, to_dense
from polhode.multibody.consistent_start import dense, metric
from polhode.multibody.coordinates.base import AbstractCoordinates
from polhode.multibody.mechanism.groups import ForceGroup
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State

if TYPE_CHECKING:
    from polhode.multibody.abstract_system import AbstractMultibodySystem

_OSCILLATION, _DECAY = 2.0, 2.5
"""Products of step and frequency, and of step and rate, up to which explicit methods of order 3 to 5 are stable."""

_SHARE = 0.9
"""Share of the largest change of loads from which on bodies are named."""


class StabilityLimit(NamedTuple):
    """Upper bounds of linear theory, each attained up to a small factor.

    - `frequency`: of oscillations, rad per time. - `rate`: of decay, per time.
    - `bodies`: names of the bodies that the stiffest element connects.
    """

    frequency: float
    rate: float
    bodies: tuple[str, ...]

    @property
    def step(self) -> float:
        """The largest stable step of explicit methods of order 3 to 5, approximately; inf without stiffness."""
        bounds = [c / x for c, x in ((_OSCILLATION, self.frequency), (_DECAY, self.rate)) if x > 0]
        return min(bounds, default=np.inf)


def stability_limit(system: AbstractMultibodySystem, t: float, state: State) -> StabilityLimit:
    """The limit of the stiffest element at a state, with its share of its bodies' mass, under its own constraints.

    The largest frequency of the whole is at most that of its stiffest part (B. M. Irons & G. Treharne): each quotient
    of quadratic forms lies below the largest of its parts. Constraints can only lower it.
    In joint coordinates, where an element acts on all joints that carry its bodies, it is that of all loads together.
    """
    if not system.coordinates.local:
        return _limit_along_joints(system, t, state)
    elements = [*_elements(system, t, state)]
    if not elements:
        return StabilityLimit(0.0, 0.0, ())
    shares = np.bincount(np.concatenate([np.unique(columns) for columns, _, _ in elements]))
    q, _ = state
    mass, rows = map(_Columns, metric(system, jnp.asarray(t), q))
    parts, alike = [], dict[tuple[int, ...], list[int]]()
    for number, (columns, K, D) in enumerate(elements):
        weight = 1 / np.sqrt(shares[columns])
        Z = _free_motions(rows, columns)
        parts.append((Z, mass.square(columns) * weight[:, None] * weight, K, D))
        alike.setdefault(Z.shape, []).append(number)
    sizes = np.zeros((len(elements), 2))
    for numbers in alike.values():
        Z, M, K, D = (np.stack([parts[n][k] for n in numbers]) for k in range(4))
        sizes[numbers] = np.stack((np.sqrt(_largest(Z, K, M)), _largest(Z, D, M)), axis=1)
    sharpest = np.max(sizes / (_OSCILLATION, _DECAY), axis=1)
    worst = int(np.argmax(np.where(sharpest > 0, sharpest, 0.0)))
    if not sharpest[worst] > 0:
        return StabilityLimit(0.0, 0.0, ())
    # Nodes of a flexible body have the columns of the body, which comes first.
    first = {tuple(system.columns(name)): name for name in reversed(system.names)}
    names = tuple(name for own, name in reversed(first.items()) if np.isin(own, elements[worst][0]).any())
    return StabilityLimit(float(sizes[worst, 0]), float(sizes[worst, 1]), names)


def _limit_along_joints(system: AbstractMultibodySystem, t: float, state: State) -> StabilityLimit:
    """The limit of all loads together, with the bodies on which they change most in the motion that limits the step."""
    mechanism = dataclasses.replace(system.mechanism.stiffest(), joints=(), gravity=jnp.zeros(3))
    system = dataclasses.replace(system, coordinates=system.coordinates.stiffest())
    q, v = state
    K, D = (0.5 * (x + x.T) for x in map(np.asarray, _load_tangents(system, mechanism, jnp.asarray(t), q, v)))
    M, B = map(dense, metric(system, jnp.asarray(t), q))
    Z = _null_space(B)
    if not Z.shape[1] or not (np.any(K) or np.any(D)):
        return StabilityLimit(0.0, 0.0, ())
    modes = [scipy.linalg.eigh(Z.T @ x @ Z, Z.T @ M @ Z) for x in (K, D)]
    sizes = [max(float(values[-1]), 0.0) for values, _ in modes]
    frequency, rate = np.sqrt(sizes[0]), sizes[1]
    along_velocities = rate / _DECAY > frequency / _OSCILLATION
    direction = Z @ modes[int(along_velocities)][1][:, -1]
    changes = np.asarray(_load_changes(system, mechanism, jnp.asarray(t), q, v, direction))
    position, velocity = (np.linalg.norm(x, axis=1) for x in changes)
    sizes_on_bodies = velocity if along_velocities else position
    work = (D if along_velocities else K) @ direction * direction
    columns = {name: system.columns(name) for name in system.names}
    if not sizes_on_bodies.max(initial=0.0) > 0:
        # Loads along the coordinates themselves.
        sizes_on_bodies = np.array([work[own].sum() for own in columns.values()])
    most = sizes_on_bodies >= _SHARE * sizes_on_bodies.max()
    return StabilityLimit(float(frequency), rate, tuple(n for n, on in zip(system.names, most, strict=True) if on))


@numpy_jit
def _load_tangents(
    system: AbstractMultibodySystem, mechanism: Mechanism, t: Array, q: Point, v: Vector
) -> tuple[Array, Array]:
    """Stiffness and damping of all loads but gravity."""
    coordinates, shape = system.coordinates, (system.n, system.n)
    at_rest, unloaded = jnp.zeros(system.n), dataclasses.replace(mechanism, forces=())

    def part(coordinates: AbstractCoordinates, mechanism: Mechanism) -> tuple[Array, Array]:
        K, C = coordinates.stiffness(mechanism, t, q, at_rest), coordinates.damping(mechanism, t, q, v)
        assert K is not None
        assert C is not None
        return to_dense(K, shape), to_dense(C, shape)

    whole, inertial = part(coordinates, mechanism), part(coordinates.without_loads(), unloaded)
    return whole[0] - inertial[0], whole[1] - inertial[1]


@numpy_jit
def _load_changes(
    system: AbstractMultibodySystem, mechanism: Mechanism, t: Array, q: Point, v: Vector, direction: Vector
) -> tuple[Array, Array]:
    """Changes of the forces on bodies along a direction of positions, and along one of velocities."""
    move = system.configuration.move

    def forces(s: Array, u: Array) -> Array:
        return mechanism.loads(t, system.coordinates.motion(move(q, s * direction), v + u * direction)).force

    zero, one = jnp.zeros(()), jnp.ones(())
    return jax.jvp(forces, (zero, zero), (one, zero))[1], jax.jvp(forces, (zero, zero), (zero, one))[1]


def _elements(
    system: AbstractMultibodySystem, t: float, state: State
) -> Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Columns, stiffness and damping of each element and each flexible body."""
    yield from system.coordinates.inner_tangents()
    for group in system.mechanism.stiffest().forces:
        if not (group.elements.uses_poses or group.elements.uses_twists):
            continue
        K, D = (_square(part) for part in _tangents(system, group, jnp.asarray(t), *state))
        if K is None and D is None:
            # Loads that depend on positions in principle only, or coordinates in which no element has blocks.
            continue
        K, D = (np.zeros_like(D) if K is None else K), (np.zeros_like(K) if D is None else D)
        slots = [slot for slot in group.slots if slot.group is not None]
        columns = np.concatenate([slot.columns.numbers for slot in slots], axis=1)
        for e in range(len(columns)):
            if np.max(np.abs(K[e])) > 0 or np.max(np.abs(D[e])) > 0:
                yield columns[e], K[e], D[e]


@numpy_jit
def _tangents(
    system: AbstractMultibodySystem, group: ForceGroup, t: Array, q: Point, v: Vector
) -> tuple[Matrix, Matrix]:
    """Tangents along positions and along velocities; empty where loads don't depend on them."""
    cases = (False, group.elements.uses_poses), (True, group.elements.uses_twists)
    K, D = (
        system.coordinates.load_blocks(group, t, q, v, along_velocities=along) or () if used else ()
        for along, used in cases
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


class _Columns:
    """Fast access to a few columns of a NumPy or SciPy matrix.

    - `entries`: number of nonzero entries of each row.
    """

    def __init__(self, matrix: Any) -> None:
        rows, columns = matrix.nonzero()
        order = np.lexsort((rows, columns))
        self._rows, columns = rows[order], columns[order]
        self._values = np.asarray(matrix[self._rows, columns]).reshape(-1)
        self._ends = np.concatenate(([0], np.cumsum(np.bincount(columns, minlength=matrix.shape[1]))))
        self.entries = np.bincount(rows, minlength=matrix.shape[0])

    def part(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the rows that are nonzero in these columns, and their values."""
        begin, end = self._ends[columns], self._ends[columns + 1]
        within = np.concatenate([np.arange(*ends) for ends in zip(begin, end, strict=True)])
        rows, place = np.unique(self._rows[within], return_inverse=True)
        values = np.zeros((rows.size, columns.size))
        values[place, np.repeat(np.arange(columns.size), end - begin)] = self._values[within]
        return rows, values

    def square(self, columns: np.ndarray) -> np.ndarray:
        """The square submatrix of these rows and columns."""
        rows, values = self.part(columns)
        matrix = np.zeros((columns.size, columns.size))
        place = np.searchsorted(rows, columns)
        there = rows[np.minimum(place, rows.size - 1)] == columns
        matrix[there] = values[place[there]]
        return matrix


def _free_motions(constraints: _Columns, columns: np.ndarray) -> np.ndarray:
    """Basis of the motions of the bodies of an element that the constraints among them allow, as columns."""
    rows, values = constraints.part(columns)
    return _null_space(values[np.count_nonzero(values, axis=1) == constraints.entries[rows]])


def _null_space(rows: np.ndarray) -> np.ndarray:
    """Basis of the vectors that are perpendicular to all rows, as columns."""
    count, size = rows.shape
    if not count:
        return np.eye(size)
    _, sizes, right = np.linalg.svd(rows)
    rank = int(np.sum(sizes > np.finfo(float).eps * max(count, size) * sizes[0]))
    return right[rank:].T


def _largest(Z: np.ndarray, K: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Largest eigenvalues of K x = λ M x on the columns of Z, for stacked matrices; 0 if none is positive."""
    if not Z.shape[2]:
        return np.zeros(len(Z))
    across = Z.swapaxes(1, 2)
    L = np.linalg.cholesky(across @ M @ Z)
    half = np.linalg.solve(L, across @ K @ Z)
    return np.maximum(np.linalg.eigvalsh(np.linalg.solve(L, half.swapaxes(1, 2)))[:, -1], 0.0)
