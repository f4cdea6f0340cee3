"""Compliant contact of an edge of a rod with a shape on a body or on the ground."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.contact.distances import contact_points
from polhode.contact.distances.contact_points import tangent_of
from polhode.contact.rules import ContactRule
from polhode.contact.shapes import AbstractShape, Box, Capsule, Cylinder, Ellipsoid, Plane, Sphere
from polhode.multibody.bodies import Body
from polhode.multibody.compliant_friction import GripName
from polhode.multibody.mechanism.elements import AbstractForceElement, AbstractGrippingElement, Grips
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists, Wrench
from polhode.multibody.parts import AbstractForce
from polhode.rods.centre_line import CentreLine, NodeLoads, Velocities
from polhode.rods.contact_law import LineLaw, depth_of_impact
from polhode.rods.contact_patch import STATIONS, contact_span, square_like
from polhode.rods.edge import EdgeShape
from polhode.spaces.base import cross

Vector3 = Float[Array, "3"]
Scalar = Float[Array, ""]

_SMOOTH = Plane, Sphere, Capsule, Cylinder, Ellipsoid, Box
"""Kinds of shapes whose distance from a point is smooth outside of them, so that forces keep energy."""


class EdgeSurface(AbstractGrippingElement):
    r"""An edge that a shape pushes by a law per length, with the potential $\int_e\phi(\delta)\,ds$ of the depths.

    The depth δ(s) is that of a sphere about the centre line in the shape. The part of the edge in contact is where a
    parabola through the depths at both nodes and in the middle is positive; there the integral is Gauss' with four
    points. So forces change smoothly as the contact moves along the rod, and a contact as short as that with a thin
    cylinder across is found.

    **Arguments:**

    - `edge`: the edge, with the frames of clamped nodes. - `radius`: of the rod.
    - `tips`: lengths that belong to its nodes besides, as caps at free ends do, shape (2,); None without.
    - `shape`, `law`: what it touches, and how. - `curvature`: 1/ρ of `square_like`.
    - `depth`: that is reached, for limits of the step.
    """

    brief: ClassVar[bool] = True
    waves: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = ("depth",)

    edge: EdgeShape
    radius: Scalar
    tips: Float[Array, "2"] | None
    shape: AbstractShape
    curvature: Scalar
    law: LineLaw
    depth: Scalar

    @property
    def uses_twists(self) -> bool:
        """Whether there is damping or regularised friction."""
        return not self.law.elastic

    @property
    def conservative(self) -> bool:
        """Whether forces keep energy."""
        return self.law.elastic and isinstance(self.shape, _SMOOTH)

    def line(self, poses: Poses) -> CentreLine:
        """The centre line of the edge."""
        return CentreLine.of(self.edge.nodes(poses[:2]), self.edge.length)

    def gap(self, body: Pose, point: Vector3) -> tuple[Scalar, Vector3]:
        """The gap of a point of the centre line, and the normal from the shape to it."""
        sphere = Sphere(self.radius)
        places = contact_points(self.shape, (body.x, body.R), sphere, (point, jnp.eye(3)))
        return places.gap[0], places.normal[0]

    def points(self, poses: Poses) -> tuple[Array, Array]:
        """Places of the quadrature along the edge, and the lengths that belong to them."""
        line = self.line(poses)
        part = contact_span(lambda s: square_like(self.gap(poses[2], line.point(s))[0], self.curvature)).patch
        places, weights = part.places, self.edge.length * part.weights
        if self.tips is None:
            return places, weights
        return jnp.concatenate((places, STATIONS[::2])), jnp.concatenate((weights, self.tips))

    def gaps(self, poses: Poses) -> tuple[Array, Array, Array]:
        """Places along the edge, lengths that belong to them, and gaps."""
        places, weights = self.points(poses)
        line = self.line(poses)
        return places, weights, jax.vmap(lambda s: self.gap(poses[2], line.point(s))[0])(places)

    def potential(self, t: Array, poses: Poses) -> Scalar:
        del t
        _, weights, gaps = self.gaps(poses)
        return weights @ self.law.energy(gaps)

    def measurements(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        """The largest depth, negative without contact."""
        del t
        line = self.line(poses)
        _, weights, gaps = self.gaps(poses)
        stations = jax.vmap(lambda s: self.gap(poses[2], line.point(s))[0])(STATIONS)
        return -jnp.minimum(jnp.min(stations), jnp.min(jnp.where(weights > 0, gaps, jnp.inf)))[None]

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t
        places, weights = self.points(poses)
        return self._loads(poses, twists, places, weights, self._push_force)

    def _push_force(self, gap: Scalar, normal: Vector3, relative: Vector3) -> Vector3:
        return self.law.force(gap, normal, relative)

    def _loads(self, poses: Poses, twists: Twists, places: Array, weights: Array, law: Any) -> tuple[Wrench, ...]:
        """Sums of the loads at points of the edge, whose forces per length follow from gap, normal and slip."""
        nodes, body = self.edge.nodes(poses[:2]), poses[2]
        line = CentreLine.of(nodes, self.edge.length)
        velocities = None
        if self.uses_twists:
            velocities = Velocities.of(nodes, self.edge.node_twists(poses[:2], twists[:2]))

        def one(s: Scalar, weight: Scalar) -> tuple[NodeLoads, Wrench]:
            centre = line.point(s)
            gap, normal = self.gap(body, centre)
            arm = -(self.radius + 0.5 * gap) * normal
            relative = jnp.zeros(3)
            if velocities is not None:
                relative = line.velocity(velocities, s, arm) - _velocity(body, twists[2], centre + arm)
            return _loads_of(line, body, s, arm, weight * law(gap, normal, relative))

        return self._on_nodes(poses, jax.vmap(one)(places, weights))

    def _on_nodes(self, poses: Poses, each: tuple[NodeLoads, Wrench]) -> tuple[Wrench, ...]:
        """Sums of loads at points of the edge, on the bodies of its nodes and on that of the shape."""
        loads, on_body = jax.tree.map(lambda x: jnp.sum(x, axis=0), each)
        nodes = self.edge.nodes(poses[:2])
        first = Wrench(nodes[0].R.T @ loads.first_moment, loads.first)
        second = Wrench(nodes[1].R.T @ loads.second_moment, loads.second)
        return *self.edge.on_bodies(poses[:2], (first, second)), on_body

    @property
    def friction_coefficients(self) -> Float[Array, "2"] | None:
        return jnp.stack((self.law.friction,) * 2) if self.law.sticks and self.law.friction is not None else None

    @property
    def grip_count(self) -> int:
        return 1

    def grips(self, poses: Poses) -> Grips:
        """The centre of the pressure on the edge."""
        places, weights, gaps = self.gaps(poses)
        pushes = weights * self.law.push(gaps)
        push = jnp.sum(pushes)
        presses = push > 0
        s = jnp.where(presses, pushes @ places / jnp.where(presses, push, 1.0), 0.5)
        centre = self.line(poses).point(s)
        gap, normal = self.gap(poses[2], centre)
        tangent = tangent_of(normal, poses[2].R)
        tangents = jnp.stack((tangent, cross(normal, tangent)))
        point = centre - (self.radius + 0.5 * gap) * normal
        return Grips(*(x[None] for x in (push, point, normal, tangents, s)))

    def grip_slips(self, poses: Poses, twists: Twists, grips: Grips) -> Float[Array, "1 2"]:
        line, (s,), (point,) = self.line(poses), grips.place, grips.point
        velocities = Velocities.of(self.edge.nodes(poses[:2]), self.edge.node_twists(poses[:2], twists[:2]))
        own = line.velocity(velocities, s, point - line.point(s))
        return (grips.tangents[0] @ (own - _velocity(poses[2], twists[2], point)))[None]

    def grip_wrenches(self, poses: Poses, grips: Grips, forces: Float[Array, "1 3"]) -> tuple[Wrench, ...]:
        line = self.line(poses)
        one = lambda s, point, force: _loads_of(line, poses[2], s, point - line.point(s), force)  # noqa: E731
        return self._on_nodes(poses, jax.vmap(one)(grips.place, grips.point, forces))

    def stiffest(self) -> TouchingEdge:
        return TouchingEdge(self)


class TouchingEdge(AbstractForceElement):
    """An edge in contact all along, as a spring, a damper and viscous friction at the depth that it reaches.

    Its loads vanish; their derivatives are the largest ones. - `contact`: the contact.
    """

    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    contact: EdgeSurface

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t
        contact, still = self.contact, jax.lax.stop_gradient
        weights = contact.edge.length * jnp.array([0.25, 0.5, 0.25])

        def law(gap: Scalar, normal: Vector3, relative: Vector3) -> Vector3:
            return contact.law.stiffest(contact.depth, gap - still(gap), still(normal), relative - still(relative))

        return contact._loads(poses, twists, jnp.asarray(STATIONS), weights, law)


def _loads_of(line: CentreLine, body: Pose, s: Scalar, arm: Vector3, force: Vector3) -> tuple[NodeLoads, Wrench]:
    """Loads of a force on the edge, `arm` away from its centre line, on its nodes and on the body of the shape."""
    reaction = Wrench(-body.R.T @ cross(line.point(s) + arm - body.x, force), -force)
    return line.loads(s, arm, force), reaction


def _velocity(pose: Pose, twist: Twist, point: Vector3) -> Vector3:
    """Velocity of a point of a body."""
    return twist.u + cross(pose.R @ twist.omega, point - pose.x)


@dataclasses.dataclass(frozen=True, eq=False)
class RodShapeContact(AbstractForce):
    """The contact of one edge of a rod with a shape; `model.add_contact(rod, body, law="compliant", …)` makes them.

    - `first`, `second`: bodies of the nodes. - `edge`, `radius`, `tips`: see `EdgeSurface`. - `mass`: per length.
    - `body`, `shape`: what it touches. - `rule`: numbers of the law. - `gravity`: magnitude of the acceleration.
    - `name`: None; results are by the names of rod and body. - `rod`: name of the rod.
    """

    first: Body
    second: Body
    edge: EdgeShape
    radius: Any
    tips: Any
    mass: Any
    body: Body
    shape: AbstractShape
    rule: ContactRule
    gravity: Any = 0.0
    name: str | None = None
    rod: str = ""

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.first, self.second, self.body

    @property
    def grip_name(self) -> GripName:
        """Names of the contact and of both sides; friction acts on the rod."""
        return GripName(self.rule.name or f"{self.body.name}/{self.rod}", self.body.name, self.rod)

    def place(self, poses: Poses) -> EdgeSurface:
        radius, law = jnp.asarray(self.radius, float), LineLaw.of(self.rule)
        tips = None if self.tips is None else jnp.asarray(self.tips, float)
        curvature = 1 / (radius + self.shape.section_radius)
        element = EdgeSurface(self.edge, radius, tips, self.shape, curvature, law, jnp.zeros(()))
        return dataclasses.replace(element, depth=jax.lax.stop_gradient(self._depth(element, poses)))

    def _depth(self, element: EdgeSurface, poses: Poses) -> Scalar:
        """The depth of an impact at the speed of the rule, or of a fall from the start, and under the weight."""
        speed = self.rule.impact_speed
        if speed is None:
            speeds = jnp.asarray(self.second.u) - jnp.asarray(self.body.u)
            fall = jnp.clip(element.gap(poses[2], element.line(poses).point(jnp.asarray(0.5)))[0], 0.0, 1e6)
            square = speeds @ speeds + 2 * self.gravity * fall
        else:
            square = jnp.asarray(speed, float) ** 2
        return depth_of_impact(element.law, self.mass, square, self.gravity)
