"""Outputs of problems from files."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.importers.joints import FileJoint, first_of
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

    # No joint is captured: programs with nothing but frozen modules and plain values have short keys.
    measured = tuple(joint.coordinate() for joint in scalar_joints)
    ends = tuple(tuple(body.name for body in joint.bodies) for joint in scalar_joints)
    sources = tuple(joint.sources for joint in scalar_joints)

    def positions(t: Array, state: State) -> Array:
        coordinates, at = system.joint_coordinates(state[0]), where(state)
        values = [first_of(names, coordinates) for names in sources]
        parts = zip(measured, ends, values, strict=True)
        return jnp.stack([c.value(at.poses(pair)) if value is None else value for c, pair, value in parts])

    def velocities(t: Array, state: State) -> Array:
        rates, at = system.coordinates.joint_rates(state[1]), where(state)
        values = [first_of([(name, 0.0) for name, _ in names], rates) for names in sources]
        parts = zip(measured, ends, values, strict=True)
        return jnp.stack(
            [c.rate(at.poses(pair), at.twists(pair)) if value is None else value for c, pair, value in parts]
        )

    outputs: dict[str, Observable] = {}
    if scalar_joints:
        outputs["joint_positions"] = positions
        outputs["joint_velocities"] = velocities
    outputs["positions"] = lambda t, state: system.poses_in(state).x[rows]
    outputs["quaternions"] = lambda t, state: jax.vmap(quaternions.from_matrix)(system.poses_in(state).R[rows])
    own = system.outputs()
    return outputs | {name: own[name] for name in ("kinetic_energy", "potential_energy")}
