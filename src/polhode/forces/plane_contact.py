"""Contact of a sphere with a fixed plane, by a penalty."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import is_zero, short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.joints._frames import axis, check_body, initial_pose
from polhode.multibody.bodies import SINGLE, Body
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.multibody.parts import AbstractForce


class SphereOnPlane(AbstractForceElement):
    r"""The potential $k\langle\delta\rangle^{p+1}/(p+1)$ of a sphere that is δ deep in a plane.

    **Arguments:**

    - `normal`, `level`: the plane is n·x = level, free where n·x is greater; shapes (3,) and ().
    - `radius`: of the sphere about the centre of mass.
    - `stiffness`, `exponent`: k and p.
    """

    brief: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False
    conservative: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = ("depth",)

    normal: Float[Array, "3"]
    level: Float[Array, ""]
    radius: Float[Array, ""]
    stiffness: Float[Array, ""]
    exponent: Float[Array, ""]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        del t
        return self.stiffness * self._power(poses, self.exponent + 1) / (self.exponent + 1)

    def push(self, poses: Poses) -> Float[Array, ""]:
        """The elastic force along the normal."""
        return self.stiffness * self._power(poses, self.exponent)

    def depth(self, poses: Poses) -> Float[Array, ""]:
        """δ, negative where the sphere is apart from the plane."""
        return self.radius - (self.normal @ poses[0].x - self.level)

    def measurements(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        del t
        return self.depth(poses)[None]

    def _power(self, poses: Poses, exponent: Array) -> Float[Array, ""]:
        """⟨δ⟩ to a power, with finite derivatives of every order where the sphere is apart from the plane."""
        depth = self.depth(poses)
        touches = depth > 0
        return jnp.where(touches, jnp.where(touches, depth, 1.0) ** exponent, 0.0)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, twists
        return (Wrench(jnp.zeros(3), self.push(poses) * self.normal),)


class DampedSphereOnPlane(AbstractForceElement):
    r"""A contact whose elastic force is multiplied by $\langle 1 + c\,\dot\delta\rangle$.

    **Arguments:**

    - `contact`: the elastic contact.
    - `damping`: c, time per length.
    """

    brief: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = SphereOnPlane.measures

    contact: SphereOnPlane
    damping: Float[Array, ""]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        return self.contact.potential(t, poses)

    def measurements(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        return self.contact.measurements(t, poses)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t
        approach_speed = -self.contact.normal @ twists[0].u
        push = self.contact.push(poses) * jnp.maximum(1 + self.damping * approach_speed, 0.0)
        return (Wrench(jnp.zeros(3), push * self.contact.normal),)


@dataclasses.dataclass(frozen=True, eq=False)
class PlaneContact(AbstractForce):
    r"""A sphere about the centre of mass of a body that is pushed out of a fixed plane. There is no friction.

    The force along the normal is $k\langle\delta\rangle^p\langle 1 + c\,\dot\delta\rangle$ with the depth
    $\delta = r - n\cdot(x - a)$; ⟨·⟩ is the positive part. Without damping it derives from a potential, and the energy
    of a conservative system is still an invariant. The force is p-1 times differentiable at first touch, so steps over
    it have at most order p + 1. The damping is that of K. Hunt & F. Crossley (1975), c = 3(1 - e)/(2v) for a
    restitution e near 1 at impact speed v; it vanishes at first touch, and the plane never pulls.

    **Arguments:**

    - `body`: a rigid body or a mass point.
    - `point`, `normal`: a point a of the plane and its direction n to the free side, whose length doesn't matter,
      shape (3,), inertial frame.
    - `stiffness`: k, force per depth to the power p.
    - `radius`: r of the sphere; 0 for the centre of mass itself.
    - `damping`: c, time per length.
    - `exponent`: p of at least 1; 1 for a linear spring, 3/2 for spheres after H. Hertz.
    - `name`: for messages.

    **Raises** ValueError for numbers that make no sense.
    """

    body: Body
    point: Any
    normal: Any
    stiffness: Any
    radius: Any = 0.0
    damping: Any = 0.0
    exponent: Any = 1.0
    name: str | None = None

    @eager_numpy()
    def __post_init__(self) -> None:
        check_body(self, "body", self.body)
        if self.body.kind in SINGLE:
            raise ValueError(
                f"{self.body!r} is a single coordinate, not a place that can touch a plane. Use a body or a mass point."
            )
        self.place((initial_pose(self.body),))

    @property
    def bodies(self) -> tuple[Body, ...]:
        return (self.body,)

    def place(self, poses: Poses) -> SphereOnPlane | DampedSphereOnPlane:
        del poses
        normal = axis("normal", self.normal)
        contact = SphereOnPlane(
            normal,
            normal @ checks.array("point", self.point, (3,), "on the plane, inertial frame"),
            _at_least("radius", self.radius, 0.0, "of the sphere"),
            checks.positive("stiffness", self.stiffness, (), "force per depth to the power `exponent`"),
            _at_least("exponent", self.exponent, 1.0, "power of the depth; smaller ones are infinitely stiff at touch"),
        )
        damping = _at_least("damping", self.damping, 0.0, "time per length")
        return contact if is_zero(damping) else DampedSphereOnPlane(contact, damping)


def _at_least(name: str, value: Any, least: float, meaning: str) -> Float[Array, ""]:
    number = checks.array(name, value, (), meaning)
    if checks.is_concrete(value) and not np.asarray(value) >= least:
        raise ValueError(f"`{name}` must be at least {least:g} ({meaning}), got {short_repr(value)}.")
    return number
