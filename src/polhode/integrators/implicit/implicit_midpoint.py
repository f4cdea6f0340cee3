"""The implicit midpoint rule on any space."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.integrators.base import AbstractSymmetricSecondOrder, Carry, StepInfo
from polhode.integrators.explicit._stages import hermite_step
from polhode.integrators.implicit._equations import AbstractEquations, Residual
from polhode.integrators.implicit._newton import Newton, solve
from polhode.linalg.blocks import dense_block
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.solver_choice import pivoting_solver
from polhode.spaces.base import Point, Vector, norm
from polhode.systems.base import State
from polhode.systems.vector_field import VectorField

_FLOOR = 1e-14
"""Newton's method iterates to round-off: remaining residuals would make conserved quantities drift."""


class _Place(NamedTuple):
    """The point in the middle of the step, and the field there."""

    middle: Point
    field: Vector


class _Equations(AbstractEquations):
    r"""$x = f(t + h/2, \mathrm{move}(y_0, hx/2))$, for the velocity x = ξ/h."""

    system: VectorField
    t: Array
    h: Array
    start: Point

    def place(self, x: Vector) -> _Place:
        middle = self.system.space.move(self.start, 0.5 * self.h * x)
        return _Place(middle, self.system.field(self.t + 0.5 * self.h, middle))

    def residual(self, place: _Place, x: Vector) -> Residual:
        size = norm(x) + norm(place.field)
        return Residual((x - place.field,), (size,), (size,))

    def factor(self, place: _Place, x: Vector) -> Any:
        return self._kkt.factor(dense_block(jax.jacfwd(lambda x: x - self.place(x).field)(x)), (), ())

    def correct(self, factors: Any, parts: tuple[Array, ...]) -> Vector:
        return self._kkt.solve(factors, -parts[0], jnp.zeros(0))[0]

    def negligible(self, place: _Place, correction: Vector) -> Array:
        space = self.system.space
        scale = space.scale(place.middle)[np.repeat(np.arange(len(space.blocks)), space.blocks)]
        return jnp.all(jnp.abs(self.h * correction) <= 8 * jnp.finfo(float).eps * scale)

    @property
    def _kkt(self) -> AbstractKKT:
        # Of a field without structure any leading minor of 1 - h f'/2 may vanish, so it takes pivots.
        return pivoting_solver(self.system.space.dim, 0)


class ImplicitMidpoint(AbstractSymmetricSecondOrder):
    r"""The implicit midpoint rule $\xi = h f(t + h/2, \mathrm{move}(y_0, \xi/2)),\ y_1 = \mathrm{move}(y_0, \xi)$.

    - Order: 2, symmetric: a step with -h undoes one with h. Compose it for orders 4 and 6
      (`polhode.integrators.SymmetricComposition`).
    - Preserves: the space and what its action keeps, to round-off. On Rⁿ it is Gauss's method of one stage: it also
      keeps every quadratic invariant and, of Hamiltonian fields in canonical coordinates (q, p), the symplectic form,
      hence their energy without drift at steps that resolve the motion. On curved spaces it is neither symplectic nor
      does it keep quadratic invariants; what symmetry under time reversal gives remains. For the symplectic form of
      T*G take `SymplecticLieGroup`.
    - Implicit, A-stable on Rⁿ; it damps nothing. Newton's method has the exact Jacobian, dense, and goes on to
      round-off. Steps are constant.
    - Interpolation: cubic Hermite in the algebra.
    - Result codes: `newton_not_converged`, `nonfinite_state`, `singular_constraints` for a singular 1 - h f'/2.

    **Arguments:**

    - `max_iterations`: of Newton's method in a step.

    ??? cite "Reference"
        E. Hairer, C. Lubich, G. Wanner, Geometric Numerical Integration (2006), sections II.1.1, IV.2.1 and VI.4; on
        groups A. Zanna, K. Engø, H. Munthe-Kaas, Adjoint and selfadjoint Lie-group methods, BIT 41 (2001).
    """

    kinds: ClassVar = (VectorField,)
    promises: ClassVar = {"manifold": "round-off", "action invariants": "round-off"}

    max_iterations: int = eqx.field(static=True, default=25)

    def __check_init__(self) -> None:
        _ = self._solver

    @property
    def implicit(self) -> bool:
        return True

    @property
    def _solver(self) -> Newton:
        return Newton("full", _FLOOR, _FLOOR, self.max_iterations)

    def init(self, system: VectorField, t: Array, h: Array, state: State) -> Carry:
        return Carry(state, system.field(t, state))

    def step(self, system: VectorField, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        solution = solve(_Equations(system, t, h, carry.state), carry.memory, None, self._solver)
        info = StepInfo(result=solution.result, newton_iterations=solution.iterations, residual=solution.residual)
        return Carry(system.space.move(carry.state, h * solution.x), solution.x), info

    def interpolate(self, system: VectorField, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array) -> State:
        space = system.space
        theta = space.difference(carry0.state, carry1.state)
        return hermite_step(system, t, h, carry0.state, carry1.state, theta, s, space)
