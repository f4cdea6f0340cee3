"""Eigenvalues of linearised equations of motion: all of them densely, or the lowest by shifted Lanczos."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, splu
from scipy.sparse.linalg import eigs as _eigs
from scipy.sparse.linalg import eigsh as _eigsh

from polhode.analysis.statics._linearisation import LinearisedEquations, Spectrum, null_space

# What SciPy returns depends on options that type checkers don't follow.
eig: Any = linalg.eig
qr: Any = linalg.qr
eigs: Any = _eigs
eigsh: Any = _eigsh

_ROUND_OFF = 64 * np.finfo(float).eps
_ZERO = 1e-8
"""Eigenvalues below this fraction of the lowest frequency are zeros."""


def oscillations(stiffness: np.ndarray) -> np.ndarray:
    """Eigenvalues s of s² + κ = 0: iω, or the growing one of ±σ."""
    return np.where(stiffness < 0, np.sqrt(np.maximum(-stiffness, 0)) + 0j, 1j * np.sqrt(np.maximum(stiffness, 0)))


def dense(linear: LinearisedEquations) -> tuple[Spectrum, np.ndarray]:
    """All modes, and the displacement by which the state is off its equilibrium (infinite where nothing resists)."""
    N = null_space(linear.B.toarray())
    M, C, K = (N.T @ (X @ N) for X in (linear.M, linear.C, linear.K))
    M, size = (M + M.T) / 2, np.abs(N).T @ (abs(linear.K) @ np.abs(N))
    _, modes = linalg.eigh((K + K.T) / 2, M)
    # Quotients are more accurate than eigenvalues, whose error is round-off of the largest.
    K_modal = modes.T @ K @ modes
    noise = _ROUND_OFF * np.abs(modes).T @ size @ np.abs(modes)
    K_modal = np.where(np.abs(K_modal) <= noise, 0.0, K_modal)
    stiffness = np.diag(K_modal)
    displacements = _static(stiffness, modes.T @ (N.T @ linear.r))
    off = N @ modes @ displacements if np.isfinite(displacements).all() else np.full(len(linear.r), np.inf)
    if linear.symmetric:
        order = np.argsort(stiffness, kind="stable")
        return Spectrum(oscillations(stiffness[order]), (N @ modes)[:, order]), off
    spectrum = _first_order(K_modal, modes.T @ C @ modes)
    return Spectrum(spectrum.eigenvalues, N @ modes @ spectrum.shapes), off


def _static(stiffness: np.ndarray, force: np.ndarray) -> np.ndarray:
    """Displacements along modes under forces; infinite where neither resistance is nor the force vanishes."""
    resists = stiffness != 0
    lowest = np.min(np.abs(stiffness[resists]), initial=np.inf)
    small = np.abs(force) <= 1e-10 * (lowest if np.isfinite(lowest) else 1.0)
    return np.where(resists, force / np.where(resists, stiffness, 1.0), np.where(small, 0.0, np.inf))


def _first_order(K: np.ndarray, C: np.ndarray) -> Spectrum:
    """Modes of ÿ + C ẏ + K y = 0."""
    n = K.shape[0]
    A = np.block([[np.zeros((n, n)), np.eye(n)], [-K, -C]])
    values, vectors = eig(A)
    rest = n - np.linalg.matrix_rank(K, tol=0.0 if not K.any() else None)
    return _one_of_each_pair(values, vectors[:n], np.sqrt(np.abs(np.diag(K))), int(rest))


def _one_of_each_pair(values: np.ndarray, shapes: np.ndarray, frequencies: np.ndarray, rest: int) -> Spectrum:
    """One of each conjugate pair; of the eigenvalues zero as many as there are displacements at rest."""
    scale = np.min(frequencies[frequencies > 0], initial=np.max(np.abs(values), initial=0.0))
    values = np.where(np.abs(values) <= _ZERO * scale, 0.0, values)
    real = np.abs(np.imag(values)) <= _ZERO * np.abs(values)
    values = np.where(real, np.real(values) + 0j, values)
    zeros = np.flatnonzero(values == 0)[:rest]
    indices = np.concatenate((zeros, np.flatnonzero((values != 0) & (np.imag(values) >= 0))))
    order = indices[np.lexsort((-np.real(values[indices]), np.imag(values[indices]), np.abs(values[indices])))]
    return Spectrum(values[order], shapes[:, order])


def about_motion(A: np.ndarray, displacements: np.ndarray) -> Spectrum:
    """All modes of ẋ = A x, with the displacements of x as columns."""
    values, vectors = eig(A)
    frequencies = np.abs(values)
    scale = np.max(frequencies, initial=0.0)
    # Zeros come in blocks of two: perturbed by round-off as its square root.
    values = np.where(frequencies <= 1e-6 * scale, 0.0, values)
    return _one_of_each_pair(values, displacements @ vectors, np.abs(values), int(np.sum(values == 0)))


def lowest(linear: LinearisedEquations, number: int) -> tuple[Spectrum, np.ndarray]:
    """The `number` modes nearest to zero, and the displacement by which the state is off its equilibrium."""
    n, shift = linear.M.shape[0], _shift(linear)
    solve = _solver(linear, shift)
    off = solve(linear.r)
    if not linear.symmetric:
        return _lowest_damped(linear, number, np.sqrt(shift)), off
    root = _root(linear.M)
    count = min(number, n - 1)
    inverse = LinearOperator((n, n), lambda x: root.T @ solve(root @ x), dtype=float)
    start = root.T @ solve(np.random.default_rng(0).standard_normal(n))
    _, vectors = eigsh(inverse, count, which="LM", v0=start, tol=0)
    shapes = np.column_stack([solve(root @ x) for x in vectors.T])
    shapes = shapes @ linalg.inv(linalg.cholesky(shapes.T @ (linear.M @ shapes)))
    values, rotation = linalg.eigh(_symmetric(shapes.T @ (linear.K @ shapes)))
    shapes = shapes @ rotation
    values = np.where(np.abs(values) <= _noise(linear.K, shapes), 0.0, values)
    return Spectrum(oscillations(values), shapes), off


def _lowest_damped(linear: LinearisedEquations, number: int, shift: float) -> Spectrum:
    """Eigenvalues nearest to a positive shift, of s (x, ẋ) = (ẋ, -M⁻¹(Cẋ + Kx)) with B x = 0."""
    n = linear.M.shape[0]
    solve = _solver(linear, shift * shift, shift)

    def inverse(y: np.ndarray) -> np.ndarray:
        # Velocities are divided by the shift, so that both halves are displacements.
        x, w = y[:n], shift * y[n:]
        displacement = -solve(linear.M @ (w + shift * x) + linear.C @ x)
        return np.concatenate((displacement, (x + shift * displacement) / shift))

    operator = LinearOperator((2 * n, 2 * n), inverse, dtype=float)
    start = inverse(np.random.default_rng(0).standard_normal(2 * n))
    reciprocal, vectors = eigs(operator, min(2 * number + 2, 2 * n - 2), which="LM", v0=start)
    values = shift + 1 / reciprocal
    spectrum = _one_of_each_pair(values, vectors[:n], np.array([shift]), number)
    return Spectrum(spectrum.eigenvalues[:number], spectrum.shapes[:, :number])


def _solver(linear: LinearisedEquations, mass: float, damping: float = 0.0) -> Callable[[np.ndarray], np.ndarray]:
    """x of (K + damping C + mass M) x + Bᵀλ = b, B x = 0."""
    A = linear.K + damping * linear.C + mass * linear.M
    n, m = A.shape[0], linear.B.shape[0]
    whole = sparse.block_array([[A, linear.B.T], [linear.B, None]]) if m else A
    lu = splu(sparse.csc_matrix(whole))
    return lambda b: lu.solve(np.concatenate((b, np.zeros((m, *b.shape[1:])))))[:n]


def _shift(linear: LinearisedEquations) -> float:
    """About the square of the lowest frequency that is not zero, found by inverse iteration of a few vectors."""
    n = linear.M.shape[0]
    shift = 1e-3 * np.abs(linear.K.diagonal()).sum() / linear.M.diagonal().sum()
    X = np.random.default_rng(1).standard_normal((n, min(12, n)))
    for _ in range(20):
        solve = _solver(linear, shift)
        for _ in range(2):
            X = qr(solve(linear.M @ X), mode="economic")[0]
        K, M = _symmetric(X.T @ (linear.K @ X)), _symmetric(X.T @ (linear.M @ X))
        values, vectors = linalg.eigh(K, M)
        nonzero = np.abs(values[np.abs(values) > _noise(linear.K, X @ vectors)])
        if not nonzero.size:
            break
        if 0.25 * shift <= nonzero.min() <= 4 * shift:
            return float(nonzero.min())
        shift = float(nonzero.min())
    return float(shift)


def _noise(K: Any, shapes: np.ndarray) -> np.ndarray:
    """Round-off of the quotients xᵀK x."""
    return _ROUND_OFF * np.sum(np.abs(shapes) * (abs(K) @ np.abs(shapes)), axis=0)


def _symmetric(A: np.ndarray) -> np.ndarray:
    return (A + A.T) / 2


def _root(M: Any) -> Any:
    """L with L Lᵀ = M."""
    lu = splu(sparse.csc_matrix(M), permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return sparse.csr_matrix(lu.L @ sparse.diags_array(np.sqrt(lu.U.diagonal())))
