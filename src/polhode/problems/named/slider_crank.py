"""The spatial slider–crank of the IFToMM benchmark library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.joints import Prismatic, Revolute, Spherical, Universal
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Pose
from polhode.problem import Observable, Reference
from polhode.problems._closed_loops import Placement, Poses, about, placements
from polhode.problems._model_problem import AssembledSystem, ModelDraft, point_of, polyline, scene_body, stack_points
from polhode.problems._unwrapped_angles import SHARE, CountTurns, crank_outputs
from polhode.problems.declaration import Number, Positive, declare
from polhode.spaces.base import cross
from polhode.viewing.scene import scene

_DOC = """Crank, rod and slider in space, moved by their inertia and by gravity alone.

The crank AB turns about the x axis at A = (0, 0.1, 0.12) (revolute); B joins it to the rod (spherical); C joins
rod and slider (universal); the slider moves along the x axis (prismatic). Lengths AB = 0.08, BC = 0.3. At the start
the crank stands upright, θ = 0, and turns at 6 rad/s; gravity 9.81 towards -z. Masses 0.12, 0.5, 2; inertia about
the centres of mass (1e-4, 1e-4, 1e-5), with the third axis along the crank; (4e-4, 4e-3, 4e-3), with the first along
the rod; and 1e-4 for the slider.

The cross of the universal joint has one axis along the slide, fixed in the slider, and one across slide and rod,
fixed in the rod: the only one that fits the rod's angular velocity (1.92, -0.96, 0.48) of the benchmark. Data: IFToMM
multibody benchmark library and S. Holzinger, M. Arnold & J. Gerstmayr, with masses as in their code.

Output `slider` is s, the place of C along x; `crank_angle` is θ with full turns counted. To count them, one hundredth
of the crank's moment of inertia is carried by a coordinate that is constrained to θ; the motion is not changed.
"""

_SOURCE = "one degree of freedom, conservation of energy, DOP853 and Taylor series at 1e-13"
_REFERENCE: dict[str, Reference] = {
    "slider": {"t": 5.0, "value": 0.2407195737296, "error": 1e-10, "source": _SOURCE},
    "crank_angle": {"t": 5.0, "value": 54.3333321683, "error": 1e-9, "source": _SOURCE},
}


def positions(p: Mapping[str, Any]) -> Poses:
    """Crank angle θ → poses of "crank", "rod" and "slider"; NaN where the rod is too short to reach the slide."""
    A = jnp.asarray(p["pivot"], dtype=float)

    def poses(angle: Array) -> dict[str, Pose]:
        crank = about(0, angle)
        B = A + crank @ (p["crank_length"] * jnp.array([0.0, 0.0, 1.0]))
        C = jnp.stack((B[0] + jnp.sqrt(p["rod_length"] ** 2 - B[1] ** 2 - B[2] ** 2), jnp.zeros(()), jnp.zeros(())))
        return {
            "crank": Pose(0.5 * (A + B), crank),
            "rod": Pose(0.5 * (B + C), _rod((C - B) / p["rod_length"])),
            "slider": Pose(C, jnp.eye(3)),
        }

    return poses


def _rod(along: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Axes of the rod as columns: along it, the axis of the cross, and across both."""
    n = jnp.stack((jnp.zeros(()), -along[2], along[1]))
    n = n / jnp.sqrt(n @ n)
    return jnp.stack((along, n, cross(along, n)), axis=1)


@declare("slider-crank", _DOC)
def slider_crank(
    formulation: str = "SO3xR3",
    crank_length: Positive = 0.08,
    rod_length: Positive = 0.3,
    pivot: Number = (0.0, 0.1, 0.12),
    crank_angle: Number = 0.0,
    crank_speed: Number = 6.0,
    gravity: Number = 9.81,
    masses: Positive = (0.12, 0.5, 2.0),
    crank_inertia: Positive = (1e-4, 1e-4, 1e-5),
    rod_inertia: Positive = (4e-4, 4e-3, 4e-3),
    slider_inertia: Positive = 1e-4,
    duration: Positive = 5.0,
) -> ModelDraft:
    """The spatial slider–crank mechanism.

    **Arguments**, in SI units:

    - `formulation`: coordinates of the bodies, as in `Model.assemble`.
    - `crank_length`: AB.
    - `rod_length`: BC.
    - `pivot`: A, inertial frame; shape (3,). The slide is the x axis.
    - `crank_angle`: θ(0); from upright towards -y.
    - `crank_speed`: rate of θ at the start.
    - `gravity`: gravitational acceleration towards -z.
    - `masses`: crank, rod, slider; shape (3,).
    - `crank_inertia`, `rod_inertia`: principal moments; shape (3,).
    - `slider_inertia`: moment about every axis.
    - `duration`: end time.
    """
    start = _start({name: x for name, x in locals().items() if name != "formulation"})
    model = Model(gravity=-gravity * jnp.array([0.0, 0.0, 1.0]))
    inertias = (crank_inertia * jnp.array([1 - SHARE, 1.0, 1.0]), rod_inertia, slider_inertia * jnp.ones(3))
    crank, rod, slider = (
        model.add_body(mass=mass, inertia=inertia, name=name, **start[name]._asdict())
        for name, mass, inertia in zip(("crank", "rod", "slider"), masses, inertias, strict=True)
    )
    _join(model, (crank, rod, slider), pivot, 0.5 * crank_length)
    counter = _count_turns(model, crank, SHARE * crank_inertia[0], crank_angle, crank_speed)

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        slide: Observable = lambda t, state: system.pose_in(state, slider).x[0]  # noqa: E731
        return {"slider": slide, **crank_outputs(system, counter), "joint_points": stack_points(points(system))}

    def points(system: AssembledSystem) -> tuple[Observable, ...]:
        half = crank_length * jnp.array([0.0, 0.0, 0.5])
        return *(point_of(system, crank, end) for end in (-half, half)), point_of(system, slider, jnp.zeros(3))

    def parts(system: AssembledSystem) -> tuple[scene.Body | scene.Line | scene.Trail, ...]:
        thick = 0.15 * crank_length
        return (
            scene_body(system, crank, jnp.stack((thick, thick, crank_length))),
            scene_body(system, rod, jnp.stack((rod_length, thick, thick)), colour="#ddaa33"),
            scene_body(system, slider, thick * jnp.array([4.0, 3.0, 3.0]), colour="#228833"),
            polyline("linkage", points(system)),
        )

    return ModelDraft(model, outputs, parts, h=1e-3, reference=_REFERENCE, independent_of=("formulation", "duration"))


def _start(p: Mapping[str, Any]) -> dict[str, Placement]:
    start = placements(positions, (p,), p["crank_angle"], p["crank_speed"])
    if checks.is_concrete(start) and not bool(jnp.isfinite(start["slider"].position).all()):
        raise ValueError(
            f"The rod of length {float(p['rod_length']):g} can't reach the slide from this crank; lengthen "
            "`rod_length` or move `pivot` towards the x axis."
        )
    return start


def _join(model: Model, bodies: tuple[Body, Body, Body], pivot: Array, half: Array) -> None:
    """Joints A to D; `half` the length of the crank."""
    crank, rod, slider = bodies
    B = crank.x + crank.R @ (half * jnp.array([0.0, 0.0, 1.0]))
    slide = jnp.array([1.0, 0.0, 0.0])
    model.add(Revolute(model.ground, crank, point=pivot, axis=slide, name="A"))
    model.add(Spherical(crank, rod, point=B, name="B"))
    model.add(Universal(slider, rod, point=slider.x, first_axis=slide, second_axis=rod.R[:, 1], name="C"))
    model.add(Prismatic(model.ground, slider, axis=slide, name="D"))


def _count_turns(model: Model, crank: Body, inertia: Array, angle: Array, speed: Array) -> Body:
    counter = model.add_coordinate(mass=inertia, value=angle, velocity=speed, name="crank-angle")
    model.add(CountTurns(model.ground, crank, counter, axis=jnp.array([1.0, 0.0, 0.0]), name="turns"))
    return counter
