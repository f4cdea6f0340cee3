"""Loads on the joints of an imported model: springs, dampers, rotors, stops, dry friction and actuators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from polhode import checks
from polhode.forces.joint_forces import Actuator, JointFriction, JointSpring, JointStops
from polhode.importers._mujoco import mujoco
from polhode.importers.construction import Construction
from polhode.importers.elements import BallDamper, FreeDamper, ImportedForce
from polhode.importers.feedback import Driven, controller, is_feedback
from polhode.importers.inventory import NotCarried
from polhode.importers.joints import FileJoint
from polhode.importers.stops import onset, stiffness_and_damping
from polhode.importers.tendons import combination, is_fixed
from polhode.joints.measured import AbstractMeasured
from polhode.joints.rotor import RotorInertia

_DISABLE = mujoco.mjtDisableBit
# As integers: MuJoCo's enumerations equal NumPy's integers in one order of the operands only.
_ON_JOINT = {int(k) for k in (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)}
_AT_REST = {
    int(k) for k in (mujoco.mjtDyn.mjDYN_INTEGRATOR, mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)
}
_AFFINE = {int(k) for k in (mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtBias.mjBIAS_AFFINE)}
_UNBOUNDED = np.array([-np.inf, np.inf])


class Wanted(NamedTuple):
    """Wishes of the user about loads.

    - `controls`: of actuators by name, numbers, functions of time, or of (t, positions, rates).
    - `limits`: whether joints have stops. - `stick_velocity`: below which dry friction sticks; None to leave it out.
    """

    controls: Mapping[str, float | Callable[..., Any]]
    limits: bool
    stick_velocity: float | None


def add_passive(construction: Construction, joints: Sequence[FileJoint], wanted: Wanted) -> list[NotCarried]:
    """Springs, dampers, rotors, stops and dry friction; returns what could not be carried over."""
    off = construction.start.compiled.opt.disableflags
    lost: dict[str, list[str]] = {}
    weightless: list[str] = []
    for joint in joints:
        data = _of_joint(construction, joint)
        if joint.measured:
            _add_along(construction, joint, data)
            limited = wanted.limits and data.limited and not off & _DISABLE.mjDSBL_LIMIT
            if limited and not _add_stops(construction, joint):
                weightless.append(joint.name)
            if wanted.stick_velocity and data.friction and not off & _DISABLE.mjDSBL_FRICTIONLOSS:
                friction = JointFriction(joint, data.friction, wanted.stick_velocity, name=f"{joint.name} friction")
                construction.model.add(friction)
            continue
        damped = _add_damper(construction, joint, data.damping)
        for what, value in (
            ("springs", data.stiffness),
            ("armature", data.armature),
            ("dampers", 0.0 if damped else data.damping),
            ("limits", data.limited),
            ("dry friction", data.friction),
        ):
            if value:
                lost.setdefault(what, []).append(joint.name)
    reason = "not carried for ball and free joints, nor for three hinges that are not perpendicular"
    found = [NotCarried(f"{what} of joints", tuple(names), reason) for what, names in lost.items()]
    if weightless:
        reason = "stops are as stiff as suits the inertia along the joint, which is zero at the start"
        found.append(NotCarried("limits of joints", tuple(weightless), reason))
    return found


class _OfJoint(NamedTuple):
    stiffness: float
    rest: float
    damping: float
    armature: float
    friction: float
    limited: bool


def _of_joint(construction: Construction, joint: FileJoint) -> _OfJoint:
    m = construction.start.compiled
    dof, number = int(m.jnt_dofadr[joint.number]), joint.number
    springs = not m.opt.disableflags & _DISABLE.mjDSBL_SPRING
    dampers = not m.opt.disableflags & _DISABLE.mjDSBL_DAMPER
    return _OfJoint(
        stiffness=springs * float(m.jnt_stiffness[number]),
        rest=float(m.qpos_spring[m.jnt_qposadr[number]]),
        damping=dampers * float(m.dof_damping[dof]),
        armature=float(m.dof_armature[dof]),
        friction=float(m.dof_frictionloss[dof]),
        limited=bool(m.jnt_limited[number]),
    )


def _add_along(construction: Construction, joint: FileJoint, data: _OfJoint) -> None:
    if data.stiffness or data.damping:
        name = f"{joint.name} spring-damper"
        construction.model.add(JointSpring(joint, data.stiffness, data.damping, data.rest, name=name))
    if data.armature > 0:
        construction.model.add(RotorInertia(joint, data.armature, name=f"{joint.name} armature"))


def _add_damper(construction: Construction, joint: FileJoint, damping: float) -> bool:
    """The damper of a ball or a free joint; whether it could be added."""
    if not damping or joint.kind not in ("ball", "free"):
        return False
    start, body = construction.start, int(construction.start.compiled.jnt_bodyid[joint.number])
    if joint.kind == "ball":
        element: Any = BallDamper(jnp.asarray(damping))
    else:
        element = FreeDamper(jnp.asarray(damping), jnp.asarray(construction.local(body, start.pose(body).x)))
    construction.model.add(ImportedForce(joint.ends, element, f"{joint.name} damper"))
    return True


def _add_stops(construction: Construction, joint: FileJoint) -> bool:
    """Stops as stiff and as damped as MuJoCo's constraint fully in force, for the inertia at the start, if any."""
    m = construction.start.compiled
    k, d = stiffness_and_damping(m.jnt_solref[joint.number], m.jnt_solimp[joint.number])
    inertia = construction.inertia_along(joint.number)
    if not inertia > 0:
        return False
    limits = tuple(m.jnt_range[joint.number])
    depth = onset(m.jnt_solimp[joint.number])
    part = JointStops(joint, limits, k * inertia, d * inertia, name=f"{joint.name} stops", onset=depth)
    construction.model.add(part)
    return True


def add_actuators(construction: Construction, joints: Sequence[FileJoint], wanted: Wanted) -> list[NotCarried]:
    """Affine actuators on hinges, slides and fixed tendons; returns what could not be carried over."""
    start = construction.start
    m = start.compiled
    names = [start.name(mujoco.mjtObj.mjOBJ_ACTUATOR, i) for i in range(m.nu)]
    for name in wanted.controls:
        if name not in names:
            known = f"Known: {', '.join(names)}." if names else "It has none."
            raise ValueError(f"There is no actuator `{name}`.{checks.nearest(name, names)} {known}")
    if m.opt.disableflags & _DISABLE.mjDSBL_ACTUATION:
        return []
    by_number = {joint.number: joint for joint in joints}
    lost: list[str] = []
    fed_back: list[Driven] = []
    for i, name in enumerate(names):
        control = wanted.controls.get(name, float(start.data.ctrl[i]))
        driven = _driven(m, by_number, i)
        if driven is None or not is_affine(m, i, control) or _is_shared(m, i):
            lost.append(name)
            continue
        if is_feedback(control):
            fed_back.append(Driven(_actuator(m, i, driven, 0.0, f"{name} actuator"), control))
        else:
            construction.model.add(_actuator(m, i, driven, control, f"{name} actuator"))
    if fed_back:
        measured = [joint for joint in joints if joint.measured]
        construction.model.add(controller(measured, fed_back, construction.free_name("feedback", "control")))
    reason = "only affine ones without a state on hinges, slides and fixed tendons are carried, one for a limit"
    return [NotCarried("actuators", tuple(lost), reason)] if lost else []


def _driven(m: Any, joints: Mapping[int, FileJoint], i: int) -> AbstractMeasured | None:
    """The coordinate that an actuator acts along; None if that is neither a hinge, a slide nor a fixed tendon."""
    kind, number = int(m.actuator_trntype[i]), int(m.actuator_trnid[i, 0])
    if kind in _ON_JOINT:
        joint = joints[number]
        return joint if joint.measured else None
    if kind == int(mujoco.mjtTrn.mjTRN_TENDON) and is_fixed(m, number):
        return combination(m, joints, number)
    return None


def _effort_range(m: Any, i: int) -> np.ndarray | None:
    """Limits of all that actuators do along what one acts along; None if there are none."""
    number = int(m.actuator_trnid[i, 0])
    if int(m.actuator_trntype[i]) in _ON_JOINT:
        return m.jnt_actfrcrange[number] if m.jnt_actfrclimited[number] else None
    return m.tendon_actfrcrange[number] if m.tendon_actfrclimited[number] else None


def _actuator(m: Any, i: int, driven: AbstractMeasured, control: Any, name: str) -> Actuator:
    gear, most = float(m.actuator_gear[i, 0]), _effort_range(m, i)
    limits = m.actuator_forcerange[i] if m.actuator_forcelimited[i] else _UNBOUNDED
    if most is not None and gear:
        within = np.sort(most / gear)
        limits = np.array([max(limits[0], within[0]), min(limits[1], within[1])])
    return Actuator(
        driven,
        control=control,
        gain=float(m.actuator_gainprm[i, 0]),
        bias=m.actuator_biasprm[i, :3] * (m.actuator_biastype[i] != mujoco.mjtBias.mjBIAS_NONE),
        gear=gear,
        control_limits=m.actuator_ctrlrange[i] if m.actuator_ctrllimited[i] else _UNBOUNDED,
        force_limits=limits,
        name=name,
    )


def is_affine(m: Any, i: int, control: Any) -> bool:
    """Whether the force is affine in control, joint coordinate and rate."""
    dynamics = int(m.actuator_dyntype[i])
    still = dynamics == mujoco.mjtDyn.mjDYN_NONE or (dynamics in _AT_REST and not callable(control) and control == 0)
    gain = m.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_FIXED
    bias = int(m.actuator_biastype[i]) in _AFFINE
    extra = m.actuator_damping[i] or m.actuator_armature[i] or np.any(m.actuator_dampingpoly[i])
    return bool(still and gain and bias and not extra)


def _is_shared(m: Any, i: int) -> bool:
    """Whether several actuators act along what has a limit of effort, which is that of their sum."""
    same = (m.actuator_trnid[:, 0] == m.actuator_trnid[i, 0]) & (m.actuator_trntype == m.actuator_trntype[i])
    if int(m.actuator_trntype[i]) in _ON_JOINT:
        on_joint = np.isin(m.actuator_trntype, list(_ON_JOINT))
        same = (m.actuator_trnid[:, 0] == m.actuator_trnid[i, 0]) & on_joint
    return _effort_range(m, i) is not None and int(np.count_nonzero(same)) > 1
