"""Springs, dampers, reflected inertias and actuators of the joints of an imported model."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from polhode.forces.joint_forces import JointSpring
from polhode.importers._mujoco import mujoco
from polhode.importers.construction import Construction
from polhode.importers.elements import BallDamper, ConstantEffort, ImportedForce
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


def add_passive(construction: Construction, records: list[FileJoint]) -> list[NotCarried]:
    """Springs, dampers and reflected inertias; returns what could not be carried over."""
    m = construction.start.compiled
    springs = 0.0 if m.opt.disableflags & _DISABLE.mjDSBL_SPRING else 1.0
    dampers = 0.0 if m.opt.disableflags & _DISABLE.mjDSBL_DAMPER else 1.0
    lost: dict[str, list[str]] = {}
    for record in records:
        dof = int(m.jnt_dofadr[record.number])
        stiffness = springs * float(m.jnt_stiffness[record.number])
        damping = dampers * float(m.dof_damping[dof])
        armature = float(m.dof_armature[dof])
        if record.relative is not None:
            rest = float(m.qpos_spring[m.jnt_qposadr[record.number]])
            _add_load(construction, record, f"{record.name} spring-damper", rest, 0.0, stiffness, damping)
            if armature > 0:
                construction.model.add(RotorInertia(record, armature, name=f"{record.name} armature"))
            continue
        if record.kind == "ball" and damping > 0:
            element = BallDamper(jnp.asarray(damping))
            construction.model.add(ImportedForce(record.ends, element, f"{record.name} damper"))
        for what, value in (("springs", stiffness), ("armature", armature), ("dampers", damping)):
            if value > 0 and not (what == "dampers" and record.kind == "ball"):
                lost.setdefault(what, []).append(record.name)
    reasons = {
        "springs": "not carried for ball and free joints, nor for three hinges that are not perpendicular",
        "armature": "reflected inertia is carried for joints with a scalar coordinate only",
        "dampers": "not carried for free joints, nor for three hinges that are not perpendicular",
    }
    return [NotCarried(f"joint {what}", tuple(names), reasons[what]) for what, names in lost.items()]


def _add_load(
    construction: Construction,
    record: FileJoint,
    name: str,
    rest: float,
    constant: float,
    stiffness: float,
    damping: float,
) -> None:
    if record.relative is None or not (constant or stiffness or damping):
        return
    coordinate, model = record.relative, construction.model
    if constant:
        model.add(ImportedForce(record.ends, ConstantEffort(coordinate, jnp.asarray(constant)), f"{name} effort"))
    if stiffness or damping:
        model.add(JointSpring(record, stiffness, damping, rest, name=name))


def add_actuators(construction: Construction, records: list[FileJoint]) -> list[NotCarried]:
    """Actuators on hinges and slides with their control held; returns what could not be carried over."""
    start = construction.start
    m, controls = start.compiled, start.data.ctrl
    if m.opt.disableflags & _DISABLE.mjDSBL_ACTUATION:
        return []
    measured = {r.number: r for r in records if r.relative is not None}
    lost: list[str] = []
    bounded: list[str] = []
    held: list[str] = []
    for i in range(m.nu):
        name = start.name(mujoco.mjtObj.mjOBJ_ACTUATOR, i)
        control = float(np.clip(controls[i], *m.actuator_ctrlrange[i]) if m.actuator_ctrllimited[i] else controls[i])
        record = measured.get(int(m.actuator_trnid[i, 0])) if int(m.actuator_trntype[i]) in _ON_JOINT else None
        if record is None or not _is_affine(m, i, control):
            lost.append(name)
            continue
        gear = float(m.actuator_gear[i, 0])
        b0, b1, b2 = m.actuator_biasprm[i, :3] * (m.actuator_biastype[i] != mujoco.mjtBias.mjBIAS_NONE)
        constant = gear * float(m.actuator_gainprm[i, 0] * control + b0)
        _add_load(construction, record, f"{name} actuator", 0.0, constant, -float(b1) * gear**2, -float(b2) * gear**2)
        (bounded if m.actuator_forcelimited[i] and (constant or b1 or b2) else held).append(name)
    rows = (
        ("actuators", lost, "only motors, position and velocity servos on hinges and slides are carried", True),
        ("force limits of actuators", bounded, "control is held and the force has no bounds", True),
        ("control of actuators", held, "held at its value at the start, zero unless a keyframe sets it", False),
    )
    return [NotCarried(what, tuple(names), why, changes) for what, names, why, changes in rows if names]


def _is_affine(m: Any, i: int, control: float) -> bool:
    """Whether the force is affine in the joint coordinate and its rate while the control stays."""
    dynamics = int(m.actuator_dyntype[i])
    still = dynamics == mujoco.mjtDyn.mjDYN_NONE or (dynamics in _AT_REST and control == 0)
    gain = m.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_FIXED
    bias = int(m.actuator_biastype[i]) in _AFFINE
    extra = m.actuator_damping[i] or m.actuator_armature[i] or np.any(m.actuator_dampingpoly[i])
    return bool(still and gain and bias and not extra)
