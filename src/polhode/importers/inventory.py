"""Contents of a model file that are not carried over, each with its reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

import numpy as np

from polhode.importers._mujoco import mujoco
from polhode.importers.construction import Start

_OBJ = mujoco.mjtObj


@dataclasses.dataclass(frozen=True)
class NotCarried:
    """Something of a file that the model doesn't have.

    - `what`, `names`: the kind of thing, and which ones.
    - `reason`: why, and what it means.
    - `changes_motion`: whether the file's own simulator would move differently for it.
    """

    what: str
    names: tuple[str, ...]
    reason: str
    changes_motion: bool = True

    def __str__(self) -> str:
        shown = ", ".join(self.names[:6]) + (f" and {len(self.names) - 6} more" if len(self.names) > 6 else "")
        return f"{self.what} ({shown}): {self.reason}" if self.names else f"{self.what}: {self.reason}"


def of_compiled(start: Start) -> list[NotCarried]:
    """Contents looked up in the compiled model, apart from those that joints, loads and equalities report."""
    return [item for item in (*_of_joints(start), *_of_surroundings(start), *_without_effect(start)) if item]


def of_urdf(root: ElementTree.Element) -> list[NotCarried]:
    """Contents that MuJoCo's reader of URDF passes over."""
    rows = (
        ("transmission", "the actuators that they describe have no control"),
        ("gazebo", "extensions of another simulator"),
        ("ros2_control", "the interfaces that they describe have no control"),
        ("sensor", "sensors don't move anything"),
    )
    found = [
        NotCarried(tag, _labels(root.iter(tag)), reason, changes_motion=False)
        for tag, reason in rows
        if next(root.iter(tag), None) is not None
    ]
    for tag in ("safety_controller", "calibration"):
        names = tuple(j.get("name", "") for j in root.iter("joint") if j.find(tag) is not None)
        if names:
            found.append(NotCarried(tag, names, "belongs to the control of a real machine", changes_motion=False))
    cones = tuple(
        joint.get("name", "")
        for joint in root.iter("joint")
        if joint.get("type") == "spherical" and joint.find("limit[@upper]") is not None
    )
    if cones:
        found.append(NotCarried("limits of joints", cones, "spherical joints turn without limits"))
    followers = _idle_mimics(root)
    if followers:
        found.append(NotCarried("mimic", followers, "only hinges and slides follow others of the file"))
    shaped = tuple(
        link.get("name", "")
        for link in root.iter("link")
        if link.find("visual") is not None or link.find("collision") is not None
    )
    if shaped:
        found.append(NotCarried("visual and collision geometry", shaped, "bodies have no shape and never touch"))
    return found


def _idle_mimics(root: ElementTree.Element) -> tuple[str, ...]:
    """Joints that move and should follow another where one of the two is no hinge or slide, or isn't there."""
    moving = {
        joint.get("name")
        for joint in root.iter("joint")
        if joint.get("type") in ("revolute", "continuous", "prismatic")
    }
    followers = [joint for joint in root.findall("joint") if joint.get("type") != "fixed"]
    pairs = ((joint.get("name", ""), joint.find("mimic")) for joint in followers)
    return tuple(
        f"{name} after {mimic.get('joint')}"
        for name, mimic in pairs
        if mimic is not None and not {name, mimic.get("joint")} <= moving
    )


def _labels(elements: Iterable[ElementTree.Element]) -> tuple[str, ...]:
    return tuple(e.get("name") or e.get("reference") or "unnamed" for e in elements)


def _of_joints(start: Start) -> Iterable[NotCarried | None]:
    m = start.compiled
    reason = "only the linear coefficient is kept"
    curved = np.any(m.jnt_stiffnesspoly != 0, axis=1) | (m.jnt_springyield != 0)
    yield _named(start, _OBJ.mjOBJ_JOINT, curved, "nonlinear joint springs", reason)
    curved = _by_joint(m, np.any(m.dof_dampingpoly != 0, axis=1))
    yield _named(start, _OBJ.mjOBJ_JOINT, curved, "nonlinear joint damping", reason)


def _of_surroundings(start: Start) -> Iterable[NotCarried | None]:
    m = start.compiled
    touching = (m.geom_contype != 0) | (m.geom_conaffinity != 0)
    enabled = not m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CONTACT
    if enabled and (np.count_nonzero(touching) > 1 or m.npair):
        yield _named(start, _OBJ.mjOBJ_GEOM, touching, "contacts", "bodies pass through each other")
    yield _named(start, _OBJ.mjOBJ_FLEX, np.ones(m.nflex), "flexible bodies", "there is no such element")
    lifted = m.body_gravcomp != 0
    yield _named(start, _OBJ.mjOBJ_BODY, lifted, "compensation of gravity", "all bodies have their full weight")
    moved = m.body_mocapid >= 0
    yield _named(start, _OBJ.mjOBJ_BODY, moved, "motion capture bodies", "they stand still", changes_motion=False)
    if m.nplugin:
        yield NotCarried("plugins", (), f"{m.nplugin} of them run only in MuJoCo")
    if m.opt.density or m.opt.viscosity:
        yield NotCarried("fluid", (), "bodies move in a vacuum")


def _without_effect(start: Start) -> Iterable[NotCarried | None]:
    m = start.compiled
    for what, kind, count in (
        ("shapes", _OBJ.mjOBJ_GEOM, m.ngeom),
        ("meshes", _OBJ.mjOBJ_MESH, m.nmesh),
        ("skins", _OBJ.mjOBJ_SKIN, m.nskin),
        ("cameras", _OBJ.mjOBJ_CAMERA, m.ncam),
        ("lights", _OBJ.mjOBJ_LIGHT, m.nlight),
        ("sites", _OBJ.mjOBJ_SITE, m.nsite),
        ("sensors", _OBJ.mjOBJ_SENSOR, m.nsensor),
    ):
        yield _named(start, kind, np.ones(count), what, "without effect on the motion", changes_motion=False)


def _named(
    start: Start, kind: Any, which: np.ndarray, what: str, reason: str, changes_motion: bool = True
) -> NotCarried | None:
    numbers = np.flatnonzero(which)
    if not len(numbers):
        return None
    return NotCarried(what, tuple(start.name(kind, int(i)) for i in numbers), reason, changes_motion)


def _by_joint(m: Any, of_dofs: np.ndarray) -> np.ndarray:
    """Which joints have a degree of freedom with the property."""
    found = np.zeros(m.njnt, dtype=bool)
    found[m.dof_jntid[of_dofs]] = True
    return found
