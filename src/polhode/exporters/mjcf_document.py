"""An MJCF document under construction, and what it can't express."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from polhode.exporters.body_tree import Joint, Tree
from polhode.exporters.joint_axes import Frame, screws
from polhode.multibody.bodies import Body
from polhode.multibody.joint_inertias import TreeAxis, free_inertias, spatial_inertia


class NotExpressible(NamedTuple):
    """Something of a model that the file lacks or expresses differently."""

    name: str
    what: str
    reason: str


@dataclasses.dataclass
class Document:
    """A file under construction.

    - `tree`: its bodies. - `gravity`: of the model. - `equality`, `tendon`, `actuator`: sections of the file.
    - `controls`: of the actuators, in their order. - `not_expressible`: what is lost or changed.
    """

    tree: Tree
    gravity: np.ndarray
    equality: ElementTree.Element = dataclasses.field(default_factory=lambda: ElementTree.Element("equality"))
    tendon: ElementTree.Element = dataclasses.field(default_factory=lambda: ElementTree.Element("tendon"))
    actuator: ElementTree.Element = dataclasses.field(default_factory=lambda: ElementTree.Element("actuator"))
    controls: list[float] = dataclasses.field(default_factory=list)
    not_expressible: list[NotExpressible] = dataclasses.field(default_factory=list)

    def add(self, section: ElementTree.Element, tag: str, values: Mapping[str, Any]) -> ElementTree.Element:
        """An element of a section."""
        return ElementTree.SubElement(section, tag, attributes(values))

    def act(self, control: float, attributes: Mapping[str, Any]) -> None:
        """An actuator of the kind that is affine in its control, its length and its velocity."""
        self.add(self.actuator, "general", attributes)
        self.controls.append(control)

    def note_loss(self, name: str, part: Any, reason: str) -> None:
        """Notes a loss of a part if there is a `reason`."""
        if reason:
            self.not_expressible.append(NotExpressible(name, type(part).__name__.removeprefix("_Attached"), reason))

    def site(self, body: Body, name: str, place: Any, R: Any = None) -> str:
        """A site on a body, by a point and a rotation in the body's frame; returns its name."""
        node = self.tree.first[body.name]
        x, R0 = node.frame
        attitude = R0 if R is None else R0 @ np.asarray(R)
        used = {site_name for other in self.tree.nodes for site_name in other.sites}
        free, number = name, 2
        while free in used:
            free, number = f"{name} ({number})", number + 1
        node.sites[free] = Frame(x + R0 @ np.asarray(place), attitude)
        return free

    def has(self, *bodies: Body) -> bool:
        """Whether bodies are in the file."""
        return all(body.name in self.tree.first for body in bodies)

    def inertia_along(self, joint: Joint) -> float:
        """Force over acceleration of a hinge or slide at the start while all other joints are free, as MuJoCo has it.

        Armatures must be complete before the first call.
        """
        return self._inertias[id(joint)]

    @functools.cached_property
    def _inertias(self) -> dict[int, float]:
        """Such an inertia for each hinge and slide, by the identity of the joint."""
        axes: list[TreeAxis] = []
        last: dict[int, int] = {}
        place: dict[int, int] = {}
        for node in self.tree.nodes:
            if node.parent is None:
                last[id(node)] = -1
                continue
            (x, R), body, parent = node.frame, node.body, last[id(node.parent)]
            inertia = R @ np.asarray(body.inertia) @ R.T if body.kind == "rigid" else np.zeros((3, 3))
            own = node.share * spatial_inertia(float(body.mass), x, inertia)
            if not node.joints and parent >= 0:
                axes[parent] = axes[parent]._replace(inertia=axes[parent].inertia + own)
            rows = [(joint, screw) for joint in node.joints for screw in screws(joint.axis, R)]
            for number, (joint, screw) in enumerate(rows, 1):
                behind = own if number == len(rows) else np.zeros((6, 6))
                place[id(joint)] = len(axes)
                axes.append(TreeAxis(parent, screw, behind, float(joint.attributes.get("armature", 0.0))))
                parent = len(axes) - 1
            last[id(node)] = parent
        inertias = free_inertias(axes)
        return {joint: float(inertias[number]) for joint, number in place.items()}


def attributes(values: Mapping[str, Any]) -> dict[str, str]:
    """Attributes as text; numbers round-trip exactly."""
    return {name: text(value) for name, value in values.items() if value is not None}


def text(value: Any) -> str:
    """A word, or one or several numbers."""
    if isinstance(value, str):
        return value
    return " ".join(_number(float(x)) for x in np.ravel(np.asarray(value)))


def _number(x: float) -> str:
    return "0" if x == 0 else repr(x).removesuffix(".0")
