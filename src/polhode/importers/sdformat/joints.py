"""Joints of a document, and their motions in a specification for MuJoCo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from polhode.checks import short_repr
from polhode.file_warning import ModelFileWarning
from polhode.importers._mujoco import mujoco
from polhode.importers.construction import Frame
from polhode.importers.sdformat import values
from polhode.importers.sdformat.documents import Document
from polhode.importers.sdformat.scopes import Link, Scope
from polhode.jax_context import warn

_HINGE, _SLIDE, _BALL = mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_BALL
GEARBOX = "gearbox"
_MOTIONS: Mapping[str, tuple[tuple[str, Any, str], ...]] = {
    "revolute": (("axis", _HINGE, ""),),
    "continuous": (("axis", _HINGE, ""),),
    "prismatic": (("axis", _SLIDE, ""),),
    "screw": (("axis", _HINGE, ""), ("axis", _SLIDE, "_displacement")),
    "universal": (("axis", _HINGE, "_axis"), ("axis2", _HINGE, "_axis2")),
    "revolute2": (("axis", _HINGE, "_axis"), ("axis2", _HINGE, "_axis2")),
    "ball": (("", _BALL, ""),),
    "fixed": (),
    GEARBOX: (),
}
"""Motions of each kind of joint, from parent to child: the axis, the joint of MuJoCo, and the end of its name."""
_LEAST_PITCH = 1e-12
"""Threads below it, in radians per length, are none."""


class Axis(NamedTuple):
    """An axis. - `direction`: in the world where all joints are at zero. - `element`: None if the file has none."""

    direction: np.ndarray
    element: Element | None


class Joint(NamedTuple):
    """A joint. - `name`: as the world sees it. - `parent`, `child`: None for the world. - `frame`: in the world."""

    name: str
    kind: str
    parent: Link | None
    child: Link | None
    frame: Frame
    axes: Mapping[str, Axis]
    element: Element
    scope: Scope

    @property
    def where(self) -> str:
        """Its name in messages."""
        return f"joint `{self.name}`"

    @property
    def rigid(self) -> bool:
        """Whether nothing moves in it."""
        return self.kind == "fixed"

    @property
    def closes_loops(self) -> bool:
        """Whether the file wants it cut where it is part of a loop."""
        path = "physics/simbody/must_be_loop_joint"
        return values.flag(self.element, path, self.where)

    def motions(self) -> list[tuple[str, Any, str]]:
        """Axis, kind in MuJoCo and name of each motion, from parent to child."""
        return [(axis, kind, self.name + end) for axis, kind, end in _MOTIONS[self.kind]]

    def coordinates(self) -> dict[str, str]:
        """Axis → name of its coordinate. A screw slides along with its angle."""
        return {axis: name for axis, _, name in reversed(self.motions()) if axis}


def read_joints(document: Document, world: Scope) -> list[Joint]:
    """All joints of links that move, in order. Raises ValueError, naming the joint, for invalid ones."""
    joints = [
        _read_joint(document, scope, name)
        for scope in world.scopes()
        for name, entity in scope.entities.items()
        if entity.kind == "joint"
    ]
    return [joint for joint in joints if joint.parent is not None or joint.child is not None]


def _read_joint(document: Document, scope: Scope, key: str) -> Joint:
    element = scope.entities[key].element
    name, kind = scope.prefix + element.get("name", ""), element.get("type", "")
    if kind not in _MOTIONS:
        raise ValueError(f"Joint `{name}` has the type {short_repr(kind)}; known: {', '.join(_MOTIONS)}.")
    ends = []
    for tag in ("parent", "child"):
        # Some versions write <link> within.
        end = values.text(element, tag) or values.text(element, f"{tag}/link")
        if not end:
            raise ValueError(f"Joint `{name}` has no <{tag}>.")
        if (tag, end) == ("child", "world"):
            raise ValueError(f"The child of joint `{name}` is the world; exchange its ends and turn its axis around.")
        try:
            ends.append(scope.link_of(end))
        except ValueError as error:
            raise ValueError(f"The {tag} of joint `{name}`: {error}") from error
    parent, child = ends
    if parent is not None and child is not None and parent.name == child.name:
        raise ValueError(f"Joint `{name}` joins link `{parent.name}` to itself; name two links.")
    frame = scope.in_world(key)
    model_axes = document.origins.get(element, scope.origin).version < (1, 5)
    tags = ("axis", "axis2") if kind == GEARBOX else dict.fromkeys(tag for tag, _, _ in _MOTIONS[kind] if tag)
    axes = {tag: _axis(element.find(tag), tag, scope, frame, f"joint `{name}`", model_axes) for tag in tags}
    return Joint(name, kind, parent, child, frame, axes, element, scope)


def _axis(element: Element | None, tag: str, scope: Scope, frame: Frame, where: str, of_model: bool) -> Axis:
    """- `of_model`: whether axes are given in the frame of the model, as up to version 1.4."""
    if element is None:
        raise ValueError(f"{where.capitalize()} has no <{tag}>, about or along which it moves.")
    direction = values.direction(element, "xyz", f"<{tag}> of {where}")
    xyz = element.find("xyz")
    frame_name = "" if xyz is None else xyz.get("expressed_in", "")
    if values.flag(element, "use_parent_model_frame", where, of_model):
        frame_name = frame_name or "__model__"
    R = scope.in_world(frame_name).R if frame_name else frame.R
    return Axis(R @ direction, element)


def add_motions(spec: Any, body: Any, joint: Joint, frame: Frame, backward: bool) -> None:
    """Gives a body the motions of a joint.

    - `frame`: of the body in the world where all joints are at zero. - `backward`: whether it moves with the parent.
    """
    sign = -1.0 if backward else 1.0
    motions = joint.motions()
    R, at = frame.R, frame.inverse().compose(joint.frame).x
    for tag, kind, coordinate in reversed(motions) if backward else motions:
        axis = joint.axes[tag].direction if tag else np.array([0.0, 0.0, 1.0])
        body_joint = body.add_joint(name=coordinate, type=kind, axis=sign * R.T @ axis, pos=at)
        if joint.coordinates().get(tag) == coordinate:
            _add_properties(spec, body_joint, joint, tag)
    if joint.kind == "screw":
        couple(spec, f"{joint.name} thread", f"{joint.name}_displacement", joint.name, (0.0, _lead(joint)))


def _add_properties(spec: Any, body_joint: Any, joint: Joint, tag: str) -> None:
    """Springs, dampers, friction and limits."""
    axis, where = joint.axes[tag].element, f"<{tag}> of {joint.where}"
    damping, friction = (_resistance(axis, what, where) for what in ("damping", "friction"))
    body_joint.damping[0], body_joint.frictionloss = damping, friction
    body_joint.stiffness[0] = values.number(axis, "dynamics/spring_stiffness", where)
    body_joint.springref = values.number(axis, "dynamics/spring_reference", where)
    effort = values.limit(axis, "limit/effort", where, np.inf)
    if 0 < effort < np.inf:
        body_joint.actfrcrange, body_joint.actfrclimited = (-effort, effort), mujoco.mjtLimited.mjLIMITED_TRUE
    if joint.kind == "continuous":
        return
    lower, upper = (
        values.limit(axis, f"limit/{end}", where, bound) for end, bound in (("lower", -np.inf), ("upper", np.inf))
    )
    if lower > upper:
        warn(
            f"{joint.where.capitalize()} has its lower limit {lower:g} above the upper one {upper:g}; "
            "it is read without.",
            ModelFileWarning,
        )
    elif lower == upper:
        couple(spec, f"{body_joint.name} lock", body_joint.name, "", (lower, 0.0))
    elif np.isfinite(lower) or np.isfinite(upper):
        body_joint.range, body_joint.limited = (lower, upper), mujoco.mjtLimited.mjLIMITED_TRUE


def _resistance(axis: Element | None, what: str, where: str) -> float:
    """Damping or dry friction; warns of negative values and ignores them."""
    value = values.number(axis, f"dynamics/{what}", where)
    if value < 0:
        warn(f"The {what} of {where} is {value:g}, which would drive it; it is read without.", ModelFileWarning)
    return max(value, 0.0)


def _lead(joint: Joint) -> float:
    """Displacement of a screw per radian."""
    if values.text(joint.element, "screw_thread_pitch"):
        # Length per turn of a right-handed thread.
        return values.number(joint.element, "screw_thread_pitch", joint.where) / (2 * np.pi)
    # Radians per length of a left-handed thread.
    pitch = values.number(joint.element, "thread_pitch", joint.where, 1.0)
    if abs(pitch) < _LEAST_PITCH:
        raise ValueError(f"<thread_pitch> of {joint.where} is zero; give <screw_thread_pitch>, the length of a turn.")
    return -1.0 / pitch


def couple(spec: Any, name: str, follower: str, leader: str, coefficients: tuple[float, float]) -> None:
    """An equality follower = c₀ + c₁ leader of coordinates; of one alone without a leader."""
    equality = spec.add_equality(name=name, type=mujoco.mjtEq.mjEQ_JOINT)
    equality.name1, equality.name2, equality.objtype = follower, leader, mujoco.mjtObj.mjOBJ_JOINT
    equality.data[:2] = coefficients


def velocity_limits(joints: list[Joint]) -> dict[str, float]:
    """Velocity limits by the names of coordinates."""
    limits = {
        coordinate: values.limit(joint.axes[tag].element, "limit/velocity", joint.where, np.inf)
        for joint in joints
        for tag, coordinate in joint.coordinates().items()
    }
    return {name: limit for name, limit in limits.items() if 0 < limit < np.inf}


def initial_positions(joints: list[Joint]) -> dict[str, float]:
    """Positions at the start, which versions up to 1.6 may give, by the names of coordinates."""
    starts = {
        coordinate: values.number(joint.axes[tag].element, "initial_position", joint.where)
        for joint in joints
        for tag, coordinate in joint.coordinates().items()
    }
    return {name: value for name, value in starts.items() if value}
