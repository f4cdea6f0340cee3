"""A fast rotor on flexible supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from polhode import checks
from polhode.forces import Bushing, Torque
from polhode.model.model import Model
from polhode.problem import Observable, Problem, Reference
from polhode.problems._model_problem import AssembledSystem, model_problem, point_of, polyline, same_numbers, scene_body
from polhode.problems.registry import register
from polhode.viewing.scene import scene

_DOC = """A rigid disc that spins about the x axis at 640 rad/s in two elastic supports and precesses under a torque.

The supports are linear springs in the inertial frame at p₁ = (-L_L, 0, 0) and p₂ = (L_R, 0, 0): the left one along x, y
and z, the right one along y and z. The centre of mass of the disc starts at the origin, the springs at rest. Instead of
its weight the constant torque (L/2 - L_L) m g about the inertial z axis acts. The model is that of S. Holzinger,
M. Arnold & J. Gerstmayr; their masses, stiffnesses and speed were not at hand, and the numbers here are chosen such
that the precession has their period of 2.5 s: m = 2, J = diag(0.25, 0.1316667, 0.1316667) (disc of radius 0.5 and
length 0.2), L = 1, L_L = 0.4, k = 800.

Output `p1` is the point at the left support. There is no constraint, so that explicit methods run it as well. The
torque has no potential; energy is no invariant.

Parameters: `formulation`, `mass`, `inertia` (3,), `length` (L), `left` (L_L), `stiffness` (k), `gravity`, `spin`,
`duration`. SI units.
"""

_DEFAULTS: dict[str, Any] = {
    "formulation": "SO3xR3",
    "mass": 2.0,
    "inertia": (0.25, 0.25 / 2 + 2.0 * 0.2**2 / 12, 0.25 / 2 + 2.0 * 0.2**2 / 12),
    "length": 1.0,
    "left": 0.4,
    "stiffness": 800.0,
    "gravity": 9.81,
    "spin": 640.0,
    "duration": 4.0,
}

_SOURCE = "unit quaternion and body rates, DOP853 at 1e-13, with the chosen data"
_REFERENCE: dict[str, Reference] = {
    "p1": {"t": 4.0, "value": (-0.40000011, -0.00454298, 0.00128923), "error": 1e-8, "source": _SOURCE},
    "angular_velocity": {"t": 4.0, "value": (640.028520, -0.0054909, -0.0077554), "error": 1e-6, "source": _SOURCE},
}


@register("rotor")
def rotor(
    formulation: str = _DEFAULTS["formulation"],
    mass: Any = _DEFAULTS["mass"],
    inertia: Any = _DEFAULTS["inertia"],
    length: Any = _DEFAULTS["length"],
    left: Any = _DEFAULTS["left"],
    stiffness: Any = _DEFAULTS["stiffness"],
    gravity: Any = _DEFAULTS["gravity"],
    spin: Any = _DEFAULTS["spin"],
    duration: Any = _DEFAULTS["duration"],
) -> Problem:
    """A high-speed rotor on flexible supports.

    **Arguments:**

    - `formulation`: coordinates of the body, as in `Model.assemble`.
    - `mass`; `inertia`: principal moments, the first about the axis of the rotor, shape (3,).
    - `length`, `left`: distance of the supports, and of the left one from the centre of mass.
    - `stiffness`: of every spring. - `gravity`: in the torque (length/2 - left)·mass·gravity about z.
    - `spin`: angular velocity about x at the start.
    - `duration`: end time.
    """
    return _make(dict(locals()))


def _make(p: Mapping[str, Any], redundant: Any = "error") -> Problem:
    checks.positive("duration", p["duration"], (), "end time")
    mass, length, k = (checks.positive(name, p[name], (), name) for name in ("mass", "length", "stiffness"))
    left = checks.array("left", p["left"], (), "distance of the left support from the centre of mass")
    gravity = checks.array("gravity", p["gravity"], (), "gravitational acceleration")
    spin = checks.array("spin", p["spin"], (), "angular velocity about x")
    x, z = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 1.0])
    model = Model()
    disc = model.add_body(mass=mass, inertia=p["inertia"], angular_velocity=spin * x, name="disc")
    model.add(Bushing(model.ground, disc, point=-left * x, stiffness=k * jnp.ones(3), name="left-support"))
    across = k * (jnp.ones(3) - x)
    model.add(Bushing(model.ground, disc, point=(length - left) * x, stiffness=across, name="right-support"))
    model.add(Torque(disc, (length / 2 - left) * mass * gravity * z, name="torque"))

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        return {
            "p1": point_of(system, disc, -left * x),
            "angular_velocity": lambda t, state: system.twist_in(state, disc).omega,
            "rotation": lambda t, state: system.pose_in(state, disc).R,
        }

    def parts(system: AssembledSystem) -> tuple[scene.Body | scene.Line | scene.Trail, ...]:
        # A cylinder is drawn along its third axis.
        rotation = jnp.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        wide: Array = 0.5 * length
        shaft = polyline("shaft", (point_of(system, disc, -left * x), point_of(system, disc, (length - left) * x)))
        cylinder = scene_body(system, disc, jnp.stack((wide, wide, 0.1 * length)), "cylinder", rotation=rotation)
        return cylinder, shaft, scene.Trail("p1")

    is_default = same_numbers(p, _DEFAULTS, ("formulation", "duration"))
    reference = _REFERENCE if is_default else {}
    return model_problem("rotor", _make, p, model, redundant, outputs, parts, doc=_DOC, h=1e-4, reference=reference)
