"""Outputs of problems from files."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.importers.joints import FileJoint
from polhode.multibody.measurements.body_kinematics import NodesByName
from polhode.multibody.system import MultibodySystem
from polhode.spaces import quaternions
from polhode.systems.base import Observable, State


def model_outputs(system: MultibodySystem, joints: Sequence[FileJoint], rigid: Sequence[str]) -> dict[str, Observable]:
    """Coordinates and rates of joints, positions and attitudes of the bodies named in `rigid`, and energies."""
    scalar_joints = [joint for joint in joints if joint.measured]
    numbers = {name: number for number, name in enumerate(system.names)}
    rows = np.array([numbers[name] for name in rigid])

    def where(state: State) -> NodesByName:
        q, v = state
        return NodesByName(system, system.motion(q, v))

    def ends(joint: FileJoint) -> tuple[str, ...]:
        return tuple(body.name for body in joint.bodies)

    def positions(t: Array, state: State) -> Array:
        coordinates, at = system.joint_coordinates(state[0]), where(state)
        values = [joint.from_system(coordinates) for joint in scalar_joints]
        pairs = zip(scalar_joints, values, strict=True)
        return jnp.stack([j.coordinate().value(at.poses(ends(j))) if value is None else value for j, value in pairs])

    def velocities(t: Array, state: State) -> Array:
        at = where(state)
        return jnp.stack([j.coordinate().rate(at.poses(ends(j)), at.twists(ends(j))) for j in scalar_joints])

    outputs: dict[str, Observable] = {}
    if scalar_joints:
        outputs["joint_positions"] = positions
        outputs["joint_velocities"] = velocities
    outputs["positions"] = lambda t, state: system.poses_in(state).x[rows]
    outputs["quaternions"] = lambda t, state: jax.vmap(quaternions.from_matrix)(system.poses_in(state).R[rows])
    own = system.outputs()
    return outputs | {name: own[name] for name in ("kinetic_energy", "potential_energy")}
