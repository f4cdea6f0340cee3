"""The equations of static equilibrium, their tangent and its solver."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.compiler.numpy_jit import numpy_jit
from polhode.jax_context import inside_transformation
from polhode.linalg.blocks import Blocks, Matrix, apply, apply_transposed, dense_block, scale_matrix
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.solver_choice import host_solver, indefinite_solver
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical import AbstractMechanical, Multipliers

DENSE = 400
"""Unknowns up to which LAPACK solves the whole matrix inside JAX's transformations."""


class Load(NamedTuple):
    """Parameters of the equations: the time, and the share of the start's imbalance in place."""

    t: Array
    held_share: Array


class Tangent(NamedTuple):
    """K of forces and constraint forces, B, and the derivative of Φ along θ."""

    K: Matrix
    B: Matrix
    along: Matrix


class Balance(eqx.Module):
    r"""$B^T\lambda - f(t, q, 0) + s\,r_0 = 0,\ \Phi(t, q) - s\,\Phi_0 = 0$ with the share s of the imbalance held.

    - `force`, `gap`: r₀ and Φ₀, the imbalance of the start.
    """

    system: AbstractMechanical
    force: Vector
    gap: Multipliers

    def residual(self, load: Load, q: Point, multipliers: Multipliers) -> tuple[Vector, Multipliers]:
        """The residual, shapes (n,) and (m,)."""
        system = self.system
        r = load.held_share * self.force - system.force(load.t, q, jnp.zeros(system.n))
        if system.m == 0:
            return r, jnp.zeros(0)
        reaction = system.constraint_force(load.t, q, multipliers)
        return r + reaction, system.constraint(load.t, q) - load.held_share * self.gap

    def tangent(self, load: Load, q: Point, multipliers: Multipliers) -> Tangent:
        """The exact derivative of `residual` along θ and λ."""
        system = self.system
        K = system.stiffness(load.t, q, jnp.zeros(system.n))
        if system.m == 0:
            return Tangent(K, (), ())
        B = system.jacobian(load.t, q)
        K = (*K, *system.geometric_stiffness(load.t, q, multipliers))
        return Tangent(K, B, B if system.identity_kinematics else _along(system, load.t, q))

    def roundoff(self, load: Load, q: Point, multipliers: Multipliers, tangent: Tangent) -> tuple[Vector, Multipliers]:
        """Round-off of the terms of each equation that cancel."""
        n, m = self.system.n, self.system.m
        size = largest(q)
        rows = apply(_absolute(tangent.K), jnp.full(self.system.configuration.dim, size), n)
        if m == 0:
            return _UNITS * rows, jnp.zeros(0)
        rows = rows + apply_transposed(_absolute(tangent.B), jnp.abs(multipliers), n)
        gaps = apply(_absolute(tangent.along), jnp.full(self.system.configuration.dim, size), m)
        return _UNITS * rows, _UNITS * (gaps + 1)


_UNITS = 64 * jnp.finfo(float).eps


def at_start(system: AbstractMechanical, solver: AbstractKKT, t: Array, q: Point) -> tuple[Balance, Multipliers]:
    """The equations with the imbalance of a point, and multipliers of least M⁻¹-norm for the rest, M a + Bᵀλ = f."""
    start = _start(system, t, q)
    if system.m == 0:
        return Balance(system, start.force, jnp.zeros(0)), jnp.zeros(0)
    factors = solver.factor(start.mass, start.jacobian, start.jacobian)
    a, multipliers = solver.solve(factors, start.force, jnp.zeros(system.m))
    return Balance(system, apply(start.mass, jnp.asarray(a), system.n), start.gap), jnp.asarray(multipliers)


class _Start(NamedTuple):
    """M, B, f and Φ at the start."""

    mass: Matrix
    jacobian: Matrix
    force: Vector
    gap: Multipliers


@numpy_jit
def _start(system: AbstractMechanical, t: Array, q: Point) -> _Start:
    force = system.force(t, q, jnp.zeros(system.n))
    if system.m == 0:
        return _Start((), (), force, jnp.zeros(0))
    return _Start(system.mass(t, q), system.jacobian(t, q), force, system.constraint(t, q))


def solver_of(system: AbstractMechanical, t: Array, q: Point) -> AbstractKKT:
    """The solver for the tangent: pivoting in any case, for it may be indefinite."""
    n, m = system.n, system.m
    if not inside_transformation():
        return host_solver(n, m)
    if n + m <= DENSE or not system.identity_kinematics:
        return indefinite_solver((), (), n, m)

    def matrices() -> tuple[Matrix, Matrix]:
        balance = Balance(system, jnp.zeros(n), jnp.zeros(m))
        K, B, _ = balance.tangent(Load(t, jnp.zeros(())), q, jnp.zeros(m))
        return (*system.mass(t, q), *K), B

    A, P = jax.eval_shape(matrices)
    return indefinite_solver(A, P, n, m)


def largest(q: Point) -> Float[Array, ""]:
    """The largest number in the coordinates of a point."""
    return jnp.max(jnp.stack([jnp.max(jnp.abs(x), initial=0.0) for x in jax.tree.leaves(q)]))


def _along(system: AbstractMechanical, t: Array, q: Point) -> Matrix:
    """The derivative of Φ along θ, where velocities are not those of the coordinates."""
    space = system.configuration
    return dense_block(jax.jacfwd(lambda theta: system.constraint(t, space.move(q, theta)))(jnp.zeros(space.dim)))


def _absolute(matrix: Matrix) -> Matrix:
    return tuple(Blocks(jnp.abs(g.values), g.rows, g.cols) for g in scale_matrix(matrix, 1.0))
