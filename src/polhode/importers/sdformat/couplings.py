"""Coordinates that follow others: mimics and gearboxes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from polhode.importers.losses import NotCarried
from polhode.importers.sdformat import values
from polhode.importers.sdformat.joints import GEARBOX, Joint, couple
from polhode.importers.sdformat.scopes import Link

_PARALLEL = 1e-9
"""Tolerance of the cosine of parallel axes."""


def add_mimics(spec: Any, joints: list[Joint]) -> list[NotCarried]:
    """Equalities of coordinates that follow others; returns which can't."""
    idle = []
    coordinates = {(joint.name, tag): name for joint in joints for tag, name in joint.coordinates().items()}
    for joint in joints:
        for tag, mimic in _mimics(joint):
            where = f"<mimic> of {joint.where}"
            scope, entity = joint.scope.find(mimic.get("joint", ""))
            leader = scope.prefix + str(entity.element.get("name")), mimic.get("axis", "axis")
            if leader == (joint.name, tag):
                raise ValueError(f"{joint.where.capitalize()} mimics itself; name the one that it follows.")
            if (joint.name, tag) not in coordinates or leader not in coordinates:
                idle.append(f"{joint.name} after {leader[0]}")
                continue
            ratio, offset, reference = (
                values.number(mimic, name, where, default)
                for name, default in (("multiplier", 1.0), ("offset", 0.0), ("reference", 0.0))
            )
            names = coordinates[joint.name, tag], coordinates[leader]
            couple(spec, f"{names[0]} mimic", *names, (offset - ratio * reference, ratio))
    return [NotCarried("mimic", tuple(idle), "only hinges and slides follow others of the file")] if idle else []


def _mimics(joint: Joint) -> Iterator[tuple[str, Element]]:
    for tag, place in (("axis", "axis/mimic"), ("axis2", "axis2/mimic"), ("axis", "mimic")):
        mimic = joint.element.find(place)
        if mimic is not None:
            yield tag, mimic


def add_gearboxes(spec: Any, joints: list[Joint]) -> list[NotCarried]:
    """Equalities of the angles that gearboxes tie together; returns those whose angles no joints have."""
    idle = []
    for box in joints:
        if box.kind != GEARBOX:
            continue
        reference = values.text(box.element, "gearbox_reference_body")
        if not reference:
            raise ValueError(f"{box.where.capitalize()} has no <gearbox_reference_body>, from which its angles count.")
        carrier = box.scope.link_of(reference)
        first, second = (
            _angle(joints, carrier, end, box.axes[t].direction)
            for end, t in ((box.parent, "axis"), (box.child, "axis2"))
        )
        if first is None or second is None:
            idle.append(box.name)
            continue
        ratio = values.number(box.element, "gearbox_ratio", box.where, 1.0)
        couple(spec, f"{box.name} gears", second[0], first[0], (0.0, -ratio * first[1] * second[1]))
    why = "no hinges turn their links about their axes on the reference body"
    return [NotCarried("gearboxes", tuple(idle), why)] if idle else []


def _angle(joints: list[Joint], carrier: Link | None, link: Link | None, axis: np.ndarray) -> tuple[str, float] | None:
    """The hinge from `carrier` to `link` about `axis`, and the sign of its angle about that."""
    ends = [None if end is None else end.name for end in (carrier, link)]
    for joint in joints:
        own = [None if end is None else end.name for end in (joint.parent, joint.child)]
        if joint.kind in ("revolute", "continuous") and own in (ends, ends[::-1]):
            cosine = float(joint.axes["axis"].direction @ axis)
            if abs(cosine) > 1 - _PARALLEL:
                return joint.name, float(np.sign(cosine)) * (1.0 if own == ends else -1.0)
    return None
