"""Actuators of an imported model: those whose force is affine in control, coordinate and rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polhode import checks
from polhode.forces.joint_forces import Actuator
from polhode.importers import site_actuators
from polhode.importers._mujoco import is_disabled, mujoco
from polhode.importers.construction import Construction, Start
from polhode.importers.feedback import FeedbackActuator, controller, is_feedback
from polhode.importers.joints import FileJoint
from polhode.importers.loads import ImportOptions
from polhode.importers.losses import NotCarried
from polhode.importers.spatial_tendons import bodies_of
from polhode.importers.tendons import is_fixed, length_of
from polhode.joints.named_coordinates import AbstractMeasured

# As integers: MuJoCo's enumerations equal NumPy's integers in one order of the operands only.
_ON_JOINT = {int(k) for k in (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)}
_AT_REST = {
    int(k) for k in (mujoco.mjtDyn.mjDYN_INTEGRATOR, mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)
}
_AFFINE = {int(k) for k in (mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtBias.mjBIAS_AFFINE)}
_UNBOUNDED = np.array([-np.inf, np.inf])


def add_actuators(construction: Construction, joints: Sequence[FileJoint], options: ImportOptions) -> list[NotCarried]:
    """Affine actuators on hinges, slides and tendons, and at sites; returns what could not be carried over."""
    start = construction.start
    m = start.compiled
    names = [start.name(mujoco.mjtObj.mjOBJ_ACTUATOR, i) for i in range(m.nactuator)]
    for name in options.controls:
        if name not in names:
            hint = f"Known: {', '.join(names)}." if names else "It has none."
            raise ValueError(f"There is no actuator `{name}`.{checks.nearest(name, names)} {hint}")
        _check_control(name, options.controls[name])
    if is_disabled(m, "actuation"):
        return []
    by_number = {joint.number: joint for joint in joints}
    losses: dict[str, list[str]] = {}
    fed_back: list[FeedbackActuator] = []
    for i, name in enumerate(names):
        if _is_off(m, i):
            continue
        control = options.controls.get(name, float(start.data.ctrl[m.actuator_ctrladr[i]]))
        coordinate = _actuated_coordinate(construction, by_number, i)
        why = coordinate if isinstance(coordinate, str) else _reason_not_carried(start, i, control)
        if not why and coordinate is None:
            why = _add_at_site(construction, i, control, name)
        if why:
            losses.setdefault(why, []).append(name)
        elif coordinate is None or isinstance(coordinate, str):
            continue
        elif is_feedback(control):
            fed_back.append(FeedbackActuator(_actuator(m, i, coordinate, 0.0, f"{name} actuator"), control))
        else:
            construction.model.add(_actuator(m, i, coordinate, control, f"{name} actuator"))
    if fed_back:
        scalar_joints = [joint for joint in joints if joint.measured]
        construction.model.add(controller(scalar_joints, fed_back, construction.free_name("feedback", "control")))
    return [NotCarried("actuators", tuple(members), why) for why, members in losses.items()]


def _check_control(name: str, control: Any) -> None:
    """Raises ValueError for arrays: values in time need their times."""
    if not callable(control) and checks.shape(f"controls[{name!r}]", control, "control of an actuator"):
        raise ValueError(
            f"The control of actuator `{name}` must be a number or a function of time, got "
            f"{checks.short_repr(control)}. "
            "For values in time: ph.PiecewiseLinear(times, values)."
        )


def _is_off(m: Any, i: int) -> bool:
    """Whether the file disables the group of an actuator."""
    group = int(m.actuator_group[i])
    return 0 <= group <= 30 and bool(int(m.opt.disableactuator) >> group & 1)


def _add_at_site(construction: Construction, i: int, control: Any, name: str) -> str:
    """An actuator that acts along no coordinate; returns why it is not carried, or ""."""
    m = construction.start.compiled
    if not site_actuators.is_at_site(m, i):
        return "only those on hinges, slides, tendons and at sites are carried"
    why = site_actuators.reason_not_carried(construction, i, control)
    if not why:
        site_actuators.add(construction, i, control, (_control_limits(m, i), _force_limits(m, i)), f"{name} actuator")
    return why


def _control_limits(m: Any, i: int) -> np.ndarray:
    # Actuators may have several controls and outputs, which are numbered separately.
    has_limits = m.actuator_ctrllimited[m.actuator_ctrladr[i]] and not is_disabled(m, "clampctrl")
    return m.actuator_ctrlrange[m.actuator_ctrladr[i]] if has_limits else _UNBOUNDED


def _force_limits(m: Any, i: int) -> np.ndarray:
    """Force limits of the actuator itself."""
    return m.actuator_forcerange[i] if m.actuator_forcelimited[i] else _UNBOUNDED


def _reason_not_carried(start: Start, i: int, control: Any) -> str:
    """Why an actuator is not carried, whatever it acts along, or ""."""
    m = start.compiled
    if not is_affine(m, i):
        return "only those with a force affine in control, coordinate and rate are carried"
    if m.actuator_delay[i]:
        return "their controls act without delay only"
    states = slice(int(m.actuator_actadr[i]), int(m.actuator_actadr[i] + m.actuator_actnum[i]))
    if m.actuator_actnum[i] and (callable(control) or control != 0 or np.any(start.data.act[states])):
        return "those with a state are carried where it and their control are zero"
    if _is_shared(m, i):
        return "several share a limit of the sum of their forces"
    if any(m.jnt_actfrclimited[joint] for joint in _remote_joints(m, i)):
        return "they pull at joints with a limit of effort, which is carried for actuators of these joints alone"
    return ""


def _actuated_coordinate(
    construction: Construction, joints: Mapping[int, FileJoint], i: int
) -> AbstractMeasured | str | None:
    """The coordinate that an actuator acts along; None if that is neither a hinge, a slide nor a tendon.

    Of a tendon without one, why it is not carried, or "" where it can't move.
    """
    m = construction.start.compiled
    kind, number = int(m.actuator_trntype[i]), int(m.actuator_trnid[i, 0])
    if kind in _ON_JOINT:
        joint = joints[number]
        return joint if joint.measured else None
    return length_of(construction, joints, number) if kind == int(mujoco.mjtTrn.mjTRN_TENDON) else None


def _effort_range(m: Any, i: int) -> np.ndarray | None:
    """Limits of the total effort of actuators along a joint or tendon; None if there are none."""
    kind, number = int(m.actuator_trntype[i]), int(m.actuator_trnid[i, 0])
    if kind in _ON_JOINT:
        return m.jnt_actfrcrange[number] if m.jnt_actfrclimited[number] else None
    has_limits = kind == int(mujoco.mjtTrn.mjTRN_TENDON) and m.tendon_actfrclimited[number]
    return m.tendon_actfrcrange[number] if has_limits else None


def _actuator(m: Any, i: int, coordinate: AbstractMeasured, control: Any, name: str) -> Actuator:
    gear, most = float(m.actuator_gear[m.actuator_outadr[i], 0]), _effort_range(m, i)
    limits = _force_limits(m, i)
    if most is not None and gear:
        # Joints limit efforts after the gear, tendons forces before it.
        within = np.sort(most / gear) if int(m.actuator_trntype[i]) in _ON_JOINT else most
        limits = np.array([max(limits[0], within[0]), min(limits[1], within[1])])
    return Actuator(
        coordinate,
        control=control,
        gain=float(m.actuator_gainprm[i, 0]),
        bias=m.actuator_biasprm[i, :3] * (m.actuator_biastype[i] != mujoco.mjtBias.mjBIAS_NONE),
        gear=gear,
        control_limits=_control_limits(m, i),
        force_limits=limits,
        name=name,
    )


def is_affine(m: Any, i: int) -> bool:
    """Whether the force is affine in control, or in a state at rest, in coordinate and rate."""
    dynamics = int(m.actuator_dyntype[i])
    still = dynamics == mujoco.mjtDyn.mjDYN_NONE or dynamics in _AT_REST
    gain = m.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_FIXED
    bias = int(m.actuator_biastype[i]) in _AFFINE
    extra = m.actuator_damping[i] or m.actuator_armature[i] or np.any(m.actuator_dampingpoly[i])
    return bool(still and gain and bias and not extra)


def _remote_joints(m: Any, i: int) -> list[int]:
    """Joints along which an actuator on a tendon or at a site has a force."""
    kind, number = int(m.actuator_trntype[i]), int(m.actuator_trnid[i, 0])
    if kind == int(mujoco.mjtTrn.mjTRN_TENDON) and is_fixed(m, number):
        first = int(m.tendon_adr[number])
        return [int(joint) for joint in m.wrap_objid[first : first + int(m.tendon_num[number])]]
    bodies = bodies_of(m, number) if kind == int(mujoco.mjtTrn.mjTRN_TENDON) else []
    if site_actuators.is_at_site(m, i):
        bodies = [int(m.site_bodyid[number])]
    joints: list[int] = []
    for body in bodies:
        while body:
            joints += range(int(m.body_jntadr[body]), int(m.body_jntadr[body] + m.body_jntnum[body]))
            body = int(m.body_parentid[body])
    return joints


def _is_shared(m: Any, i: int) -> bool:
    """Whether several actuators share one limit of effort, which applies to their sum."""
    same = (m.actuator_trnid[:, 0] == m.actuator_trnid[i, 0]) & (m.actuator_trntype == m.actuator_trntype[i])
    if int(m.actuator_trntype[i]) in _ON_JOINT:
        on_joint = np.isin(m.actuator_trntype, list(_ON_JOINT))
        same = (m.actuator_trnid[:, 0] == m.actuator_trnid[i, 0]) & on_joint
    return _effort_range(m, i) is not None and int(np.count_nonzero(same)) > 1
