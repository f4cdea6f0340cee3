"""Links of a tree: rigid bodies in the frames of the joints that carry them."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.modules import Module
from polhode.multibody.coordinates.tree.motions import AbstractRelativeMotion
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.spaces.base import Point, cross

Vec = Float[Array, "3"]
Rows = Float[Array, "n 3"]

_Z: Any = np.array([0.0, 0.0, 1.0])
_UPPER = np.triu_indices(3)
_WHOLE = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])
"""Places of the entries of a symmetric matrix among those of its upper triangle."""


class Link(Module):
    """A body of a tree, with a frame in its joint.

    - `motion`: of its frame on that of the parent; `parent`: number of the parent, -1 for the ground.
    - `inertia`: about the origin of its frame, in this frame.
    - `centre`, `attitude`: centre of mass and body frame in the frame of the link.
    - `weight`: gravitational mass per mass: 1, or 0 for generalised coordinates without weight, such as integrals.
    - `energetic`: whether its motion has kinetic energy, unlike that of an integral.
    - `first`, `last`: the places of its velocities in v.
    """

    motion: AbstractRelativeMotion
    inertia: Inertia
    centre: Vec
    attitude: Float[Array, "3 3"]
    name: str = eqx.field(static=True)
    joint: str = eqx.field(static=True)
    parent: int = eqx.field(static=True)
    weight: float = eqx.field(static=True)
    energetic: bool = eqx.field(static=True)
    first: int = eqx.field(static=True)
    last: int = eqx.field(static=True)

    def work(self, point: Point, A: Float[Array, "3 3"], loads: Loads) -> Float[Array, "k n"]:
        """Power of loads on the link in unit velocities of its joint; A is its rotation on the parent."""
        return _work(self.motion.rotation_axes(point), self.motion.displacements(point, A), loads)

    def unit_loads(self, point: Point, A: Float[Array, "3 3"], composite: Inertia) -> Loads:
        """Inertial loads of the composite body that the joint carries, at unit accelerations of the joint."""
        return unit_loads(self.motion.rotation_axes(point), self.motion.displacements(point, A), composite)


class Inertia(NamedTuple):
    """Mass, first moment ∫ρ dm and second moments ∫ρρᵀdm of a body or several, in one frame."""

    mass: Float[Array, ""]
    moment: Vec
    second: Float[Array, "3 3"]

    @jax.jit
    def plus(self, other: Inertia) -> Inertia:
        """Both bodies as one."""
        return Inertia(*(a + b for a, b in zip(self, other, strict=True)))

    @jax.jit
    def on_axis(self) -> Inertia:
        """The part that doesn't feel rotations about the z axis of its frame, as if it lay on it."""
        return Inertia(self.mass, self.moment * _Z, self.second * (_Z[:, None] * _Z))

    @jax.jit
    def off_axis(self) -> Inertia:
        """The rest."""
        return Inertia(0.0 * self.mass, self.moment * (1.0 - _Z), self.second * (1.0 - _Z[:, None] * _Z))

    @jax.jit
    def transform(self, frame: Pose) -> Inertia:
        """The inertia in the frame in which its own frame has the pose `frame`."""
        r, A = frame
        rotated_moment = A @ self.moment
        offset_moment = self.mass * r
        across = r[:, None] * (rotated_moment + 0.5 * offset_moment)
        i, j = _UPPER
        upper = jnp.sum((A @ self.second)[i] * A[j], axis=1) + across[i, j] + across[j, i]
        return Inertia(self.mass, rotated_moment + offset_moment, upper[_WHOLE])


class Loads(NamedTuple):
    """Several wrenches on one link about its origin, in its frame, a row each."""

    torques: Rows
    forces: Rows

    @jax.jit
    def transform(self, frame: Pose) -> Loads:
        """The loads in the frame in which their own frame has the pose `frame`, about its origin."""
        r, A = frame
        forces = self.forces @ A.T
        return Loads(self.torques @ A.T - cross_rows(forces, r), forces)


@jax.jit
def cross_rows(rows: Rows, b: Vec) -> Rows:
    """a × b for every row a."""
    return jax.vmap(lambda a: cross(a, b))(rows)


@jax.jit
def _work(axes: Rows | None, displacements: Rows | None, loads: Loads) -> Float[Array, "k n"]:
    rotational = jnp.zeros(()) if axes is None else loads.torques @ axes.T
    return rotational if displacements is None else rotational + loads.forces @ displacements.T


@jax.jit
def unit_loads(axes: Rows | None, displacements: Rows | None, composite: Inertia) -> Loads:
    """Inertial loads of a body at unit accelerations: rotations about axes with displacements of the origin."""
    rotational = None if axes is None else _rotation_loads(axes, composite)
    if displacements is None:
        assert rotational is not None
        return rotational
    moments = cross_rows(displacements, composite.moment)
    if rotational is None:
        return Loads(-moments, composite.mass * displacements)
    return Loads(rotational.torques - moments, rotational.forces + composite.mass * displacements)


def _rotation_loads(axes: Rows, composite: Inertia) -> Loads:
    torques = jnp.trace(composite.second) * axes - axes @ composite.second
    return Loads(torques, cross_rows(axes, composite.moment))


@jax.jit
def kinetic_energy(inertia: Inertia, twist: Twist) -> Float[Array, ""]:
    """Of a body, from angular velocity and velocity of the origin of its frame."""
    omega, u = twist
    spin = jnp.trace(inertia.second) * omega - inertia.second @ omega
    return 0.5 * (inertia.mass * (u @ u) + omega @ spin) + u @ cross(omega, inertia.moment)


def central(inertia: Inertia, centre: Vec, attitude: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """Moments of inertia of the body of a link about its centre of mass, in its own frame."""
    about_centre = inertia.second - inertia.mass * jnp.outer(centre, centre)
    return attitude.T @ (jnp.trace(about_centre) * jnp.eye(3) - about_centre) @ attitude
