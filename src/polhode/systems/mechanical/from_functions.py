"""Mechanical systems from users' functions for mass matrix, forces and constraints."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from polhode.linalg.blocks import Matrix, dense_block
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.solver_choice import kkt_solver
from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.systems.base import State, shape_of
from polhode.systems.mechanical.abstract import AbstractMechanical, Multipliers
from polhode.systems.mechanical.contact_set import AbstractContactSet
from polhode.time_functions import breakpoints_of, kinks_of


class Mechanical(AbstractMechanical):
    r"""A mechanical system from functions: $\dot q = q\tilde v,\ M(q)\dot v = f - B^T\lambda,\ \Phi(t,q) = 0$.

    **Arguments:**

    - `space`: the configuration space; velocities are elements of its algebra, n = `space.dim`.
    - `mass_matrix`: callable (q) → (n, n) or a constant array; symmetric positive definite.
    - `forces`: callable (t, q, v) → (n,), gyroscopic terms included.
    - `constraints`: callable (t, q) → (m,), or None.
    - `number`: m; 0 without constraints.
    - `contact_set`: unilateral constraints with friction, `FunctionContacts`; None without any.
    """

    space: AbstractSpace
    mass_matrix: Callable[[Point], Array] | Array
    forces: Callable[[Array, Point, Vector], Vector]
    constraints: Callable[[Array, Point], Multipliers] | None = None
    number: int = eqx.field(static=True, default=0)
    contact_set: AbstractContactSet | None = None

    def __check_init__(self) -> None:
        if (self.constraints is None) != (self.number == 0):
            raise ValueError(
                f"`number` must be the length of what `constraints` returns, got number={self.number} "
                f"{'without' if self.constraints is None else 'with'} `constraints`."
            )

    @property
    def configuration(self) -> AbstractSpace:
        return self.space

    def check(self, t: float, state: State) -> None:
        q, v = state
        time = jnp.asarray(t)
        shape_of("forces(t, q, v)", self.forces, (time, q, v), (self.n,), "one force for each velocity")
        if callable(self.mass_matrix):
            shape_of("mass_matrix(q)", self.mass_matrix, (q,), (self.n, self.n), "one row for each velocity")
        elif jnp.shape(self.mass_matrix) != (self.n, self.n):
            raise ValueError(f"`mass_matrix` must have shape {(self.n, self.n)}, got {jnp.shape(self.mass_matrix)}.")
        if self.constraints is not None:
            shape_of("constraints(t, q)", self.constraints, (time, q), (self.m,), "as many as `number` says")
        super().check(t, state)

    @property
    def n(self) -> int:
        return self.space.dim

    @property
    def m(self) -> int:
        return self.number

    @property
    def kkt(self) -> AbstractKKT:
        return kkt_solver((), (), self.n, self.m)

    def breakpoints(self) -> tuple[float, ...]:
        return breakpoints_of(self.forces, self.constraints)

    def kinks(self) -> tuple[float, ...]:
        return kinks_of(self.forces, self.constraints)

    def mass(self, t: Array, q: Point) -> Matrix:
        del t
        return dense_block(self.mass_matrix(q) if callable(self.mass_matrix) else jnp.asarray(self.mass_matrix))

    def force(self, t: Array, q: Point, v: Vector) -> Vector:
        return self.forces(t, q, v)

    def constraint(self, t: Array, q: Point) -> Multipliers:
        return jnp.zeros(0) if self.constraints is None else self.constraints(t, q)
