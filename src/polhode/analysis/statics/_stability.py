"""Stability of equilibria, from the signs of the stiffness along admissible directions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.analysis.statics import _diagnosis
from polhode.analysis.statics._equations import DENSE, Tangent
from polhode.analysis.statics._linearisation import null_space
from polhode.compiler.numpy_jit import numpy_jit
from polhode.jax_context import warn
from polhode.linalg.host import to_sparse
from polhode.spaces.base import Point
from polhode.systems.mechanical import AbstractMechanical

_ROUND_OFF = 64 * np.finfo(float).eps

_WITHOUT_POTENTIAL = 1e-2
"""Share of the steepest fall up to which a stiffness may be unsymmetric, as it is a little off the equilibrium."""


class UnstableEquilibriumWarning(UserWarning):
    """An equilibrium that does not hold: the smallest push leads away from it, as from a pendulum that stands."""


def unstable(system: AbstractMechanical, q: Point, tangent: Tangent) -> int | None:
    """The number of directions in which an equilibrium does not hold, warned of; None above `DENSE` unknowns.

    None also where forces have no potential and that matters: where the part of the stiffness that is not symmetric is
    as large as what speaks against stability.
    """
    if system.n + system.m > DENSE:
        return None
    descents = _descent_directions(system, q, tangent)
    if descents is None:
        return None
    count = descents.shape[1]
    if count:
        steepest = descents[:, 0] / descents[np.argmax(np.abs(descents[:, 0])), 0]
        warn(
            f"The equilibrium is unstable in {count} {'direction' if count == 1 else 'directions'}, most in that in "
            f"which {_diagnosis.describe_motion(system, q, steepest)}. For a stable one "
            "start on its side: a cable below its supports (`rods.catenary` places it), a pendulum below its hinge. "
            "`polhode.modes` gives the rates at which deviations grow.",
            UnstableEquilibriumWarning,
        )
    return count


def _descent_directions(system: AbstractMechanical, q: Point, tangent: Tangent) -> np.ndarray | None:
    """Velocities along which the potential falls, (n, k), the steepest first; None where the tangent is not finite
    or too far from symmetric.

    How many there are depends neither on the basis of the null space of B nor on masses and units.
    """
    n, m = system.n, system.m
    K, B = to_sparse(tangent.K, (n, n)).toarray(), to_sparse(tangent.B, (m, n)).toarray()
    if not (np.isfinite(K).all() and np.isfinite(B).all()):
        return None
    if not system.identity_kinematics:
        # K is a derivative along the directions of the configuration, B holds for velocities.
        K = K @ np.asarray(_kinematics(system, q))
    N = null_space(B)
    K_reduced = N.T @ K @ N
    shapes = N @ np.linalg.eigh((K_reduced + K_reduced.T) / 2)[1]
    # Quotients are more accurate than eigenvalues, whose error is round-off of the largest.
    quotients = np.sum(shapes * (K @ shapes), axis=0)
    noise = _ROUND_OFF * np.sum(np.abs(shapes) * (np.abs(K) @ np.abs(shapes)), axis=0)
    falls = quotients < -noise
    skew = np.linalg.norm(K_reduced - K_reduced.T, 2) / 2
    # The symmetric part decides for forces with a potential, and for any forces if it is positive.
    if falls.any() and skew > _WITHOUT_POTENTIAL * -np.min(quotients):
        return None
    return shapes[:, falls]


@numpy_jit
def _kinematics(system: AbstractMechanical, q: Point) -> Array:
    return jax.jacfwd(lambda v: system.kinematics(q, v))(jnp.zeros(system.n))
