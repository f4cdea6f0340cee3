"""A hanging chain of bodies with hinges, for any number of bodies."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.numpy_jit import numpy_jit
from polhode.joints import Revolute
from polhode.model.model import Model
from polhode.multibody.mechanism.poses import Pose
from polhode.problem import Observable
from polhode.problems._closed_loops import about
from polhode.problems._model_problem import AssembledSystem, ModelDraft, rod_inertia
from polhode.problems.declaration import Count, Number, Positive, declare
from polhode.systems.base import State
from polhode.viewing.scene import scene

_DOC = """n equal rods, the first hinged to the origin, each of the others to the end of the one before.

Hinge axes are alternately the third and the second axis of the rods, so that the motion is in space. At the start the
chain is at rest and bent at every hinge, by `bend[0]` at the first, third, … one and by `bend[1]` at the others, and
falls under gravity towards -z. In absolute coordinates it has 6 n velocities and 5 n constraints in a chain: made to
measure how cost grows with n. No published reference; `minimal` coordinates give an independent one.
"""


@declare("body-chain", _DOC)
def body_chain(
    n: Count = 10,
    formulation: str = "SO3xR3",
    mass: Positive = 1.0,
    length: Positive = 0.5,
    radius: Positive = 0.05,
    bend: Number = (0.3, -0.2),
    gravity: Number = 9.81,
    duration: Positive = 1.0,
) -> ModelDraft:
    """A chain of n rods with hinges.

    **Arguments**, in SI units:

    - `n`: number of rods.
    - `formulation`: coordinates, as in `Model.assemble`.
    - `mass`: mass of a rod; a full cylinder.
    - `length`: length of a rod.
    - `radius`: radius of a rod.
    - `bend`: hinge angles at the start; at odd and at even hinges, shape (2,).
    - `gravity`: towards -z.
    - `duration`: end time.
    """
    ends, poses = _start(n, length, bend)
    model = Model(gravity=gravity * jnp.array([0.0, 0.0, -1.0]))
    inertia, rods = rod_inertia(mass, length, radius), []
    for i in range(n):
        rod = model.add_body(mass=mass, inertia=inertia, position=poses.x[i], rotation=poses.R[i], name=f"rod-{i + 1}")
        before = rods[-1] if rods else model.ground
        axis = poses.R[i][:, 2 if i % 2 == 0 else 1]
        model.add(Revolute(before, rod, point=ends[i], axis=axis, name=f"hinge-{i + 1}"))
        rods.append(rod)

    def outputs(system: AssembledSystem) -> dict[str, Observable]:
        def tip(t: Array, state: State) -> Float[Array, "3"]:
            x, R = system.pose_in(state, rods[-1])
            return x + 0.5 * length * R[:, 0]

        return {"tip": tip, "hinges": hinges(system)}

    def hinges(system: AssembledSystem) -> Observable:
        def points(t: Array, state: State) -> Float[Array, "n+1 3"]:
            x, R = jax.tree.map(lambda a: a[:n], system.poses_in(state))
            half = 0.5 * length * R[:, :, 0]
            return jnp.concatenate((x[:1] - half[:1], x + half))

        return points

    def parts(system: AssembledSystem) -> tuple[scene.Body | scene.Line | scene.Trail, ...]:
        return scene.Line("chain", hinges(system)), scene.Trail("tip")

    return ModelDraft(model, outputs, parts, h=1e-3)


def _start(n: int, length: Array, bend: Float[Array, "2"]) -> tuple[Float[Array, "n+1 3"], Pose]:
    """Hinge points with the free end, and poses of the rods; as NumPy arrays where nothing is traced."""

    rotations = _rotations(n, bend)
    steps = length * rotations[:, :, 0]
    ends = jnp.concatenate((jnp.zeros((1, 3)), jnp.cumsum(steps, axis=0)))
    return checks.readable((ends, Pose(0.5 * (ends[1:] + ends[:-1]), rotations)))


@numpy_jit
def _rotations(n: int, bend: Float[Array, "2"]) -> Float[Array, "n 3 3"]:
    """Of the rods at the start."""

    def turn(R: Float[Array, "3 3"], i: Array) -> tuple[Array, Array]:
        after = R @ jnp.where(i % 2 == 0, about(2, bend[0]), about(1, bend[1]))
        return after, after

    return jax.lax.scan(turn, jnp.eye(3), jnp.arange(n))[1]
