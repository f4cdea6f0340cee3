"""Bennett's linkage: a spatial loop of four hinges that moves although it shouldn't by counting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import jax.numpy as jnp
from jaxtyping import Array

from polhode import checks
from polhode.joints import Revolute
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Pose
from polhode.problems._closed_loops import Poses, about, placements
from polhode.problems._linkages import linkage_draft
from polhode.problems._model_problem import ModelDraft, rod_inertia
from polhode.problems._unwrapped_angles import SHARE, CountTurns
from polhode.problems.declaration import Check, Number, Positive, declare

_DOC = """Four rods, one of them the ground, in a loop of four hinges with axes that neither are parallel nor meet.

Opposite rods are equal: lengths a and b, angles α and β between the axes at their ends. The loop moves with one degree
of freedom if sin α / a = sin β / b (G. T. Bennett, A new mechanism, Engineering 76, 1903); b follows from the
other three here. The joints impose 20 constraints on the 18 velocities of three rods, 17 of them independent; those
that follow from others are found and left out. Hinge angles in the notation of Denavit and Hartenberg satisfy
θ₃ = -θ₁, θ₄ = -θ₂ and tan(θ₁/2) tan(θ₂/2) = sin((β+α)/2) / sin((β-α)/2).

No published run; energy and one degree of freedom give an independent reference. To count turns of the first rod, one
hundredth of its inertia about the fixed hinge is carried by a coordinate that is constrained to θ₁.
"""


def other_length(length: Array, twists: Array) -> Array:
    """b, of the second and fourth rod."""
    return length * jnp.sin(twists[1]) / jnp.sin(twists[0])


def positions(length: Array, twists: Array) -> Poses:
    """θ₁ → poses of the three moving rods, first axis along the rod, third along the hinge at its end."""
    alpha, beta = twists
    other = other_length(length, twists)
    ratio = jnp.sin((beta + alpha) / 2) / jnp.sin((beta - alpha) / 2)

    def poses(theta: Array) -> dict[str, Pose]:
        second = 2 * jnp.arctan2(ratio * jnp.cos(theta / 2), jnp.sin(theta / 2))
        x, R, result = jnp.zeros(3), jnp.eye(3), {}
        for name, angle, a, twist in (
            ("rod-1", theta, length, alpha),
            ("rod-2", second, other, beta),
            ("rod-3", -theta, length, alpha),
        ):
            R = R @ about(2, angle)
            along = a * R[:, 0]
            R = R @ about(0, twist)
            result[name] = Pose(x + 0.5 * along, R)
            x = x + along
        return result

    return poses


def _twists(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Array:
    twists = checks.positive(name, value, shape, meaning)
    if checks.is_concrete(twists) and (float(jnp.max(twists)) >= jnp.pi or float(twists[0]) == float(twists[1])):
        raise ValueError(f"`{name}` must be two different angles between 0 and π, got {value}.")
    return twists


Twists = Annotated[Any, Check(_twists)]


@declare("bennett", _DOC)
def bennett(
    formulation: str = "SO3xR3",
    length: Positive = 0.3,
    twists: Twists = (0.7, 1.3),
    density: Positive = 2.0,
    radius: Positive = 0.01,
    crank_angle: Number = 0.8,
    crank_speed: Number = 5.0,
    gravity: Number = 9.81,
    duration: Positive = 2.0,
) -> ModelDraft:
    """Bennett's four-revolute loop.

    **Arguments**, in SI units:

    - `formulation`: coordinates of the bodies, as in `Model.assemble`.
    - `length`: of the first and third rod; a.
    - `twists`: angles between the hinge axes of a rod; α and β, different and between 0 and π, shape (2,).
    - `density`: mass per length.
    - `radius`: of the rods.
    - `crank_angle`: θ₁ at the start.
    - `crank_speed`: rate of θ₁ at the start.
    - `gravity`: towards -z.
    - `duration`: end time.
    """
    start = placements(positions, (length, twists), crank_angle, crank_speed)
    lengths = (length, other_length(length, twists), length)
    model = Model(gravity=gravity * jnp.array([0.0, 0.0, -1.0]))
    # About the hinge axis, the third of the ground, which lies in the frame of the first rod along `hinge`.
    hinge = start["rod-1"].rotation[2]
    counter_inertia = SHARE * density * lengths[0] ** 3 / 12
    rods = []
    for i, (name, at) in enumerate(start.items()):
        inertia = jnp.diag(rod_inertia(density * lengths[i], lengths[i], radius))
        lighter = counter_inertia * jnp.outer(hinge, hinge) if i == 0 else 0.0
        rods.append(
            model.add_body(
                mass=density * lengths[i], inertia=inertia - lighter, name=name, check_inertia=False, **at._asdict()
            )
        )
    counter = model.add_coordinate(mass=counter_inertia, value=crank_angle, velocity=crank_speed, name="crank-angle")
    half = [0.5 * length * jnp.array([1.0, 0.0, 0.0]) for length in lengths]
    _join(model, rods, half, counter)

    joints = [(rods[0], -half[0]), *zip(rods, half, strict=True)]
    return linkage_draft(model, rods, (lengths, radius), joints, counter, "loop")


def _join(model: Model, rods: Sequence[Body], half: Sequence[Array], counter: Body) -> None:
    """Hinges at the ends of the rods, which are `half` their length from the middle, and what counts turns."""
    z = jnp.array([0.0, 0.0, 1.0])
    hinges = [(jnp.zeros(3), z)] + [(rod.x + rod.R @ h, rod.R[:, 2]) for rod, h in zip(rods, half, strict=True)]
    ends = zip((model.ground, *rods), (*rods, model.ground), hinges, strict=True)
    for i, (first, second, (point, axis)) in enumerate(ends):
        model.add(Revolute(first, second, point=point, axis=axis, name=f"hinge-{i + 1}"))
    model.add(CountTurns(model.ground, rods[0], counter, axis=z, name="turns"))
