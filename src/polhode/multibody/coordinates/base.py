"""Coordinates of all bodies of a model: the interface."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.blocks import Indices, Matrix, apply
from polhode.linalg.kkt import AbstractKKT
from polhode.modules import Module
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.groups import ForceGroup, Motion
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.systems.mechanical.tangent import Tangent, Weights


class AbstractCoordinates(Module):
    """Kinematics and dynamics of the bodies of a model as functions of coordinates q and velocities v.

    Coordinates have the bodies, with masses and inertias; loads and constraints come from a `Mechanism`. Their
    derivatives may be None; then `MultibodySystem` differentiates them.
    """

    # --- sizes ------------------------------------------------------------------------------------------------------

    @property
    @abc.abstractmethod
    def space(self) -> AbstractSpace:
        """The space of q."""

    @property
    @abc.abstractmethod
    def n(self) -> int:
        """Number of velocities."""

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the bodies in the order of the rows of `motion`."""

    @property
    @abc.abstractmethod
    def shown(self) -> tuple[str, ...]:
        """Names of the bodies with positions in space, in the order of the rows of the outputs."""

    @property
    @abc.abstractmethod
    def inert(self) -> bool:
        """Whether all velocities have kinetic energy; those of integrals have none."""

    @property
    def conservative(self) -> bool:
        """Whether loads along the coordinates themselves, if any, keep the energy."""
        return True

    @property
    def has_own_loads(self) -> bool:
        """Whether there are loads along the coordinates themselves."""
        return False

    def without_loads(self) -> Self:
        """The same coordinates without loads along them."""
        return self

    def in_loops(self) -> Self:
        """The same coordinates with recursions as loops, where there are some: shorter programs, of longer runs."""
        return self

    def stiffest(self) -> Self:
        """The same coordinates with the largest derivatives that these loads have in a run, for limits of the step."""
        return self

    @property
    @abc.abstractmethod
    def turns(self) -> int:
        """Number of counted angles at the end of q."""

    @property
    def brief(self) -> bool:
        """Whether some of these loads may act within a few steps only, as stops do."""
        return False

    @property
    def has_onsets(self) -> bool:
        """Whether some of these loads come into force within a short way, as those of stops."""
        return False

    def onset_rate(self, q: Point, v: Vector, sense: Array) -> Float[Array, ""]:
        """The reciprocal of how long a step may be so that it resolves these onsets; 0 where none is ahead."""
        del q, v, sense
        return jnp.zeros(())

    def power(self, t: Array, q: Point, v: Vector) -> Float[Array, ""]:
        """Power of these loads, except the rate of `strain_energy`."""
        del t, q, v
        return jnp.zeros(())

    def joint_coordinate(
        self, q: Point, joint: str | None, name: str, bodies: tuple[str, ...]
    ) -> Float[Array, ""] | None:
        """A relative coordinate of a joint among q, turns included, zero at the start; None if q doesn't contain it.

        A joint without a name is identified by its bodies.
        """
        del q, joint, name, bodies
        return None

    def joint_rates(self, v: Vector) -> dict[tuple[str, str], Float[Array, ""]]:
        """Time derivatives of those relative coordinates that are joint velocities, by joint and name."""
        del v
        return {}

    def joint_coordinates(self, q: Point) -> dict[tuple[str, str], Float[Array, ""]]:
        """All relative coordinates among q, by joint and name."""
        del q
        return {}

    def force_along(self, t: Array, q: Point, v: Vector, joint: str, name: str) -> Float[Array, ""] | None:
        """Sum of the forces along a joint coordinate among q; None if q doesn't contain it."""
        del t, q, v, joint, name
        return None

    @property
    def joint_tree(self) -> AbstractCoordinates | None:
        """The tree in joint coordinates among them, with those that depend on others."""
        return None

    def in_joint_tree(self, q: Point, v: Vector) -> tuple[Point, Vector]:
        """Coordinates and velocities of `joint_tree`."""
        return q, v

    @property
    def tree_bodies(self) -> tuple[str, ...]:
        """Names of the bodies whose motion relative to others is among the coordinates, as far as joints allow it."""
        return ()

    @property
    def has_dependent_coordinates(self) -> bool:
        """Whether positions or velocities of bodies at the start may contradict each other without constraints."""
        return False

    @property
    def local(self) -> bool:
        """Whether velocities belong to single bodies, so that `load_blocks` has blocks of elements."""
        return False

    @property
    def has_costly_tangent(self) -> bool:
        """Whether M, K and C, factorised, cost as much as several evaluations of forces."""
        return False

    @property
    def identity_kinematics(self) -> bool:
        """Whether `kinematics` is the identity."""
        return True

    @property
    def screws(self) -> np.ndarray:
        """Numbers of the velocities (Ω, U) of free bodies, shape (k, 6), where U is body-fixed.

        Constant ones move such a body along a screw, not along a straight line.
        """
        return np.empty((0, 6), int)

    def kinematics(self, q: Point, v: Vector) -> Vector:
        """The algebra element with which q moves."""
        del q
        return v

    # --- motion of the bodies ---------------------------------------------------------------------------------------

    @abc.abstractmethod
    def motion(self, q: Point, v: Vector | None = None) -> Motion:
        """Poses and, with v, twists of all bodies and of the ground."""

    @abc.abstractmethod
    def pose(self, q: Point, body: Body | str) -> Pose:
        """Position of the centre of mass and rotation matrix of one body."""

    @abc.abstractmethod
    def twist(self, q: Point, v: Vector, body: Body | str) -> Twist:
        """Angular velocity (body frame) and velocity (inertial frame) of one body."""

    @abc.abstractmethod
    def columns(self, body: Body | str) -> np.ndarray:
        """Which components of v belong to one body; in joint coordinates, those of the joint that carries it."""

    @property
    def carriers(self) -> Sequence[np.ndarray] | None:
        """For each node the velocities that move it, if each of them moves all its nodes as one rigid body; else None.

        The ground, which comes last, is left out.
        """
        return None

    # --- inertia and loads ------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def kinetic_energy(self, q: Point, v: Vector) -> Float[Array, ""]:
        """Of all bodies."""

    @abc.abstractmethod
    def weight(self, motion: Motion, gravity: Float[Array, "3"]) -> Float[Array, ""]:
        """Potential energy of the bodies under gravity."""

    @property
    def has_momenta(self) -> bool:
        """Whether `momenta` is defined: all coordinates are those of bodies."""
        return False

    @property
    def constant_momenta(self) -> tuple[str, ...]:
        """Which momenta stay the same with v, wherever bodies move, so that impulses alone change them in a step."""
        return ()

    def momenta(self, q: Point, v: Vector) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """Linear and angular momentum, about the origin, of all bodies."""
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def masses(self) -> Float[Array, " rows"]:
        """Masses by the rows of `motion` without the ground; zero for coordinates, and for nodes on bodies."""

    @property
    @abc.abstractmethod
    def inertias(self) -> Float[Array, "rows 3 3"]:
        """Moments of inertia of the same about their centres of mass, in body frames; zero for bodies that deform."""

    @property
    @abc.abstractmethod
    def energetic(self) -> np.ndarray:
        """Whether the motion of each row has kinetic energy, unlike that of integrals."""

    @property
    @abc.abstractmethod
    def connected_rows(self) -> tuple[tuple[int, int], ...]:
        """Pairs of rows of `motion` that the coordinates themselves connect; the ground is -1."""

    @property
    def has_deformable_bodies(self) -> bool:
        """Whether some bodies deform."""
        return False

    def spin_of_deforming(self, q: Point, v: Vector) -> Float[Array, "3"] | None:
        """Angular momenta of bodies that deform, about their centres of mass; None without such bodies."""
        del q, v
        return None

    @property
    def has_strain_energy(self) -> bool:
        """Whether there is a `strain_energy`: of deformable bodies, or of loads along the coordinates."""
        return False

    def strain_energy(self, q: Point) -> Float[Array, ""]:
        """Energy of deformations of bodies, and of loads along the coordinates."""
        del q
        return jnp.zeros(())

    @abc.abstractmethod
    def mass(self, q: Point) -> Matrix:
        """M."""

    def momentum(self, q: Point, v: Vector) -> Vector:
        """M v, shape (n,)."""
        return apply(self.mass(q), v, self.n)

    @abc.abstractmethod
    def force(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Vector:
        """f: applied, gyroscopic and velocity-dependent inertial forces, shape (n,)."""

    def balance(self, mechanism: Mechanism, t: Array, q: Point, v: Vector, acceleration: Vector) -> Vector:
        """M a - f, shape (n,)."""
        return self.momentum(q, acceleration) - self.force(mechanism, t, q, v)

    def inverse_mass(self, q: Point) -> Callable[[Vector], Vector] | None:
        """The function M⁻¹ of a vector, where it takes less than a factorisation of M; otherwise None."""
        del q
        return None

    # --- constraints among the coordinates themselves ---------------------------------------------------------------

    def internal_residuals(self, q: Point) -> list[tuple[Indices, Array]]:
        """Residuals of constraints among the coordinates, such as norms, with the numbers of their rows."""
        del q
        return []

    def internal_rates(self, q: Point, v: Vector) -> list[tuple[Indices, Array]]:
        """Their time derivatives."""
        del q, v
        return []

    # --- derivatives along these coordinates; None: by differentiation ----------------------------------------------

    def jacobian(self, mechanism: Mechanism, t: Array, q: Point) -> Matrix | None:
        """Derivatives of all constraints along the velocities."""
        del mechanism, t, q
        return None

    def curvature(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> list[tuple[Indices, Array]] | None:
        """Time derivatives of all constraints' rates when v is frozen."""
        del mechanism, t, q, v
        return None

    def stiffness(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Matrix | None:
        """Minus the derivative of `force` along θ in move(q, θ)."""
        del mechanism, t, q, v
        return None

    def damping(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Matrix | None:
        """Minus the derivative of `force` with respect to v."""
        del mechanism, t, q, v
        return None

    def tangent(
        self, mechanism: Mechanism, t: Array, q: Point, v: Vector, increment: Vector | None, weights: Weights
    ) -> Tangent | None:
        """The weighted sum of M, C and K T, see `AbstractMechanical.tangent`; None: from the matrices one by one."""
        del mechanism, t, q, v, increment, weights
        return None

    def geometric_stiffness(self, mechanism: Mechanism, t: Array, q: Point, multipliers: Array) -> Matrix | None:
        """The derivative of Bᵀλ along θ in move(q, θ) at fixed λ."""
        del mechanism, t, q, multipliers
        return None

    def stresses(self, mechanism: Mechanism, t: Array, q: Point) -> tuple[Array, ...]:
        """Stresses of elements at rest, in which their loads are linear; empty where that isn't used."""
        del mechanism, t, q
        return ()

    def stress_stiffness(self, mechanism: Mechanism, t: Array, q: Point, stresses: tuple[Array, ...]) -> Matrix:
        """The part of the stiffness at fixed stresses."""
        del mechanism, t, q, stresses
        return ()

    def load_blocks(self, group: ForceGroup, t: Array, q: Point, v: Vector, along_velocities: bool) -> Matrix | None:
        """Minus the derivatives of the generalised forces of one group of elements, along θ or v, element by element.

        None unless coordinates are `local`.
        """
        del group, t, q, v, along_velocities
        return None

    def inner_tangents(self) -> Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Columns, stiffness and damping of the deformation of each body that deforms."""
        return ()

    # --- linear algebra ---------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def choose_solver(self, mechanism: Mechanism, m: int, compliant: bool) -> AbstractKKT:
        """The solver for the sparsity pattern of M, C, K and B."""
