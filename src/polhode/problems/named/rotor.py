"""A fast rotor on flexible supports."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from polhode.forces import Bushing, Torque
from polhode.model.model import Model
from polhode.problem import Observable, Reference
from polhode.problems._model_problem import AssembledSystem, ModelDraft, point_of, polyline, scene_body
from polhode.problems.declaration import Number, Positive, declare
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
"""

_SOURCE = "unit quaternion and body rates, DOP853 at 1e-13, with the chosen data"
_REFERENCE: dict[str, Reference] = {
    "p1": {"t": 4.0, "value": (-0.40000011, -0.00454298, 0.00128923), "error": 1e-8, "source": _SOURCE},
    "angular_velocity": {"t": 4.0, "value": (640.028520, -0.0054909, -0.0077554), "error": 1e-6, "source": _SOURCE},
}


@declare("rotor", _DOC)
def rotor(
    formulation: str = "SO3xR3",
    mass: Positive = 2.0,
    inertia: Any = (0.25, 0.25 / 2 + 2.0 * 0.2**2 / 12, 0.25 / 2 + 2.0 * 0.2**2 / 12),
    length: Positive = 1.0,
    left: Number = 0.4,
    stiffness: Positive = 800.0,
    gravity: Number = 9.81,
    spin: Number = 640.0,
    duration: Positive = 4.0,
) -> ModelDraft:
    """A high-speed rotor on flexible supports.

    **Arguments**, in SI units:

    - `formulation`: coordinates of the body, as in `Model.assemble`.
    - `mass`: mass.
    - `inertia`: principal moments, the first about the axis of the rotor, shape (3,).
    - `length`: length; L, distance of the supports.
    - `left`: distance of the left support from the centre of mass; L_L.
    - `stiffness`: stiffness; k of every spring.
    - `gravity`: gravitational acceleration; in the torque (length/2 - left)·mass·gravity about z.
    - `spin`: angular velocity about x; at the start.
    - `duration`: end time.
    """
    x, z = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 1.0])
    model = Model()
    disc = model.add_body(mass=mass, inertia=inertia, angular_velocity=spin * x, name="disc")
    model.add(Bushing(model.ground, disc, point=-left * x, stiffness=stiffness * jnp.ones(3), name="left-support"))
    across = stiffness * (jnp.ones(3) - x)
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

    return ModelDraft(model, outputs, parts, h=1e-4, reference=_REFERENCE, independent_of=("formulation", "duration"))
