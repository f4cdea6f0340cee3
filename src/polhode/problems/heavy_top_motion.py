"""Outputs, drawing and references of heavy tops."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.problem import Observable, Reference
from polhode.problems.heavy_top_forms import TopParameters
from polhode.problems.rotation_forms import Formulation
from polhode.systems.base import State
from polhode.viewing.scene.scene import Body, Line, Scene, Trail

SOURCE = "unit quaternion and body rates, DOP853 and Taylor series at 1e-13, data of Brüls & Cardona (2010)"
REFERENCE: dict[str, Reference] = {
    "centre_of_mass": {
        "t": 1.0,
        "value": (0.17334396409838604, 0.64008859207056879, -0.74849079113358131),
        "error": 1e-12,
        "source": SOURCE,
    },
    "angular_velocity": {
        "t": 1.0,
        "value": (-0.822078101685, 150.0, -5.923291348117),
        "error": 1e-11,
        "source": SOURCE,
    },
}
"""Of the benchmark top of O. Brüls & A. Cardona (2010)."""


def outputs(top: TopParameters, form: Formulation) -> dict[str, Observable]:
    """Place of the centre of mass, direction of the axis, angular velocity and rotation."""
    places: dict[str, Observable] = {
        "centre_of_mass": lambda t, state: top.length * (form.attitude(state) @ top.axis),
        "axis": lambda t, state: form.attitude(state) @ top.axis,
    }
    return {**form.system_outputs(), **places, **form.rotations()}


def scene(top: TopParameters, form: Formulation, size: Float[Array, "3"]) -> Scene:
    """An ellipsoid of this size at the centre of mass."""

    def pose(t: Array, state: State) -> tuple[Array, Array]:
        rotation = form.attitude(state)
        return top.length * (rotation @ top.axis), rotation

    def stem(t: Array, state: State) -> Float[Array, "2 3"]:
        return jnp.stack((jnp.zeros(3), pose(t, state)[0]))

    return Scene(parts=(Body("top", "ellipsoid", size, pose), Line("stem", stem), Trail("centre_of_mass")))
