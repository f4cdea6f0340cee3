"""Mechanical systems with contacts that are held closed."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.contact.border import ContactKKT
from polhode.contact.unilateral import AbstractUnilateral, curvatures, gaps, rates, rows
from polhode.linalg.blocks import Blocks, Indices, Matrix
from polhode.linalg.kkt import AbstractKKT
from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical, Multipliers
from polhode.systems.mechanical.tangent import Tangent, Weights


class AbstractContactSystem(AbstractMechanical):
    """A mechanical system `base` with contacts that are closed; everything that contacts don't change is that of it."""

    base: eqx.AbstractVar[Any]

    @property
    def configuration(self) -> AbstractSpace:
        return self.base.configuration

    @property
    def n(self) -> int:
        return self.base.n

    @property
    def m(self) -> int:
        return self.base.m

    @property
    def kkt(self) -> AbstractKKT:
        return self.base.kkt

    @property
    def identity_kinematics(self) -> bool:
        return self.base.identity_kinematics

    @property
    def has_costly_tangent(self) -> bool:
        return self.base.has_costly_tangent

    @property
    def nonholonomic(self) -> np.ndarray:
        return self.base.nonholonomic

    def kinematics(self, q: Point, v: Vector) -> Vector:
        return self.base.kinematics(q, v)

    def mass(self, t: Array, q: Point) -> Matrix:
        return self.base.mass(t, q)

    def momentum(self, t: Array, q: Point, v: Vector) -> Vector:
        return self.base.momentum(t, q, v)

    def force(self, t: Array, q: Point, v: Vector) -> Vector:
        return self.base.force(t, q, v)

    def constraint(self, t: Array, q: Point) -> Multipliers:
        return self.base.constraint(t, q)

    def constraint_rate(self, t: Array, q: Point, v: Vector) -> Multipliers:
        return self.base.constraint_rate(t, q, v)

    def curvature(self, t: Array, q: Point, v: Vector) -> Multipliers:
        return self.base.curvature(t, q, v)

    def jacobian(self, t: Array, q: Point) -> Matrix:
        return self.base.jacobian(t, q)

    def stiffness(self, t: Array, q: Point, v: Vector) -> Matrix:
        return self.base.stiffness(t, q, v)

    def damping(self, t: Array, q: Point, v: Vector) -> Matrix:
        return self.base.damping(t, q, v)

    def tangent(self, t: Array, q: Point, v: Vector, increment: Vector | None, weights: Weights) -> Tangent:
        return self.base.tangent(t, q, v, increment, weights)

    def geometric_stiffness(self, t: Array, q: Point, multipliers: Multipliers) -> Matrix:
        """That of the base: without the curvature of gaps Newton's method takes one more iteration, but no fill-in."""
        return self.base.geometric_stiffness(t, q, multipliers[: self.base.m])

    def stresses(self, t: Array, q: Point) -> Any:
        return self.base.stresses(t, q)

    def stress_stiffness(self, t: Array, q: Point, stresses: Any) -> Matrix:
        return self.base.stress_stiffness(t, q, stresses)

    @property
    def counts(self) -> bool:
        return self.base.counts

    def count_turns(self, before: State, after: State, h: Any) -> State:
        return self.base.count_turns(before, after, h)

    def turn_failure(self, before: State, after: State) -> Array | None:
        return self.base.turn_failure(before, after)

    def failure(self, t: Array, state: State) -> Array | None:
        return self.base.failure(t, state)

    def diagnose(self, t: float, state: State) -> str:
        return self.base.diagnose(t, state)

    def breakpoints(self) -> tuple[float, ...]:
        return self.base.breakpoints()

    def kinks(self) -> tuple[float, ...]:
        return self.base.kinks()


class UnilateralSystem(AbstractContactSystem):
    r"""A mechanical system with closed contacts as constraints; the active set is an array.

    Rows of contacts come last, $\Phi_i = -c_i g_i(t, q)$ with $c_i = 1$ where closed, 0 where open, so that their
    multipliers are the contact forces. Changes of the active set change no shapes and compile nothing again.

    - `base`: the system without contacts. - `contacts`: k unilateral constraints.
    - `closed`: the active set, booleans of shape (k,).
    """

    base: Any
    contacts: tuple[AbstractUnilateral, ...]
    closed: Bool[Array, " k"]

    def with_active_set(self, closed: Any) -> UnilateralSystem:
        """The same with another active set."""
        return dataclasses.replace(self, closed=jnp.asarray(closed, bool))

    @property
    def m(self) -> int:
        return self.base.m + len(self.contacts)

    @property
    def kkt(self) -> AbstractKKT:
        return ContactKKT(self.base.kkt, len(self.contacts))

    def constraint(self, t: Array, q: Point) -> Multipliers:
        return self._append_contacts(self.base.constraint(t, q), gaps(self.contacts, t, self._still(q), self.base))

    def constraint_rate(self, t: Array, q: Point, v: Vector) -> Multipliers:
        return self._append_contacts(self.base.constraint_rate(t, q, v), rates(self.contacts, t, (q, v), self.base))

    def curvature(self, t: Array, q: Point, v: Vector) -> Multipliers:
        own = curvatures(self.contacts, t, (q, v), self.base)
        return self._append_contacts(self.base.curvature(t, q, v) if self.base.m else jnp.zeros(0), own)

    def jacobian(self, t: Array, q: Point) -> Matrix:
        first, count = self.base.m, len(self.contacts)
        own = -jnp.where(self.closed[:, None], rows(self.contacts, t, self._still(q), self.base), 0.0)
        places = Indices(first + np.arange(count)[None]), Indices(np.arange(self.n)[None])
        return (*(self.base.jacobian(t, q) if first else ()), Blocks(own[None], *places))

    def accelerations(self, t: Array, q: Point, v: Vector) -> tuple[Vector, Multipliers]:
        B = self.jacobian(t, q)
        return self.kkt.solution(self.mass(t, q), B, B, self.force(t, q, v), -self.curvature(t, q, v))

    def forces(self, t: Array, state: State) -> Float[Array, " k"]:
        """Multipliers of the contacts, positive where they press, zero where they are open."""
        return self.accelerations(t, *state)[1][self.base.m :]

    def _still(self, q: Point) -> State:
        return q, jnp.zeros(self.n)

    def _append_contacts(self, joints: Multipliers, values: Float[Array, " k"]) -> Multipliers:
        return jnp.concatenate((joints, -jnp.where(self.closed, values, 0.0)))
