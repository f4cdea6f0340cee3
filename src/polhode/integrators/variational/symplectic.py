"""Symplectic Lie-group integrators on T*G."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.checks import short_repr
from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo
from polhode.integrators.explicit._stages import hermite_step
from polhode.integrators.implicit._equations import AbstractEquations, Residual
from polhode.integrators.implicit._newton import Newton, solve
from polhode.linalg.blocks import dense_block
from polhode.linalg.solver_choice import kkt_solver
from polhode.spaces.base import AbstractGroup, Vector
from polhode.spaces.cotangent import CotangentPoint
from polhode.systems.hamiltonian import Hamiltonian
from polhode.systems.vector_field import ToVectorField

_FLOOR = 1e-14
"""Newton's method iterates to round-off: remaining residuals would make conserved quantities drift."""


class _Rates(NamedTuple):
    """The unknowns of a step, divided by h: ξ/h and n̄/h."""

    xi: Vector
    n: Vector


class _Equations(AbstractEquations):
    r"""$(\xi, \bar n) = h f(\exp(\theta\xi)g_0, M_\theta)$, for the unknowns (ξ, n̄)/h."""

    system: Hamiltonian
    h: Array
    start: CotangentPoint
    theta: float = eqx.field(static=True)

    def place(self, x: _Rates) -> tuple[Vector, Vector]:
        g, mu = self.start
        G, xi, n = self.system.group, self.h * x.xi, self.h * x.n
        n_dual = G.Ad_dual(G.increment(self.theta * xi), n)
        momentum = G.dexp_dual(-xi, mu + n_dual) - self.theta * G.dexp_dual(-self.theta * xi, n_dual)
        return self.system.gradients(G.compose(G.increment(self.theta * xi), g), momentum)

    def residual(self, place: tuple[Vector, Vector], x: _Rates) -> Residual:
        parts = tuple(a - f for a, f in zip(x, place, strict=True))
        sizes = tuple(_size(a) + _size(f) for a, f in zip(x, place, strict=True))
        return Residual(parts, sizes, sizes)

    def factor(self, place: tuple[Vector, Vector], x: _Rates) -> Any:
        d = self.system.group.dim
        flat = jnp.concatenate(x)

        def defect(z: Vector) -> Vector:
            return z - jnp.concatenate(self.place(_Rates(z[:d], z[d:])))

        return kkt_solver((), (), 2 * d, 0).factor(dense_block(jax.jacfwd(defect)(flat)), (), ())

    def correct(self, factors: Any, parts: tuple[Array, ...]) -> _Rates:
        d = self.system.group.dim
        dx, _ = kkt_solver((), (), 2 * d, 0).solve(factors, -jnp.concatenate(parts), jnp.zeros(0))
        return _Rates(dx[:d], dx[d:])

    def negligible(self, place: Any, correction: _Rates) -> Array:
        return self.h * _size(correction.xi) <= 8 * jnp.finfo(float).eps


class SymplecticLieGroup(AbstractIntegrator):
    r"""The one-parameter family of symplectic methods on T*G.

    $$(\xi, \bar n) = h f(e^{\theta\xi}g_0, M_\theta),\quad g_1 = e^\xi g_0,\quad
    \mu_1 = \mathrm{Ad}^*_{e^{(\theta-1)\xi}}\bar n + \mathrm{Ad}^*_{e^{-\xi}}\mu_0,$$

    $$M_\theta = \mathrm{dexp}^*_{-\xi}(\mu_0 + \mathrm{Ad}^*_{e^{\theta\xi}}\bar n) -
    \theta\,\mathrm{dexp}^*_{-\theta\xi}\mathrm{Ad}^*_{e^{\theta\xi}}\bar n.$$

    - Order: 2 for θ = ½, which is symmetric (on Rⁿ the implicit midpoint rule), otherwise 1.
    - Preserves: the symplectic form, and momenta of symmetries that act on G from the left, to round-off; the energy
      without drift, at steps that resolve the motion. Compose θ = ½ for orders 4 and 6
      (`polhode.integrators.SymmetricComposition`).
    - Implicit; Newton's method goes on to round-off. Steps are constant.
    - Interpolation: cubic Hermite on T*G.
    - Result codes: `newton_not_converged`, `nonfinite_state`.

    **Arguments:**

    - `theta`: θ in [0, 1].
    - `max_iterations`: of Newton's method in a step.

    ??? cite "Reference"
        E. Celledoni, E. Çokaj, A. Leone, D. Murari, B. Owren, Lie group integrators for mechanical systems (2021),
        equations (15)–(17), after G. Bogfjellmo and H. Marthinsen, High-order symplectic partitioned Lie group
        methods, Found. Comput. Math. 16 (2016).
    """

    kinds: ClassVar = (Hamiltonian,)
    promises: ClassVar = {"manifold": "round-off", "energy": "bounded"}

    theta: float = eqx.field(static=True, default=0.5)
    max_iterations: int = eqx.field(static=True, default=25)

    def __check_init__(self) -> None:
        if isinstance(self.theta, bool) or not (isinstance(self.theta, Real) and 0 <= self.theta <= 1):
            raise ValueError(f"`theta` must be a number in [0, 1], got {short_repr(self.theta)}; 0.5 is of order 2.")
        _ = self._solver

    def promises_for(self, system: Hamiltonian, state: CotangentPoint) -> dict[str, str]:
        return {**super().promises_for(system, state), **dict.fromkeys(system.kept_momenta, "round-off")}

    @property
    def order(self) -> int:
        return 2 if self.theta == 0.5 else 1

    @property
    def symmetric(self) -> bool:
        return self.theta == 0.5

    @property
    def implicit(self) -> bool:
        return True

    @property
    def evaluations(self) -> int:
        """One at the predictor; each of `StepInfo.newton_iterations` adds one."""
        return 1

    @property
    def _solver(self) -> Newton:
        return Newton("full", _FLOOR, _FLOOR, self.max_iterations)

    def init(self, system: Hamiltonian, t: Array, h: Array, state: CotangentPoint) -> Carry:
        return Carry(CotangentPoint(*state), _Rates(*system.gradients(*state)))

    def step(self, system: Hamiltonian, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        solution = solve(_Equations(system, h, carry.state, self.theta), carry.memory, None, self._solver)
        state = self._end_state(system.group, carry.state, h * solution.x.xi, h * solution.x.n)
        info = StepInfo(result=solution.result, newton_iterations=solution.iterations, residual=solution.residual)
        return Carry(state, solution.x), info

    def interpolate(
        self, system: Hamiltonian, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> CotangentPoint:
        field: Any = ToVectorField(system).at(carry0.state).system
        space = system.state_space
        theta = space.difference(carry0.state, carry1.state)
        return hermite_step(field, t, h, carry0.state, carry1.state, theta, s, space)

    def _end_state(self, G: AbstractGroup, state: CotangentPoint, xi: Vector, n: Vector) -> CotangentPoint:
        g, mu = state
        whole, back = G.increment(xi), G.increment((self.theta - 1) * xi)
        return CotangentPoint(G.compose(whole, g), G.Ad_dual(back, n) + G.Ad_dual(G.inverse(whole), mu))


def _size(x: Array) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(x * x))
