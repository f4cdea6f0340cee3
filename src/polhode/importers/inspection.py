"""Summary of a model file: names, numbers, and what is carried over."""

from __future__ import annotations

from typing import Any

import numpy as np

from polhode.forces.file_elements import ImportedForce
from polhode.forces.joint_forces import Actuator, JointFriction, JointSpring, JointStops
from polhode.forces.loads import PointForce, Torque
from polhode.forces.spring_damper import SpringDamper
from polhode.importers import actuators as drives
from polhode.importers._mujoco import mujoco
from polhode.importers.construction import Start
from polhode.importers.imported_model import ImportedModel
from polhode.importers.joints import FileJoint
from polhode.joints.rotor import AttachedRotor, RotorInertia
from polhode.multibody.parts import AbstractJoint

_OBJ, _TRN = mujoco.mjtObj, mujoco.mjtTrn
UNITS = {"mass": "kg", "length": "m", "angle": "rad", "time": "s", "force": "N", "torque": "N m", "inertia": "kg m²"}
_PART_KINDS = (
    (Actuator, "actuators"),
    (JointSpring, "springs and dampers of joints"),
    (JointStops, "stops at the ends of ranges"),
    (JointFriction, "dry friction of joints"),
    ((RotorInertia, AttachedRotor), "armature"),
    (SpringDamper, "springs and dampers between points"),
    ((PointForce, Torque), "forces and torques on bodies"),
    (ImportedForce, "dampers of ball and free joints"),
    (AbstractJoint, "joints and equalities"),
)
"""Classes of parts and their labels; the first match counts."""


def describe(file_model: ImportedModel) -> dict[str, Any]:
    """Bodies, joints and actuators of a model, and what is carried over, as lists and dictionaries."""
    start = file_model.start
    m = start.compiled
    actuators = [_actuator(start, i) for i in range(m.nactuator)]
    carriers = [i for i in range(m.nbody) if i and m.body_jntnum[i]]
    joints = {joint.number: joint for joint in file_model.joints.values()}
    equalities = [_equality(start, i) for i in range(m.neq)]
    return {
        "name": file_model.name,
        "source": file_model.source,
        "units": UNITS,
        "gravity": np.asarray(file_model.model.gravity).tolist(),
        "ground": _links(start, 0),
        "bodies": [_body(file_model, i, joints, actuators) for i in carriers],
        "actuators": actuators,
        "equalities": equalities,
        "totals": {
            "bodies": len(carriers),
            "joints": int(m.njnt),
            "degrees_of_freedom": int(m.nv),
            "mass": float(sum(float(file_model.links[_body_name(start, i)].mass) for i in carriers)),
            "actuators": len(actuators),
            "equalities": len(equalities),
        },
        "carried": _count_parts(file_model),
        "not_carried": [{"what": i.what, "names": list(i.names), "reason": i.reason} for i in file_model.not_carried],
        "velocity_limits": [joint.name for joint in joints.values() if np.isfinite(joint.velocity_limit)],
    }


def _body_name(start: Start, number: int) -> str:
    return start.name(_OBJ.mjOBJ_BODY, number)


def _links(start: Start, carrier: int) -> list[str]:
    """Names of the MuJoCo bodies that are fixed to a body."""
    others = (i for i in range(start.compiled.nbody) if i != carrier and start.carrier(i) == carrier)
    return [_body_name(start, i) for i in others]


def _body(file_model: ImportedModel, number: int, joints: dict[int, FileJoint], actuators: list[Any]) -> dict[str, Any]:
    start = file_model.start
    m, name = start.compiled, _body_name(start, number)
    body, parent = file_model.links[name], start.carrier(int(m.body_parentid[number]))
    first = int(m.body_jntadr[number])
    rows = [_joint(start, joints[i]) for i in range(first, first + int(m.body_jntnum[number]))]
    for joint in rows:
        joint["actuators"] = [one["name"] for one in actuators if one["on"] == ["joint", joint["name"]]]
    return {
        "name": name,
        "parent": _body_name(start, parent) if parent else None,
        "mass": float(body.mass),
        "principal_moments": np.linalg.eigvalsh(np.asarray(body.inertia)).tolist(),
        "fixed_to_it": _links(start, number),
        "joints": rows,
    }


def _joint(start: Start, joint: FileJoint) -> dict[str, Any]:
    m, i = start.compiled, joint.number
    dof, scalar = int(m.jnt_dofadr[i]), joint.kind in ("hinge", "slide")
    return {
        "name": joint.name,
        "kind": joint.kind,
        "axis": m.jnt_axis[i].tolist() if scalar else None,
        "range": m.jnt_range[i].tolist() if m.jnt_limited[i] else None,
        "damping": float(m.dof_damping[dof]),
        "friction": float(m.dof_frictionloss[dof]),
        "armature": float(m.dof_armature[dof]),
        "stiffness": float(m.jnt_stiffness[i]),
        "rest": float(m.qpos_spring[m.jnt_qposadr[i]]) if scalar else None,
        "effort": m.jnt_actfrcrange[i].tolist() if m.jnt_actfrclimited[i] else None,
        "velocity_limit": joint.velocity_limit if np.isfinite(joint.velocity_limit) else None,
        "start": joint.start if scalar else None,
    }


def _actuator(start: Start, i: int) -> dict[str, Any]:
    m = start.compiled
    control, gear = int(m.actuator_ctrladr[i]), m.actuator_gear[m.actuator_outadr[i]]
    return {
        "name": start.name(_OBJ.mjOBJ_ACTUATOR, i),
        "kind": _law(m, i),
        "on": _target(start, i),
        "gear": gear[: int(np.max(np.flatnonzero(gear), initial=0)) + 1].tolist(),
        "gain": float(m.actuator_gainprm[i, 0]),
        "bias": m.actuator_biasprm[i, :3].tolist(),
        "control_limits": m.actuator_ctrlrange[control].tolist() if m.actuator_ctrllimited[control] else None,
        "force_limits": m.actuator_forcerange[i].tolist() if m.actuator_forcelimited[i] else None,
        "control": float(start.data.ctrl[control]),
    }


def _law(m: Any, i: int) -> str:
    """The kind of an actuator, from its gain and bias."""
    if not drives.is_affine(m, i):
        return "with a law of its own"
    if m.actuator_dyntype[i] != mujoco.mjtDyn.mjDYN_NONE:
        return "with a state"
    gain, (b0, b1, b2) = m.actuator_gainprm[i, 0], m.actuator_biasprm[i, :3]
    if m.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_NONE or not (b0 or b1 or b2):
        return "motor"
    if b0 or gain not in (-b1, -b2):
        return "affine"
    return "position" if gain == -b1 else "velocity"


def _target(start: Start, i: int) -> list[str]:
    """Kind and name of the object that an actuator drives."""
    m = start.compiled
    kinds = {
        int(_TRN.mjTRN_JOINT): ("joint", _OBJ.mjOBJ_JOINT),
        int(_TRN.mjTRN_JOINTINPARENT): ("joint", _OBJ.mjOBJ_JOINT),
        int(_TRN.mjTRN_TENDON): ("tendon", _OBJ.mjOBJ_TENDON),
        int(_TRN.mjTRN_SITE): ("site", _OBJ.mjOBJ_SITE),
        int(_TRN.mjTRN_SLIDERCRANK): ("slider-crank", _OBJ.mjOBJ_SITE),
        int(_TRN.mjTRN_BODY): ("body", _OBJ.mjOBJ_BODY),
    }
    entry = kinds.get(int(m.actuator_trntype[i]))
    return ["nothing", ""] if entry is None else [entry[0], start.name(entry[1], int(m.actuator_trnid[i, 0]))]


def _equality(start: Start, i: int) -> dict[str, Any]:
    m = start.compiled
    kind = mujoco.mjtEq(int(m.eq_type[i])).name.removeprefix("mjEQ_").lower()
    of = {"joint": _OBJ.mjOBJ_JOINT, "tendon": _OBJ.mjOBJ_TENDON}.get(kind, mujoco.mjtObj(int(m.eq_objtype[i])))
    ends = [int(end) for end in (m.eq_obj1id[i], m.eq_obj2id[i]) if end >= 0]
    return {
        "name": start.name(_OBJ.mjOBJ_EQUALITY, i),
        "kind": kind,
        "between": [start.name(of, end) for end in ends],
        "active": bool(start.data.eq_active[i]),
    }


def _count_parts(file_model: ImportedModel) -> dict[str, int]:
    """Number of parts of each kind in the model."""
    counts: dict[str, int] = {}
    for _, part in file_model.model.parts:
        what = next((label for kinds, label in _PART_KINDS if isinstance(part, kinds)), None)
        if what is not None:
            counts[what] = counts.get(what, 0) + 1
    return counts
