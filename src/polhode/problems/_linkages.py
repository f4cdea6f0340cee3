"""Linkages of three moving rods with hinges: their outputs and their drawing."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.problem import Observable
from polhode.problems._model_problem import (
    AssembledSystem,
    ModelDraft,
    point_of,
    polyline,
    scene_body,
    stack_points,
)
from polhode.problems._unwrapped_angles import crank_outputs
from polhode.viewing.scene import scene

_COLOURS = ("#4477aa", "#ddaa33", "#228833")


def linkage_draft(
    model: Model,
    rods: Sequence[Body],
    sizes: tuple[Sequence[Array] | Array, Array],
    joints: Sequence[tuple[Body, Float[Array, "3"]]],
    counter: Body,
    name: str,
    up: tuple[float, float, float] = (0.0, 0.0, 1.0),
) -> ModelDraft:
    """The problem of a linkage, with its redundant constraints left out.

    - `rods`: three of them, the crank first. - `sizes`: their lengths, and the radius of all. - `joints`: where the
      hinges are, as bodies and points in their frames, in the order of the line `name` through them.
    - `counter`: the coordinate that counts the turns of the crank.
    """
    lengths, radius = sizes

    def points(system: AssembledSystem) -> tuple[Observable, ...]:
        return tuple(point_of(system, rod, local) for rod, local in joints)

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        return {**crank_outputs(system, counter), "joint_points": stack_points(points(system))}

    def parts(system: AssembledSystem) -> tuple[scene.Body | scene.Line | scene.Trail, ...]:
        boxes = tuple(
            scene_body(system, rod, jnp.stack((length, 2 * radius, 2 * radius)), colour=colour)
            for rod, length, colour in zip(rods, lengths, _COLOURS, strict=True)
        )
        return *boxes, polyline(name, points(system)), scene.Trail("joint_points", index=2)

    return ModelDraft(model, outputs, parts, h=1e-3, redundant="minimum-norm", up=up)
