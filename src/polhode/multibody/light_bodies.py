"""Accuracy of accelerations in mechanisms with nearly massless bodies."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.compiler.numpy_jit import numpy_jit
from polhode.linalg.blocks import Matrix
from polhode.linalg.compliant import COMPLIANCE, REFINEMENTS, CompliantKKT
from polhode.linalg.host import to_sparse
from polhode.linalg.solver_choice import library_solver
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point
from polhode.systems.base import AbstractSystem, State

System = TypeVar("System", bound=AbstractSystem)

_MAX_ERROR = 1e-8
"""Largest relative error of accelerations by the compliance of constraints."""

_SINGULAR = 1e-14
"""Eigenvalues below which constraints depend on each other; the compliance is for those positions."""

_DENSE = 600

_MAX_RATIO = 1e8
"""Ratio of masses and moments of inertia up to which errors are smaller."""


def is_inaccurate(system: AbstractSystem, t: float, state: State) -> bool:
    """Whether the compliance of constraints spoils accelerations at a state with independent constraints.

    That is the case where one joint connects inertias with a ratio of about 1e9.
    """
    if not (isinstance(system, MultibodySystem) and isinstance(system.kkt, CompliantKKT)):
        return False
    n, m = system.n, system.m
    if n + m > _DENSE or not _inertias_differ(system):
        return False
    M, B = _matrices(system, jnp.asarray(t), state[0])
    mass, P = to_sparse(M, (n, n)).toarray(), to_sparse(B, (m, n)).toarray()
    sizes = np.abs(np.diag(mass))
    if not sizes.all():
        return False
    units = np.sqrt((P**2) @ (1 / sizes))
    # In units in which inertias are one, so that ratios of masses don't matter.
    factor = np.linalg.cholesky(mass / np.sqrt(np.outer(sizes, sizes)))
    rows = np.linalg.solve(factor, (P / np.sqrt(sizes)).T).T / np.where(units > 0, units, 1.0)[:, None]
    least = float(np.min(np.linalg.svd(rows, compute_uv=False), initial=1.0)) ** 2
    return least > _SINGULAR and (COMPLIANCE / least) ** (REFINEMENTS + 1) > _MAX_ERROR


def _inertias_differ(system: MultibodySystem) -> bool:
    """Whether inertias differ by more than `_MAX_RATIO`."""
    masses, moments = np.asarray(system.coordinates.masses), np.asarray(system.coordinates.inertias)
    sizes = np.concatenate((masses, np.abs(np.diagonal(moments, axis1=1, axis2=2)).reshape(-1)))
    sizes = sizes[sizes > 0]
    return len(sizes) > 0 and bool(np.max(sizes) > _MAX_RATIO * np.min(sizes))


@numpy_jit
def _matrices(system: MultibodySystem, t: Array, q: Point) -> tuple[Matrix, Matrix]:
    return system.mass(t, q), system.jacobian(t, q)


def with_pivoting_solver(system: System, t: float, state: State) -> System:
    """The system with a pivoting solver instead of a compliant one, where that is inaccurate."""
    if not is_inaccurate(system, t, state):
        return system
    assert isinstance(system, MultibodySystem)
    return dataclasses.replace(system, solver=library_solver(system.n, system.m))
