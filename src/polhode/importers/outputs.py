"""Outputs of problems from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.importers.joints import FileJoint
from polhode.multibody.poses import Pose, Poses, Twist, Twists
from polhode.multibody.system import MultibodySystem
from polhode.spaces import quaternions
from polhode.systems.base import Observable, State


def of_model(system: MultibodySystem, joints: Sequence[FileJoint], rigid: Sequence[str]) -> dict[str, Observable]:
    """Coordinates and rates of joints, places and attitudes of the bodies that `rigid` names, energies of all."""
    measured = [joint for joint in joints if joint.measured]
    # The ground comes last.
    row = {name: number for number, name in enumerate((*system.names, "ground"))}
    rows = np.array([row[name] for name in rigid])

    def each(read: Callable[[FileJoint, Any, Poses, Twists], Array]) -> Observable:
        def values(t: Array, state: State) -> Array:
            q, v = state
            motion = system.motion(q, v)
            poses, twists = motion.poses, motion.twists
            assert twists is not None
            found = []
            for joint in measured:
                ends = [row[body.name] for body in joint.bodies]
                where = tuple(Pose(poses.x[i], poses.R[i]) for i in ends)
                found.append(read(joint, q, where, tuple(Twist(twists.omega[i], twists.u[i]) for i in ends)))
            return jnp.stack(found)

        return values

    def position(joint: FileJoint, q: Any, poses: Poses, twists: Twists) -> Array:
        del twists
        counted = joint.counted(system, q)
        return joint.coordinate().difference(poses, 0.0) if counted is None else counted

    found: dict[str, Observable] = {}
    if measured:
        found["joint_positions"] = each(position)
        found["joint_velocities"] = each(lambda joint, q, poses, twists: joint.coordinate().rate(poses, twists))
    found["positions"] = lambda t, state: system.poses_in(state).x[rows]
    found["quaternions"] = lambda t, state: jax.vmap(quaternions.from_matrix)(system.poses_in(state).R[rows])
    own = system.outputs()
    return found | {name: own[name] for name in ("kinetic_energy", "potential_energy")}
