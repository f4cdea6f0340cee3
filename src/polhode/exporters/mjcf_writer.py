"""The text of an MJCF file."""

from __future__ import annotations

from xml.etree import ElementTree

import jax.numpy as jnp
import numpy as np

from polhode.exporters.body_tree import Joint, Node, rates
from polhode.exporters.joint_axes import Frame
from polhode.exporters.mjcf_document import Document, NotExpressible, attributes
from polhode.multibody.consistent_start import POSITION_TOLERANCE
from polhode.spaces import quaternions
from polhode.spaces.rotation_input import SINGLE_PRECISION

KEYFRAME = "start"
_LEAST = 1e-14
"""Replaces zero masses and moments of inertia: MuJoCo requires more than 1e-15 of moving bodies."""
_DEEPEST = 490
"""Depth of nested bodies that MuJoCo's reader accepts."""
_ROUND_OFF = 1e-12

Element = ElementTree.Element


def to_text(document: Document, name: str) -> str:
    """The document as text."""
    root = Element("mujoco", {"model": name})
    ElementTree.SubElement(root, "compiler", {"angle": "radian", "inertiafromgeom": "false"})
    ElementTree.SubElement(root, "option", attributes({"gravity": document.gravity}))
    order = _add_bodies(document, ElementTree.SubElement(root, "worldbody"))
    root.extend(section for section in (document.equality, document.tendon, document.actuator) if len(section))
    velocities = np.concatenate([np.zeros(0), *(_rates(document, node) for node in order)])
    keyframe = ElementTree.SubElement(root, "keyframe")
    controls = document.controls or None
    ElementTree.SubElement(
        keyframe,
        "key",
        attributes({"name": KEYFRAME, "qvel": velocities if len(velocities) else None, "ctrl": controls}),
    )
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_bodies(document: Document, world: Element) -> list[Node]:
    """Adds bodies below the world; returns them in the order of the file, parents first."""
    children: dict[int, list[Node]] = {}
    for node in document.tree.nodes[1:]:
        children.setdefault(id(node.parent), []).append(node)
    root = document.tree.nodes[0]
    _add_sites(world, root)
    order, ready = [], [(node, world, 1) for node in reversed(children.get(id(root), []))]
    while ready:
        node, parent, depth = ready.pop()
        if depth > _DEEPEST:
            raise ValueError(
                f"`{node.name}` is carried by more than {_DEEPEST} bodies in a row, and MuJoCo reads no file in which "
                "bodies are nested that deep."
            )
        order.append(node)
        element = _body(document, parent, node)
        ready += [(other, element, depth + 1) for other in reversed(children.get(id(node), []))]
    return order


def _body(document: Document, parent: Element, node: Node) -> Element:
    assert node.parent is not None
    carrier = Frame(node.parent.origin, node.parent.frame.R)
    place = _place_in(carrier, Frame(node.origin, node.frame.R))
    element = ElementTree.SubElement(parent, "body", attributes({"name": node.name, **place}))
    for joint in node.joints:
        _add_joint(element, node, joint)
    _add_inertia(document, element, node)
    _add_sites(element, node)
    return element


def _add_joint(body: Element, node: Node, joint: Joint) -> None:
    kind, direction, anchor = joint.axis
    R = node.frame.R
    place: dict[str, object] = {} if kind == "free" else {"pos": (anchor - node.origin) @ R}
    if kind in ("hinge", "slide"):
        place |= {"axis": direction @ R, "ref": joint.start or None}
    ElementTree.SubElement(body, "joint", attributes({"name": joint.name, "type": kind, **place, **joint.attributes}))


def _add_sites(element: Element, node: Node) -> None:
    own = Frame(node.origin, node.frame.R)
    for name, frame in node.sites.items():
        ElementTree.SubElement(element, "site", attributes({"name": name, **_place_in(own, frame)}))


def _add_inertia(document: Document, element: Element, node: Node) -> None:
    """Adds mass and principal moments, except to massless bodies with massive bodies fixed to them."""
    mass, moments, axes = node.share * float(node.body.mass), *_principal(node)
    if _lacks(mass, moments) and node.joints:
        if any(not other.joints and other.parent is node and float(other.body.mass) for other in document.tree.nodes):
            return
        if node.body.kind == "rigid":
            reason = f"MuJoCo takes no moving body without mass or inertia; where there is none the file has {_LEAST:g}"
            document.not_expressible.append(NotExpressible(node.name, "body", reason))
        mass, moments = max(mass, _LEAST), np.maximum(moments, _LEAST)
    if mass == 0 and not np.any(moments):
        return
    values = {
        "pos": (node.frame.x - node.origin) @ node.frame.R,
        "quat": _quaternion(axes),
        "mass": mass,
        "diaginertia": _realisable(document, node, moments),
    }
    ElementTree.SubElement(element, "inertial", attributes(values))


def _lacks(mass: float, moments: np.ndarray) -> bool:
    return mass < _LEAST or float(np.min(moments)) < _LEAST


def _principal(node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Principal moments of inertia, and the axes as columns in the frame of the body."""
    inertia = node.share * np.asarray(node.body.inertia, dtype=float)
    if np.array_equal(inertia, np.diag(np.diag(inertia))):
        return np.diag(inertia).copy(), np.eye(3)
    moments, axes = np.linalg.eigh(inertia)
    return moments, axes * np.sign(np.linalg.det(axes))


def _realisable(document: Document, node: Node, moments: np.ndarray) -> np.ndarray:
    """Moments adjusted to round-off so that none exceeds the sum of the others, which MuJoCo refuses."""
    largest = int(np.argmax(moments))
    rest = [k for k in range(3) if k != largest]
    excess = (moments[largest] - np.sum(moments[rest])) / (moments[largest] or 1.0)
    if excess > SINGLE_PRECISION or float(np.min(moments)) < 0:
        reason = "MuJoCo refuses moments of inertia that no distribution of mass has; `load_model` takes them"
        document.not_expressible.append(NotExpressible(node.name, "body", reason))
        return moments
    if excess > _ROUND_OFF:
        reason = "its largest moment of inertia exceeds the sum of the others, which is made good to single precision"
        document.not_expressible.append(NotExpressible(node.name, "body", reason))
    moments = moments.copy()
    while moments[largest] > moments[rest[0]] + moments[rest[1]]:
        moments[rest] *= 1 + max(excess, 2.3e-16)
    return moments


def _rates(document: Document, node: Node) -> np.ndarray:
    """Velocities of the joints at the start."""
    values, gap = rates(node)
    if gap > POSITION_TOLERANCE * max(1.0, float(np.max(np.abs(values), initial=0.0))):
        reason = "its joints don't allow its velocity at the start; the keyframe has the nearest that they do"
        document.not_expressible.append(NotExpressible(node.name, "body", reason))
    return values


def _place_in(parent: Frame, frame: Frame) -> dict[str, object]:
    """Position and attitude in a frame."""
    return {"pos": (frame.x - parent.x) @ parent.R, "quat": _quaternion(parent.R.T @ frame.R)}


def _quaternion(R: np.ndarray) -> np.ndarray | None:
    """Unit quaternion (w, x, y, z) of a rotation matrix; None for the identity."""
    if np.array_equal(R, np.eye(3)):
        return None
    return np.asarray(quaternions.from_matrix(jnp.asarray(R)))
