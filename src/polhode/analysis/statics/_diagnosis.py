"""Messages for equilibria that were not found, with the names of bodies and joints."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from polhode.analysis.statics._equations import DENSE, Tangent
from polhode.linalg.host import saddle
from polhode.multibody import consistent_start
from polhode.multibody.system import MultibodySystem
from polhode.result_codes import Result
from polhode.spaces.base import Point
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical

_NOTHING = 50 * np.finfo(float).eps
"""Residual of a unit vector without resistance, relative to the terms that cancel in it or to the entries, which are
scaled to 1: round-off of a few products."""

_MAX_NAMES = 3

_AT_REST = 1e-6
"""Rate and speed, of vectors of length one, below which a body doesn't move along with others."""


def unresisted_motion(A: Any, n: int) -> np.ndarray | None:
    """The motion (n,) that nothing resists, largest component 1, or None, also where the tangent is not finite.

    **Arguments:**

    - `A`: the tangent of equilibrium (n + m, n + m), sparse.
    """
    if not np.isfinite(sparse.csr_matrix(A).data).all():
        return None
    scale = _equilibration(A)
    A_scaled = sparse.csc_matrix(sparse.diags_array(scale) @ A @ sparse.diags_array(scale))
    x = _last_singular_vector(A_scaled) if A.shape[0] <= DENSE else _by_inverse_iteration(A_scaled)
    if np.linalg.norm(A_scaled @ x) > _NOTHING * max(1.0, np.linalg.norm(abs(A_scaled) @ np.abs(x))):
        return None
    motion = (scale * x)[:n]
    biggest = np.max(np.abs(motion))
    # Multipliers alone, for constraints that depend on each other: no motion.
    return motion / motion[np.argmax(np.abs(motion))] if biggest > 1e-8 * np.max(np.abs(scale * x)) else None


def _equilibration(A: Any) -> np.ndarray:
    """Factors for rows and columns that bring the largest entry of each close to 1, whatever the units."""
    entries = abs(sparse.csr_matrix(A))
    scale = np.ones(A.shape[0])
    for _ in range(5):
        A_scaled = sparse.diags_array(scale) @ entries @ sparse.diags_array(scale)
        rows = np.maximum(np.asarray(A_scaled.max(axis=1).todense()).ravel(), A_scaled.max(axis=0).toarray().ravel())
        scale = scale / np.sqrt(np.where(rows > 0, rows, 1.0))
    return scale


def _last_singular_vector(A: Any) -> np.ndarray:
    return linalg.svd(A.toarray())[2][-1]


def _by_inverse_iteration(A: Any) -> np.ndarray:
    # A shift of the size of round-off lets the elimination pass exact zeros.
    lu = splu(sparse.csc_matrix(A + 4 * np.finfo(float).eps * sparse.eye_array(A.shape[0])))
    x = np.random.default_rng(0).standard_normal(A.shape[0])
    for _ in range(2):
        x = lu.solve(x / np.linalg.norm(x))
    return x / np.linalg.norm(x)


def describe_motion(system: AbstractMechanical, q: Point, theta: np.ndarray) -> str:
    """The bodies that move along θ, in words."""
    if not isinstance(system, MultibodySystem):
        most = np.argsort(-np.abs(theta))[:_MAX_NAMES]
        numbers = ", ".join(str(k) for k in sorted(most.tolist()) if abs(theta[k]) > 1e-3 * np.max(np.abs(theta)))
        return f"coordinates {numbers} of the algebra of its configuration"
    twists = system.motion(q, jnp.asarray(theta)).twists
    assert twists is not None
    omega, u = (np.asarray(x)[:-1] for x in twists)
    rates, speeds = np.linalg.norm(omega, axis=1), np.linalg.norm(u, axis=1)
    # Radians and lengths don't compare; the motion of each kind is measured by its largest.
    share = np.maximum(_relative(rates), _relative(speeds))
    bodies = [k for k in np.argsort(-share, kind="stable") if max(rates[k], speeds[k]) > _AT_REST][:_MAX_NAMES]
    return ", ".join(f"`{system.names[k]}` {_describe_twist(omega[k], u[k])}" for k in bodies)


def _relative(sizes: np.ndarray) -> np.ndarray:
    largest = np.max(sizes)
    return sizes / largest if largest > _AT_REST else np.zeros_like(sizes)


def _describe_twist(omega: np.ndarray, u: np.ndarray) -> str:
    parts = []
    if np.linalg.norm(omega) > _AT_REST:
        parts.append(f"turns about {_axis(omega)} of its frame")
    if np.linalg.norm(u) > _AT_REST:
        parts.append(f"moves along {_axis(u)}")
    return " and ".join(parts)


def _axis(vector: np.ndarray) -> str:
    direction = vector / np.linalg.norm(vector) + 0.0
    return f"({', '.join(f'{x:.3g}' for x in np.round(direction, 3) + 0.0)})"


def describe_imbalance(system: AbstractMechanical, forces: np.ndarray, gaps: np.ndarray) -> str:
    """The bodies and joints with the largest residuals, in words."""
    parts = []
    if np.max(np.abs(gaps), initial=0.0) > consistent_start.POSITION_TOLERANCE or not np.isfinite(gaps).all():
        parts.append(f"constraints are open: {system.name_violations(gaps)}")
    if isinstance(system, MultibodySystem):
        sizes = {name: float(np.max(np.abs(forces[system.columns(name)]), initial=0.0)) for name in system.names}
    else:
        sizes = {f"velocity {k}": abs(float(x)) for k, x in enumerate(forces)}
    most = sorted(sizes, key=lambda name: -np.nan_to_num(sizes[name], nan=np.inf))[:_MAX_NAMES]
    places = ", ".join(f"{sizes[name]:.3g} at `{name}`" for name in most if sizes[name] > 0)
    return "; ".join([*parts, f"unbalanced forces: {places or 'none'}"])


def describe_open_joints(system: AbstractMechanical, t: float, state: State) -> str:
    """The joints that are open because dropped constraints do not follow from the others; empty if none is."""
    code = system.failure(jnp.asarray(t), state)
    if code is None or not int(code):
        return ""
    return f"{Result(int(code)).message} {system.diagnose(t, state)}"


def describe_loose_motion(system: AbstractMechanical, tangent: Tangent, q: Point) -> str:
    """The motion that nothing resists at a place, and what to do; empty if everything is held."""
    theta = unresisted_motion(saddle(*tangent, system.n, system.m), system.n)
    if theta is None:
        return ""
    return (
        f"nothing resists a motion in which {describe_motion(system, q, theta)}. Hold it by a joint or a spring (a "
        "rod that spins about itself by `joints.Universal` at an end, or clamp it), or start from a position in which "
        "loads hold it. If something does hold it, its stiffness lies below the round-off of others; constrain those "
        "(`constrained` of rods) or make them softer."
    )
