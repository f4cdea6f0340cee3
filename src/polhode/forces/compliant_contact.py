"""Compliant contact of two shapes: a penalty with damping and regularised friction."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import is_zero
from polhode.contact.compliance import hertz_stiffness as hertz_stiffness
from polhode.contact.compliance import impact_damping as impact_damping
from polhode.contact.distances import ContactPoints, contact_points, slots
from polhode.contact.rules import ContactRule
from polhode.contact.shapes import AbstractShape, Box, Capsule, Ellipsoid, Plane, Sphere
from polhode.multibody.bodies import Body
from polhode.multibody.compliant_friction import GripName
from polhode.multibody.mechanism.elements import AbstractForceElement, AbstractGrippingElement, Grips
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists, Wrench
from polhode.multibody.parts import AbstractForce
from polhode.spaces.base import cross


class ElasticPair(AbstractForceElement):
    r"""Two shapes with the potential $\sum k\langle\delta\rangle^{p+1}/(p+1)$ of the depths δ of their contact points.

    **Arguments:**

    - `first`, `second`: the shapes. - `stiffness`, `exponent`: k and p.
    - `scale`: a depth that they reach, for limits of the step.
    """

    relative: ClassVar[bool] = True
    brief: ClassVar[bool] = True
    waves: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False
    measures: ClassVar[tuple[str, ...]] = ("depth",)

    first: AbstractShape
    second: AbstractShape
    stiffness: Float[Array, ""]
    exponent: Float[Array, ""]
    scale: Float[Array, ""]

    @property
    def conservative(self) -> bool:
        """Whether contact points move smoothly, so that energy is kept; of other shapes they jump between features."""
        shapes = (self.first, self.second)
        others = [shape for shape in shapes if not isinstance(shape, Plane)]
        usual = all(isinstance(shape, Sphere | Box | Capsule | Ellipsoid) for shape in others)
        return usual and (len(others) == 1 or any(isinstance(shape, Sphere) for shape in others))

    def contacts(self, poses: Poses) -> ContactPoints:
        """The contact points of the pair."""
        return contact_points(self.first, poses[0], self.second, poses[1])

    def pushes(self, gaps: Float[Array, " s"]) -> Float[Array, " s"]:
        """The elastic forces along the normals."""
        return self.stiffness * self._power(gaps, self.exponent)

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        del t
        power = self._power(self.contacts(poses).gap, self.exponent + 1)
        return self.stiffness * jnp.sum(power) / (self.exponent + 1)

    def _power(self, gaps: Float[Array, " s"], exponent: Array) -> Float[Array, " s"]:
        """⟨δ⟩ to a power, with finite derivatives of every order where the shapes are apart."""
        touches = gaps < 0
        return jnp.where(touches, jnp.where(touches, -gaps, 1.0) ** exponent, 0.0)

    def measurements(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        """The largest depth, negative where the shapes are apart."""
        del t
        return -jnp.min(self.contacts(poses).gap)[None]

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, twists
        points = self.contacts(poses)
        return loads(poses, points.point, self.pushes(points.gap)[:, None] * points.normal)

    def stiffest(self) -> TouchingPair:
        return TouchingPair(DissipativePair(self, None, None, None, None))


class DissipativePair(AbstractGrippingElement):
    r"""A contact with normal forces $N = k\delta^p\langle 1 + c\dot\delta\rangle$ and friction.

    **Arguments:**

    - `elastic`: the elastic contact. - `damping`: c, time per length; None without.
    - `friction`: μ, or two of them along the tangents; None without. - `slip_speed`: v_s; None for exact friction,
      which is no force of this element.
    - `surface_velocity`: of the surface of the first body against this body, in its frame.
    """

    relative: ClassVar[bool] = True
    brief: ClassVar[bool] = True
    waves: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = ElasticPair.measures

    elastic: ElasticPair
    damping: Float[Array, ""] | None
    friction: Float[Array, "..."] | None
    slip_speed: Float[Array, ""] | None
    surface_velocity: Float[Array, "3"] | None

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        return self.elastic.potential(t, poses)

    def measurements(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        return self.elastic.measurements(t, poses)

    def slips(self, points: ContactPoints, poses: Poses, twists: Twists) -> Float[Array, "s 3"]:
        """Velocities of the second surface against the first one at the points."""
        first, second = (_velocities(pose, twist, points.point) for pose, twist in zip(poses, twists, strict=True))
        return second - first

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t
        points = self.elastic.contacts(poses)
        relative = self.slips(points, poses, twists)
        push = self.elastic.pushes(points.gap)
        if self.damping is not None:
            push = push * jnp.maximum(1 - self.damping * _along(points, relative), 0.0)
        return loads(poses, points.point, self.forces(points, push, relative, poses))

    def forces(
        self, points: ContactPoints, push: Float[Array, " s"], relative: Float[Array, "s 3"], poses: Poses
    ) -> Float[Array, "s 3"]:
        """Forces on the second body: pushes along the normals, and friction that they allow."""
        forces = push[:, None] * points.normal
        if self.slip_speed is None:
            return forces
        if self.surface_velocity is not None:
            relative = relative - poses[0].R @ self.surface_velocity
        return forces + push[:, None] * self._drag(points, relative)

    def _drag(self, points: ContactPoints, relative: Float[Array, "s 3"]) -> Float[Array, "s 3"]:
        """Friction over normal force. Of two coefficients it lies in an ellipse, opposite to where slip takes most."""
        assert self.friction is not None
        assert self.slip_speed is not None
        across = relative - _along(points, relative)[:, None] * points.normal
        if self.friction.ndim == 0:
            return -self.friction * across / self._regular_speeds(across)[:, None]
        largest = jnp.max(self.friction)
        shares = self.friction / jnp.where(largest > 0, largest, 1.0)
        tangents = jnp.stack((points.tangent, jnp.cross(points.normal, points.tangent)), axis=1)
        scaled = shares * jnp.einsum("kij,kj->ki", tangents, across)
        drag = -largest * shares * scaled / self._regular_speeds(scaled)[:, None]
        return jnp.einsum("ki,kij->kj", drag, tangents)

    def _regular_speeds(self, slips: Float[Array, "s d"]) -> Float[Array, " s"]:
        assert self.slip_speed is not None
        return jnp.sqrt(jnp.sum(slips * slips, axis=1) + self.slip_speed**2)

    @property
    def friction_coefficients(self) -> Float[Array, "2"] | None:
        if self.friction is None or self.slip_speed is not None:
            return None
        return jnp.broadcast_to(self.friction, (2,))

    @property
    def grip_count(self) -> int:
        return slots(self.elastic.first, self.elastic.second)

    def grips(self, poses: Poses) -> Grips:
        points = self.elastic.contacts(poses)
        tangents = jnp.stack((points.tangent, jnp.cross(points.normal, points.tangent)), axis=1)
        push = self.elastic.pushes(points.gap)
        return Grips(push, points.point, points.normal, tangents, jnp.zeros_like(push))

    def grip_slips(self, poses: Poses, twists: Twists, grips: Grips) -> Float[Array, "s 2"]:
        first, second = (_velocities(pose, twist, grips.point) for pose, twist in zip(poses, twists, strict=True))
        relative = second - first
        if self.surface_velocity is not None:
            relative = relative - poses[0].R @ self.surface_velocity
        return jnp.einsum("kij,kj->ki", grips.tangents, relative)

    def grip_wrenches(self, poses: Poses, grips: Grips, forces: Float[Array, "s 3"]) -> tuple[Wrench, ...]:
        return loads(poses, grips.point, forces)

    def stiffest(self) -> TouchingPair:
        return TouchingPair(self)


class TouchingPair(AbstractForceElement):
    """A contact as a spring, a damper and viscous friction at the depth that it reaches, wherever its shapes are.

    Its loads vanish; their derivatives are those at this depth and without slip, where they are largest.

    **Arguments:**

    - `contact`: the contact.
    """

    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    contact: DissipativePair

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t
        contact, elastic = self.contact, self.contact.elastic
        points = elastic.contacts(poses)
        fixed = jax.lax.stop_gradient(points)
        relative = contact.slips(points, poses, twists)
        relative = relative - jax.lax.stop_gradient(relative)
        force = elastic.stiffness * elastic.scale**elastic.exponent
        # Without gravity, at a depth of zero, laws of exponent 1 are stiff all the same.
        slope = elastic.exponent * elastic.stiffness * elastic.scale ** (elastic.exponent - 1)
        push = slope * (fixed.gap - points.gap)
        if contact.damping is not None:
            push = push - contact.damping * force * _along(fixed, relative)
        forces = push[:, None] * fixed.normal
        if contact.friction is not None and contact.slip_speed is not None:
            across = relative - _along(fixed, relative)[:, None] * fixed.normal
            # All points together carry the load.
            rate = jnp.max(contact.friction) * force / contact.slip_speed / len(points.gap)
            forces = forces - rate * across
        return loads(poses, fixed.point, forces)


def loads(poses: Poses, points: Float[Array, "s 3"], forces: Float[Array, "s 3"]) -> tuple[Wrench, Wrench]:
    """Loads of forces on the second body at points in space, and of their reactions on the first one."""
    total = jnp.sum(forces, axis=0)
    first, second = (jnp.sum(jax.vmap(cross)(points - pose.x, forces), axis=0) for pose in poses)
    return Wrench(-poses[0].R.T @ first, -total), Wrench(poses[1].R.T @ second, total)


def _velocities(pose: Pose, twist: Twist, points: Float[Array, "s 3"]) -> Float[Array, "s 3"]:
    """Velocities of a body at points in space."""
    w = pose.R @ twist.omega
    return twist.u + jax.vmap(lambda arm: cross(w, arm))(points - pose.x)


def _along(points: ContactPoints, vectors: Float[Array, "s 3"]) -> Float[Array, " s"]:
    return jnp.sum(points.normal * vectors, axis=1)


@dataclasses.dataclass(frozen=True, eq=False)
class CompliantContact(AbstractForce):
    r"""A contact of two shapes by a penalty, for every method; `model.add_contact(…, law="compliant")` makes it.

    **Arguments:**

    - `first`, `second`: bodies or the ground. - `first_shape`, `second_shape`: shapes on them.
    - `rule`: numbers of its law. - `gravity`: magnitude of the acceleration.
    - `name`: for results.
    """

    first: Body
    second: Body
    first_shape: AbstractShape
    second_shape: AbstractShape
    rule: ContactRule
    gravity: Any = 0.0
    name: str | None = None

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.first, self.second

    @property
    def grip_name(self) -> GripName:
        """Names of the contact and of both sides."""
        return GripName(self.name or f"{self.first.name}/{self.second.name}", self.first.name, self.second.name)

    def place(self, poses: Poses) -> ElasticPair | DissipativePair:
        rule = self.rule
        stiffness = checks.array("stiffness", rule.stiffness, (), "of the contact")
        exponent = checks.array("exponent", rule.exponent, (), "of the depth")
        scale = self._depth(poses, stiffness, exponent)
        elastic = ElasticPair(self.first_shape, self.second_shape, stiffness, exponent, scale)
        damping = self._damping()
        friction = None if is_zero(rule.friction) else self._friction()
        if damping is None and friction is None:
            return elastic
        exact = friction is None or rule.slip_speed is None
        slip_speed = None if exact else checks.array("slip_speed", rule.slip_speed, (), "of friction")
        belt = rule.surface_velocity
        belt = None if belt is None or friction is None else checks.array("surface_velocity", belt, (3,), "of a belt")
        return DissipativePair(elastic, damping, friction, slip_speed, belt)

    def _damping(self) -> Float[Array, ""] | None:
        if self.rule.impact_speed is not None:
            damping = impact_damping(self.rule.restitution, self.rule.impact_speed)
        else:
            damping = checks.array("damping", self.rule.damping, (), "time per length")
        return None if is_zero(damping) else damping

    def _friction(self) -> Float[Array, "..."]:
        return checks.array("friction", self.rule.friction, np.shape(self.rule.friction), "coefficient of friction")

    def _depth(self, poses: Poses, stiffness: Array, exponent: Array) -> Float[Array, ""]:
        """The depth of an impact at the speed of the rule, or of a fall from the start, and under the weight."""
        free = [jnp.asarray(body.mass) for body in self.bodies if body.kind != "ground"]
        mass = 1 / sum((1 / jnp.where(m > 0, m, jnp.inf) for m in free), start=jnp.zeros(()))
        speed = self.rule.impact_speed
        if speed is None:
            first, second = (jnp.asarray(body.u) for body in self.bodies)
            square = jnp.sum((second - first) ** 2) + 2 * self.gravity * self._distance(poses)
        else:
            square = jnp.asarray(speed) ** 2
        # Without derivatives: it has no influence on motions.
        numbers = mass, square, stiffness, exponent, self.gravity
        mass, square, stiffness, exponent, gravity = jax.lax.stop_gradient(numbers)
        impact = ((exponent + 1) * mass * square / (2 * stiffness)) ** (1 / (exponent + 1))
        return impact + (mass * gravity / stiffness) ** (1 / exponent)

    def _distance(self, poses: Poses) -> Float[Array, ""]:
        """About how far the shapes are apart."""
        shapes = (self.first_shape, self.second_shape)
        ends = [shape.pose_in(pose) for shape, pose in zip(shapes, poses, strict=True)]
        across = ends[1][0] - ends[0][0]
        distance = jnp.sqrt(jnp.sum(across**2))
        for shape, (_, R) in zip(shapes, ends, strict=True):
            distance = jnp.abs(across @ R[:, 2]) if isinstance(shape, Plane) else distance - shape.bounding_radius
        return jnp.maximum(distance, 0.0)
