"""Models of one body with a fixed point, in unit quaternions on Livens' principle."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.blocks import to_dense
from polhode.multibody.system import MultibodySystem
from polhode.spaces import quaternions
from polhode.spaces.products import AbstractProduct
from polhode.spaces.rotations import AbstractRotationGroup
from polhode.systems.base import AbstractConversion, Converted, State
from polhode.systems.lagrangian import LivensState
from polhode.systems.quaternion_body import G_transposed, Quaternion, QuaternionBody

_NOW: Any = np.zeros(())
"""For the mass matrix and the potential energy, which don't depend on time."""


class ToFixedPointBody(AbstractConversion):
    r"""One spherical joint in joint coordinates as a `QuaternionBody`: $T = \tfrac12\Omega\cdot J\Omega$, J constant.

    Its quaternion rotates the body-fixed axes of the joint into the inertial frame, in which momenta are given.
    """

    source: MultibodySystem

    @property
    def kind(self) -> type[QuaternionBody]:
        return QuaternionBody

    @property
    def note(self) -> str:
        return "states are (q, v, p) with the quaternion q of the body"

    @property
    def special(self) -> bool:
        return _group(self.source) is None or self.source.m > 0

    @property
    def obstacle(self) -> str:
        system = self.source
        if system.m or _group(system) is None:
            return (
                "it takes one body that turns about a point: a model in joint coordinates (formulation 'minimal') "
                "with one spherical joint to the ground and no other"
            )
        if not system.conservative:
            return "some loads have no potential, or depend on time"
        return "" if system.inert else "some of its coordinates have no kinetic energy"

    def at(self, state: State) -> Converted:
        del state
        system, frame = self.source, _frame(self.source)
        J = to_dense(system.mass(_NOW, system.configuration.origin()), (3, 3))
        body = QuaternionBody(J, _Potential(system, frame))
        return Converted(body, _Into(system, frame, body), _Back(system, frame, body))


class _Potential(eqx.Module):
    system: MultibodySystem
    frame: Quaternion

    def __call__(self, q: Quaternion) -> Float[Array, ""]:
        return self.system.potential_energy(_NOW, _point(self.system, self.frame, q))


class _Into(eqx.Module):
    system: MultibodySystem
    frame: Quaternion
    body: QuaternionBody

    def __call__(self, state: State) -> LivensState:
        point, omega = state
        (attitude,) = jax.tree.leaves(point)
        group = _group(self.system)
        assert group is not None
        q = quaternions.multiply(self.frame, group.to_quaternion(attitude))
        return self.body.start(q, 0.5 * G_transposed(q, omega))


class _Back(eqx.Module):
    system: MultibodySystem
    frame: Quaternion
    body: QuaternionBody

    def __call__(self, state: LivensState) -> State:
        return _point(self.system, self.frame, state.q), self.body.angular_velocity(state.q, state.v)


def _group(system: MultibodySystem) -> AbstractRotationGroup | None:
    """The rotation group of the coordinates; None if they are anything else."""
    space: Any = system.configuration
    while isinstance(space, AbstractProduct) and len(space.spaces) == 1:
        space = space.spaces[0]
    return space if isinstance(space, AbstractRotationGroup) else None


def _frame(system: MultibodySystem) -> Quaternion:
    """The attitude of the joint's fixed axes: R_b(1) ∂ω_b/∂Ω, where body b turns with the joint."""
    origin = system.configuration.origin()
    rates = jax.vmap(lambda omega: _angular_velocities(system, origin, omega), out_axes=-1)(jnp.eye(3))
    # Others may be fixed to the ground.
    b = jnp.argmax(jnp.sum(rates * rates, axis=(1, 2)))
    return quaternions.from_matrix(system.motion(origin).poses.R[b] @ rates[b])


def _angular_velocities(system: MultibodySystem, q: Any, v: Array) -> Float[Array, "bodies 3"]:
    twists = system.motion(q, v).twists
    assert twists is not None
    return twists.omega


def _point(system: MultibodySystem, frame: Quaternion, q: Quaternion) -> Any:
    """The coordinates of an attitude; polynomial in q, also off the unit sphere."""
    group = _group(system)
    assert group is not None
    attitude = group.from_quaternion(quaternions.multiply(quaternions.conjugate(frame), q))
    return jax.tree.unflatten(jax.tree.structure(system.configuration.origin()), [attitude])
