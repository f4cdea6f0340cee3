"""A body that rolls, slides and spins on a table."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from polhode.contact.shapes import AbstractShape, Plane
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.problem import Observable
from polhode.problems._model_problem import AssembledSystem
from polhode.systems.base import State


def table(gravity: Any, shape: AbstractShape, **body: Any) -> tuple[Model, Body]:
    """A model of a body with a shape above the plane z = 0; laws of contact are still to be said."""
    model = Model(gravity=-gravity * jnp.array([0.0, 0.0, 1.0]))
    model.ground.add_shape(Plane(name="table"))
    return model, model.add_body(shape=shape, name="body", **body)


def tilt(system: AssembledSystem, body: Body) -> Observable:
    """The angle between the vertical and the third axis of a body."""

    def angle(t: Array, state: State) -> Array:
        _, R = system.pose_in(state, body)
        return jnp.arctan2(jnp.sqrt(R[0, 2] ** 2 + R[1, 2] ** 2), R[2, 2])

    return angle
