"""What acts on the joints of an imported model: springs, dampers, rotors, stops, dry friction and actuators."""

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
from polhode.importers.inventory import NotCarried
from polhode.importers.joints import FileJoint
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
    """What the user wants of loads. - `controls`: of actuators by name, numbers or functions of time.

    - `limits`: whether joints have stops. - `stick_velocity`: below which dry friction sticks; None to leave it out.
    """

    controls: Mapping[str, float | Callable[[Any], Any]]
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
    first, second = m.jnt_solref[joint.number]
    most = float(m.jnt_solimp[joint.number, 1])
    if first > 0:
        stiffness, damping = 1 / (most * first * second) ** 2, 2 / (most * first)
    else:
        stiffness, damping = -first / most**2, -second / most
    inertia = construction.inertia_along(joint.number)
    if not inertia > 0:
        return False
    limits = tuple(m.jnt_range[joint.number])
    construction.model.add(
        JointStops(joint, limits, stiffness * inertia, damping * inertia, name=f"{joint.name} stops")
    )
    return True


def add_actuators(construction: Construction, joints: Sequence[FileJoint], wanted: Wanted) -> list[NotCarried]:
    """Affine actuators on hinges and slides; returns what could not be carried over."""
    start = construction.start
    m = start.compiled
    names = [start.name(mujoco.mjtObj.mjOBJ_ACTUATOR, i) for i in range(m.nu)]
    for name in wanted.controls:
        if name not in names:
            known = f"Known: {', '.join(names)}." if names else "It has none."
            raise ValueError(f"There is no actuator `{name}`.{checks.nearest(name, names)} {known}")
    if m.opt.disableflags & _DISABLE.mjDSBL_ACTUATION:
        return []
    measured = {joint.number: joint for joint in joints if joint.measured}
    lost: list[str] = []
    for i, name in enumerate(names):
        control = wanted.controls.get(name, float(start.data.ctrl[i]))
        joint = measured.get(int(m.actuator_trnid[i, 0])) if int(m.actuator_trntype[i]) in _ON_JOINT else None
        if joint is None or not is_affine(m, i, control) or _is_shared(m, joint):
            lost.append(name)
            continue
        construction.model.add(_actuator(m, i, joint, control, f"{name} actuator"))
    reason = "only affine ones without a state on hinges and slides are carried, one for a limit"
    return [NotCarried("actuators", tuple(lost), reason)] if lost else []


def _actuator(m: Any, i: int, joint: FileJoint, control: Any, name: str) -> Actuator:
    gear = float(m.actuator_gear[i, 0])
    limits = m.actuator_forcerange[i] if m.actuator_forcelimited[i] else _UNBOUNDED
    if m.jnt_actfrclimited[joint.number] and gear:
        of_joint = np.sort(m.jnt_actfrcrange[joint.number] / gear)
        limits = np.array([max(limits[0], of_joint[0]), min(limits[1], of_joint[1])])
    return Actuator(
        joint,
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


def _is_shared(m: Any, joint: FileJoint) -> bool:
    """Whether several actuators act on a joint whose limit of effort is that of their sum."""
    on_joint = np.isin(m.actuator_trntype, list(_ON_JOINT)) & (m.actuator_trnid[:, 0] == joint.number)
    return bool(m.jnt_actfrclimited[joint.number]) and int(np.count_nonzero(on_joint)) > 1
