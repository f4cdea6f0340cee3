"""Bonds between bodies of a model."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import is_zero, short_repr
from polhode.forces._pair import AbstractPairForce
from polhode.joints._frames import check_has_rotation, point_on, point_position
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists, Wrench
from polhode.particles.bonds import BondMaterial
from polhode.spaces.base import cross, norm
from polhode.spaces.quaternions import vector_from_matrix


class ElasticBond(AbstractForceElement):
    """A bond with the energies of `BondMaterial` and the objective law of shear, between points of two bodies.

    **Arguments:**

    - `s0`, `s1`: the points in the frames of the bodies, shape (3,).
    - `a0`, `a1`: d₀/L₀ in the frames of the bodies, shape (3,).
    - `turn`: R₁₀ᵀR₂₀ of the rotations at the start, shape (3, 3).
    - `bending`, `axial`, `shear`, `length`: K^m, K^a, K^s and L₀.
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False
    conservative: ClassVar[bool] = True
    waves: ClassVar[bool] = True

    s0: Float[Array, "3"]
    s1: Float[Array, "3"]
    a0: Float[Array, "3"]
    a1: Float[Array, "3"]
    turn: Float[Array, "3 3"]
    bending: Float[Array, ""]
    axial: Float[Array, ""]
    shear: Float[Array, ""]
    length: Float[Array, ""]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        del t
        length, n = self.along(poses)
        theta = self.bend(poses)
        c = 0.5 * (poses[0].R @ self.a0 + poses[1].R @ self.a1) @ n
        axial_energy = self.axial * (length / self.length - 1) ** 2
        return 0.5 * (self.bending * theta @ theta + axial_energy + self.shear * (1 - c) ** 2)

    def along(self, poses: Poses) -> tuple[Float[Array, ""], Float[Array, "3"]]:
        """Distance of the points, and the direction from the second to the first, zero where they meet."""
        d = point_position(poses[0], self.s0) - point_position(poses[1], self.s1)
        length = norm(d)
        return length, d / jnp.where(length > 0, length, 1.0)

    def bend(self, poses: Poses) -> Float[Array, "3"]:
        """θ₁₂ in the inertial frame."""
        return vector_from_matrix(poses[0].R @ self.turn @ poses[1].R.T)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, twists
        length, n = self.along(poses)
        arms = poses[0].R @ self.a0, poses[1].R @ self.a1
        mean = 0.5 * (arms[0] + arms[1])
        c = mean @ n
        s = self.shear * (1 - c)
        pull = -self.axial / self.length * (length / self.length - 1)
        force = pull * n + s / jnp.where(length > 0, length, 1.0) * (mean - c * n)
        bent = self.bending * self.bend(poses)
        return self.loads(poses, force, (0.5 * s * cross(arms[0], n) - bent, 0.5 * s * cross(arms[1], n) + bent))

    def loads(self, poses: Poses, force: Float[Array, "3"], moments: tuple[Array, ...]) -> tuple[Wrench, Wrench]:
        """Loads of a force on the first point and its reaction on the second, and of moments on the bodies."""
        return (
            Wrench(cross(self.s0, poses[0].R.T @ force) + poses[0].R.T @ moments[0], force),
            Wrench(poses[1].R.T @ moments[1] - cross(self.s1, poses[1].R.T @ force), -force),
        )


class DampedBond(AbstractForceElement):
    """A bond with dampers along it and between the angular velocities of its ends.

    **Arguments:**

    - `bond`: the bond. - `axial`, `bending`: the constants of the dampers.
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True
    waves: ClassVar[bool] = True

    bond: ElasticBond
    axial: Float[Array, ""]
    bending: Float[Array, ""]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        return self.bond.potential(t, poses)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        n = self.bond.along(poses)[1]
        first, second = (
            _velocity(p, w, s) for p, w, s in zip(poses, twists, (self.bond.s0, self.bond.s1), strict=True)
        )
        spin = poses[0].R @ twists[0].omega - poses[1].R @ twists[1].omega
        drag = -self.axial * (n @ (first - second)) * n
        moments = -self.bending * spin, self.bending * spin
        elastic, damping = self.bond.wrenches(t, poses, twists), self.bond.loads(poses, drag, moments)
        return tuple(jax.tree.map(jnp.add, a, b) for a, b in zip(elastic, damping, strict=True))


def _velocity(pose: Pose, twist: Twist, s: Float[Array, "3"]) -> Float[Array, "3"]:
    return twist.u + pose.R @ cross(twist.omega, s)


@dataclasses.dataclass(frozen=True, eq=False)
class Bond(AbstractPairForce):
    """A bond between two bodies of a model, particles or not: it resists stretching, shear, bending and torsion.

    Its length at rest and its arm are those of the start. Energies: `BondMaterial`, with the objective law of shear.

    **Arguments:**

    - `first`, `second`: rigid bodies, particles of `Model.add_particles`, or `model.ground`.
    - `material`: a `BondMaterial` without `strength`: elements of models remember nothing, so they can't break.
    - `first_point`, `second_point`: its ends, in the inertial frame at the initial time; centres of mass by default.
    - `name`: for messages.

    **Raises** ValueError for ends at one place, mass points, and materials that break.
    """

    material: BondMaterial
    first_point: Any = None
    second_point: Any = None
    name: str | None = None

    def place(self, poses: Poses) -> ElasticBond | DampedBond:
        k = self.material
        if not isinstance(k, BondMaterial):
            raise ValueError(f"`material` must be a `BondMaterial`, got {type(k).__name__}.")
        if k.strength is not None:
            raise ValueError(
                "Bonds of a model can't break: its elements remember nothing. Leave out `strength`, or simulate the "
                "particles by themselves with `polhode.particles.Particles`."
            )
        for body in self.bodies:
            check_has_rotation(body, "A bond")
        s = (
            _end(self.first, poses[0], self.first_point, "first_point"),
            _end(self.second, poses[1], self.second_point, "second_point"),
        )
        d = point_position(poses[0], s[0]) - point_position(poses[1], s[1])
        length = norm(d)
        if checks.is_concrete(d) and not float(length) > 0:
            raise ValueError(
                f"Both ends of a bond between {short_repr(self.first)} and {short_repr(self.second)} are at the same "
                "place."
            )
        n = d / length
        bond = ElasticBond(
            s0=s[0],
            s1=s[1],
            a0=poses[0].R.T @ n,
            a1=poses[1].R.T @ n,
            turn=poses[0].R.T @ poses[1].R,
            bending=k.bending,
            axial=k.axial,
            shear=k.shear,
            length=length,
        )
        if is_zero(k.axial_damping) and is_zero(k.bending_damping):
            return bond
        return DampedBond(bond, k.axial_damping, k.bending_damping)


def _end(body: Body, pose: Pose, point: Any, name: str) -> Float[Array, "3"]:
    return jnp.zeros(3) if point is None else point_on(body, pose, point, name)
