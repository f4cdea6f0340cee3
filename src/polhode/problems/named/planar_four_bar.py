"""The planar four-bar mechanism, with hinges that constrain it more often than needed."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from jaxtyping import Array

from polhode import checks
from polhode.joints import Revolute
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Pose
from polhode.problems._closed_loops import Placement, Poses, bar, meet, placements
from polhode.problems._linkages import linkage_draft
from polhode.problems._model_problem import ModelDraft, rod_inertia
from polhode.problems._unwrapped_angles import SHARE, CountTurns
from polhode.problems.declaration import Number, Positive, declare

_DOC = """Crank, coupler and rocker in the vertical x-y plane, joined to each other and to the ground by four hinges.

All hinges are spatial revolute joints: 20 constraints on 18 velocities, of which 17 are independent. `Model.assemble`
finds the three that follow from the others and leaves them out; the motion is not changed by that. The crank, which
turns fully, starts at `crank_angle` from the x axis with `crank_speed`; gravity acts towards -y. To count its turns,
one hundredth of its inertia is carried by a coordinate that is constrained to its angle.

The energy and one degree of freedom give an independent reference: ½ M(θ) θ̇² + V(θ) is constant.
"""


def positions(lengths: Array) -> Poses:
    """Crank angle → poses of "crank", "coupler" and "rocker"; NaN where the loop can't be closed."""
    crank, coupler, rocker, frame = lengths

    def poses(angle: Array) -> dict[str, Pose]:
        A, D = jnp.zeros(2), jnp.stack((frame, jnp.zeros(())))
        B = crank * jnp.stack((jnp.cos(angle), jnp.sin(angle)))
        C = meet(B, coupler, D, rocker, 1.0)
        return {"crank": bar(A, B), "coupler": bar(B, C), "rocker": bar(D, C)}

    return poses


@declare("planar-four-bar", _DOC)
def planar_four_bar(
    formulation: str = "SO3xR3",
    lengths: Positive = (0.15, 0.35, 0.3, 0.4),
    masses: Positive = (0.3, 0.7, 0.6),
    radius: Positive = 0.01,
    crank_angle: Number = 0.5,
    crank_speed: Number = 12.0,
    gravity: Number = 9.81,
    duration: Positive = 2.0,
) -> ModelDraft:
    """A crank–rocker of rods with four parallel hinges.

    **Arguments**, in SI units:

    - `formulation`: coordinates of the bodies, as in `Model.assemble`.
    - `lengths`: crank, coupler, rocker, frame; shape (4,).
    - `masses`: crank, coupler, rocker; shape (3,).
    - `radius`: of the rods.
    - `crank_angle`, `crank_speed`: at the start.
    - `gravity`: towards -y.
    - `duration`: end time.
    """
    start = _start(lengths, crank_angle, crank_speed)
    model = Model(gravity=gravity * jnp.array([0.0, -1.0, 0.0]))
    share = jnp.array([0.0, 0.0, SHARE])
    crank, coupler, rocker = (
        model.add_body(
            mass=masses[i],
            inertia=rod_inertia(masses[i], lengths[i], radius) * (1 - share if i == 0 else 1.0),
            name=name,
            check_inertia=False,
            **start[name]._asdict(),
        )
        for i, name in enumerate(("crank", "coupler", "rocker"))
    )
    counter_inertia = SHARE * rod_inertia(masses[0], lengths[0], radius)[2]
    counter = model.add_coordinate(mass=counter_inertia, value=crank_angle, velocity=crank_speed, name="crank-angle")
    rods = crank, coupler, rocker
    ends = {rod: 0.5 * length * jnp.array([1.0, 0.0, 0.0]) for rod, length in zip(rods, lengths[:3], strict=True)}
    _join(model, rods, ends, counter)

    corners = (crank, -1.0), (crank, 1.0), (rocker, 1.0), (rocker, -1.0)
    joints = [(rod, sign * ends[rod]) for rod, sign in corners]
    return linkage_draft(model, rods, (lengths[:3], radius), joints, counter, "linkage", up=(0.0, 1.0, 0.0))


def _start(lengths: Array, angle: Array, speed: Array) -> dict[str, Placement]:
    start = placements(positions, (lengths,), angle, speed)
    if checks.is_concrete(start) and not bool(jnp.isfinite(start["coupler"].position).all()):
        raise ValueError(
            f"Bars of lengths {tuple(map(float, lengths))} don't close at crank angle {float(angle):g}; lengthen "
            "coupler or rocker."
        )
    return start


def _join(model: Model, bars: tuple[Body, Body, Body], ends: Mapping[Body, Array], counter: Body) -> None:
    """Hinges A to D along the loop, and what counts turns of the crank; `ends`: of bars, from their middle."""
    crank, coupler, rocker = bars
    z = jnp.array([0.0, 0.0, 1.0])
    for name, first, second, carrier, sign in (
        ("A", model.ground, crank, crank, -1.0),
        ("B", crank, coupler, crank, 1.0),
        ("C", coupler, rocker, coupler, 1.0),
        ("D", model.ground, rocker, rocker, -1.0),
    ):
        point = carrier.x + sign * (carrier.R @ ends[carrier])
        model.add(Revolute(first, second, point=point, axis=z, name=name))
    model.add(CountTurns(model.ground, crank, counter, axis=z, name="turns"))
