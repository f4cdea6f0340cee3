"""Forces along joint coordinates and between points in MJCF."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from polhode.exporters.body_tree import AffineCoordinate
from polhode.exporters.mjcf_document import Document
from polhode.forces.controllers import TrackingEffort
from polhode.forces.coordinate_forces import (
    AbstractEffort,
    Actuation,
    DryFriction,
    Friction,
    RigidStops,
    SpringDamperEffort,
    SpringEffort,
    Stops,
)
from polhode.forces.file_elements import BallDamper, FreeDamper
from polhode.forces.joint_forces import JointStops
from polhode.forces.loads import AppliedForce, BodyTorque, DeadForce, InertialTorque
from polhode.forces.spring_damper import LineSpring, LineSpringDamper
from polhode.joints.named_coordinates import AbstractMeasuredPair
from polhode.joints.rotor import AttachedRotor, FollowingCoordinate
from polhode.multibody.mechanism.user_functions import Function

NO_JOINT = "it acts along no coordinate of a joint that the file has"
_CHANGES = "its control changes with time; the keyframe has that at t = 0"
FULL = 0.95
"""MuJoCo's default impedance deep in a limit, by which it divides stiffnesses."""


def effort(document: Document, name: str, part: Any, element: AbstractEffort) -> str:
    """A force along a coordinate; returns what MJCF can't express of it, or ""."""
    joint: AbstractMeasuredPair | None = getattr(part, "joint", None)
    initial = None if joint is None else joint.initial(part.along)
    along = document.tree.along(element.coordinate, part.bodies, initial)
    write = EFFORTS.get(type(element))
    if along is None or write is None:
        return NO_JOINT if along is None else f"a {type(element).__name__} has no counterpart in MJCF"
    return write(document, name, along, element)


def _spring(document: Document, name: str, along: AffineCoordinate, element: Any) -> str:
    joint, sign, offset = along
    stiffness, damping = float(element.stiffness), float(getattr(element, "damping", 0.0))
    rest = sign * (float(element.rest) - offset)
    if {"stiffness", "damping"} & joint.attributes.keys() or min(stiffness, damping) < 0:
        # A joint has one spring, and MuJoCo ignores negative stiffness.
        bias = np.array([stiffness * rest, -stiffness, -damping])
        document.act(0.0, {**_on(joint, name), "gainprm": 0.0, "biastype": "affine", "biasprm": bias})
        return ""
    attributes = {"stiffness": stiffness, "springref": rest} if stiffness else {}
    joint.attributes |= attributes | ({"damping": damping} if damping else {})
    return ""


def _friction(document: Document, name: str, along: AffineCoordinate, element: Friction) -> str:
    del document, name
    attributes = along.joint.attributes
    attributes["frictionloss"] = attributes.get("frictionloss", 0.0) + float(element.friction)
    return f"there a joint sticks at rest, here it creeps below {float(element.stick_velocity):g}"


def _dry_friction(document: Document, name: str, along: AffineCoordinate, element: DryFriction) -> str:
    del document, name
    if element.friction.constant is None:
        return "its largest force is a function of time"
    attributes = along.joint.attributes
    attributes["frictionloss"] = attributes.get("frictionloss", 0.0) + float(element.friction.constant)
    falls = "" if element.static_friction is None else ", and its larger friction at rest is left out"
    return f"there a joint that sticks creeps, here it rests{falls}"


def _rigid_stops(document: Document, name: str, along: AffineCoordinate, element: RigidStops) -> str:
    del document, name
    joint, sign, offset = along
    if not np.any(np.isfinite(np.asarray(element.limits))):
        return ""
    if "range" in joint.attributes:
        return "its joint has stops already, and MJCF takes one range"
    joint.attributes |= {"range": np.sort(sign * (np.asarray(element.limits) - offset)), "limited": "true"}
    return "there stops give way and throw back by `solreflimit`, here they are rigid"


def _stops(document: Document, name: str, along: AffineCoordinate, element: Stops) -> str:
    del name
    joint, sign, offset = along
    if not np.any(np.isfinite(np.asarray(element.limits))):
        return ""
    if "range" in joint.attributes:
        return "its joint has stops already, and MJCF takes one range"
    node = document.tree.carried_by(joint)
    inertia = document.inertia_along(node, node.joints.index(joint))
    if not inertia > 0:
        return "what moves with its joint has no inertia there, by which MJCF divides stiffnesses"
    limits = np.sort(sign * (np.asarray(element.limits) - offset))
    stiffness, damping = float(element.stiffness) / inertia * FULL**2, float(element.damping) / inertia * FULL
    joint.attributes |= {"range": limits, "limited": "true", "solreflimit": np.array([-stiffness, -damping])}
    if float(element.onset) != JointStops.onset:
        joint.attributes["solimplimit"] = np.array([0.9, FULL, float(element.onset)])
    return "there stops have its stiffness and damping for the inertia that moves with the joint at the start"


def _actuation(document: Document, name: str, along: AffineCoordinate, element: Actuation) -> str:
    joint, sign, offset = along
    gear = float(element.gear)
    b0, b1, b2 = np.asarray(element.bias)
    bias = np.array([b0 + b1 * gear * offset, b1, b2])
    attributes = {
        **_on(joint, name.removesuffix(" actuator")),
        "gear": np.array([sign * gear, 0, 0, 0, 0, 0]),
        "gainprm": float(element.gain),
        **({"biastype": "affine", "biasprm": bias} if np.any(bias) else {}),
        **_limits("ctrlrange", element.control_limits),
        **_limits("forcerange", element.force_limits),
    }
    document.act(float(element.control(jnp.zeros(()))), attributes)
    return "" if element.control.constant is not None else _CHANGES


def _servo(document: Document, name: str, along: AffineCoordinate, element: TrackingEffort) -> str:
    """A servo: its control is the target if that is constant, otherwise the force."""
    joint, sign, offset = along
    P, D = float(element.proportional), float(element.derivative)
    zero = jnp.zeros(())
    target, rate = float(element.target(zero)), float(element.target_rate(zero))
    steady = element.target.constant is not None
    bias = np.array([-P * sign * offset, -P, -D])
    attributes = {**_on(joint, name), "gainprm": sign * P if steady else sign, "biastype": "affine", "biasprm": bias}
    if element.force_limits is not None:
        attributes |= _limits("forcerange", np.sort(sign * np.asarray(element.force_limits)))
    document.act(target if steady else P * target + D * rate, attributes)
    return "" if steady else _CHANGES


def _on(joint: Any, name: str) -> dict[str, Any]:
    return {"name": name, joint.transmission: joint.name, "gaintype": "fixed"}


def _limits(name: str, limits: Any) -> dict[str, Any]:
    values = np.asarray(limits)
    return {name: values} if np.any(np.isfinite(values)) else {}


EFFORTS: dict[type, Callable[[Document, str, AffineCoordinate, Any], str]] = {
    SpringEffort: _spring,
    SpringDamperEffort: _spring,
    Friction: _friction,
    Stops: _stops,
    DryFriction: _dry_friction,
    RigidStops: _rigid_stops,
    Actuation: _actuation,
    TrackingEffort: _servo,
}


def rotor(document: Document, name: str, part: AttachedRotor, element: FollowingCoordinate) -> str:
    """Inertia along a coordinate."""
    del name
    along = document.tree.along(element.coordinate, part.bodies[:2])
    if along is None:
        return NO_JOINT
    attributes = along.joint.attributes
    attributes["armature"] = attributes.get("armature", 0.0) + float(part.rotor.mass)
    return ""


def ball_damper(document: Document, name: str, part: Any, element: BallDamper) -> str:
    """A damper of all rotations of a ball joint."""
    del name
    node = document.tree.first[part.bodies[1].name]
    balls = [joint for joint in node.joints if joint.axis.kind == "ball"]
    if node.parent is None or node.parent.body is not part.bodies[0] or not balls:
        return NO_JOINT
    balls[0].attributes["damping"] = balls[0].attributes.get("damping", 0.0) + float(element.damping)
    return ""


def free_damper(document: Document, name: str, part: Any, element: FreeDamper) -> str:
    """A damper of all motions of a free joint, whose frame is then where it acts."""
    del name
    node = document.tree.first[part.bodies[1].name]
    if [joint.axis.kind for joint in node.joints] != ["free"] or "damping" in node.joints[0].attributes:
        return NO_JOINT
    node.origin = node.frame.x + node.frame.R @ np.asarray(element.point)
    node.joints[0].attributes["damping"] = float(element.damping)
    return ""


def line(document: Document, name: str, part: Any, element: LineSpring | LineSpringDamper) -> str:
    """A spring between two points as a tendon between sites."""
    spring = element.spring if isinstance(element, LineSpringDamper) else element
    damping = float(getattr(element, "damping", 0.0))
    stiffness, length = float(spring.stiffness), float(spring.length)
    if min(stiffness, damping, length) < 0:
        return "tendons have no negative stiffness, damping or length"
    more = {"stiffness": stiffness, "springlength": length, "damping": damping or None}
    tendon(document, name, part.bodies, (spring.s0, spring.s1), more)
    return ""


def tendon(document: Document, name: str, bodies: Any, points: Any, attributes: dict[str, Any]) -> None:
    """A line from a point of one body to a point of another."""
    row = document.add(document.tendon, "spatial", {"name": name, **attributes})
    for number, (body, point) in enumerate(zip(bodies, points, strict=True), 1):
        document.add(row, "site", {"site": document.site(body, f"{name} {number}", point)})


def dead_force(document: Document, name: str, part: Any, element: DeadForce) -> str:
    """A constant force in the inertial frame."""
    return _wrench(document, name, part, element.s, np.asarray(element.force), np.zeros(3), True)


def applied_force(document: Document, name: str, part: Any, element: AppliedForce) -> str:
    """A force as a function of time."""
    force = _constant(element.force)
    if force is None:
        return "it is a function of time"
    return _wrench(document, name, part, element.s, force, np.zeros(3), not element.follower)


def torque(document: Document, name: str, part: Any, element: BodyTorque | InertialTorque) -> str:
    """A torque as a function of time."""
    value = _constant(element.torque)
    if value is None:
        return "it is a function of time"
    return _wrench(document, name, part, np.zeros(3), np.zeros(3), value, isinstance(element, InertialTorque))


def _constant(function: Function) -> np.ndarray | None:
    return None if function.constant is None else np.asarray(function.constant)


def _wrench(
    document: Document, name: str, part: Any, point: Any, force: np.ndarray, torque: np.ndarray, inertial: bool
) -> str:
    """A constant load at a point of a body, as an actuator without control that pulls at a site."""
    at = document.site(part.bodies[0], name, point, np.eye(3))
    attributes = {"name": name, "site": at, "gear": np.concatenate((force, torque)), "gainprm": 0.0}
    if inertial:
        attributes["refsite"] = document.site(document.tree.nodes[0].body, f"{name} axes", np.zeros(3))
    document.act(0.0, {**attributes, "biastype": "affine", "biasprm": np.array([1.0, 0.0, 0.0])})
    return ""
