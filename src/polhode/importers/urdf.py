"""URDF as a specification for MuJoCo with joints and frames; masses and inertias are stored separately."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from polhode.checks import short_repr
from polhode.file_warning import ModelFileWarning
from polhode.importers import rotations
from polhode.importers._mujoco import mujoco
from polhode.importers.construction import ORIGIN, Frame, Inertial
from polhode.importers.link_spec import LinkSpec
from polhode.jax_context import warn

_JOINT = mujoco.mjtJoint
_MUJOCO_TYPES = {
    "revolute": _JOINT.mjJNT_HINGE,
    "continuous": _JOINT.mjJNT_HINGE,
    "prismatic": _JOINT.mjJNT_SLIDE,
}
_TYPES = (*_MUJOCO_TYPES, "fixed", "floating", "planar", "spherical")
"""Joint types of URDF, and spherical joints, an extension that MuJoCo and Bullet read."""
WORLD = "world"
"""Name of a root link that is the ground, whatever its mass."""


class _Joint(NamedTuple):
    element: ElementTree.Element
    name: str
    kind: str
    parent: str
    child: str
    frame: Frame


def build_links(root: ElementTree.Element, floating: bool) -> LinkSpec:
    """All links, joints and mimics of a robot. Raises ValueError, naming the element, for invalid input."""
    links = _elements_by_name(root, "link")
    joints = [_read_joint(element, links) for element in _elements_by_name(root, "joint").values()]
    base = _root(links, joints)
    if floating and base == WORLD and not any(j.parent == WORLD and j.kind in ("fixed", "floating") for j in joints):
        raise ValueError("`floating` has no link to let go: nothing is fixed to the link `world`, which doesn't move.")
    in_order = list(_from_the_root(base, joints))
    tree = LinkSpec(root.get("name", ""), {joint.child: joint.parent for joint in in_order})
    tree.bodies[base] = tree.spec.worldbody
    still = {base: ORIGIN}
    if base != WORLD:
        body = tree.add(base, None, ORIGIN)
        if floating:
            body.add_freejoint(name="floating base")
            still = {}
    for joint in in_order:
        kind = "floating" if floating and joint.kind == "fixed" and joint.parent == WORLD == base else joint.kind
        where = still.get(joint.parent)
        if kind == "fixed" and where is not None:
            still[joint.child] = where.compose(joint.frame)
        if kind == "floating" and where is not None:
            tree.add(joint.child, None, where.compose(joint.frame)).add_freejoint(name=joint.name)
        else:
            _add_joints(tree.add(joint.child, joint.parent, joint.frame), joint, kind)
    _add_mimics(tree.spec, joints)
    entries = {name: _inertial(link) for name, link in links.items()}
    tree.inertials.update({name: inertial for name, inertial in entries.items() if inertial is not None})
    return tree


def _elements_by_name(root: ElementTree.Element, tag: str) -> dict[str, ElementTree.Element]:
    """Children of the root by name."""
    elements: dict[str, ElementTree.Element] = {}
    for element in root.findall(tag):
        name = element.get("name")
        if not name:
            raise ValueError(f"A <{tag}> has no name.")
        if name in elements:
            raise ValueError(f"Two <{tag}>s have the name `{name}`; give one of them another.")
        elements[name] = element
    return elements


def _read_joint(element: ElementTree.Element, links: Mapping[str, Any]) -> _Joint:
    name, kind = element.get("name", ""), element.get("type", "")
    if kind not in _TYPES:
        raise ValueError(f"Joint `{name}` has the type {short_repr(kind)}; known: {', '.join(_TYPES)}.")
    parent, child = (_end(element, tag, links) for tag in ("parent", "child"))
    return _Joint(element, name, kind, parent, child, origin(element, f"joint `{name}`"))


def _end(joint: ElementTree.Element, tag: str, links: Mapping[str, Any]) -> str:
    end = joint.find(tag)
    link = None if end is None else end.get("link")
    if link is None or link not in links:
        raise ValueError(
            f"The {tag} of joint `{joint.get('name')}` is the link {short_repr(link)}, which the file doesn't have."
        )
    return link


def _root(links: Mapping[str, Any], joints: Sequence[_Joint]) -> str:
    parent_joints: dict[str, str] = {}
    for joint in joints:
        if joint.child in parent_joints:
            raise ValueError(
                f"Link `{joint.child}` is the child of two joints, `{parent_joints[joint.child]}` and `{joint.name}`; "
                "URDF describes trees. Take one of them out and close the loop in the model, with a joint of "
                "`polhode.joints`."
            )
        parent_joints[joint.child] = joint.name
    roots = [name for name in links if name not in parent_joints]
    if not roots:
        raise ValueError("Its joints lead around in a circle: every link is a child." if links else "It has no <link>.")
    if len(roots) > 1:
        raise ValueError(f"It has more than one root link: {', '.join(roots)}. Join them, by fixed joints if need be.")
    return roots[0]


def _from_the_root(base: str, joints: Sequence[_Joint]) -> Iterator[_Joint]:
    """The joints depth first from the root, in the order of the file. Raises ValueError for cycles."""
    children: dict[str, list[_Joint]] = {}
    for joint in joints:
        children.setdefault(joint.parent, []).append(joint)
    ready, count = list(reversed(children.get(base, []))), 0
    while ready:
        joint = ready.pop()
        count += 1
        yield joint
        ready += reversed(children.get(joint.child, []))
    if count < len(joints):
        raise ValueError(f"Some joints lead around in a circle, away from the root link `{base}`.")


def _add_joints(body: Any, joint: _Joint, kind: str) -> None:
    if kind in _MUJOCO_TYPES:
        _add_joint(body, joint, joint.name, _MUJOCO_TYPES[kind], _axis(joint), has_limits=kind != "continuous")
        return
    if kind == "fixed":
        return
    if kind == "spherical":
        _add_joint(body, joint, joint.name, _JOINT.mjJNT_BALL, np.array([0.0, 0.0, 1.0]))
        return
    turn = np.eye(3)
    if kind == "planar":
        turn = rotations.towards(_axis(joint))
    for column, letter in enumerate("XY" if kind == "planar" else "XYZ"):
        _add_joint(body, joint, f"{joint.name}_T{letter}", _JOINT.mjJNT_SLIDE, turn[:, column])
    if kind == "planar":
        _add_joint(body, joint, f"{joint.name}_RZ", _JOINT.mjJNT_HINGE, turn[:, 2])
    else:
        _add_joint(body, joint, f"{joint.name}_R", _JOINT.mjJNT_BALL, turn[:, 2])


def _add_joint(body: Any, joint: _Joint, name: str, kind: Any, axis: np.ndarray, has_limits: bool = False) -> None:
    mujoco_joint = body.add_joint(name=name, type=kind, axis=axis)
    where = f"joint `{joint.name}`"
    dynamics, limit = joint.element.find("dynamics"), joint.element.find("limit")
    if dynamics is not None:
        mujoco_joint.damping[0], mujoco_joint.frictionloss = (
            _resistance(dynamics, what, where) for what in ("damping", "friction")
        )
    if limit is None:
        return
    lower, upper, effort = (_number(limit, what, where) for what in ("lower", "upper", "effort"))
    if has_limits and lower < upper:
        mujoco_joint.range, mujoco_joint.limited = (lower, upper), mujoco.mjtLimited.mjLIMITED_TRUE
    elif has_limits and (lower > upper or lower):
        # Two zeros stand for no limits.
        than = "above" if lower > upper else "equal to"
        warn(
            f"Joint `{joint.name}` has its lower limit {lower:g} {than} the upper one {upper:g}; it is read without. "
            "What doesn't move has a fixed joint.",
            ModelFileWarning,
        )
    if effort > 0:
        mujoco_joint.actfrcrange, mujoco_joint.actfrclimited = (-effort, effort), mujoco.mjtLimited.mjLIMITED_TRUE


def _resistance(dynamics: ElementTree.Element, what: str, where: str) -> float:
    """Damping or dry friction; warns of negative values and ignores them."""
    value = _number(dynamics, what, where)
    if value < 0:
        warn(f"The {what} of {where} is {value:g}, which would drive it; it is read without.", ModelFileWarning)
    return max(value, 0.0)


def _add_mimics(spec: Any, joints: Sequence[_Joint]) -> None:
    movable = {joint.name for joint in joints if joint.kind in _MUJOCO_TYPES}
    for joint in joints:
        mimic = joint.element.find("mimic")
        if mimic is None or not {joint.name, mimic.get("joint")} <= movable:
            continue
        if mimic.get("joint") == joint.name:
            raise ValueError(f"Joint `{joint.name}` mimics itself; name the one that it follows.")
        where = f"<mimic> of joint `{joint.name}`"
        equality = spec.add_equality(name=f"{joint.name} mimic", type=mujoco.mjtEq.mjEQ_JOINT)
        equality.name1, equality.name2, equality.objtype = joint.name, mimic.get("joint"), mujoco.mjtObj.mjOBJ_JOINT
        equality.data[:2] = _number(mimic, "offset", where), _number(mimic, "multiplier", where, 1.0)


def _inertial(link: ElementTree.Element) -> Inertial | None:
    """Mass, centre of mass and inertia about it in the frame of the link; None without mass and inertia."""
    where = f"link `{link.get('name')}`"
    element = link.find("inertial")
    if element is None:
        return None
    mass, inertia = element.find("mass"), element.find("inertia")
    value = 0.0 if mass is None else _number(mass, "value", where)
    if value < 0:
        raise ValueError(f"The mass of {where} is {value:g}; it can't be negative.")
    moments = np.zeros((3, 3))
    if inertia is not None:
        for (i, j), name in zip(((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)), _MOMENTS, strict=True):
            moments[i, j] = moments[j, i] = _number(inertia, name, where)
    if value == 0 and not np.any(moments):
        return None
    frame = origin(element, where)
    return Inertial(value, frame.x, frame.R @ moments @ frame.R.T)


_MOMENTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")


def _axis(joint: _Joint) -> np.ndarray:
    element, axis = joint.element.find("axis"), np.array([1.0, 0.0, 0.0])
    if element is not None:
        axis = numbers(element, "xyz", f"joint `{joint.name}`", axis)
    length = np.linalg.norm(axis)
    if not length > 0:
        raise ValueError(f"The axis of joint `{joint.name}` is zero; give it a direction.")
    return axis / length


def origin(element: ElementTree.Element, where: str) -> Frame:
    """The frame of <origin>: xyz, and rpy angles about the fixed axes x, y and z."""
    frame = element.find("origin")
    if frame is None:
        return ORIGIN
    x, (roll, pitch, yaw) = (numbers(frame, name, where, (0, 0, 0)) for name in ("xyz", "rpy"))
    return Frame(x, rotations.from_angles(roll, pitch, yaw))


def _number(element: ElementTree.Element, name: str, where: str, default: float = 0.0) -> float:
    return float(numbers(element, name, where, (default,))[0])


def numbers(element: ElementTree.Element, name: str, where: str, default: Sequence[float] | np.ndarray) -> np.ndarray:
    """Finite numbers of an attribute, as many as in `default`, which replaces a missing attribute."""
    text = element.get(name)
    if text is None:
        return np.array(default, dtype=float)
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        values = np.zeros(0)
    if values.shape != (len(default),) or not np.isfinite(values).all():
        raise ValueError(f"`{name}` of <{element.tag}> in {where} takes {len(default)} finite number(s), got `{text}`.")
    return values
