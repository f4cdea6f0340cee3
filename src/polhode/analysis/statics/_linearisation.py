"""The linearised equations of motion about a state."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Complex

from polhode.compiler.numpy_jit import numpy_jit
from polhode.linalg.blocks import Matrix
from polhode.linalg.host import to_sparse
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical import AbstractMechanical, Multipliers

_RANK = 1e-10
"""Singular values of B below this fraction of the largest count as zero."""


class Spectrum(NamedTuple):
    """Eigenvalues s, one of each conjugate pair, and displacements (velocities of the displacement), as columns."""

    eigenvalues: Complex[np.ndarray, " k"]
    shapes: np.ndarray


class LinearisedEquations(NamedTuple):
    r"""$M\delta\dot v + C\,\delta v + K\,\delta q + B^T\delta\lambda = r,\ B\,\delta q = 0$, as sparse matrices.

    δq is measured as a velocity. K holds the geometric stiffness of the constraint forces; r is what is unbalanced.
    """

    M: Any
    C: Any
    K: Any
    B: Any
    r: np.ndarray

    @property
    def symmetric(self) -> bool:
        """Whether there is no damping and K is symmetric but for round-off and what r leaves."""
        skew = np.max(np.abs((self.K - self.K.T).data), initial=0.0)
        stiff = np.max(np.abs(self.K.data), initial=0.0)
        noise = 1e3 * np.max(np.abs(self.r), initial=0.0) + 256 * np.finfo(float).eps * stiff
        return not np.any(self.C.data) and bool(skew <= noise)


def about(system: AbstractMechanical, t: float, q: Point, multipliers: Any) -> LinearisedEquations:
    """The linearisation about a state at rest; λ as given, or such that M a + Bᵀλ = f, B a = 0."""
    n, m = system.n, system.m
    time = jnp.asarray(t)
    M, B, f, H = _balance(system, time, q)
    M, B, f = to_sparse(M, (n, n)), to_sparse(B, (m, n)), np.asarray(f)
    if m and multipliers is None:
        saddle = scipy.sparse.block_array([[M, B.T], [B, None]])
        multipliers = scipy.sparse.linalg.splu(scipy.sparse.csc_matrix(saddle)).solve(np.concatenate((f, np.zeros(m))))[
            n:
        ]
    k = jnp.asarray(multipliers) if m else jnp.zeros(0)
    C, K = _tangent(system, time, q, k)
    K, C = to_sparse(K, (n, n)), to_sparse(C, (n, n))
    if H is not None:
        K = scipy.sparse.csc_array(K @ np.asarray(H))
    C.eliminate_zeros()
    return LinearisedEquations(M, C, K, B, f - B.T @ np.asarray(k) if m else f)


@numpy_jit
def _balance(system: AbstractMechanical, t: Array, q: Point) -> tuple[Matrix, Matrix, Vector, Array | None]:
    rest = jnp.zeros(system.n)
    B = system.jacobian(t, q) if system.m else ()
    H = None if system.identity_kinematics else jax.jacfwd(lambda v: system.kinematics(q, v))(rest)
    return system.mass(t, q), B, system.force(t, q, rest), H


@numpy_jit
def _tangent(system: AbstractMechanical, t: Array, q: Point, multipliers: Multipliers) -> tuple[Matrix, Matrix]:
    rest = jnp.zeros(system.n)
    K = system.stiffness(t, q, rest)
    return system.damping(t, q, rest), (*K, *system.geometric_stiffness(t, q, multipliers)) if system.m else K


def null_space(B: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the velocities that constraints allow, as columns."""
    if not B.shape[0]:
        return np.eye(B.shape[1])
    sizes = np.linalg.norm(B, axis=1, keepdims=True)
    _, values, right = scipy.linalg.svd(B / np.where(sizes > 0, sizes, 1.0))
    return right[int(np.sum(values > _RANK * np.max(values, initial=0.0))) :].T
