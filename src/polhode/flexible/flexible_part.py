"""Flexible parts: reduced finite-element data for models, computed once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import nearest, short_repr
from polhode.compiler.numpy.eager import array_of
from polhode.flexible import reduction
from polhode.flexible.matrices import Nodal, axis_cross_products, nodal, points_of, symmetric
from polhode.flexible.nodes import Attachment, attachments
from polhode.multibody.formulations.modal_body import ModalBody

MEAN = "mean"
"""Name of the frame that follows the mean motion of all mass."""

_INERTIAL = (
    "mass",
    "inertia",
    "inertia_slopes",
    "inertia_curvatures",
    "spins",
    "spin_slopes",
    "first_moments",
    "modal_mass",
)
"""Integrals over the body that are linear in density."""

_DEPENDENT = 1e-9
"""Smallest share of a mode's kinetic energy that is independent of other modes and rigid-body motions."""


@dataclasses.dataclass(frozen=True, eq=False)
class FlexiblePart:
    """A flexible part, from `reduced` or `from_modes`; `Model.add_flexible` makes bodies of it.

    - `modal`: inertia, stiffness, damping and nodes in the modes that were kept.
    - `nodes`: names of the nodes to which parts may be attached.
    - `points`: of the finite elements, in the coordinates of the matrices, shape (N, 3).
    - `shapes`: displacements of all points in each mode, and rotations if there are any, shape (N, 3 or 6, k).
    - `centre`: centre of mass without deformation, in the coordinates of the matrices.
    - `frequencies`: ω of the free part in its modes, rad per time, shape (k,).
    - `losses`: damping in proportion to mass, to stiffness, and by damping ratios; None without any.
    """

    modal: ModalBody
    nodes: tuple[str, ...]
    points: Float[np.ndarray, "N 3"]
    shapes: Float[np.ndarray, "N width k"]
    centre: Float[np.ndarray, "3"]
    frequencies: Float[np.ndarray, " k"] | Array
    losses: tuple[Array, ...] | None

    def __repr__(self) -> str:
        return f"FlexiblePart({len(self.points)} points, {len(self.frequencies)} modes, nodes {', '.join(self.nodes)})"

    def displacements(self, amplitudes: Any) -> Array:
        """Displacements of all points in the frame of the body, shape (…, N, 3), from amplitudes (…, k)."""
        return jnp.einsum("nik,...k->...ni", self.shapes[:, :3], amplitudes)

    def scaled(self, stiffness: Any = 1.0, mass: Any = 1.0) -> FlexiblePart:
        """The part with all stiffness and all mass multiplied by numbers, such as Young's modulus and density.

        Its modes stay the same, in the same units. Both may be traced by JAX. Damping ratios and the factors of
        Rayleigh's damping stay.
        """
        f = checks.positive("stiffness", stiffness, (), "factor of stiffness")
        g = checks.positive("mass", mass, (), "factor of mass")
        modal = self.modal
        losses = None
        if self.losses is not None:
            losses = tuple(a * x for a, x in zip((g, f, jnp.sqrt(f * g)), self.losses, strict=True))
        heavier = {name: g * getattr(modal, name) for name in _INERTIAL}
        damping = None if losses is None else sum(losses[1:], start=losses[0])
        return dataclasses.replace(
            self,
            modal=dataclasses.replace(modal, **heavier, stiffness=f * modal.stiffness, damping=damping),
            frequencies=checks.readable(self.frequencies * jnp.sqrt(f / g)),
            losses=losses,
        )


def reduced(
    mass: Any,
    stiffness: Any,
    points: Any,
    *,
    nodes: Mapping[str, Any],
    modes: Any = 12,
    interfaces: Sequence[str] | None = None,
    frame: str = MEAN,
    damping: Any = 0.0,
    rayleigh: Any = (0.0, 0.0),
) -> FlexiblePart:
    r"""A flexible part from mass and stiffness matrices of finite elements.

    By default the modes are those of Craig and Bampton, made modes of the free body: static ones of the interfaces, six
    for each, and the lowest vibrations with the interfaces held. So forces of joints deform the part as they should,
    with few modes.

    **Arguments:**

    - `mass`, `stiffness`: of the free part, symmetric, arrays or SciPy's sparse matrices of shape (3N, 3N), or
      (6N, 6N) with small rotations: node by node (x, y, z) or (x, y, z, θx, θy, θz).
    - `points`: places of the N nodes, in the same axes, shape (N, 3).
    - `nodes`: where something may be attached, by name: the number of a node, a list of numbers or a `Patch`, which
      are averaged. A single node without rotations joins points only, as a mass point does.
    - `modes`: number of vibrations besides static modes; or shapes of your own, (3N or 6N, k), which are taken as they
      are but for rigid-body motions.
    - `interfaces`: names of nodes with static modes; by default all. None of them, `()`, gives free–free modes.
    - `frame`: what the frame of the body follows: "mean", the mean motion of all mass, so that small vibrations have
      no momentum in it; or the name of a node with rotations, to which it is fixed.
    - `damping`: damping ratios of the free part's modes, a number or (k,).
    - `rayleigh`: (α, β) of damping αM + βK of the deformation, besides.

    **Raises** ValueError for matrices that are not those of a free body, with what is wrong.
    """
    remedy = "Make the part with each value, and a model with it."
    checks.refuse_parameters(
        remedy, mass=mass, stiffness=stiffness, points=points, modes=modes, damping=damping, rayleigh=rayleigh
    )
    body, centre = nodal(mass, stiffness, points)
    named_nodes = attachments(nodes, body.points, body.width)
    if np.ndim(modes) == 0:
        none = isinstance(modes, (int, np.integer)) and not isinstance(modes, bool) and modes == 0
        count = 0 if none else checks.count("modes", modes, "number of vibrations")
        interface_nodes = _interfaces(named_nodes, interfaces)
        most = (
            len(body.points) * body.width - sum(len(at.rows) for at in interface_nodes) - (0 if interface_nodes else 6)
        )
        if count + len(interface_nodes) == 0 or count > most:
            raise ValueError(
                f"`modes` must be at most {most}, and at least 1 without `interfaces`; got {short_repr(modes)}."
            )
        shapes = reduction.component_modes(body, interface_nodes, count)
    else:
        shapes = _deformations(modes, body)
    return _part(
        body, centre, named_nodes, _relative_to_frame(body, named_nodes, frame, shapes), None, damping, rayleigh
    )


def from_modes(
    points: Any,
    masses: Any,
    shapes: Any,
    stiffness: Any,
    *,
    nodes: Mapping[str, Any],
    inertias: Any = None,
    frame: str = MEAN,
    damping: Any = 0.0,
    rayleigh: Any = (0.0, 0.0),
) -> FlexiblePart:
    """A flexible part from modes and lumped masses, as finite-element programs export them.

    **Arguments:**

    - `points`: places of the N nodes, shape (N, 3). - `masses`: of them, shape (N,).
    - `shapes`: displacements of the nodes in each mode, shape (N, 3, k), or (N, 6, k) with small rotations. Rigid-body
      motions are taken out of them.
    - `stiffness`: of the modes, shape (k, k), or (k,) if they don't couple.
    - `inertias`: moments of inertia of the nodes, shape (N, 3, 3), if there are rotations.
    - `nodes`, `frame`, `damping`, `rayleigh`: as for `reduced`.

    **Raises** ValueError for values that make no sense, with the remedy.
    """
    where = points_of(points)
    m = checks.positive("masses", masses, (len(where),), "of the nodes")
    displacements = checks.numbers("shapes", shapes, "displacements in each mode, shape (N, 3 or 6, k)")
    if (
        displacements.ndim != 3
        or displacements.shape[0] != len(where)
        or displacements.shape[1] not in (3, 6)
        or not displacements.shape[2]
    ):
        raise ValueError(f"`shapes` must be of shape ({len(where)}, 3 or 6, k), got {displacements.shape}.")
    width, count = displacements.shape[1:]
    if (inertias is None) != (width == 3):
        raise ValueError("`inertias` belong to rotations: give them with `shapes` of shape (N, 6, k), and only then.")
    K = checks.numbers("stiffness", stiffness, "of the modes, shape (k, k) or (k,)")
    K = symmetric("stiffness", np.diag(K) if K.ndim == 1 else K)
    if K.shape != (count, count):
        raise ValueError(f"`stiffness` must be of shape ({count}, {count}) or ({count},), got {np.shape(stiffness)}.")
    blocks = np.zeros((len(where), width, width))
    blocks[:, :3, :3] = np.asarray(m)[:, None, None] * np.eye(3)
    if width == 6:
        blocks[:, 3:, 3:] = np.asarray(checks.array("inertias", inertias, (len(where), 3, 3), "of the nodes"))
    M = scipy.sparse.csc_array(scipy.sparse.block_diag([scipy.sparse.coo_array(block) for block in blocks]))
    body, centre = nodal(M, scipy.sparse.csc_array(M.shape), where)
    named_nodes = attachments(nodes, body.points, width)
    free = _deformations(displacements.reshape(-1, count), body)
    return _part(body, centre, named_nodes, _relative_to_frame(body, named_nodes, frame, free), K, damping, rayleigh)


def _interfaces(nodes: Sequence[Attachment], names: Sequence[str] | None) -> list[Attachment]:
    if names is None:
        return list(nodes)
    return [_find_node(nodes, name, "interfaces") for name in checks.as_list("interfaces", names, "names of nodes")]


def _find_node(nodes: Sequence[Attachment], name: Any, argument: str) -> Attachment:
    names = [at.name for at in nodes]
    if name not in names:
        raise ValueError(
            f"`{argument}` names {short_repr(name)}, which is no node.{nearest(name, names)} There are "
            f"{', '.join(names)}."
        )
    return nodes[names.index(name)]


def _shapes(modes: Any, body: Nodal) -> Float[np.ndarray, "n k"]:
    shapes = checks.numbers("modes", modes, "shapes, one a column")
    size = len(body.points) * body.width
    if shapes.ndim != 2 or shapes.shape[0] != size or not shapes.shape[1] or not np.isfinite(shapes).all():
        raise ValueError(f"Shapes must be finite and of shape ({size}, k), one a column, got {shapes.shape}.")
    return shapes


def _deformations(modes: Any, body: Nodal) -> Float[np.ndarray, "n k"]:
    """Given shapes without rigid-body motions. Raises ValueError if only round-off remains."""
    shapes = _shapes(modes, body)
    free = reduction.relative_to_mean(body, shapes)
    _check_independent(free.T @ (body.mass @ free), shapes.T @ (body.mass @ shapes))
    return free


def _relative_to_frame(body: Nodal, nodes: Sequence[Attachment], frame: Any, shapes: Any) -> Float[np.ndarray, "n k"]:
    """Shapes relative to the frame."""
    if frame == MEAN:
        return shapes
    at = _find_node(nodes, frame, "frame")
    if not at.turns:
        raise ValueError(
            f"`frame` names {frame!r}, which doesn't say how it turns; take a node with rotations, several nodes, or "
            f"{MEAN!r}."
        )
    return reduction.relative_to(body, at, shapes)


def _part(
    body: Nodal,
    centre: Float[np.ndarray, "3"],
    nodes: Sequence[Attachment],
    shapes: Float[np.ndarray, "n k"],
    stiffness: Float[np.ndarray, "k k"] | None,
    damping: Any,
    rayleigh: Any,
) -> FlexiblePart:
    k = shapes.shape[1]
    rigid = body.rigid
    M, K = body.mass, shapes.T @ (body.stiffness @ shapes) if stiffness is None else stiffness
    momenta = M @ shapes
    relative = shapes.T @ (M @ reduction.relative_to_mean(body, shapes))
    relative, K = 0.5 * (relative + relative.T), 0.5 * (K + K.T)
    _check_independent(relative, shapes.T @ momenta)
    squares, vectors = scipy.linalg.eigh(K, relative)
    if squares[0] < -1e-8 * abs(squares[-1]):
        raise ValueError(f"The stiffness of the modes has a negative direction, ω² = {squares[0]:.3g}.")
    frequencies = np.sqrt(np.maximum(squares, 0.0))
    rotated = axis_cross_products(shapes)
    rotated_momenta = (M @ rotated.reshape(len(rigid), -1)).reshape(rotated.shape)
    cross = np.einsum("ni,naj->aij", rigid[:, 3:], rotated_momenta)
    quadratic = np.einsum("nai,nbj->abij", rotated, rotated_momenta, optimize=True)
    inertia = rigid[:, 3:].T @ (M @ rigid[:, 3:])
    mass = float(np.trace(rigid[:, :3].T @ (M @ rigid[:, :3]))) / 3
    zero = np.zeros((3, k))
    first = rigid[:, :3].T @ momenta
    numbers = {
        "mass": np.array(mass),
        "inertia": 0.5 * (inertia + inertia.T),
        "inertia_slopes": cross + cross.swapaxes(1, 2),
        "inertia_curvatures": 0.5 * (quadratic + quadratic.swapaxes(2, 3)),
        "spins": rigid[:, 3:].T @ momenta,
        "spin_slopes": np.einsum("nai,nk->aik", rotated, momenta, optimize=True),
        "first_moments": first,
        "modal_mass": shapes.T @ momenta,
        "stiffness": K,
        "points": np.stack((np.zeros(3), *(at.point for at in nodes))),
        "shapes": np.stack((first / mass, *(at.rows[:3] @ shapes for at in nodes))),
        "turns": np.stack((zero, *(at.rows[3:] @ shapes if at.turns else zero for at in nodes))),
    }
    losses = _losses(relative, K, vectors, frequencies, damping, rayleigh)
    return FlexiblePart(
        modal=ModalBody(
            **{name: array_of(np.array(value, order="C")) for name, value in numbers.items()},
            damping=None if losses is None else array_of(sum(losses[1:], start=losses[0])),
            rotates=(False, *(at.turns for at in nodes)),
        ),
        nodes=tuple(at.name for at in nodes),
        points=body.points + centre,
        shapes=shapes.reshape(len(body.points), body.width, k),
        centre=centre,
        frequencies=frequencies,
        losses=None if losses is None else tuple(map(array_of, losses)),
    )


def _check_independent(relative: Float[np.ndarray, "k k"], whole: Float[np.ndarray, "k k"]) -> None:
    unit = 1 / np.sqrt(np.maximum(np.diag(whole), 1e-300))
    if not np.linalg.eigvalsh(relative * unit[:, None] * unit)[0] > _DEPENDENT:
        raise ValueError(
            "The modes depend on each other or on rigid-body motions, which the frame has already. Leave rigid-body "
            "modes out, and modes that are sums of others."
        )


def _losses(
    relative: Float[np.ndarray, "k k"],
    K: Float[np.ndarray, "k k"],
    vectors: Float[np.ndarray, "k k"],
    frequencies: Float[np.ndarray, " k"],
    ratios: Any,
    rayleigh: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """αM and βK of the deformation, and the matrix of the damping ratios; None without damping."""
    zeta = checks.numbers("damping", ratios, "damping ratios, a number or one for each mode")
    factors = checks.numbers("rayleigh", rayleigh, "factors (α, β) of mass and stiffness")
    if zeta.shape not in ((), frequencies.shape) or factors.shape != (2,):
        raise ValueError(
            f"`damping` must be a number or one for each of {frequencies.size} modes, `rayleigh` two numbers; got "
            f"shapes {zeta.shape} and {factors.shape}."
        )
    if not (np.isfinite(zeta) & (zeta >= 0)).all() or not (np.isfinite(factors) & (factors >= 0)).all():
        raise ValueError("`damping` and `rayleigh` must not be negative.")
    if not zeta.any() and not factors.any():
        return None
    normal = relative @ vectors
    return factors[0] * relative, factors[1] * K, (normal * (2 * zeta * frequencies)) @ normal.T
