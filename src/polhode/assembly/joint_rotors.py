"""Rotors on joints of a tree, as inertias along joint coordinates instead of bodies."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from polhode.assembly.spanning_tree import Attachment
from polhode.multibody.coordinates.tree.motions import AbstractRelativeMotion
from polhode.multibody.parts import AbstractJoint

if TYPE_CHECKING:
    from polhode.joints.named_coordinates import AbstractMeasured
    from polhode.joints.rotor import AttachedRotor
    from polhode.multibody.parts import ModelParts


class CarriedRotor(NamedTuple):
    """A rotor that a joint of the tree carries, and the component of the joint's coordinates that it turns with."""

    part: AttachedRotor
    joint: AbstractJoint
    component: int


def carried_rotors(model: ModelParts, order: Sequence[Attachment]) -> dict[str, CarriedRotor]:
    """Rotors that add to the diagonal of the mass matrix, by name: those without other parts on them."""
    from polhode.joints.rotor import AttachedRotor

    motions = {id(attachment.joint): attachment.motion for attachment in order}
    used = collections.Counter(id(body) for _, part in model.parts for body in part.bodies)
    rotors: dict[str, CarriedRotor] = {}
    for name, part in model.parts:
        if not isinstance(part, AttachedRotor) or used[id(part.rotor)] > 1:
            continue
        joint = part.whole.joint.carrier
        motion = motions.get(id(joint))
        component = None if motion is None else component_of(part.whole.joint, part.whole.coordinate, motion)
        if joint is not None and component is not None:
            rotors[name] = CarriedRotor(part, joint, component)
    return rotors


def component_of(joint: AbstractMeasured, coordinate: str | None, motion: AbstractRelativeMotion) -> int | None:
    """Index in a motion of a coordinate of a joint, equal up to a constant; None if it has no such coordinate."""
    name = joint.name_in_carrier(coordinate)
    return motion.names.index(name) if name in motion.names else None
