"""Passive loads on the joints of an imported model: springs, dampers, rotors, stops and dry friction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from polhode.forces.file_elements import BallDamper, FreeDamper, ImportedForce
from polhode.forces.joint_forces import JointFriction, JointSpring, JointStops
from polhode.importers._mujoco import is_disabled
from polhode.importers.construction import Construction
from polhode.importers.joints import FileJoint
from polhode.importers.limit_stops import Limit, warn_of_starts
from polhode.importers.losses import NotCarried
from polhode.joints.coupling import CoupledJoints
from polhode.joints.named_coordinates import AbstractMeasured
from polhode.joints.rotor import RotorInertia


class ImportOptions(NamedTuple):
    """Options of the user for loads.

    - `controls`: of actuators by name, numbers, functions of time, or of (t, positions, rates).
    - `limits`: whether joints have stops. - `stick_velocity`: below which dry friction sticks; None to leave it out.
    - `rigid`: whether stops and dry friction are contacts of the joints, without compliance and with true sticking.
    """

    controls: Mapping[str, float | Callable[..., Any]]
    limits: bool
    stick_velocity: float | None
    rigid: bool = False

    def friction(self, along: AbstractMeasured, largest: float, name: str) -> JointFriction | None:
        """Dry friction along a coordinate; None where there is none, or it is left out."""
        if not largest or self.stick_velocity is None:
            return None
        return JointFriction(along, largest, None if self.rigid else self.stick_velocity, name=name)


def add_passive(construction: Construction, joints: Sequence[FileJoint], options: ImportOptions) -> list[NotCarried]:
    """Springs, dampers, rotors, stops and dry friction; returns what could not be carried over."""
    losses: dict[str, list[str]] = {}
    with_stops: list[tuple[FileJoint, JointStops]] = []
    without_stops: dict[str, list[str]] = {}
    for joint in joints:
        data = _of_joint(construction, joint)
        if not joint.measured:
            _add_to_turns(construction, joint, data, losses)
            continue
        _add_along(construction, joint, data, options)
        if data.has_limits and options.limits:
            stops = _stops(construction, joint, options.rigid)
            if isinstance(stops, str):
                without_stops.setdefault(stops, []).append(joint.name)
            else:
                construction.model.add(stops)
                with_stops.append((joint, stops))
    followers = {id(part.follower) for _, part in construction.model.parts if isinstance(part, CoupledJoints)}
    # Followers start where their leaders put them.
    warn_of_starts([(joint, stops) for joint, stops in with_stops if id(joint) not in followers])
    reason = "not carried for ball and free joints, nor for three hinges that are not perpendicular"
    records = [NotCarried(f"{what} of joints", tuple(names), reason) for what, names in losses.items()]
    return records + [NotCarried("limits of joints", tuple(names), why) for why, names in without_stops.items()]


class _OfJoint(NamedTuple):
    stiffness: float
    rest: float
    damping: float
    armature: float
    friction: float
    has_limits: bool


def _of_joint(construction: Construction, joint: FileJoint) -> _OfJoint:
    m = construction.start.compiled
    dof, number = int(m.jnt_dofadr[joint.number]), joint.number
    return _OfJoint(
        stiffness=0.0 if is_disabled(m, "spring") else float(m.jnt_stiffness[number]),
        rest=float(m.qpos_spring[m.jnt_qposadr[number]]),
        damping=0.0 if is_disabled(m, "damper") else float(m.dof_damping[dof]),
        armature=float(m.dof_armature[dof]),
        friction=0.0 if is_disabled(m, "frictionloss") else float(m.dof_frictionloss[dof]),
        has_limits=bool(m.jnt_limited[number]) and not is_disabled(m, "limit"),
    )


def _add_along(construction: Construction, joint: FileJoint, data: _OfJoint, options: ImportOptions) -> None:
    """All but stops along a hinge or slide."""
    if data.stiffness or data.damping:
        name = f"{joint.name} spring-damper"
        construction.model.add(JointSpring(joint, data.stiffness, data.damping, data.rest, name=name))
    if data.armature > 0:
        construction.model.add(RotorInertia(joint, data.armature, name=f"{joint.name} armature"))
    friction = options.friction(joint, data.friction, f"{joint.name} friction")
    if friction is not None:
        construction.model.add(friction)


def _add_to_turns(construction: Construction, joint: FileJoint, data: _OfJoint, losses: dict[str, list[str]]) -> None:
    """Adds the damper of a joint without a scalar coordinate; adds the rest to `losses`."""
    has_damper = _add_damper(construction, joint, data.damping)
    for what, value in (
        ("springs", data.stiffness),
        ("armature", data.armature),
        ("dampers", 0.0 if has_damper else data.damping),
        ("limits", data.has_limits),
        ("dry friction", data.friction),
    ):
        if value:
            losses.setdefault(what, []).append(joint.name)


def _add_damper(construction: Construction, joint: FileJoint, damping: float) -> bool:
    """Adds the damper of a ball or a free joint; returns whether it could."""
    if not damping or joint.kind not in ("ball", "free"):
        return False
    start, body = construction.start, int(construction.start.compiled.jnt_bodyid[joint.number])
    if joint.kind == "ball":
        element: Any = BallDamper(jnp.asarray(damping))
    else:
        element = FreeDamper(jnp.asarray(damping), jnp.asarray(construction.local(body, start.pose(body).x)))
    construction.model.add(ImportedForce(joint.ends, element, f"{joint.name} damper"))
    return True


def _stops(construction: Construction, joint: FileJoint, rigid: bool) -> JointStops | str:
    """Stops of a hinge or slide with a range, or why there are none."""
    m, i = construction.start.compiled, joint.number
    limit = Limit(m.jnt_range[i], float(m.jnt_margin[i]), m.jnt_solref[i], m.jnt_solimp[i])
    name = f"{joint.name} stops"
    # One that starts outside of its range is pushed back by elastic stops.
    rigid_stops = limit.rigid_stops(joint, joint.start, name) if rigid else None
    if rigid_stops is not None:
        return rigid_stops
    return limit.stops(joint, construction.inertia_along(i), f"{joint.name} stops")
