"""Bodies on Lie groups: direct products with inertial velocities, semidirect ones with body-fixed velocities."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.formulations.base import AbstractFormulation, AbstractTwistVelocities, rigid_mass
from polhode.multibody.mechanism.poses import Pose, Twist, Wrench
from polhode.spaces.base import AbstractGroup, Point, Vector, cross
from polhode.spaces.linear import Rn
from polhode.spaces.products import product
from polhode.spaces.quaternions import from_matrix
from polhode.spaces.rotations import AbstractRotationGroup


class DirectProduct(AbstractTwistVelocities):
    """Rotation group × R³: q = (rotation, x), v = (Ω, u) with u = ẋ in the inertial frame; J is the identity.

    **Arguments:**

    - `rotations`: SO3(), S3() or RotationVector(); the last with composition and reparametrisation of the rotation
      vector within the step is the local–global map of J. Holzinger, M. Arnold & J. Gerstmayr.
    """

    rotations: AbstractRotationGroup

    @property
    def space(self) -> AbstractGroup:
        return product(self.rotations, Rn(3))

    @property
    def regular(self) -> bool:
        return True

    @property
    def moves_with_twist(self) -> bool:
        return True

    def pose(self, q: Point) -> Pose:
        return Pose(q[1], self.rotations.to_matrix(q[0]))

    def from_pose(self, pose: Pose) -> Point:
        return self.rotations.from_quaternion(from_matrix(pose.R)), pose.x


class SemidirectProduct(AbstractFormulation):
    """Rotation group ⋉ R³: q = (rotation, x), v = (Ω, U) with U = Rᵀẋ in the body frame; M is constant.

    **Arguments:**

    - `group`: SE3(), S3R3() or RotationVectorR3().
    """

    group: AbstractGroup
    rotations: AbstractRotationGroup

    @property
    def space(self) -> AbstractGroup:
        return self.group

    @property
    def regular(self) -> bool:
        return True

    @property
    def moves_with_twist(self) -> bool:
        return True

    def pose(self, q: Point) -> Pose:
        return Pose(q[1], self.rotations.to_matrix(q[0]))

    def twist(self, q: Point, v: Vector) -> Twist:
        return Twist(v[:3], self.pose(q).R @ v[3:])

    def from_pose(self, pose: Pose) -> Point:
        return self.rotations.from_quaternion(from_matrix(pose.R)), pose.x

    def from_twist(self, q: Point, twist: Twist) -> Vector:
        return jnp.concatenate((twist.omega, self.pose(q).R.T @ twist.u))

    def jacobian(self, q: Point) -> Float[Array, "6 6"]:
        zero = jnp.zeros((3, 3))
        return jnp.block([[jnp.eye(3), zero], [zero, self.pose(q).R]])

    def body_jacobian(self, q: Point) -> None:
        return None

    def mass(self, q: Point, mass: Array, inertia: Float[Array, "3 3"]) -> Float[Array, "6 6"]:
        return rigid_mass(mass, inertia)

    def force(self, q: Point, v: Vector, wrench: Wrench, mass: Array, inertia: Float[Array, "3 3"]) -> Vector:
        omega, U = v[:3], v[3:]
        torque = wrench.torque - cross(omega, inertia @ omega)
        return jnp.concatenate((torque, self.pose(q).R.T @ wrench.force - mass * cross(omega, U)))

    def pull_back(self, q: Point, wrench: Float[Array, "6"]) -> Vector:
        return jnp.concatenate((wrench[:3], self.pose(q).R.T @ wrench[3:]))
