"""Modes of a free body: static ones of its interfaces and vibrations, without its rigid-body motions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from polhode.flexible.matrices import Nodal
from polhode.flexible.nodes import Attachment

Columns = Float[np.ndarray, "n k"]

_DENSE = 500
"""Displacements up to which all vibrations are computed at once, in less than a second."""

_FALLS_APART = (
    "`stiffness` lets more than the six rigid-body motions pass without resistance: the part consists of several, or "
    "some of its displacements have no stiffness. Give one connected part."
)

_RANK = 1e-9
"""Singular values below this fraction of the largest count as zero."""


def component_modes(body: Nodal, interfaces: Sequence[Attachment], count: int) -> Columns:
    r"""Static modes of interfaces and the lowest vibrations with these held, without rigid-body motions.

    With the displacements Cu of interfaces, static modes minimise the energy of strain at Cu = e_i, and vibrations
    have Cu = 0: the components of R. R. Craig & M. C. C. Bampton (1968). Rigid-body motions that the interfaces do not
    hold are held by inertia, $\Phi_r^TMu = 0$, with no interface at all the free–free modes. Of both together, the
    modes of the free body are taken: their span is that of the components and rigid-body motions.

    ??? cite "Reference"
        R. R. Craig, M. C. C. Bampton, Coupling of substructures for dynamic analyses, AIAA J. 6 (1968), 1313-1319.
    """
    rigid = body.rigid
    interface_rows = np.concatenate([at.rows for at in interfaces]) if interfaces else np.zeros((0, len(rigid)))
    _check_distinct(interfaces, interface_rows)
    loose = _null_space(interface_rows @ rigid / np.maximum(np.linalg.norm(rigid, axis=0), 1e-300))
    loose = loose / np.maximum(np.linalg.norm(rigid, axis=0), 1e-300)[:, None]
    rows = np.concatenate((interface_rows, (body.mass @ (rigid @ loose)).T))
    solve = _held_solver(body.stiffness, rows)
    columns = (
        [solve(np.zeros((len(rigid), len(interface_rows))), np.eye(len(rows), len(interface_rows)))]
        if len(interface_rows)
        else []
    )
    if count:
        columns.append(_vibrations(body, rows, solve, count))
    shapes = np.concatenate(columns, axis=1)
    if not np.isfinite(shapes).all():
        raise ValueError(_FALLS_APART)
    return free_modes(body, shapes, shapes.shape[1] - (6 - loose.shape[1]))


def _check_distinct(interfaces: Sequence[Attachment], interface_rows: Float[np.ndarray, "r n"]) -> None:
    """Raises ValueError if displacements of some interfaces follow from those of others."""
    rows = interface_rows / np.linalg.norm(interface_rows, axis=1, keepdims=True)
    left_vectors, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    follow = left_vectors[:, sizes < _RANK * np.max(sizes, initial=0.0)]
    if follow.shape[1] == 0 and len(rows) <= rows.shape[1]:
        return
    owners = np.repeat([at.name for at in interfaces], [len(at.rows) for at in interfaces])
    among = dict.fromkeys(owners[np.max(np.abs(follow), axis=1) > 1e-6].tolist())
    raise ValueError(
        f"The displacements of {', '.join(map(repr, among))} follow from each other, so they can't have static modes "
        "of their own: they share nodes. Leave some of them out of `interfaces`; joints and forces may be attached "
        "there all the same."
    )


def relative_to_mean(body: Nodal, shapes: Columns) -> Columns:
    """Shapes less the rigid-body motion that leaves them without linear and angular momentum (Tisserand's frame)."""
    rigid = body.rigid
    momenta = body.mass @ rigid
    # Twice: rigid parts may be far larger than the rest.
    for _ in range(2):
        shapes = shapes - rigid @ np.linalg.solve(rigid.T @ momenta, momenta.T @ shapes)
    return shapes


def relative_to(body: Nodal, at: Attachment, shapes: Columns) -> Columns:
    """Shapes less the rigid-body motion of a node, so that it neither moves nor turns. The node must turn."""
    motion = np.linalg.solve(at.rows @ body.rigid, at.rows @ shapes)
    return shapes - body.rigid @ motion


def free_modes(body: Nodal, shapes: Columns, rank: int) -> Columns:
    """The modes of the free body in the span of shapes and rigid-body motions, by frequency.

    With $\\Phi^TM\\Phi = 1$; `rank` of them, signed so that the largest displacement is positive.
    """
    units = np.sqrt(np.einsum("nk,nk->k", shapes, body.mass @ shapes))
    basis = relative_to_mean(body, shapes / np.where(units > 0, units, 1.0))
    sizes, turn = np.linalg.eigh(_within(body.mass, basis))
    projection = turn[:, len(sizes) - rank :] / np.sqrt(sizes[len(sizes) - rank :])
    basis = relative_to_mean(body, basis @ projection)
    _, vectors = scipy.linalg.eigh(_within(body.stiffness, basis), _within(body.mass, basis))
    modes = basis @ vectors
    largest = np.argmax(np.abs(modes), axis=0)
    return modes * np.sign(modes[largest, np.arange(modes.shape[1])])


def _within(matrix: Any, basis: Columns) -> Float[np.ndarray, "k k"]:
    projected = basis.T @ (matrix @ basis)
    return 0.5 * (projected + projected.T)


def _null_space(rows: Float[np.ndarray, "r c"]) -> Float[np.ndarray, "c d"]:
    """An orthonormal basis of the null space of rows."""
    if not len(rows):
        return np.eye(rows.shape[1])
    _, sizes, right = np.linalg.svd(rows)
    return right[int(np.sum(sizes > _RANK * np.max(sizes, initial=0.0))) :].T


def _in_units(K: Any, rows: Float[np.ndarray, "r n"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Units of displacements with unit stiffness, factors of rows, and the scaled rows of length 1."""
    stiff = K.diagonal()
    if not (stiff > 0).all():
        raise ValueError(
            f"`stiffness` has none for {int(np.sum(stiff <= 0))} displacements, the first of them number "
            f"{int(np.argmin(stiff > 0))}; leave such displacements out."
        )
    unit = 1 / np.sqrt(stiff)
    C = rows * unit
    weight = 1 / np.linalg.norm(C, axis=1)
    return unit, weight, C * weight[:, None]


def _held_solver(K: Any, rows: Float[np.ndarray, "r n"]) -> Callable[[Columns, Columns], Columns]:
    """Solves K u + Cᵀλ = f, C u = d for u; K is definite where C u = 0."""
    n, r = K.shape[0], len(rows)
    unit, weight, C = _in_units(K, rows)
    if scipy.sparse.issparse(K):
        D = scipy.sparse.diags_array(unit)
        saddle = scipy.sparse.block_array([[D @ K @ D, scipy.sparse.csr_array(C).T], [scipy.sparse.csr_array(C), None]])
        try:
            solve = scipy.sparse.linalg.splu(scipy.sparse.csc_matrix(saddle)).solve
        except RuntimeError as error:
            raise ValueError(_FALLS_APART) from error
    else:
        saddle = np.block([[K * unit[:, None] * unit, C.T], [C, np.zeros((r, r))]])
        factors = scipy.linalg.lu_factor(saddle)
        solve = lambda right: scipy.linalg.lu_solve(factors, right)  # noqa: E731

    def solution(f: Columns, d: Columns) -> Columns:
        right = np.concatenate((f * unit[:, None], d * weight[:, None]))
        return unit[:, None] * solve(right)[:n]

    return solution


def _vibrations(
    body: Nodal, rows: Float[np.ndarray, "r n"], solve: Callable[[Columns, Columns], Columns], count: int
) -> Columns:
    """The lowest modes with rows held, of M φ = ω⁻² K φ; massless directions are of infinite frequency."""
    n, r = len(body.rigid), len(rows)
    if n <= _DENSE or 2 * count + 20 > n - r:
        unit, _, C = _in_units(body.stiffness, rows)
        Z = unit[:, None] * _null_space(C)
        first = max(0, n - r - count)
        _, vectors = scipy.linalg.eigh(
            _within(body.mass, Z), _within(body.stiffness, Z), subset_by_index=(first, n - r - 1)
        )
        return Z @ vectors[:, ::-1]
    none = np.zeros((r, 1))
    inverse = scipy.sparse.linalg.LinearOperator((n, n), matvec=lambda x: solve(np.reshape(x, (n, 1)), none)[:, 0])
    start = inverse @ (body.mass @ np.random.default_rng(0).standard_normal(n))
    _, vectors = scipy.sparse.linalg.eigsh(
        body.stiffness, count, M=body.mass, sigma=0.0, which="LM", OPinv=inverse, v0=start
    )
    return vectors
