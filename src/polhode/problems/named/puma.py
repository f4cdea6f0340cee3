"""The Puma 560 robot under joint control."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.forces import PD
from polhode.joints import Revolute
from polhode.model.model import Model
from polhode.multibody.mechanism.poses import Pose
from polhode.problem import Observable, Problem, Reference
from polhode.problems._closed_loops import about
from polhode.problems._model_problem import AssembledSystem, model_problem, polyline, same_numbers
from polhode.problems.registry import register
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

Parameters: `formulation` (also "minimal"), `d`, `a`, `alpha` (6,), `masses` (6,), `centres` (6, 3), `inertias` (6, 3),
`start`, `goal` (6,), `motion_time`, `proportional`, `derivative` (6,), `gravity` (towards -z), `duration`. SI units.
"""

_DEFAULTS: dict[str, Any] = {
    "formulation": "SO3xR3",
    "d": (0.0, 0.0, 0.15005, 0.4318, 0.0, 0.0),
    "a": (0.0, 0.4318, 0.0203, 0.0, 0.0, 0.0),
    "alpha": tuple(np.pi / 2 * np.array([1.0, 0.0, -1.0, 1.0, -1.0, 0.0])),
    "masses": (20.0, 17.4, 4.8, 0.82, 0.34, 0.09),
    "centres": (
        (0.0, 0.0, 0.0),
        (-0.3638, 0.006, 0.2275),
        (-0.0203, -0.0141, 0.07),
        (0.0, 0.019, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.0, 0.032),
    ),
    "inertias": (
        (1e-8, 0.35, 1e-8),
        (0.13, 0.524, 0.539),
        (0.066, 0.086, 0.0125),
        (0.0018, 0.0013, 0.0018),
        (0.0003, 0.0004, 0.0003),
        (0.00015, 0.00015, 4e-5),
    ),
    "start": tuple(np.deg2rad([0.0, 22.5, 90.0, 0.0, 22.5, 0.0])),
    "goal": tuple(np.deg2rad([-120.0, 60.0, -200.0, 90.0, 90.0, 45.0])),
    "motion_time": 1.0,
    "proportional": (4e4, 4e4, 4e4, 100.0, 100.0, 10.0),
    "derivative": (400.0, 400.0, 100.0, 1.0, 1.0, 0.1),
    "gravity": 9.81,
    "duration": 1.0,
}

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

    def __call__(self, t: Array) -> Float[Array, "..."]:
        s = jnp.clip(t / self.time, 0.0, 1.0)
        return self.change * jnp.where(s < 0.5, 2 * s * s, 1 - 2 * (1 - s) ** 2)


@register("puma")
def puma(
    formulation: str = _DEFAULTS["formulation"],
    d: Any = _DEFAULTS["d"],
    a: Any = _DEFAULTS["a"],
    alpha: Any = _DEFAULTS["alpha"],
    masses: Any = _DEFAULTS["masses"],
    centres: Any = _DEFAULTS["centres"],
    inertias: Any = _DEFAULTS["inertias"],
    start: Any = _DEFAULTS["start"],
    goal: Any = _DEFAULTS["goal"],
    motion_time: Any = _DEFAULTS["motion_time"],
    proportional: Any = _DEFAULTS["proportional"],
    derivative: Any = _DEFAULTS["derivative"],
    gravity: Any = _DEFAULTS["gravity"],
    duration: Any = _DEFAULTS["duration"],
) -> Problem:
    """The Puma 560 with a controller at each joint.

    **Arguments:**

    - `formulation`: coordinates, as in `Model.assemble`; "minimal" for joint angles.
    - `d`, `a`, `alpha`: Denavit–Hartenberg parameters, shape (6,).
    - `masses` (6,), `centres` (6, 3), `inertias` (6, 3): of the links, in their frames; moments about the centres.
    - `start`, `goal`: joint angles, shape (6,); `motion_time`: how long the way between them takes.
    - `proportional`, `derivative`: gains P and D, shape (6,).
    - `gravity`: towards -z.
    - `duration`: end time.
    """
    return _make(dict(locals()))


def link_frames(p: Mapping[str, Any], angles: Float[Array, "6"]) -> list[Pose]:
    """Frames 0 (the ground) to 6 of the links at joint angles."""
    frames = [Pose(jnp.zeros(3), jnp.eye(3))]
    for i in range(6):
        x, R = frames[-1]
        R_joint = R @ about(2, angles[i])
        x = x + p["d"][i] * R_joint[:, 2] + p["a"][i] * R_joint[:, 0]
        frames.append(Pose(x, R_joint @ about(0, p["alpha"][i])))
    return frames


def _make(p: Mapping[str, Any], redundant: Any = "error") -> Problem:
    n = _check_parameters(p)
    frames = link_frames(n, n["start"])
    model = Model(gravity=-n["gravity"] * jnp.array([0.0, 0.0, 1.0]))
    links, before = [], model.ground
    for i in range(6):
        x, R = frames[i + 1]
        link = model.add_body(
            mass=n["masses"][i],
            inertia=n["inertias"][i],
            position=x + R @ n["centres"][i],
            rotation=R,
            name=f"link-{i + 1}",
            check_inertia=False,
        )
        joint = Revolute(before, link, point=frames[i].x, axis=frames[i].R[:, 2], name=f"joint-{i + 1}")
        model.add(joint)
        target = Swing(n["goal"][i] - n["start"][i], n["motion_time"])
        model.add(PD(joint, n["proportional"][i], n["derivative"][i], target, name=f"control-{i + 1}"))
        links.append(link)
        before = link

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        def joint_angles(t: Array, state: State) -> Float[Array, "6"]:
            targets = n["start"] + Swing(n["goal"] - n["start"], n["motion_time"])(t)
            rotations = [jnp.eye(3)] + [system.pose_in(state, link).R for link in links]
            turns = [R.T @ S for R, S in itertools.pairwise(rotations)]
            # Errors of the controllers stay below half a turn, so the targets tell how many turns were made.
            cosine, sine = jnp.stack([C[0, 0] for C in turns]), jnp.stack([C[1, 0] for C in turns])
            c, s = jnp.cos(targets), jnp.sin(targets)
            return targets + jnp.arctan2(sine * c - cosine * s, cosine * c + sine * s)

        return {"joint_angles": joint_angles, "hand": origins(system)[-1]}

    def origins(system: AssembledSystem) -> list[Observable]:
        """Origins of the link frames."""

        def origin(i: int) -> Observable:
            def place(t: Array, state: State) -> Float[Array, "3"]:
                x, R = system.pose_in(state, links[i])
                return x - R @ n["centres"][i]

            return place

        return [lambda t, state: jnp.zeros(3), *(origin(i) for i in range(6))]

    def parts(system: AssembledSystem) -> tuple[scene.Body | scene.Line | scene.Trail, ...]:
        return polyline("arm", tuple(origins(system)), "#4477aa"), scene.Trail("hand")

    is_default = same_numbers(p, _DEFAULTS, ("formulation", "duration"))
    reference = _REFERENCE if is_default else {}
    return model_problem("puma", _make, p, model, redundant, outputs, parts, doc=_DOC, h=1e-3, reference=reference)


def _check_parameters(p: Mapping[str, Any]) -> dict[str, Array]:
    checks.positive("duration", p["duration"], (), "end time")
    vectors = ("d", "a", "alpha", "start", "goal", "proportional", "derivative")
    return {
        **{name: checks.array(name, p[name], (6,), "one number a joint") for name in vectors},
        "masses": checks.positive("masses", p["masses"], (6,), "of the links"),
        "centres": checks.array("centres", p["centres"], (6, 3), "centres of mass in the link frames"),
        "inertias": checks.positive("inertias", p["inertias"], (6, 3), "principal moments of the links"),
        "motion_time": checks.positive("motion_time", p["motion_time"], (), "of the targets"),
        "gravity": checks.array("gravity", p["gravity"], (), "gravitational acceleration towards -z"),
    }
