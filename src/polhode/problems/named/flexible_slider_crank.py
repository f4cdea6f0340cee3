"""The slider–crank with an elastic connecting rod of the test set for initial value problems."""

from __future__ import annotations

from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.flexible.flexible_body import FlexibleBody
from polhode.flexible.flexible_part import FlexiblePart, from_modes
from polhode.joints import PrescribedRotation, Prismatic, Revolute, Spherical, Universal
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.problem import Observable
from polhode.problems._model_problem import AssembledSystem, ModelDraft, point_of, polyline, scene_body, stack_points
from polhode.problems.declaration import Check, Positive, declare
from polhode.systems.base import State
from polhode.viewing.scene import scene

_DOC = """A crank that turns at constant speed drives a slider by a rod that bends and stretches.

The rod is a body in a floating frame with the four shapes of B. Simeon's model: two half and full sine waves across it,
and two parabolas along it, of a steel rod of square section. At the start the mechanism is stretched out along the x
axis, and the rod has neither deformation nor its rate; so it vibrates, at about 1,277 rad/s, about the bending that its
inertia asks for. Joints: A revolute and driven, B universal, C spherical, the slider prismatic. No gravity.

Data: B. Simeon, Modelling a flexible slider crank mechanism by a mixed system of DAEs and PDEs, Math. Modelling of
Systems 2 (1996), 1-18, and the test set for IVP solvers. There the start is one of smooth motion, and the mass of the
parabolas is another.

Outputs: `slider`, its place along x; `deflection`, that of the middle of the rod from the line between its ends.
"""

_POINTS = 41
"""Points of the rod; masses by Simpson's rule."""


def _rod(length: float, side: float, density: float, modulus: float, damping: float) -> FlexiblePart:
    """The rod along e₁ from its end B: sine waves along e₂, parabolas along e₁ that are zero at B."""
    area, moment = side**2, side**4 / 12
    s = np.linspace(0.0, 1.0, _POINTS)
    simpson = np.array([1.0, *np.tile((4.0, 2.0), _POINTS // 2)[:-1], 1.0]) / (3 * (_POINTS - 1))
    shapes = np.zeros((_POINTS, 6, 4))
    for k in (1, 2):
        shapes[:, 1, k - 1] = np.sin(k * np.pi * s)
        shapes[:, 5, k - 1] = k * np.pi / length * np.cos(k * np.pi * s)
    shapes[:, 0, 2], shapes[:, 0, 3] = 4 * s * (1 - s), s * (2 * s - 1)
    bending_stiffness = modulus * moment * np.pi**4 / (2 * length**3)
    stiffness = np.diag([bending_stiffness, 16 * bending_stiffness, 0.0, 0.0])
    stiffness[2:, 2:] = modulus * area / (3 * length) * np.array([[16.0, -8.0], [-8.0, 7.0]])
    masses = density * area * length * simpson
    # Sections resist turning about the rod only: that they tilt is left out, as in Simeon's model.
    rotary_inertias = density * 2 * moment * length * simpson[:, None, None] * np.diag([1.0, 0.0, 0.0])
    return from_modes(
        s[:, None] * np.array([length, 0.0, 0.0]),
        masses,
        shapes,
        stiffness,
        inertias=rotary_inertias,
        nodes={"B": 0, "middle": _POINTS // 2, "C": _POINTS - 1},
        damping=damping,
    )


def _number(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> float:
    """The modes of the rod are formed by NumPy, so all its numbers are known."""
    return checks.number(name, value, meaning)


def _positive_number(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> float:
    number = checks.number(name, value, meaning)
    if not number > 0:
        raise ValueError(f"`{name}` must be greater than zero, got {number:g}.")
    return number


Constant = Annotated[float, Check(_number, "a known number")]
PositiveConstant = Annotated[float, Check(_positive_number, "a known number")]


@declare("flexible-slider-crank", _DOC)
def flexible_slider_crank(
    formulation: str = "SO3xR3",
    crank_length: PositiveConstant = 0.15,
    rod_length: PositiveConstant = 0.3,
    crank_speed: Constant = 150.0,
    crank_mass: PositiveConstant = 0.36,
    slider_mass: PositiveConstant = 0.075552,
    density: PositiveConstant = 7870.0,
    modulus: PositiveConstant = 2e11,
    thickness: PositiveConstant = 0.008,
    damping: Constant = 0.0,
    duration: Positive = 0.1,
) -> ModelDraft:
    """The slider–crank with an elastic connecting rod.

    **Arguments**, in SI units:

    - `formulation`: coordinates of the bodies, as in `Model.assemble`: those on Lie groups.
    - `crank_length`, `rod_length`: AB and BC, BC the longer one.
    - `crank_speed`: constant.
    - `crank_mass`, `slider_mass`: of both bodies that are rigid.
    - `density`, `modulus`, `thickness`: of the rod, a square bar.
    - `damping`: damping ratios of its modes.
    - `duration`: end time.
    """
    if not rod_length > crank_length:
        raise ValueError("The rod must be longer than the crank, or it can't pass; lengthen `rod_length`.")
    model = Model()
    part = _rod(rod_length, thickness, density, modulus, damping)
    crank, rod, slider = _add_bodies(model, part, (crank_length, rod_length, crank_speed), (crank_mass, slider_mass))

    def points(system: AssembledSystem) -> tuple[Observable, ...]:
        return tuple(point_of(system, rod.node(name), np.zeros(3)) for name in ("B", "middle", "C"))

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        return {
            "slider": lambda t, state: system.pose_in(state, slider).x[0],
            "deflection": _deflection(*points(system)),
            "rod_points": stack_points(points(system)),
        }

    def parts(system: AssembledSystem) -> tuple[scene.Body | scene.Line | scene.Trail, ...]:
        thick = jnp.asarray(thickness)
        return (
            scene_body(system, crank, jnp.stack((jnp.asarray(crank_length), 2 * thick, 2 * thick))),
            scene_body(system, slider, thick * jnp.array([6.0, 4.0, 4.0]), colour="#228833"),
            polyline("rod", points(system)),
        )

    return ModelDraft(model, outputs, parts, h=2e-5)


def _add_bodies(
    model: Model, part: FlexiblePart, motion: tuple[float, float, float], masses: tuple[float, float]
) -> tuple[Body, FlexibleBody, Body]:
    """Crank, rod and slider with their joints; `motion`: lengths of crank and rod, and the speed of the crank."""
    a, b, speed = motion
    crank_mass, slider_mass = masses
    e1, e2, e3 = np.eye(3)
    crank = model.add_body(
        mass=crank_mass,
        inertia=crank_mass * a**2 / 12 * np.array([0.01, 1.0, 1.0]),
        position=0.5 * a * e1,
        velocity=0.5 * a * speed * e2,
        angular_velocity=speed * e3,
        name="crank",
    )
    rod = model.add_flexible(
        part,
        position=a * e1,
        velocity=a * speed * e2,
        angular_velocity=-a / b * speed * e3,
        name="rod",
    )
    slider = model.add_body(
        mass=slider_mass, inertia=1e-2 * slider_mass * a**2 * np.ones(3), position=(a + b) * e1, name="slider"
    )
    model.add(Revolute(model.ground, crank, point=np.zeros(3), axis=e3, name="A"))
    model.add(PrescribedRotation(model.ground, crank, axis=e3, angle=lambda t: speed * t, name="drive"))
    model.add(Universal(crank, rod.node("B"), point=a * e1, first_axis=e3, second_axis=e2, name="B"))
    model.add(Spherical(rod.node("C"), slider, point=(a + b) * e1, name="C"))
    model.add(Prismatic(model.ground, slider, axis=e1, name="D"))
    return crank, rod, slider


def _deflection(first: Observable, middle: Observable, last: Observable) -> Observable:
    """Of the middle from the line between the ends."""

    def height(t: Array, state: State) -> Float[Array, ""]:
        start = first(t, state)
        chord = last(t, state) - start
        chord = chord / jnp.linalg.norm(chord)
        off = middle(t, state) - start
        return chord[0] * off[1] - chord[1] * off[0]

    return height
