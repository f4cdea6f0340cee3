"""Outputs of problems from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.importers.joints import FileJoint
from polhode.multibody.nodes_by_name import NodesByName
from polhode.multibody.system import MultibodySystem
from polhode.spaces import quaternions
from polhode.systems.base import Observable, State


def of_model(system: MultibodySystem, joints: Sequence[FileJoint], rigid: Sequence[str]) -> dict[str, Observable]:
    """Coordinates and rates of joints, places and attitudes of the bodies that `rigid` names, energies of all."""
    measured = [joint for joint in joints if joint.measured]
    numbers = {name: number for number, name in enumerate(system.names)}
    rows = np.array([numbers[name] for name in rigid])

    def each(read: Callable[[FileJoint, Any, NodesByName], Array]) -> Observable:
        def values(t: Array, state: State) -> Array:
            q, v = state
            where = NodesByName(system, system.motion(q, v))
            return jnp.stack([read(joint, q, where) for joint in measured])

        return values

    def ends(joint: FileJoint) -> tuple[str, ...]:
        return tuple(body.name for body in joint.bodies)

    def position(joint: FileJoint, q: Any, where: NodesByName) -> Array:
        counted = joint.counted(system, q)
        return joint.coordinate().difference(where.poses(ends(joint)), 0.0) if counted is None else counted

    def velocity(joint: FileJoint, q: Any, where: NodesByName) -> Array:
        del q
        return joint.coordinate().rate(where.poses(ends(joint)), where.twists(ends(joint)))

    found: dict[str, Observable] = {}
    if measured:
        found["joint_positions"] = each(position)
        found["joint_velocities"] = each(velocity)
    found["positions"] = lambda t, state: system.poses_in(state).x[rows]
    found["quaternions"] = lambda t, state: jax.vmap(quaternions.from_matrix)(system.poses_in(state).R[rows])
    own = system.outputs()
    return found | {name: own[name] for name in ("kinetic_energy", "potential_energy")}
