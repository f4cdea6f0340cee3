"""Tree of the nested bodies of a file: the joints that carry each body, and cuts of loops."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from polhode.exporters.joint_axes import Axis, Frame, displaced_frame, frame_of, screws
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.parts import AbstractJoint

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

_SAMPLES = 3
_ALIKE = 1e-8
"""Tolerance for equal coordinates at random positions of order one."""


@dataclasses.dataclass(eq=False)
class Joint:
    """A joint of the file. - `start`: its coordinate there. - `attributes`: of the file, for loads along it."""

    name: str
    axis: Axis
    start: float = 0.0
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
    transmission: ClassVar[str] = "joint"


@dataclasses.dataclass(eq=False)
class Link:
    """Joints from a first to a second body.

    - `part`: the joint of the model, with its `name`; None for six joints that leave everything free.
    - `is_named`: whether the joints have names and directions of a file.
    """

    first: Body
    second: Body
    joints: list[Joint]
    name: str
    part: AbstractJoint | None
    is_named: bool = False


@dataclasses.dataclass(eq=False)
class Node:
    """A body of the file.

    - `body`: of the model; where loops are cut, several nodes have a `share` of its mass each.
    - `parent`: None for the world. - `origin`: of its frame, in the inertial frame at the start.
    - `sites`: name → frame at the start.
    """

    name: str
    body: Body
    parent: Node | None
    joints: list[Joint]
    share: float
    origin: np.ndarray
    sites: dict[str, Frame] = dataclasses.field(default_factory=dict)

    @property
    def frame(self) -> Frame:
        return frame_of(self.body)


class AffineCoordinate(NamedTuple):
    """A coordinate of the model in terms of that of a `Joint` or of a tendon: s = sign · q + offset."""

    joint: Any
    sign: float
    offset: float


class Tree:
    """Nodes, parents first; the first one is the world."""

    def __init__(self, model: ModelParts, links: Sequence[Link]) -> None:
        self.nodes: list[Node] = []
        self.first: dict[str, Node] = {}
        self.names: set[str] = {joint.name for link in links if link.is_named for joint in link.joints}
        self.loop_links = list(links)
        """Links that close loops."""
        self._between: dict[frozenset[str], list[Node]] = {}
        self._grow(model)

    def _grow(self, model: ModelParts) -> None:
        places = [body for body in model.bodies if body.kind in ("rigid", "point")]
        for root in (model.ground, *places):
            if root.name in self.first:
                continue
            loose = _loose(root)
            for joint in loose:
                joint.name = self._free(joint.name, self.names)
                self.names.add(joint.name)
            self._add(root, None if root is model.ground else self.nodes[0], loose)
            grew = True
            while grew:
                grew = False
                for link in list(self.loop_links):
                    outside = [body for body in (link.first, link.second) if body.name not in self.first]
                    # Mass points have no rotation that a joint could carry.
                    if len(outside) == 1 and outside[0].kind == "rigid":
                        self.loop_links.remove(link)
                        self.attach(link, outside[0])
                        grew = True

    def attach(self, link: Link, body: Body) -> Node:
        """Adds a node for a body that a link carries."""
        parent = self.first[(link.first if link.second is body else link.second).name]
        node = self._add(body, parent, link.joints if link.second is body else link.joints[::-1])
        if not link.is_named:
            self._name(link, node)
        return node

    def _add(self, body: Body, parent: Node | None, joints: Sequence[Joint]) -> Node:
        again = body.name in self.first
        name = self._free(f"{body.name} (cut)" if again else body.name, [node.name for node in self.nodes])
        node = Node(name, body, parent, list(joints), 1.0, frame_of(body).x)
        self.nodes.append(node)
        self.first.setdefault(body.name, node)
        if parent is not None:
            self._between.setdefault(frozenset((parent.body.name, body.name)), []).append(node)
        return node

    def share_mass(self, body: Body) -> None:
        """Give all nodes of a body the same share of its mass."""
        alike = [node for node in self.nodes if node.body is body]
        for node in alike:
            node.share = 1.0 / len(alike)

    def _name(self, link: Link, node: Node) -> None:
        """Names and directions of a link's joints by the coordinates of the part."""
        coordinates: dict[str, AbstractRelativeCoordinate] = getattr(link.part, "coordinates", dict)()
        by_joint: dict[int, str] = {}
        for name, coordinate in coordinates.items():
            match = self.along(coordinate, (link.first, link.second))
            if match is None or id(match.joint) in by_joint:
                continue
            by_joint[id(match.joint)] = name
            kind, direction, anchor = match.joint.axis
            match.joint.axis = Axis(kind, match.sign * direction, anchor)
        for number, joint in enumerate(node.joints, 1):
            more = by_joint.get(id(joint), f"{joint.axis.kind} {number}")
            joint.name = self._free(link.name if len(node.joints) == 1 else f"{link.name} {more}", self.names)
            self.names.add(joint.name)

    def _free(self, name: str, used: Any) -> str:
        candidate, number = "world (body)" if name == "world" else name, 2
        while candidate in used:
            candidate, number = f"{name} ({number})", number + 1
        return candidate

    def along(
        self, coordinate: AbstractRelativeCoordinate, bodies: Sequence[Body], initial: Any = None
    ) -> AffineCoordinate | None:
        """The joint whose coordinate equals this one of two bodies, up to sign and zero; None if there is none.

        `initial`: its value at the start, turns included; by default that of the poses.
        """
        poses: Any = tuple(frame_of(body) for body in bodies)
        start = float(coordinate.difference(poses, 0.0))
        value = start if initial is None else float(initial)
        for node in self._between.get(frozenset(body.name for body in bodies), []):
            match = _same(node, coordinate, bodies, start)
            if match is not None:
                joint, sign = match
                return AffineCoordinate(joint, sign, value - sign * joint.start)
        return None

    def merge(self) -> None:
        """Merges massless bodies between joints: one body gets both chains of joints."""
        for node in list(self.nodes):
            children = [other for other in self.nodes if other.parent is node]
            empty = not float(node.body.mass) and not np.any(np.asarray(node.body.inertia)) and not node.sites
            single = all(joint.axis.kind in ("hinge", "slide") for joint in node.joints)
            if node.parent is None or not (empty and single and node.joints and len(children) == 1):
                continue
            (other,) = children
            other.joints, other.parent = node.joints + other.joints, node.parent
            self.nodes.remove(node)


def rates(node: Node) -> tuple[np.ndarray, float]:
    """Velocities of a node's joints at the start in the convention of the file, and the residual of its twist."""
    body = node.body
    omega, u = (np.asarray(value, dtype=float) for value in (body.omega, body.u))
    if [joint.axis.kind for joint in node.joints] == ["free"]:
        return np.concatenate((u + np.cross(node.frame.R @ omega, node.origin - node.frame.x), omega)), 0.0
    assert node.parent is not None
    twist = _twist(body) - _twist(node.parent.body)
    rows = np.concatenate([np.zeros((0, 6)), *(screws(joint.axis, node.frame.R) for joint in node.joints)])
    values = np.linalg.lstsq(rows.T, twist, rcond=None)[0]
    return values, float(np.max(np.abs(twist - values @ rows)))


def _twist(body: Body) -> np.ndarray:
    """Spatial velocity: angular velocity, and velocity at the origin, in the inertial frame."""
    x, R = frame_of(body)
    omega = R @ np.asarray(body.omega, dtype=float)
    return np.concatenate((omega, np.asarray(body.u, dtype=float) + np.cross(x, omega)))


def _loose(body: Body) -> list[Joint]:
    """The joints of a body that no joint carries."""
    if body.kind == "ground":
        return []
    x = frame_of(body).x
    if body.kind == "rigid":
        return [Joint(body.name, Axis("free", np.zeros(3), x))]
    return [Joint(f"{body.name} {letter}", Axis("slide", e, x)) for letter, e in zip("xyz", np.eye(3), strict=True)]


def _same(
    node: Node, coordinate: AbstractRelativeCoordinate, bodies: Sequence[Body], start: float
) -> tuple[Joint, float] | None:
    """The joint of a node with this coordinate, and the sign, from random positions of all joints."""
    axes, random = [joint.axis for joint in node.joints], np.random.default_rng(0)
    if any(axis.kind == "free" for axis in axes):
        return None
    values, changes = [], []
    for _ in range(_SAMPLES):
        q = [random.uniform(-0.7, 0.7, 3 if axis.kind == "ball" else None) for axis in axes]
        there: Any = tuple(
            displaced_frame(axes, q, node.frame) if body is node.body else frame_of(body) for body in bodies
        )
        changes.append(float(coordinate.difference(there, start)))
        values.append(q)
    for k, joint in enumerate(node.joints):
        if joint.axis.kind == "ball":
            continue
        alone = np.array([q[k] for q in values])
        for sign in (1.0, -1.0):
            if np.max(np.abs(sign * alone - changes)) < _ALIKE:
                return joint, sign
    return None
