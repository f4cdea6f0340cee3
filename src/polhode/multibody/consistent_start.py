"""Consistent initialisation: positions and velocities that satisfy the joints of a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array

from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.numpy_jit import numpy_jit
from polhode.linalg.blocks import Matrix
from polhode.linalg.host import to_array, to_sparse
from polhode.multibody.mechanism.elements import AssemblyBranch
from polhode.multibody.mechanism.reactions import stressed_groups
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical

if TYPE_CHECKING:
    from polhode.multibody.abstract_system import AbstractMultibodySystem

POSITION_TOLERANCE = 1e-8
"""Largest constraint residual of an initial state, in the model's units of length or as a cosine."""

_MIN_BRANCH_COSINE = 0.5
"""Cosine below which Newton's method may converge to the wrong assembly branch: a sixth of a turn."""

_NEAR_SINGULAR = 1e-4
_ROUNDS = 50
MAX_NAMES = 6
DENSE = 600
"""Number of constraints up to which dense linear algebra is used: below about a second."""


class InconsistentStart(ValueError):
    """A start that violates the joints of a model.

    - `own`: the part of the message that doesn't follow from residuals of constraints.
    """

    def __init__(self, message: str, own: str = "") -> None:
        super().__init__(message)
        self.own = own


def check_start(system: AbstractMultibodySystem, labels: Sequence[str], t: float, state: State) -> None:
    """Raises InconsistentStart with the `start_faults` of a state, if there are any."""
    message = start_faults(system, labels, t, state)
    if message:
        raise InconsistentStart(message)


def start_faults(system: AbstractMultibodySystem, labels: Sequence[str], t: float, state: State) -> str:
    """All constraints that a state violates, or their time derivatives, by the names of joints, with remedies; or "".

    Also those that are closed on the wrong branch: cosines vanish again after half a turn.
    """
    if not system.m:
        return ""
    q, v = state
    gaps, rates, sides = _constraint_values(system, jnp.asarray(t), q, v)
    flips = _wrong_branches(system, sides)
    speed = max(1.0, float(jnp.max(jnp.abs(v), initial=0.0)))
    problems, unfit = [], []
    for what, values, tolerance in (
        ("positions", np.asarray(gaps), POSITION_TOLERANCE),
        ("velocities", np.asarray(rates), POSITION_TOLERANCE * speed),
    ):
        if not np.isfinite(values).all():
            problems.append(
                f"The constraints on {what} are not finite at the start: {worst_violations(labels, values)}."
            )
        elif np.max(np.abs(values), initial=0.0) > tolerance:
            at = " in these positions" if unfit else ""
            problems.append(
                f"The initial {what} do not fit the joints{at}: {worst_violations(labels, values, tolerance)}."
            )
            unfit.append(what)
    if flips:
        names = ", ".join(f"`{name}` (cosine {cosine:.3g})" for name, cosine in list(flips.items())[:MAX_NAMES])
        problems.append(f"The initial positions keep these joints the wrong way round: {names}.")
    return " ".join((*problems, *_remedies(unfit, bool(flips))))


def _remedies(unfit: Sequence[str], flips: bool) -> list[str]:
    remedies = []
    if unfit:
        remedies.append(
            "Correct them, or give `repair=True` to `problem` or `assemble`, which takes the nearest "
            f"{' and '.join(unfit)} that fit."
        )
    if flips:
        remedies.append("Turn the bodies by about half a turn, or let `assemble(repair=True)` do so.")
    return remedies


def repair_state(system: AbstractMultibodySystem, labels: Sequence[str], t: float, state: State) -> State:
    """The nearest state, in the metric of the mass matrix, that keeps the constraints.

    Positions by damped Newton steps on min ½|δ|²_M, velocities by one projection. Where a joint is off by more than a
    sixth of a turn, angles replace cosines first, which vanish after half a turn as well.
    Raises ValueError, naming the joints and the gaps that remain, if they can't be closed from this start.
    """
    del labels
    before, v = state
    q = close_on_branch(system, t, before)
    return q, consistent_velocities(system, t, q, v, np.zeros(system.m))


def close_on_branch(system: AbstractMultibodySystem, t: float, q: Point) -> Point:
    """The position of `repair_state`."""
    time, rest = jnp.asarray(t), jnp.zeros(system.n)
    gaps, _, sides = _constraint_values(system, time, q, rest)
    if _wrong_branches(system, sides):
        groups = tuple(dataclasses.replace(g, elements=AssemblyBranch(g.elements)) for g in system.mechanism.joints)
        q = close_joints(system.with_joints(groups), system.labels, time, q)
    elif _is_closed(gaps):
        return q
    return close_joints(system, system.labels, time, q)


def consistent_velocities(system: AbstractMultibodySystem, t: float, q: Point, v: Vector, rates: np.ndarray) -> Vector:
    """The velocities nearest to v at which the constraints have these rates.

    Raises ValueError, naming the joints, if there are none.
    """
    time = jnp.asarray(t)
    excess = np.asarray(_constraint_values(system, time, q, v)[1]) - rates
    if not excess.any():
        return v
    result = v - jnp.asarray(_nearest(*metric(system, time, q), excess))
    remainder = np.asarray(_constraint_values(system, time, q, result)[1]) - rates
    speed = max(1.0, float(jnp.max(jnp.abs(result), initial=0.0)))
    if np.max(np.abs(remainder), initial=0.0) > POSITION_TOLERANCE * speed:
        raise ValueError(
            f"No velocities fit the joints at t = {t:g}: {worst_violations(system.labels, remainder)} remain. In a "
            "singular position drives may ask for what can't be; start elsewhere, or correct them."
        )
    return result


def polish_state(system: AbstractMultibodySystem, labels: Sequence[str], t: float, state: State) -> State:
    """Projects a state that keeps the constraints to tolerance onto them to round-off; unchanged if it is there."""
    q, v = state
    gaps, rates = violations(system, jnp.asarray(t), q, v)
    small = 1e-3 * POSITION_TOLERANCE
    speed = max(1.0, float(jnp.max(jnp.abs(v), initial=0.0)))
    if max(float(jnp.max(jnp.abs(gaps))), float(jnp.max(jnp.abs(rates))) / speed) <= small:
        return state
    return repair_state(system, labels, t, state)


def close_joints(system: AbstractMultibodySystem, labels: Sequence[str], t: Array, q: Point) -> Point:
    """The nearest position at which Φ = 0. Raises ValueError, naming the joints, if there is none near."""
    gaps = np.asarray(_displace(system, t, q, jnp.zeros(system.n))[1])
    for _ in range(_ROUNDS):
        size = np.linalg.norm(gaps)
        if _is_closed(gaps):
            return q
        M, B = metric(system, t, q)
        step = -_nearest(M, _position_rows(system, B), gaps)
        for shrink in 0.5 ** np.arange(8):
            trial, residual = _displace(system, t, q, jnp.asarray(shrink * step))
            trial_gaps = np.asarray(residual)
            if np.linalg.norm(trial_gaps) < size:
                break
        else:
            break
        q, gaps = trial, trial_gaps
    if np.max(np.abs(gaps), initial=0.0) <= POSITION_TOLERANCE:
        return q
    raise ValueError(
        f"The joints can't be closed from this start: {worst_violations(labels, gaps)} remain after {_ROUNDS} rounds. "
        "Check their points and the lengths of the bodies, or start closer to a position that fits."
    )


def _is_closed(gaps: Any) -> bool:
    """Whether positions need no correction."""
    return bool(np.max(np.abs(gaps), initial=0.0) <= 1e-3 * POSITION_TOLERANCE)


def _position_rows(system: AbstractMechanical, B: Any) -> Any:
    """B with nonholonomic rows zero: positions may change across them."""
    if not len(system.nonholonomic):
        return B
    mask = np.ones(system.m)
    mask[system.nonholonomic] = 0.0
    return mask[:, None] * B if isinstance(B, np.ndarray) else scipy.sparse.diags_array(mask) @ B


def _wrong_branches(system: AbstractMultibodySystem, sides: Sequence[Array]) -> dict[str, float]:
    """Joints far from the intended assembly branch, with their cosines, which are 1 on it."""
    joints: dict[str, float] = {}
    for group, cosines in zip(system.mechanism.joints, sides, strict=True):
        for rows, values in zip(group.rows.numbers, np.asarray(cosines), strict=True):
            if not np.min(values, initial=1.0) > _MIN_BRANCH_COSINE:
                joints[system.labels[rows[0]]] = float(np.min(values))
    return joints


def nearly_dependent_joints(system: AbstractMechanical, labels: Sequence[str], t: float, state: State) -> str:
    """Describes the joints whose constraints are nearly dependent; empty if there are none."""
    if not 0 < system.m <= DENSE:
        return ""
    q, _ = state
    B = dense(metric(system, jnp.asarray(t), q)[1])
    combinations, sizes, _ = np.linalg.svd(B / np.linalg.norm(B, axis=1, keepdims=True), full_matrices=False)
    if sizes[-1] > _NEAR_SINGULAR:
        return ""
    share = np.abs(combinations[:, -1])
    joints = list(dict.fromkeys(labels[i] for i in np.argsort(-share) if share[i] > 0.1))[:MAX_NAMES]
    return f"constraints of {', '.join(f'`{joint}`' for joint in joints)} almost depend on each other ({sizes[-1]:.2g})"


def worst_violations(labels: Sequence[str], values: np.ndarray, tolerance: float = 0.0) -> str:
    """Describes the largest violations above a tolerance, by joint."""
    sizes: dict[str, float] = {}
    for label, value in zip(labels, np.abs(values), strict=True):
        sizes[label] = max(sizes.get(label, 0.0), float(value) if np.isfinite(value) else np.inf)
    ranking = sorted(sizes.items(), key=lambda item: -item[1])
    names = [f"`{label}` by {size:.3g}" for label, size in ranking[:MAX_NAMES] if size > tolerance]
    return ", ".join(names) or "none"


def _nearest(M: Any, B: Any, gap: np.ndarray) -> np.ndarray:
    """The smallest δ in the metric of M with B δ = gap; a least-squares solution where rows are dependent."""
    m, n = B.shape
    # In units in which masses and rows of B are of size 1: they may be many powers of ten apart.
    masses = M.diagonal()
    unit = 1 / np.sqrt(np.where(masses > 0, masses, 1.0))
    M, B = M * unit[:, None] * unit, B * unit
    sizes = np.sqrt(np.asarray((B * B).sum(axis=1)).reshape(-1))
    rows = 1 / np.where(sizes > 0, sizes, 1.0)
    B = B * rows[:, None]
    right = np.concatenate((np.zeros(n), rows * gap))
    if m <= DENSE:
        M, B = dense(M), dense(B)
        kkt = np.block([[M, B.T], [B, np.zeros((m, m))]])
        return unit * np.linalg.lstsq(kkt, right, rcond=1e-12)[0][:n]
    # A small compliance regularises dependent rows; Newton's method corrects its error.
    soft = scipy.sparse.block_array([[M, B.T], [B, -1e-12 * scipy.sparse.eye_array(m)]])
    return unit * scipy.sparse.linalg.splu(scipy.sparse.csc_matrix(soft)).solve(right)[:n]


def metric(system: AbstractMechanical, t: Array, q: Point) -> tuple[Any, Any]:
    """M and B: arrays of small systems, SciPy matrices of others."""
    M, B = _matrices(system, t, q)
    convert = to_array if max(system.n, system.m) <= DENSE else to_sparse
    return convert(M, (system.n, system.n)), convert(B, (system.m, system.n))


def dense(matrix: Any) -> np.ndarray:
    """A NumPy or SciPy matrix as an array."""
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


@numpy_jit
def _matrices(system: AbstractMechanical, t: Array, q: Point) -> tuple[Matrix, Matrix]:
    return system.mass(t, q), system.jacobian(t, q)


def violations(system: AbstractMultibodySystem, t: Array, q: Point, v: Vector) -> tuple[Array, Array]:
    """Φ and dΦ/dt."""
    return _constraint_values(system, t, q, v)[:2]


@numpy_jit
def _constraint_values(
    system: AbstractMultibodySystem, t: Array, q: Point, v: Vector
) -> tuple[Array, Array, list[Array]]:
    motion = system.motion(q)
    sides = [group.sides(t, motion) for group in system.mechanism.joints]
    return system.constraint(t, q), system.constraint_rate(t, q, v), sides


@numpy_jit
def _displace(system: AbstractMultibodySystem, t: Array, q: Point, step: Vector) -> tuple[Point, Array]:
    """The position after a displacement, and Φ there."""
    position = system.flow(q, step, 1.0)
    return position, system.constraint(t, position)


@numpy_jit
def flow(system: AbstractMechanical, q: Point, step: Vector) -> Point:
    """The position after a displacement."""
    return system.flow(q, step, 1.0)


_MAX_EDGE_TURN = 1.0
"""Relative rotation of neighbouring nodes of a rod, rad, above which it has too few edges."""


@eager_numpy()
def coarse_rod_edges(system: AbstractMultibodySystem, state: State) -> list[str]:
    """Describes the edges of rods with too large relative rotations; empty if there are none."""
    q, _ = state
    motion, edges = system.motion(q), []
    for group in stressed_groups(system.mechanism.forces):
        angles = np.asarray(jax.vmap(lambda edge, poses: edge.turn(poses))(group.elements, motion.at(group.slots)))
        for k in np.flatnonzero(angles > _MAX_EDGE_TURN):
            ends = (int(slot.nodes.numbers[k]) if slot.group is not None else len(system.names) for slot in group.slots)
            edges.append((float(angles[k]), *((*system.names, "ground")[end] for end in ends)))
    if not edges:
        return []
    angle, first, second = max(edges)
    others = f", and {len(edges) - 1} more edges by over {_MAX_EDGE_TURN:g} rad" if len(edges) > 1 else ""
    return [f"the edge of a rod from `{first}` to `{second}` turns by {angle:.3g} rad{others}: use more edges"]
