"""A closed loop of four bars in space that a short load sets flying."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.forces import PointForce, Torque
from polhode.joints import Spherical
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.multibody.conversions.livens import JOINTS
from polhode.problem import Observable
from polhode.problems._model_problem import AssembledSystem, ModelDraft, scene_body
from polhode.problems.declaration import Number, Positive, declare
from polhode.spaces.quaternions import from_matrix
from polhode.systems.base import State
from polhode.viewing.scene import scene

_DOC = """Four equal bars form a square with spherical joints at its corners; force and torque act on one bar for 1 s.

Afterwards the loop flies and folds freely: energy and both momenta are constant. Load on bar 1 in the inertial frame:
f = 8 f(t) e₁ and τ = 6 f(t) e₁, f rising to `load` at t = ½ and falling to 0 at t = 1. Bars 1 and 3 lie along e₂ at
(±l/2, 0, 0), bars 2 and 4 along e₁ at (0, ±l/2, 0), all at rest.

Formulations: "livens" for the energy–momentum method, with `joints="invariant"`, which keeps the angular momentum to
round-off, or "vector" as in the paper, which keeps it to O(h²) although Fig. 16 is said to show more; or any of
`Model.assemble`.

Source: P. L. Kinon & P. Betsch, Conserving integration of multibody systems with singular and non-constant mass matrix
including quaternion-based rigid body dynamics, Figs. 14 to 16; numbers from the authors' published code: l = 10,
ρ = A = 1, load 100, h = 0.1.
"""


class Pulse(eqx.Module):
    """A direction times a tent that rises from 0 to `peak` at t = ½ and falls to 0 at t = 1."""

    direction: Float[Array, "3"]
    peak: Array

    def __call__(self, t: Array) -> Float[Array, "3"]:
        return self.peak * jnp.maximum(1 - jnp.abs(2 * t - 1), 0.0) * self.direction


@declare("four-bar-loop", _DOC)
def four_bar_loop(
    formulation: str = "livens",
    joints: str = "invariant",
    length: Positive = 10.0,
    density: Positive = 1.0,
    thickness: Positive = 1.0,
    load: Number = 100.0,
    duration: Positive = 10.0,
) -> ModelDraft:
    """A flying closed loop of four bars.

    **Arguments:**

    - `formulation`: "livens", or coordinates as in `Model.assemble`.
    - `joints`: "invariant" or "vector", for "livens".
    - `length`: of a bar; l.
    - `density`: mass per volume.
    - `thickness`: side of the section; a square.
    - `load`: peak of the load; that of f(t), 8 and 6 times which are the force and the torque.
    - `duration`: end time.
    """
    checks.choice("joints", joints, JOINTS)
    mass = density * thickness**2 * length
    along, across = mass * thickness**2 / 6, mass * (length**2 + thickness**2) / 12
    upright_inertia, lying_inertia = jnp.stack((across, along, across)), jnp.stack((along, across, across))
    model = Model()
    corners = 0.5 * length * np.array([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]])
    bars = [
        model.add_body(
            mass=mass, inertia=lying_inertia if i % 2 else upright_inertia, position=corners[i], name=f"bar-{i + 1}"
        )
        for i in range(4)
    ]
    for a, b in ((0, 1), (0, 3), (1, 2), (2, 3)):
        model.add(Spherical(bars[a], bars[b], point=corners[a] + corners[b], name=f"joint-{a + 1}-{b + 1}"))
    e1 = jnp.array([1.0, 0.0, 0.0])
    model.add(PointForce(bars[0], Pulse(8 * e1, load), name="force"))
    model.add(Torque(bars[0], Pulse(6 * e1, load), name="torque"))

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        def attitudes(t: Array, state: State) -> Float[Array, "4 4"]:
            return jnp.stack([from_matrix(system.pose_in(state, bar).R) for bar in bars])

        return {
            "positions": lambda t, state: jnp.stack([system.pose_in(state, bar).x for bar in bars]),
            "quaternions": attitudes,
            "angular_momentum": _angular_momentum(system, bars, mass, (upright_inertia, lying_inertia)),
            "kinetic_energy": lambda t, state: system.kinetic_energy(t, *state),
        }

    def parts(system: AssembledSystem) -> tuple[scene.Part, ...]:
        sizes = jnp.stack((length, thickness, thickness))
        colours = ("#4477aa", "#ddaa33", "#228833", "#cc6677")
        boxes = (
            scene_body(system, bar, sizes if i % 2 else sizes[jnp.array([1, 0, 2])], colour=colours[i])
            for i, bar in enumerate(bars)
        )
        return *boxes, scene.Trail("positions", index=0)

    return ModelDraft(model, outputs, parts, h=0.1)


def _angular_momentum(
    system: AssembledSystem, bars: list[Body], mass: Array, inertias: tuple[Array, Array]
) -> Observable:
    """About the origin, shape (3,); `inertias` are those of the bars by turns."""

    def momentum(t: Array, state: State) -> Float[Array, "3"]:
        total = jnp.zeros(3)
        for i, bar in enumerate(bars):
            pose, twist = system.pose_in(state, bar), system.twist_in(state, bar)
            total = total + pose.R @ (inertias[i % 2] * twist.omega) + mass * jnp.cross(pose.x, twist.u)
        return total

    return momentum
