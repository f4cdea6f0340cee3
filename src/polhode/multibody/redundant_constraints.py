"""Redundant constraints of a mechanism: at one position, and along its motion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array

from polhode.compiler.cache.persistent_memo import memoised_on_disk
from polhode.compiler.numpy_jit import numpy_jit
from polhode.linalg.rank import redundancy
from polhode.multibody.consistent_start import DENSE, MAX_NAMES, close_joints, dense, flow, metric
from polhode.multibody.mechanism.poses import Twist
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical

if TYPE_CHECKING:
    from polhode.multibody.abstract_system import AbstractMultibodySystem

_RANK_TOLERANCE = 1e-8

_SPAN_TOLERANCE = 1e-3
"""Distance of a row from the span of the others, relative to its length, above which it is independent at positions
around the start. Neighbours of a singular position lie far above; errors of a double root, 1e-5, lie below."""

_BLOCK = 30
"""Size of the largest blocks of a mass matrix that are inverted one by one."""

_DIRECTIONS = 4
"""Number of directions along which positions are tested, forwards and backwards: at a change point a random one leads
to either branch."""

_SIZES = (0.3, 0.1, 0.03)
"""Displacements to test, rad or relative to the size of the mechanism; the first that closes again is used."""

_TIMES = (1e-3, 1e-2, 1e-1, 1.0)
"""Times ahead at which positions of driven mechanisms are tested."""


class Dependence(NamedTuple):
    """Constraints that follow from others: their numbers, and a description of their joints."""

    rows: np.ndarray
    explanation: str


def dependence(system: AbstractMechanical, labels: Sequence[str], t: float, state: State) -> Dependence:
    """Constraints that follow from others at this position; of dependent joints the later ones are named.

    Large systems are analysed by sparse elimination, which may name another one of each dependent set.
    """
    if not system.m:
        # The matrix of masses of a long chain in joint coordinates has blocks for all pairs of bodies.
        return Dependence(np.zeros(0, int), "")
    q, _ = state
    M, B = metric(system, jnp.asarray(t), q)
    if system.m > DENSE:
        rows = _dependent_sparse(M, B)
        return Dependence(rows, "; ".join(_count_text(labels, rows, name) for name in _names(labels, rows)))
    groups = {name: np.flatnonzero(np.array(labels) == name).tolist() for name in dict.fromkeys(labels)}
    result = redundancy(dense(B), groups, terms=_terms(system, t, q))
    explanations = (_dependence_text(labels, result.dependent, name, others) for name, others in result.groups.items())
    return Dependence(result.dependent, "; ".join(explanations))


def lasting_dependence(system: AbstractMultibodySystem, labels: Sequence[str], t: float, state: State) -> Dependence:
    """Constraints that follow from others along the motion, not just at the start.

    Where constraints are dependent at the start, the mechanism may be at a dead centre or a change point, which it
    leaves with the first step. So it is displaced in random free directions, closed again, and analysed there:
    constraints that are independent at any such position are imposed. Those that stay dependent follow from the imposed
    ones in all of them.
    """
    start = dependence(system, labels, t, state)
    return _persistent_rows(system, tuple(labels), t, state, start) if len(start.rows) else start


@memoised_on_disk
def _persistent_rows(
    system: AbstractMultibodySystem, labels: Sequence[str], t: float, state: State, result: Dependence
) -> Dependence:
    """The rows of a dependence that persist at neighbouring positions."""
    start, v = state
    for time, q in _nearby_positions(system, labels, t, start):
        if system.m > DENSE:
            here = dependence(system, labels, time, (q, v))
            result = here if len(here.rows) < len(result.rows) else result
            continue
        # Imposed rows come first, so that only missing ones are added.
        imposed_rows = np.setdiff1d(np.arange(system.m), result.rows)
        groups = {"kept": imposed_rows.tolist(), **_by_name(labels, result.rows)}
        B = dense(metric(system, jnp.asarray(time), q)[1])
        still = redundancy(B, groups, _SPAN_TOLERANCE, _terms(system, time, q)).dependent
        rows = np.intersect1d(still, result.rows)
        if len(rows) < len(result.rows):
            result = _explain(system, labels, time, q, rows)
    return result


def _nearby_positions(
    system: AbstractMultibodySystem, labels: Sequence[str], t: float, q: Point
) -> Iterator[tuple[float, Point]]:
    """Positions around q that keep all constraints, with their times."""
    free = _free_directions(*metric(system, jnp.asarray(t), q))
    random = np.random.default_rng(0)
    for _ in range(_DIRECTIONS if free.shape[1] else 0):
        direction = free @ random.standard_normal(free.shape[1])
        for sign in (1.0, -1.0):
            yield from _displaced_position(system, labels, t, q, sign * direction / _size(system, q, direction))
    if system.rheonomic:
        yield from _later_positions(system, labels, t, q)


def _displaced_position(
    system: AbstractMultibodySystem, labels: Sequence[str], t: float, q: Point, direction: np.ndarray
) -> Iterator[tuple[float, Point]]:
    """A displaced position, closed again; none where the joints can't be closed."""
    for size in _SIZES:
        try:
            yield t, close_joints(system, labels, jnp.asarray(t), flow(system, q, jnp.asarray(size * direction)))
        except ValueError:
            continue
        return


def _later_positions(
    system: AbstractMultibodySystem, labels: Sequence[str], t: float, q: Point
) -> Iterator[tuple[float, Point]]:
    """Positions at later times, as far as the joints can be closed."""
    for ahead in _TIMES:
        try:
            q = close_joints(system, labels, jnp.asarray(t + ahead), q)
        except ValueError:
            return
        yield t + ahead, q


def _free_directions(M: Any, B: Any) -> np.ndarray:
    """Velocities that keep the constraints, one a column, orthogonal in units in which masses are of size 1."""
    masses = M.diagonal()
    unit = 1 / np.sqrt(np.where(masses > 0, masses, 1.0))
    B = dense(B) * unit
    _, sizes, right = np.linalg.svd(B, full_matrices=True)
    rank = int(np.sum(sizes > _RANK_TOLERANCE * max(sizes[:1].max(initial=0.0), np.finfo(float).tiny)))
    return unit[:, None] * right[rank:].T


def _size(system: AbstractMultibodySystem, q: Point, velocity: np.ndarray) -> float:
    """The largest rotation of a body, rad, or displacement relative to the size of the mechanism."""
    places, twists = _motion(system, q, jnp.asarray(velocity))
    extent = float(np.max(np.ptp(np.asarray(places), axis=0), initial=0.0)) or 1.0
    turn, slide = (float(np.max(np.linalg.norm(np.asarray(w), axis=1))) for w in twists)
    return max(turn, slide / extent, np.finfo(float).tiny)


@numpy_jit
def _motion(system: AbstractMultibodySystem, q: Point, velocity: Vector) -> tuple[Array, Twist]:
    """Positions and twists of bodies."""
    motion = system.motion(q, velocity)
    assert motion.twists is not None
    return motion.poses.x, motion.twists


def _terms(system: AbstractMechanical, t: float, q: Point) -> np.ndarray | None:
    """Sizes of the terms in the entries of B, which cancel in joint coordinates; otherwise None."""
    terms = _jacobian_terms(system, jnp.asarray(t), q)
    return None if terms is None else np.asarray(terms)


@numpy_jit
def _jacobian_terms(system: AbstractMechanical, t: Array, q: Point) -> Array | None:
    return system.jacobian_terms(t, q)


def _by_name(labels: Sequence[str], rows: np.ndarray) -> dict[str, list[int]]:
    """Rows by the joint that they belong to."""
    return {f"rows of {name}": [int(i) for i in rows if labels[i] == name] for name in _names(labels, rows)}


def _explain(
    system: AbstractMultibodySystem, labels: Sequence[str], t: float, q: Point, rows: np.ndarray
) -> Dependence:
    """Dependent rows, with the joints from which they follow."""
    if not len(rows):
        return Dependence(rows, "")
    independent = np.setdiff1d(np.arange(system.m), rows)
    groups = {
        **_by_name(labels, independent),
        **{f"more {key}": value for key, value in _by_name(labels, rows).items()},
    }
    result = redundancy(dense(metric(system, jnp.asarray(t), q)[1]), groups, terms=_terms(system, t, q))
    sources = {key.removeprefix("more rows of "): value for key, value in result.groups.items()}
    explanations = (
        _dependence_text(labels, rows, name, [other.removeprefix("more ").removeprefix("rows of ") for other in others])
        for name, others in sources.items()
    )
    return Dependence(rows, "; ".join(explanations))


def _names(labels: Sequence[str], rows: np.ndarray) -> list[str]:
    return [name for name in dict.fromkeys(labels) if any(labels[i] == name for i in rows)]


def _dependence_text(labels: Sequence[str], rows: np.ndarray, name: str, others: Sequence[str]) -> str:
    names = [f"`{other}`" for other in dict.fromkeys(others) if other != name]
    return f"{_count_text(labels, rows, name)} follow from {', '.join(names[:MAX_NAMES]) or 'each other'}"


def _count_text(labels: Sequence[str], rows: np.ndarray, name: str) -> str:
    return f"{sum(labels[i] == name for i in rows)} of the constraints of `{name}`"


def _solve_blocks(M: Any, rhs: Any) -> Any:
    """M⁻¹ times a sparse matrix, block by block where M has small blocks; SciPy solves for all columns."""
    count, block = scipy.sparse.csgraph.connected_components(M, directed=False)
    sizes = np.bincount(block, minlength=count)
    if sizes.max() > _BLOCK:
        return scipy.sparse.linalg.spsolve(scipy.sparse.csc_matrix(M), scipy.sparse.csc_matrix(rhs))
    order = np.argsort(block, kind="stable")
    local = np.empty(len(block), np.int64)
    local[order] = np.arange(len(block)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # Smaller blocks are padded with the identity.
    blocks = np.tile(np.eye(sizes.max()), (count, 1, 1))
    entries = scipy.sparse.coo_array(M)
    entries.sum_duplicates()
    i, j = entries.coords
    blocks[block, local, local] = 0.0
    blocks[block[i], local[i], local[j]] = entries.data
    unknowns = np.full((count, sizes.max()), len(block))
    unknowns[block, local] = np.arange(len(block))
    rows, columns = np.broadcast_arrays(unknowns[:, :, None], unknowns[:, None, :])
    inside = (rows < len(block)) & (columns < len(block))
    inverse = np.linalg.inv(blocks)[inside], (rows[inside], columns[inside])
    return scipy.sparse.csc_array(inverse, shape=M.shape) @ rhs


def _dependent_sparse(M: Any, B: Any) -> np.ndarray:
    """Rows whose pivot vanishes when B M⁻¹ Bᵀ, scaled to a unit diagonal, is eliminated symmetrically."""
    regular = M + 1e-6 * M.trace() / M.shape[0] * scipy.sparse.eye_array(M.shape[0], format="csc")
    S = B @ _solve_blocks(regular, B.T)
    scale = scipy.sparse.diags_array(1 / np.sqrt(S.diagonal()))
    # Compliance far below the tolerance keeps vanishing pivots from ending the elimination.
    matrix = scale @ S @ scale + 0.01 * _RANK_TOLERANCE * scipy.sparse.eye_array(S.shape[0])
    options = {"SymmetricMode": True}
    lu = scipy.sparse.linalg.splu(
        scipy.sparse.csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
    )
    pivots = np.abs(lu.U.diagonal())[lu.perm_c]
    return np.flatnonzero(pivots <= _RANK_TOLERANCE)
