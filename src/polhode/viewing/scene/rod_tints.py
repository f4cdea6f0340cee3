"""Strains and section forces of rods that colour their tubes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.multibody.mechanism.poses import Pose
from polhode.rods.edge import Edge
from polhode.rods.strain import MEASURES, AbstractStrain
from polhode.viewing.scene.scene import Tints

NAMES = (
    "axial strain",
    "shear strain",
    "curvature",
    "twist",
    "axial force",
    "shear force",
    "bending moment",
    "torque",
)
KINDS = ("strain", "strain", "curvature", "curvature", "force", "force", "moment", "moment")
"""Quantities that colours show, strains first, and their kinds."""
_STIFFEST = 1e-9
"""Relative stiffness below which a strain counts as constrained: its force is unknown."""


def to_dict(edges: Sequence[Edge]) -> dict[str, Any]:
    """Rest shapes, lengths, stiffnesses and frames of a rod's edges, for computing strains, as plain values."""
    first = edges[0].shape.strain
    return {
        "measure": next(name for name, kind in MEASURES.items() if isinstance(first, kind)),
        "rest": [np.asarray(edge.shape.rest).tolist() for edge in edges],
        "lengths": [float(edge.shape.length) for edge in edges],
        "stiffness": [np.asarray(edge.stiffness).tolist() for edge in edges],
        "frames": [
            [None if frame is None else [np.asarray(frame.x).tolist(), np.asarray(frame.R).tolist()] for frame in ends]
            for ends in ((edges[0].shape.frames[0], None), (None, edges[-1].shape.frames[1]))
        ],
    }


def from_dict(edges: Mapping[str, Any], rows: Sequence[int], pose: Callable[[Any, int], Pose]) -> Tints:
    """Tints of a rod with nodes in some rows of the outputs; `pose` reads the pose of a row from them."""
    C = np.asarray(edges["stiffness"])
    free = [i for i in range(6) if np.max(C[:, i, i]) > _STIFFEST * np.max(C)]
    # Axial: 5; shear: 3, 4; bending: 0, 1; torsion: 2 of (K, Γ).
    parts = ((5,), (3, 4), (0, 1), (2,))
    indices = [*range(4), *(4 + k for k, part in enumerate(parts) if set(part) <= set(free))]
    values = _EdgeValues(
        strain=MEASURES[edges["measure"]](),
        rest=jnp.asarray(edges["rest"]),
        lengths=jnp.asarray(edges["lengths"]),
        stiffness=jnp.asarray(C),
        ends=tuple(_end(frame) for frame in (edges["frames"][0][0], edges["frames"][1][1])),
        rows=tuple(rows),
        pose=pose,
        indices=tuple(indices),
    )
    return Tints(tuple(NAMES[k] for k in indices), tuple(KINDS[k] for k in indices), values)


def _end(frame: Any) -> Pose:
    return Pose(jnp.zeros(3), jnp.eye(3)) if frame is None else Pose(*map(jnp.asarray, frame))


class _EdgeValues(eqx.Module):
    """Strains minus those at rest, and elastic forces, of all edges in a frame: shape (edges, indices)."""

    strain: AbstractStrain
    rest: Float[Array, "e 6"]
    lengths: Float[Array, " e"]
    stiffness: Float[Array, "e 6 6"]
    ends: tuple[Pose, ...]
    rows: tuple[int, ...] = eqx.field(static=True)
    pose: Callable[[Any, int], Pose] = eqx.field(static=True)
    indices: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, t: Array, outputs: Mapping[str, Array]) -> Float[Array, "e indices"]:
        del t
        nodes = [self.pose(outputs, row) for row in self.rows]
        for place, frame in zip((0, -1), self.ends, strict=True):
            node = nodes[place]
            nodes[place] = Pose(node.x + node.R @ frame.x, node.R @ frame.R)
        x, R = jnp.stack([node.x for node in nodes]), jnp.stack([node.R for node in nodes])
        pairs = (Pose(x[:-1], R[:-1]), Pose(x[1:], R[1:]))
        d = jax.vmap(lambda ends: self.strain.increment(ends).vector)(pairs) - self.rest
        w = d / self.lengths[:, None]
        return jnp.concatenate((components(w), components(jnp.einsum("eij,ej->ei", self.stiffness, w))), axis=1)[
            :, np.array(self.indices)
        ]


def components(values: Float[Array, "e 6"]) -> Float[Array, "e 4"]:
    """Components of (K, Γ) or (M, N): axial, magnitude of shear, magnitude of bending, torsion."""
    across, bend = (jnp.linalg.norm(part, axis=1) for part in (values[:, 3:5], values[:, :2]))
    return jnp.stack((values[:, 5], across, bend, values[:, 2]), axis=1)
