"""The tippe top, which turns over."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from polhode.contact.shapes import Sphere
from polhode.problems._closed_loops import about
from polhode.problems._model_problem import ModelDraft, scene_body
from polhode.problems._table import table, tilt
from polhode.problems.declaration import Number, Positive, declare
from polhode.systems.base import State

_DOC = """A ball whose centre of mass lies below its centre is spun, rises against its weight and stands on its head.

With the distance αR between both centres, moments of inertia I₁ and I₃ about the centre of mass, friction that slides
and J, the product of the angular momentum about the centre of mass and the vector from there to the point of contact:
J stays (J. H. Jellett, 1872), so that the energy falls to a minimum for this J. Upright spin is one as long as
J² < mgR³αI₃²(1 - α)⁴ / (I₁ - (1 - α)I₃), the inverted one above mgR³αI₃²(1 + α)⁴ / ((1 + α)I₃ - I₁), and between both
the top spins at an angle (S. Rauch-Wojciechowski, M. Sköldstam & T. Glad, Regul. Chaotic Dyn. 10, 2005, whose data
these are: m = 20 g, R = 2 cm, α = 0.3, I₃ = ²⁄₅ mR², I₁ = ¹³¹⁄₃₅₀ mR²).

The friction of the literature grows with the slip: here by the compliant law, up to its `slip_speed`. Coulomb's law
at one point is not enough: such a top comes to roll at a few degrees and stays there (T. R. Kane & D. A. Levinson, J.
Appl. Mech. 45, 1978). Outputs are `tilt`, the angle of the axis, and `jellett`, J.
"""

_DEPTH = 5e-4
"""Depth of the ball at rest, in radii."""

_DAMPING = 0.2
"""Damping of the table, as a ratio."""


@declare("tippe-top", _DOC)
def tippe_top(
    formulation: str = "SO3xR3",
    radius: Positive = 0.02,
    mass: Positive = 0.02,
    offset: Positive = 0.3,
    inertia: Positive = (131 / 350, 131 / 350, 0.4),
    spin: Number = 150.0,
    angle: Positive = 0.1,
    friction: Positive = 0.3,
    slip_speed: Positive = 1.0,
    gravity: Positive = 9.81,
    duration: Positive = 5.0,
) -> ModelDraft:
    """A top that turns over.

    **Arguments**, in SI units:

    - `formulation`: coordinates, as in `Model.assemble`.
    - `radius`, `mass`: of the ball.
    - `offset`: distance of the centre of mass from that of the ball, in radii.
    - `inertia`: principal moments about the centre of mass; in m R², the two first ones equal, shape (3,).
    - `spin`: angular velocity about the vertical at the start.
    - `angle`: of the axis from the vertical at the start, in radians.
    - `friction`: coefficient that sliding approaches.
    - `slip_speed`: speed from which it does.
    - `gravity`: towards -z.
    - `duration`: end time.
    """
    R, z = about(1, angle), jnp.array([0.0, 0.0, 1.0])
    depth, lever = _DEPTH * radius, offset * radius * z
    model, top = table(
        gravity,
        Sphere(radius, position=lever),
        mass=mass,
        inertia=mass * radius**2 * inertia,
        position=(radius - depth) * z - R @ lever,
        rotation=R,
        angular_velocity=spin * (R.T @ z),
    )
    stiffness = mass * gravity / depth
    model.contacts(
        law="compliant", friction=friction, slip_speed=slip_speed, stiffness=stiffness, exponent=1.0,
        damping=2 * _DAMPING * jnp.sqrt(mass / stiffness) / depth,
    )  # fmt: skip
    half = radius * jnp.array([2.0, 2.0, 2.0])
    stem = radius * jnp.array([0.3, 0.3, 1.2])

    def jellett(system: Any, t: Array, state: State) -> Array:
        x, turn = system.pose_in(state, top)
        gap = x[2] + (turn @ lever)[2] - radius
        momentum = turn @ (top.inertia @ system.outputs()["angular_velocities"](t, state)[0])
        return momentum @ (turn @ lever - (radius + 0.5 * gap) * z)

    return ModelDraft(
        model,
        lambda system: {
            **system.outputs(),
            "tilt": tilt(system, top),
            "jellett": lambda t, state: jellett(system, t, state),
        },
        lambda system: (
            dataclasses.replace(scene_body(system, top, half, "ellipsoid"), at=lever),
            dataclasses.replace(scene_body(system, top, stem, "cylinder", "#555555"), at=lever + 1.4 * radius * z),
        ),
        h=2e-4,
        method="rkmk4",
    )
