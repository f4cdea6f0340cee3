"""Formulations of a body that rotates: how each stores the motion."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, Float

from polhode.problem import Observable
from polhode.spaces import S3, SO3, Product, Rn
from polhode.systems.base import AbstractSystem, State
from polhode.systems.quaternion_body import QuaternionBody
from polhode.systems.vector_field import VectorField

Vector3 = Float[Array, "3"]


class Formulation(eqx.Module):
    """A system, its start, the way back to attitude and angular velocity, and the method for it."""

    system: AbstractSystem
    start: Callable[[Vector3], State]
    attitude: Callable[[State], Float[Array, "3 3"]]
    omega: Callable[[State], Vector3]
    h: float = eqx.field(static=True)
    integrator: str = eqx.field(static=True, default="rkmk4")

    def system_outputs(self) -> dict[str, Observable]:
        """Outputs of the system in quaternions; none of others."""
        return self.system.outputs() if isinstance(self.system, QuaternionBody) else {}

    def rotations(self) -> dict[str, Observable]:
        """Angular velocity and rotation as outputs."""
        return {
            "angular_velocity": lambda t, state: self.omega(state),
            "rotation": lambda t, state: self.attitude(state),
        }


def on_group(space: SO3 | S3, velocity: Callable[..., Float[Array, "6"]], h: float) -> Formulation:
    """(attitude, Ω) on a rotation group × R³, with `velocity`: (t, state) → (Ω, Ω̇), body frame."""
    return Formulation(
        system=VectorField(Product(space, Rn(3)), velocity),
        start=lambda omega: (space.origin(), omega),
        attitude=lambda state: space.to_matrix(state[0]),
        omega=lambda state: state[1],
        h=h,
    )


def in_quaternions(body: QuaternionBody, h: float) -> Formulation:
    """(q, v, p) in unit quaternions, for energy–momentum methods."""
    return Formulation(
        system=body,
        start=lambda omega: body.turning(S3().origin(), omega),
        attitude=lambda state: S3().to_matrix(state.q),
        omega=lambda state: body.angular_velocity(state.q, state.v),
        integrator="eml",
        h=h,
    )
