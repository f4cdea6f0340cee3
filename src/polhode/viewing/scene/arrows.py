"""Arrows of a model's bodies: velocities, momenta and weights, read from the outputs of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Pose
from polhode.viewing.scene.scene import Arrows
from polhode.viewing.style import COLOURS

_MOST = 64
"""Largest number of bodies with arrows."""


def to_dict(bodies: Sequence[Body], rows: Mapping[str, int], gravity: np.ndarray) -> dict[str, Any]:
    """Masses, inertias and gravity as plain values; empty for more than `_MOST` bodies."""
    heavy = [body for body in bodies if float(body.mass) > 0]
    if not heavy or len(heavy) > _MOST:
        return {}
    return {
        "rows": [rows[body.name] for body in heavy],
        "masses": [float(body.mass) for body in heavy],
        "inertias": [np.broadcast_to(np.asarray(body.inertia), (3, 3)).tolist() for body in heavy],
        "gravity": gravity.tolist(),
    }


def from_dict(description: Mapping[str, Any], pose: Callable[[Any, int], Pose]) -> Iterable[Arrows]:
    """The arrows from a description; `pose` reads the pose of a row from the outputs."""
    if not description:
        return
    rows, masses = tuple(description["rows"]), np.asarray(description["masses"])
    feet = _Feet(rows)
    yield Arrows("velocity", "velocity", feet, _Linear(rows, np.ones(len(rows))), COLOURS[2], ("velocities",))
    yield Arrows("linear momentum", "momentum", feet, _Linear(rows, masses), COLOURS[0], ("velocities",))
    spin = _Angular(rows, np.asarray(description["inertias"]), pose)
    yield Arrows("angular momentum", "angular momentum", feet, spin, COLOURS[4], ("angular_velocities",))
    gravity = np.asarray(description["gravity"])
    if np.any(gravity):
        yield Arrows("weight", "force", feet, _Constant(masses[:, None] * gravity), COLOURS[1])


class _Feet(eqx.Module):
    rows: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, t: Array, outputs: Mapping[str, Array]) -> Float[Array, "n 3"]:
        return outputs["positions"][np.array(self.rows)]


class _Linear(eqx.Module):
    rows: tuple[int, ...] = eqx.field(static=True)
    factors: Float[np.ndarray, " n"]

    def __call__(self, t: Array, outputs: Mapping[str, Array]) -> Float[Array, "n 3"]:
        return jnp.asarray(self.factors)[:, None] * outputs["velocities"][np.array(self.rows)]


class _Angular(eqx.Module):
    """Angular momenta R J Ω about the centres of mass, in the inertial frame."""

    rows: tuple[int, ...] = eqx.field(static=True)
    inertias: Float[np.ndarray, "n 3 3"]
    pose: Callable[[Any, int], Pose] = eqx.field(static=True)

    def __call__(self, t: Array, outputs: Mapping[str, Array]) -> Float[Array, "n 3"]:
        rotations = jnp.stack([self.pose(outputs, row).R for row in self.rows])
        spins = outputs["angular_velocities"][np.array(self.rows)]
        return jnp.einsum("nij,njk,nk->ni", rotations, self.inertias, spins)


class _Constant(eqx.Module):
    vectors: Float[np.ndarray, "n 3"]

    def __call__(self, t: Array, outputs: Mapping[str, Array]) -> Float[Array, "n 3"]:
        return jnp.asarray(self.vectors)
