"""Mass and stiffness matrices of finite elements: checks, and rigid-body motions."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from polhode import checks
from polhode.checks import short_repr

Matrix = Any
"""An array, or one of SciPy's sparse arrays."""

SYMMETRY_TOLERANCE = 1e-8
"""Tolerated asymmetry of a matrix, relative to its largest entry; it is symmetrised."""

RIGID_TOLERANCE = 1e-6
"""Largest force against a rigid-body motion, relative to those of its single displacements."""

_THIN = 1e-12
"""Smallest principal moment of inertia, relative to the largest."""

_SHIFT = 1e-8
"""Tolerance for negative eigenvalues, in units of single displacements."""

_MOTIONS = *(f"translation along {axis}" for axis in "xyz"), *(f"rotation about {axis}" for axis in "xyz")


@dataclasses.dataclass(frozen=True, eq=False)
class Nodal:
    """Points with three displacements each, or with three displacements and three small rotations.

    - `points`: without deformation, shape (N, 3), about the centre of mass.
    - `mass`, `stiffness`: of the displacements, node by node.
    - `width`: number of displacements of a node, 3 or 6.
    """

    points: Float[np.ndarray, "N 3"]
    mass: Matrix
    stiffness: Matrix
    width: int

    @property
    def rigid(self) -> Float[np.ndarray, "n 6"]:
        """Displacements of small rigid-body motions: three translations, three rotations about the origin."""
        return rigid_motions(self.points, self.width)


def points_of(value: Any) -> Float[np.ndarray, "N 3"]:
    """Places of nodes. Raises ValueError unless they are a finite (N, 3) array."""
    points = checks.numbers("points", value, "places of the nodes, shape (N, 3)")
    if points.ndim != 2 or points.shape[1] != 3 or not len(points) or not np.isfinite(points).all():
        raise ValueError(f"`points` must be places of the nodes, finite and of shape (N, 3), got shape {points.shape}.")
    return points


def rigid_motions(points: Float[np.ndarray, "N 3"], width: int) -> Float[np.ndarray, "n 6"]:
    """Displacements of all nodes, columns as in `Nodal.rigid`."""
    motions = np.zeros((len(points), width, 6))
    motions[:, :3, :3] = np.eye(3)
    motions[:, :3, 3:] = -skew(points)
    if width == 6:
        motions[:, 3:, 3:] = np.eye(3)
    return motions.reshape(-1, 6)


def axis_cross_products(shapes: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k 3"]:
    """e_j × all vectors of three displacements or rotations: rates of shapes when the frame turns about e_j."""
    vectors = shapes.reshape(-1, 3, shapes.shape[1])
    products = np.cross(np.eye(3)[None, :, None, :], vectors.swapaxes(1, 2)[:, None], axis=-1)
    return products.transpose(0, 3, 2, 1).reshape(*shapes.shape, 3)


def skew(vectors: Float[np.ndarray, "... 3"]) -> Float[np.ndarray, "... 3 3"]:
    """Matrices of cross products."""
    x, y, z = np.moveaxis(vectors, -1, 0)
    zero = np.zeros_like(x)
    rows = [np.stack(row, axis=-1) for row in ((zero, -z, y), (z, zero, -x), (-y, x, zero))]
    return np.stack(rows, axis=-2)


def nodal(mass: Any, stiffness: Any, points: Any) -> tuple[Nodal, Float[np.ndarray, "3"]]:
    """Checked matrices about their centre of mass, and its position. Raises ValueError, with the reason."""
    where = points_of(points)
    M, K = symmetric("mass", mass), symmetric("stiffness", stiffness)
    size = M.shape[0]
    if K.shape != M.shape:
        raise ValueError(
            f"`mass` has shape {M.shape} and `stiffness` {K.shape}; they must be of the same displacements."
        )
    if size not in (3 * len(where), 6 * len(where)):
        raise ValueError(
            f"{len(where)} points have {3 * len(where)} displacements, or {6 * len(where)} with rotations, and `mass` "
            f"has shape {M.shape}. Displacements go node by node: (x, y, z) or (x, y, z, θx, θy, θz)."
        )
    width = size // len(where)
    if not _semidefinite(M, M):
        raise ValueError("`mass` has a negative direction: it must be positive semidefinite.")
    if not _semidefinite(K, M):
        raise ValueError("`stiffness` has a negative direction: it must be positive semidefinite, without prestress.")
    centre = _centre(M, where, width)
    body = Nodal(where - centre, M, K, width)
    inertia = body.rigid[:, 3:].T @ (M @ body.rigid[:, 3:])
    moments = np.linalg.eigvalsh(0.5 * (inertia + inertia.T))
    if not moments[0] > _THIN * moments[2]:
        raise ValueError(
            f"`mass` has the moments of inertia {moments.tolist()} about its centre: it lies on a line. Give its nodes "
            "rotations with moments of inertia, or mass beside the line."
        )
    _check_free(K, body.rigid)
    return body, centre


def symmetric(name: str, value: Any) -> Matrix:
    """A symmetric matrix of finite real numbers; sparse ones stay sparse. Raises ValueError for others."""
    if scipy.sparse.issparse(value):
        if np.dtype(value.dtype).kind not in "biuf":
            raise ValueError(f"`{name}` must be of real numbers, got a sparse matrix of {value.dtype}.")
        matrix: Any = scipy.sparse.csc_array(value).astype(float)
        entries = matrix.data
    else:
        matrix = checks.numbers(name, value, "a square matrix, NumPy's or one of SciPy's sparse ones")
        entries = matrix
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"`{name}` must be a square matrix, got shape {matrix.shape}.")
    if not np.isfinite(entries).all():
        raise ValueError(f"`{name}` must be of finite numbers, got {short_repr(entries)}.")
    off, largest = float(abs(matrix - matrix.T).max()), float(abs(matrix).max())
    if off > SYMMETRY_TOLERANCE * largest:
        raise ValueError(f"`{name}` must be symmetric; entries differ from their mirror images by up to {off:.3g}.")
    return 0.5 * (matrix + matrix.T)


def _semidefinite(A: Matrix, scale: Matrix) -> bool:
    """Whether no eigenvalue of a symmetric matrix is far below zero: whether a shifted one has positive pivots."""
    size = float(abs(A).max()) or 1.0
    weight = scale.diagonal()
    # Scaled by single displacements: translations and rotations have different units.
    own = np.maximum(A.diagonal(), 1e-9 * size * weight / (float(np.max(weight)) or 1.0))
    unit = 1 / np.sqrt(np.where(own > 0, own, size))
    if not scipy.sparse.issparse(A):
        try:
            np.linalg.cholesky(A * unit[:, None] * unit + _SHIFT * np.eye(len(A)))
        except np.linalg.LinAlgError:
            return False
        return True
    D = scipy.sparse.diags_array(unit)
    shifted_matrix = scipy.sparse.csc_matrix(D @ A @ D + _SHIFT * scipy.sparse.eye_array(A.shape[0]))
    options = {"SymmetricMode": True}
    try:
        factors = scipy.sparse.linalg.splu(
            shifted_matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
        )
    except RuntimeError:
        # Singular: some eigenvalue equals minus the shift.
        return False
    return bool((factors.U.diagonal() > 0).all())


def _centre(M: Matrix, points: Float[np.ndarray, "N 3"], width: int) -> Float[np.ndarray, "3"]:
    """The centre of mass. Raises ValueError unless M is the mass matrix of a free body."""
    motions = rigid_motions(points, width)
    whole = motions.T @ (M @ motions)
    masses, levers = whole[:3, :3], whole[:3, 3:]
    m = float(np.trace(masses)) / 3
    if not m > 0:
        raise ValueError(f"`mass` has no mass in translations: {short_repr(masses.tolist())}.")
    # m x ω, with the cross product's matrix of the first moments.
    moments = np.array([levers[1, 2], levers[2, 0], levers[0, 1]])
    size = m * max(1e-12, float(np.max(np.linalg.norm(points, axis=1))))
    if np.max(np.abs(masses - m * np.eye(3))) > 1e-6 * m or np.max(np.abs(levers + skew(moments))) > 1e-6 * size:
        raise ValueError(
            "`mass` is not that of a body: as a whole it must have the same mass along all axes, and turn about one "
            f"centre of mass; translations have {short_repr(masses.tolist())}. Are the displacements in the order of "
            "the points, node by node?"
        )
    return moments / m


def _check_free(K: Matrix, rigid: Float[np.ndarray, "n 6"]) -> None:
    """Raises ValueError if stiffness resists rigid-body motions."""
    forces = np.abs(K @ rigid)
    most = np.maximum(np.max(abs(K) @ np.abs(rigid), axis=0), 1e-300)
    resisted = [
        name for name, share in zip(_MOTIONS, np.max(forces, axis=0) / most, strict=True) if share > RIGID_TOLERANCE
    ]
    if resisted:
        raise ValueError(
            f"`stiffness` resists {', '.join(resisted)}: give the matrix of the free body, without supports (joints "
            "hold it in the model), and `points` in the order of its displacements."
        )
