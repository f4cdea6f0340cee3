"""The Puma 560 robot under joint control."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Annotated, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.forces import PD
from polhode.joints import Revolute
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Pose
from polhode.problem import Observable, Reference
from polhode.problems._closed_loops import about
from polhode.problems._model_problem import AssembledSystem, ModelDraft, polyline
from polhode.problems.declaration import Check, Number, Positive, declare
from polhode.systems.base import State
from polhode.viewing.scene import scene

_DOC = """Six links with revolute joints; each joint follows its trajectory by proportional-derivative control.

Links by standard Denavit–Hartenberg parameters, H_i = Rz(φ_i) Tz(d_i) Tx(a_i) Rx(α_i); centre of mass and inertia of
each link in its own frame, at its end (P. I. Corke's data). Torques -P (φ - φ_d) - D (φ̇ - φ̇_d). The targets start at
φ = (0, 22.5, 90, 0, 22.5, 0)° at rest and end at (-120, 60, -200, 90, 90, 45)° after 1 s, with constant acceleration
up to half the time and constant deceleration after. No compensation of gravity.

The manoeuvre is that of S. Holzinger, M. Arnold & J. Gerstmayr; their accelerations and gains were not at hand, so
the profile is chosen and the gains are the defaults of their code. Moments of inertia that the data leave zero are
1e-8.

Output `joint_angles` is φ with full turns counted; `hand` is the origin of the last frame.
"""

_REFERENCE: dict[str, Reference] = {
    "joint_angles": {
        "t": 1.0,
        "value": (-2.0949682048, 1.0467318485, -3.4909846606, 1.5714695068, 1.5707084121, 0.7853403324),
        "error": 1e-9,
        "source": "minimal coordinates, forward dynamics of pinocchio, with the chosen profile",
    }
}


class Swing(eqx.Module):
    """From 0 to `change` in `time`: constant acceleration, then constant deceleration.

    **Arguments:**

    - `change`: the angle gone through. - `time`: how long it takes.
    """

    change: Float[Array, "..."]
    time: Float[Array, ""]

    def of_joint(self, i: int) -> Swing:
        """Of one of several joints."""
        return Swing(self.change[i], self.time)

    def __call__(self, t: Array) -> Float[Array, "..."]:
        s = jnp.clip(t / self.time, 0.0, 1.0)
        return self.change * jnp.where(s < 0.5, 2 * s * s, 1 - 2 * (1 - s) ** 2)


def link_frames(p: Mapping[str, Any], angles: Float[Array, "6"]) -> list[Pose]:
    """Frames 0 (the ground) to 6 of the links at joint angles."""
    frames = [Pose(jnp.zeros(3), jnp.eye(3))]
    for i in range(6):
        x, R = frames[-1]
        R_joint = R @ about(2, angles[i])
        x = x + p["d"][i] * R_joint[:, 2] + p["a"][i] * R_joint[:, 0]
        frames.append(Pose(x, R_joint @ about(0, p["alpha"][i])))
    return frames


PerJoint = Annotated[Any, Check(checks.array, "one number a joint")]
_ALPHA = tuple(np.pi / 2 * np.array([1.0, 0.0, -1.0, 1.0, -1.0, 0.0]))
_CENTRES = (
    (0.0, 0.0, 0.0),
    (-0.3638, 0.006, 0.2275),
    (-0.0203, -0.0141, 0.07),
    (0.0, 0.019, 0.0),
    (0.0, 0.0, 0.0),
    (0.0, 0.0, 0.032),
)
_INERTIAS = (
    (1e-8, 0.35, 1e-8),
    (0.13, 0.524, 0.539),
    (0.066, 0.086, 0.0125),
    (0.0018, 0.0013, 0.0018),
    (0.0003, 0.0004, 0.0003),
    (0.00015, 0.00015, 4e-5),
)
_START = tuple(np.deg2rad([0.0, 22.5, 90.0, 0.0, 22.5, 0.0]))
_GOAL = tuple(np.deg2rad([-120.0, 60.0, -200.0, 90.0, 90.0, 45.0]))


@declare("puma", _DOC)
def puma(
    formulation: str = "SO3xR3",
    d: PerJoint = (0.0, 0.0, 0.15005, 0.4318, 0.0, 0.0),
    a: PerJoint = (0.0, 0.4318, 0.0203, 0.0, 0.0, 0.0),
    alpha: PerJoint = _ALPHA,
    masses: Positive = (20.0, 17.4, 4.8, 0.82, 0.34, 0.09),
    centres: Number = _CENTRES,
    inertias: Positive = _INERTIAS,
    start: PerJoint = _START,
    goal: PerJoint = _GOAL,
    motion_time: Positive = 1.0,
    proportional: PerJoint = (4e4, 4e4, 4e4, 100.0, 100.0, 10.0),
    derivative: PerJoint = (400.0, 400.0, 100.0, 1.0, 1.0, 0.1),
    gravity: Number = 9.81,
    duration: Positive = 1.0,
) -> ModelDraft:
    """The Puma 560 with a controller at each joint.

    **Arguments**, in SI units:

    - `formulation`: coordinates, as in `Model.assemble`; "minimal" for joint angles.
    - `d`, `a`, `alpha`: Denavit–Hartenberg parameters, shape (6,).
    - `masses`: of the links; shape (6,).
    - `centres`: centres of mass in the link frames; shape (6, 3).
    - `inertias`: principal moments of the links; about their centres of mass, shape (6, 3).
    - `start`, `goal`: joint angles, shape (6,).
    - `motion_time`: of the targets; how long the way between them takes.
    - `proportional`, `derivative`: gains P and D, shape (6,).
    - `gravity`: gravitational acceleration towards -z.
    - `duration`: end time.
    """
    frames = link_frames({"d": d, "a": a, "alpha": alpha}, start)
    model = Model(gravity=-gravity * jnp.array([0.0, 0.0, 1.0]))
    links, before, swing = [], model.ground, Swing(goal - start, motion_time)
    for i in range(6):
        x, R = frames[i + 1]
        link = model.add_body(
            mass=masses[i],
            inertia=inertias[i],
            position=x + R @ centres[i],
            rotation=R,
            name=f"link-{i + 1}",
            check_inertia=False,
        )
        joint = Revolute(before, link, point=frames[i].x, axis=frames[i].R[:, 2], name=f"joint-{i + 1}")
        model.add(joint)
        model.add(PD(joint, proportional[i], derivative[i], swing.of_joint(i), name=f"control-{i + 1}"))
        links.append(link)
        before = link

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        joint_angles = _joint_angles(system, links, start, swing)
        return {"joint_angles": joint_angles, "hand": _origins(system, links, centres)[-1]}

    def parts(system: AssembledSystem) -> tuple[scene.Part, ...]:
        return polyline("arm", tuple(_origins(system, links, centres)), "#4477aa"), scene.Trail("hand")

    return ModelDraft(model, outputs, parts, h=1e-3, reference=_REFERENCE, independent_of=("formulation", "duration"))


def _joint_angles(system: AssembledSystem, links: list[Body], start: Array, swing: Swing) -> Observable:
    """With full turns counted."""

    def joint_angles(t: Array, state: State) -> Float[Array, "6"]:
        targets = start + swing(t)
        rotations = [jnp.eye(3)] + [system.pose_in(state, link).R for link in links]
        turns = [R.T @ S for R, S in itertools.pairwise(rotations)]
        # Errors of the controllers stay below half a turn, so the targets tell how many turns were made.
        cosine, sine = jnp.stack([C[0, 0] for C in turns]), jnp.stack([C[1, 0] for C in turns])
        c, s = jnp.cos(targets), jnp.sin(targets)
        return targets + jnp.arctan2(sine * c - cosine * s, cosine * c + sine * s)

    return joint_angles


def _origins(system: AssembledSystem, links: list[Body], centres: Float[Array, "6 3"]) -> list[Observable]:
    """Origins of the link frames."""

    def origin(i: int) -> Observable:
        def place(t: Array, state: State) -> Float[Array, "3"]:
            x, R = system.pose_in(state, links[i])
            return x - R @ centres[i]

        return place

    return [lambda t, state: jnp.zeros(3), *(origin(i) for i in range(6))]
