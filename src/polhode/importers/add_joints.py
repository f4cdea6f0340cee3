"""Joints of a file, added between the bodies of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polhode.assembly.held_coordinates import HeldQuantity, held_attitude, held_coordinate, held_pose
from polhode.importers import compound_joints, joint_chain
from polhode.importers._mujoco import mujoco
from polhode.importers.construction import Construction
from polhode.importers.joints import FileJoint


def build_joints(construction: Construction, velocity_limits: Mapping[str, float]) -> list[FileJoint]:
    """Adds the joints of all bodies; returns all joints of the file. `velocity_limits`: by name."""
    joints: list[FileJoint] = []
    for body in construction.carriers:
        if body == 0:
            continue
        for chain in compound_joints.split(construction, joint_chain.read_chain(construction, body)):
            joints += _add_chain(construction, chain, velocity_limits)
    return joints


def _force_limits(m: Any, joint: int) -> tuple[float, float]:
    """Limits of the effort along a joint, as the file has them."""
    lower, upper = m.jnt_actfrcrange[joint] if m.jnt_actfrclimited[joint] else (-np.inf, np.inf)
    return float(lower), float(upper)


def _limits(m: Any, joint: int, kind: int) -> tuple[float, float]:
    """The range of a hinge or slide; balls have a cone."""
    has_limits = m.jnt_limited[joint] and kind in (joint_chain.HINGE, joint_chain.SLIDE)
    lower, upper = m.jnt_range[joint] if has_limits else (-np.inf, np.inf)
    return float(lower), float(upper)


def _add_chain(
    construction: Construction, chain: joint_chain.JointChain, velocity_limits: Mapping[str, float]
) -> list[FileJoint]:
    names = [construction.start.name(mujoco.mjtObj.mjOBJ_JOINT, j) for j in chain.numbers]
    part, coordinates = compound_joints.convert(chain, construction.free_name(" + ".join(names), "joint"))
    if part is not None:
        construction.model.add(part)
    return [
        FileJoint(
            name=name,
            kind=joint_chain.NAMES[kind],
            number=number,
            ends=(chain.parent, chain.child),
            part=part,
            relative=coordinates.get(number),
            start=value,
            place=compound_joints.coordinate_name(part, chain, place),
            force_limits=_force_limits(construction.start.compiled, number),
            limits=_limits(construction.start.compiled, number, kind),
            velocity_limit=velocity_limits.get(name, np.inf),
        )
        for place, (number, name, kind, value) in enumerate(
            zip(chain.numbers, names, chain.kinds, chain.values, strict=True)
        )
    ]


def held_values(
    records: Sequence[FileJoint], positions: Mapping[str, Any], velocities: Mapping[str, Any]
) -> list[HeldQuantity]:
    """The joints whose values the user sets, in the order of the arguments, as quantities to hold."""
    by_name = {record.name: record for record in records}
    quantities = []
    for name in dict.fromkeys((*positions, *velocities)):
        record = by_name[name]
        parts = {"position": name in positions, "velocity": name in velocities}
        if record.relative is not None:
            quantities.append(held_coordinate(name, record.relative, record.ends, **parts))
        elif record.kind == "ball":
            quantities.append(held_attitude(name, record.ends, **parts))
        elif record.kind == "free":
            quantities.append(held_pose(name, record.ends, **parts))
    return quantities
