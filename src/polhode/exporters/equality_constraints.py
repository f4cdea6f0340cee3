"""Loop-closing joints and other constraints as MJCF equalities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import Polynomial

from polhode.exporters.body_tree import Joint, Link
from polhode.exporters.forces import NO_JOINT, tendon
from polhode.exporters.mjcf_document import Document
from polhode.joints._elements import FrameConstraint
from polhode.joints.coupling import Coupling
from polhode.joints.distance import ConstantDistance
from polhode.joints.screw import ThreadConstraint


def frames(document: Document, name: str, part: Any, element: FrameConstraint) -> str:
    """Two frames with a common origin, and common directions if all rotations are constrained."""
    if not element.pinned or len(element.a) not in (0, 3):
        return "its start leaves it open, or it leaves free what no joints in a row do"
    counterparts = element.counterparts()
    turns: list[Any] = [None, None]
    if counterparts is not None:
        # Rows about z, x, y.
        turns = [np.roll(np.asarray(rows), -1, axis=0).T for rows in (counterparts, element.b)]
    sites = [
        document.site(body, f"{name} {number}", point, R)
        for number, body, point, R in zip((1, 2), part.bodies, (element.s0, element.s1), turns, strict=True)
    ]
    kind = "connect" if counterparts is None else "weld"
    document.add(document.equality, kind, {"name": name, "site1": sites[0], "site2": sites[1]})
    return ""


def cut(document: Document, link: Link) -> str:
    """Close a loop by a second node with a share of a body's mass, carried by the joint and welded to the first node.

    So the joint keeps its coordinates, and no equation is redundant.
    """
    ends = [body for body in (link.second, link.first) if body.kind != "ground" and float(body.mass) > 0]
    rigid = [body for body in ends if body.kind == "rigid" and np.any(np.asarray(body.inertia))]
    if not rigid:
        return "it closes a loop, and neither of its bodies has mass and inertia of which a part could be cut off"
    body = rigid[0]
    node = document.tree.attach(link, body)
    document.tree.share_mass(body)
    both = {"body1": document.tree.first[body.name].name, "body2": node.name}
    document.add(document.equality, "weld", {"name": f"{link.name} loop", **both})
    return ""


def distance(document: Document, name: str, part: Any, element: ConstantDistance) -> str:
    """A tendon of constant length."""
    poses = [document.tree.first[body.name].frame for body in part.bodies]
    ends = [x + R @ np.asarray(s) for (x, R), s in zip(poses, (element.s0, element.s1), strict=True)]
    tendon(document, name, part.bodies, (element.s0, element.s1), {})
    gap = float(element.length) - float(np.linalg.norm(ends[1] - ends[0]))
    document.add(document.equality, "tendon", {"name": name, "tendon1": name, "polycoef": [gap, 0, 0, 0, 0]})
    return ""


def thread(document: Document, name: str, part: Any, element: ThreadConstraint) -> str:
    """The displacement of a screw in proportion to its angle; its joint is in the tree already."""
    along, about = (document.tree.along(c, part.bodies) for c in (element.displacement, element.angle))
    if along is None or about is None:
        return NO_JOINT
    slope = along.sign * about.sign * float(element.advance)
    _follow(document, f"{name} thread", along.joint, about.joint, [0, slope, 0, 0, 0])
    return ""


def coupling(document: Document, name: str, part: Any, element: Coupling) -> str:
    """A joint coordinate as a polynomial of another."""
    tree, bodies = document.tree, part.bodies
    n = element.split
    y = tree.along(element.follower, bodies[:n], part.follower.initial())
    x = tree.along(element.leader, bodies[n:], part.leader.initial())
    if y is None or x is None:
        return NO_JOINT
    zeros = np.asarray(element.zeros)
    # MuJoCo counts both from the start.
    x_start, y_start = (a.sign * a.joint.start + a.offset for a in (x, y))
    polynomial = Polynomial(np.asarray(element.coefficients))(Polynomial([x_start - zeros[1], x.sign]))
    in_joints: Any = y.sign * (polynomial + zeros[0] - y_start)
    coefficients = np.zeros(5)
    coefficients[: len(in_joints.coef)] = in_joints.coef
    alone = x.joint is y.joint
    if alone and np.any(coefficients[1:]):
        return "a joint can't follow itself"
    _follow(document, name, y.joint, None if alone else x.joint, coefficients)
    return ""


def _follow(document: Document, name: str, follower: Joint, leader: Joint | None, coefficients: Any) -> None:
    names = {"joint1": follower.name, "joint2": None if leader is None else leader.name}
    document.add(document.equality, "joint", {"name": name, **names, "polycoef": coefficients})
