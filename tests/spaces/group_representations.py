"""Matrix representations of the groups: the independent road to 30-digit references.

Everything is derived from the basis matrices alone: exponentials by `mpmath.expm`, brackets by commutators, dexp and
its inverse by the series of ad in 40 digits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

DIGITS = 40


@dataclasses.dataclass(frozen=True)
class Representation:
    """`basis` (dim, m, m); `matrix(q)` the m×m matrix of a point; `powers` (m,): the power of the length unit by which
    the coordinates acted on are measured."""

    basis: np.ndarray
    matrix: Callable[[Any], np.ndarray]
    powers: tuple[int, ...]

    def coefficients(self, X: np.ndarray) -> np.ndarray:
        dim = len(self.basis)
        return np.linalg.lstsq(self.basis.reshape(dim, -1).T, X.reshape(-1), rcond=None)[0]

    @property
    def structure(self) -> np.ndarray:
        """ad of the basis elements, exact: entries are integers."""
        E = self.basis
        columns = [[self.coefficients(a @ b - b @ a) for b in E] for a in E]
        return np.round(np.swapaxes(np.array(columns), 1, 2))

    def ad(self, theta: np.ndarray) -> np.ndarray:
        """ad_θ with mpmath entries."""
        return np.tensordot(high_precision(theta), self.structure, axes=1)

    def exp(self, theta: np.ndarray) -> np.ndarray:
        X = np.tensordot(high_precision(theta), self.basis, axes=1)
        result = mpmath.expm(mpmath.matrix(X.tolist()))
        return np.array(result.tolist(), dtype=float)

    def dexp(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self._series(theta, v, lambda k: mpmath.mpf(1) / mpmath.factorial(k + 1), 60)

    def dexpinv(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self._series(theta, v, lambda k: mpmath.bernoulli(k) / mpmath.factorial(k), 110)

    def _series(self, theta: np.ndarray, v: np.ndarray, coefficient: Callable, terms: int) -> np.ndarray:
        ad, term = self.ad(theta), high_precision(v)
        total = np.zeros(len(v), dtype=object)
        for k in range(terms):  # enough for angles up to π, where the terms of dexpinv halve at least
            factor = coefficient(k)
            if factor:
                total = total + factor * term
            term = ad.dot(term)
        return total.astype(float)


def high_precision(values: np.ndarray) -> np.ndarray:
    return np.array([mpmath.mpf(float(x)) for x in values], dtype=object)


def _hat(a: np.ndarray) -> np.ndarray:
    return np.cross(np.eye(3), a).T * -1.0


def linear(n: int) -> Representation:
    basis = np.zeros((n, n + 1, n + 1))
    basis[np.arange(n), np.arange(n), n] = 1

    def matrix(q: Any) -> np.ndarray:
        result = np.eye(n + 1)
        result[:n, n] = q
        return result

    return Representation(basis, matrix, (1,) * n + (0,))


def rotation_matrices(group: Any) -> Representation:
    return Representation(np.array([_hat(e) for e in np.eye(3)]), lambda q: np.asarray(group.to_matrix(q)), (0, 0, 0))


def unit_quaternions() -> Representation:
    """Left multiplication by (0, θ/2) and by p."""

    def left(p: np.ndarray) -> np.ndarray:
        w, x, y, z = p
        return np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])

    return Representation(
        np.array([left(np.concatenate(([0.0], e / 2))) for e in np.eye(3)]), lambda q: left(np.asarray(q)), (0,) * 4
    )


def rigid(group: Any) -> Representation:
    basis = np.zeros((6, 4, 4))
    basis[:3, :3, :3] = [_hat(e) for e in np.eye(3)]
    basis[3:, :3, 3] = np.eye(3)

    def matrix(q: Any) -> np.ndarray:
        result = np.eye(4)
        result[:3, :3], result[:3, 3] = group.rotations.to_matrix(q[0]), q[1]
        return result

    return Representation(basis, matrix, (1, 1, 1, 0))


def direct_product(*parts: Representation) -> Representation:
    def matrix(q: Any) -> np.ndarray:
        return _block_diagonal([part.matrix(x) for part, x in zip(parts, q, strict=True)])

    def embed(i: int, E: np.ndarray) -> np.ndarray:
        return _block_diagonal([E if j == i else 0 * other.basis[0] for j, other in enumerate(parts)])

    basis = [embed(i, E) for i, part in enumerate(parts) for E in part.basis]
    return Representation(np.array(basis), matrix, sum((part.powers for part in parts), ()))


def direct_power(part: Representation, n: int, take: Callable[[Any, int], Any]) -> Representation:
    full = direct_product(*[part] * n)
    return Representation(full.basis, lambda q: full.matrix([take(q, i) for i in range(n)]), full.powers)


def magnetic(part: Representation, powers: tuple[int, ...]) -> Representation:
    """G⋉g*: that of G beside the affine action (Ad_{g⁻¹}ᵀ, μ) on g*."""
    n = len(part.basis)

    def affine(linear: np.ndarray, shift: np.ndarray, corner: float) -> np.ndarray:
        return np.block([[linear, shift[:, None]], [np.zeros((1, n)), np.array([[corner]])]])

    def matrix(q: Any) -> np.ndarray:
        g = part.matrix(q[0])
        inverse = np.linalg.inv(g)
        Ad_inverse = np.array([part.coefficients(inverse @ E @ g) for E in part.basis]).T
        return _block_diagonal([g, affine(Ad_inverse.T, np.asarray(q[1]), 1.0)])

    turning = [
        _block_diagonal([E, affine(-ad.T, np.zeros(n), 0.0)]) for E, ad in zip(part.basis, part.structure, strict=True)
    ]
    shifting = [_block_diagonal([0 * part.basis[0], affine(np.zeros((n, n)), e, 0.0)]) for e in np.eye(n)]
    return Representation(np.array(turning + shifting), matrix, (*part.powers, *powers, 0))


def _block_diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    size = sum(len(block) for block in blocks)
    result, at = np.zeros((size, size)), 0
    for block in blocks:
        result[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return result
