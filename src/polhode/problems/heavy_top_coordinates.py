"""The heavy top as a mechanical system of second order, in the rotational coordinates of bodies."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.linalg.blocks import Matrix, dense_block
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.solver_choice import kkt_solver
from polhode.multibody import formulations
from polhode.multibody.formulations import AbstractFormulation
from polhode.multibody.mechanism.poses import Pose, Twist, Wrench
from polhode.problems.heavy_top_forms import STEP, TopParameters
from polhode.problems.rotation_forms import Formulation
from polhode.spaces.base import AbstractSpace, Point, Vector, cross
from polhode.spaces.products import AbstractProduct
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical, Multipliers


class TopInCoordinates(AbstractMechanical):
    """The top that turns about a fixed point: q are the rotational coordinates of a body formulation, v their rates.

    Moments are taken about the fixed point, so a body without mass whose reference point rests in the origin has the
    same equations; its translation is left out.

    **Arguments:**

    - `top`: data of the top.
    - `formulation`: coordinates of a body whose configuration space is a direct product of rotations and R³.
    """

    top: TopParameters
    formulation: AbstractFormulation

    def __check_init__(self) -> None:
        if not isinstance(self.formulation.space, AbstractProduct):
            raise ValueError(
                f"`formulation` must have a direct product of rotations and R³ as its space, got "
                f"{type(self.formulation.space).__name__}; its translation can't be left out."
            )

    @property
    def configuration(self) -> AbstractSpace:
        space = self.formulation.space
        assert isinstance(space, AbstractProduct)
        return space.spaces[0]

    @property
    def n(self) -> int:
        return self.formulation.n - 3

    @property
    def m(self) -> int:
        return self.formulation.internal

    @property
    def kkt(self) -> AbstractKKT:
        return kkt_solver((), (), self.n, self.m)

    @property
    def identity_kinematics(self) -> bool:
        return self.formulation.identity_kinematics

    def start(self, omega: Float[Array, "3"]) -> State:
        """(q, v) without rotation and with angular velocity Ω, body frame."""
        q = self.formulation.from_pose(Pose(jnp.zeros(3), jnp.eye(3)))
        return q[0], self.formulation.from_twist(q, Twist(omega, jnp.zeros(3)))[: self.n]

    def attitude(self, q: Point) -> Float[Array, "3 3"]:
        """Q."""
        return self.formulation.pose(_at_origin(q)).R

    def omega(self, q: Point, v: Vector) -> Float[Array, "3"]:
        """Ω in the body frame."""
        return self.formulation.twist(_at_origin(q), _at_rest(v)).omega

    def kinematics(self, q: Point, v: Vector) -> Vector:
        return self.formulation.kinematics(_at_origin(q), _at_rest(v))[: self.configuration.dim]

    def mass(self, t: Array, q: Point) -> Matrix:
        del t
        M = self.formulation.mass(_at_origin(q), jnp.zeros(()), jnp.diag(self.top.inertia))
        return dense_block(M[: self.n, : self.n])

    def force(self, t: Array, q: Point, v: Vector) -> Vector:
        del t
        gamma = self.attitude(q)[2]
        weight = Wrench(cross(gamma, self.top.weight_moment * self.top.axis), jnp.zeros(3))
        inertia = jnp.diag(self.top.inertia)
        return self.formulation.force(_at_origin(q), _at_rest(v), weight, jnp.zeros(()), inertia)[: self.n]

    def constraint(self, t: Array, q: Point) -> Multipliers:
        del t
        return self.formulation.constraint(_at_origin(q))


def _at_origin(q: Point) -> Point:
    return q, jnp.zeros(3)


def _at_rest(v: Vector) -> Vector:
    return jnp.concatenate((v, jnp.zeros(3)))


def _in(name: str) -> Callable[[TopParameters], Formulation]:
    def make(top: TopParameters) -> Formulation:
        system = TopInCoordinates(top, formulations.get(name))
        return Formulation(
            system=system,
            start=system.start,
            attitude=lambda state: system.attitude(state[0]),
            omega=lambda state: system.omega(*state),
            h=STEP,
            integrator="generalized-alpha" if system.m else "rkmk4",
        )

    return make


FORMULATIONS_IN_COORDINATES = {
    name: _in(name) for name in ("rotation-vector", "euler-angles", "euler-angles-kinematic", "euler-parameters")
}
"""Formulations as mechanical systems by name; names are those of bodies."""
