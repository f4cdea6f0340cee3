"""Contact elements of spheres and walls on bodies of a model."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import is_zero
from polhode.compiler.numpy.eager import eager_numpy
from polhode.forces._pair import AbstractPairForce
from polhode.joints._frames import check_body, initial_pose
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.multibody.parts import AbstractForce
from polhode.particles import contacts
from polhode.particles.checks import not_negative, walls_of
from polhode.particles.walls import AbstractSmoothWall


class SphereContactElement(AbstractForceElement):
    """Hertz's contact of two spheres about the centres of mass, (2/5) K δ^{5/2} with δ = [1 - |d|/D]₊.

    **Arguments:**

    - `stiffness`, `reach`: K and D.
    """

    brief: ClassVar[bool] = True
    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False
    conservative: ClassVar[bool] = True

    stiffness: Float[Array, ""]
    reach: Float[Array, ""]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        del t
        return contacts.hertz_energy(self.stiffness, contacts.overlap(_relative_position(poses), self.reach)[0])

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, twists
        return _action_and_reaction(contacts.force(self.stiffness, 0.0, _relative_position(poses), self.reach))


class DampedSphereContactElement(AbstractForceElement):
    """The same with a force per speed of approach while the spheres touch.

    **Arguments:**

    - `contact`: the elastic contact. - `damping`: force per speed.
    """

    brief: ClassVar[bool] = True
    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    contact: SphereContactElement
    damping: Float[Array, ""]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        return self.contact.potential(t, poses)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        v = tuple(twists[0].u - twists[1].u)
        drag = _action_and_reaction(contacts.force(0.0, self.damping, _relative_position(poses), self.contact.reach, v))
        elastic = self.contact.wrenches(t, poses, twists)
        return tuple(jax.tree.map(jnp.add, a, b) for a, b in zip(elastic, drag, strict=True))


def _relative_position(poses: Poses) -> tuple[Array, ...]:
    return tuple(poses[0].x - poses[1].x)


def _action_and_reaction(force: tuple[Array, ...]) -> tuple[Wrench, Wrench]:
    f = jnp.stack(force)
    return Wrench(jnp.zeros(3), f), Wrench(jnp.zeros(3), -f)


class WallContactElement(AbstractForceElement):
    """Hertz's contact of a sphere about the centre of mass with the faces of a wall, D half a diameter.

    **Arguments:**

    - `wall`: of `polhode.particles`. - `stiffness`, `radius`: K and the radius.
    """

    brief: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False
    conservative: ClassVar[bool] = True

    wall: AbstractSmoothWall
    stiffness: Float[Array, ""]
    radius: Float[Array, ""]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        del t
        return sum(
            (contacts.hertz_energy(self.stiffness, delta) for delta, _ in self.face_overlaps(poses)),
            start=jnp.zeros(()),
        )

    def face_overlaps(self, poses: Poses) -> list[tuple[Array, Array]]:
        """δ and the normal of each face."""
        faces = self.wall.faces(tuple(poses[0].x))
        return [
            (jnp.maximum(1 - distance / self.radius, 0.0), jnp.stack(jnp.broadcast_arrays(*n))) for distance, n in faces
        ]

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, twists
        pushes = (contacts.hertz(self.stiffness, delta) / self.radius * n for delta, n in self.face_overlaps(poses))
        return (Wrench(jnp.zeros(3), sum(pushes, start=jnp.zeros(3))),)


class DampedWallContactElement(AbstractForceElement):
    """The same with a force per speed of approach while the sphere touches the wall.

    **Arguments:**

    - `contact`: the elastic contact. - `damping`: force per speed.
    """

    brief: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    contact: WallContactElement
    damping: Float[Array, ""]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        return self.contact.potential(t, poses)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        (elastic,) = self.contact.wrenches(t, poses, twists)
        drag = (
            jnp.where(delta > 0, -self.damping * (n @ twists[0].u), 0.0) * n
            for delta, n in self.contact.face_overlaps(poses)
        )
        return (elastic._replace(force=sum(drag, start=elastic.force)),)


@dataclasses.dataclass(frozen=True, eq=False)
class SphereContact(AbstractPairForce):
    """Hertz's contact of two spheres about the centres of mass of two bodies.

    **Arguments:**

    - `first`, `second`: rigid bodies, or particles. - `stiffness`: K, an energy.
    - `reach`: D, the mean of the diameters. - `damping`: force per speed of approach while they touch.
    - `name`: for messages.
    """

    stiffness: Any
    reach: Any
    damping: Any = 0.0
    name: str | None = None

    def place(self, poses: Poses) -> SphereContactElement | DampedSphereContactElement:
        del poses
        contact = SphereContactElement(
            not_negative("stiffness", self.stiffness), checks.positive("reach", self.reach, (), "mean of the diameters")
        )
        damping = not_negative("damping", self.damping)
        return contact if is_zero(damping) else DampedSphereContactElement(contact, damping)


@dataclasses.dataclass(frozen=True, eq=False)
class WallContact(AbstractForce):
    """Hertz's contact of a sphere about the centre of mass of a body with a wall of `polhode.particles`.

    **Arguments:**

    - `body`: a rigid body, or a particle. - `wall`: `Plane`, `Box` or `Cylinder`. - `stiffness`: K, an energy.
    - `radius`: of the sphere. - `damping`: force per speed of approach while it touches. - `name`: for messages.
    """

    body: Body
    wall: AbstractSmoothWall
    stiffness: Any
    radius: Any
    damping: Any = 0.0
    name: str | None = None

    @eager_numpy()
    def __post_init__(self) -> None:
        check_body(self, "body", self.body)
        walls_of((self.wall,), self.stiffness)
        self.place((initial_pose(self.body),))

    @property
    def bodies(self) -> tuple[Body, ...]:
        return (self.body,)

    def place(self, poses: Poses) -> WallContactElement | DampedWallContactElement:
        del poses
        radius = checks.positive("radius", self.radius, (), "radius of the sphere")
        contact = WallContactElement(self.wall, not_negative("stiffness", self.stiffness), radius)
        damping = not_negative("damping", self.damping)
        return contact if is_zero(damping) else DampedWallContactElement(contact, damping)
