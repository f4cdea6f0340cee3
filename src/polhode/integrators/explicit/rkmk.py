"""Runge–Kutta–Munthe-Kaas methods."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.integrators.base import Carry, StepInfo
from polhode.integrators.explicit._stages import combine, hermite_step, move_if, polynomial
from polhode.integrators.explicit.base import AbstractExplicit
from polhode.integrators.tableaus.runge_kutta import Tableau
from polhode.spaces.base import AbstractSpace, Vector
from polhode.spaces.coordinates import Coordinates, with_coordinates
from polhode.systems.base import State
from polhode.systems.vector_field import VectorField


class RKMK(AbstractExplicit):
    r"""Runge–Kutta–Munthe-Kaas method of any explicit tableau.

    Solves $\dot\theta = \mathrm{rate}(\theta, f(t, \mathrm{move}(q_0,\theta)))$ on the algebra by the Runge–Kutta
    method and moves once per step: $q_1 = \mathrm{move}(q_0, h\sum_i b_i k_i)$.

    - Order: that of the tableau, for attitude and velocity alike.
    - Preserves: the space to round-off, with everything that the group action keeps (Casimirs of orbits).
    - Error estimate: the difference of the two increments in the algebra, if the tableau has embedded weights.
    - Interpolation: the continuous extension of the tableau, carried to the space by the same map, or a cubic
      Hermite polynomial in the algebra.

    **Arguments:**

    - `tableau`: the Runge–Kutta coefficients.
    - `dexpinv`: "exact" (closed form); "truncated" after two commutators, enough up to order 4; "none", enough for
      order 2 (Lie–Euler–Heun and the Lie midpoint rule).
    - `coordinates`: "exp", "cayley" or "second-kind" coordinates around the start of each step.
    - `first_same_as_last`: reuse the last stage's value in the next step where the tableau allows it.

    ??? cite "Reference"
        H. Munthe-Kaas, High order Runge–Kutta methods on manifolds, Appl. Numer. Math. 29 (1999);
        Celledoni, Çokaj, Leone, Murari, Owren, Lie group integrators for mechanical systems (2021), section 2.
    """

    promises: ClassVar = {"manifold": "round-off", "action invariants": "round-off"}

    tableau: Tableau = eqx.field(static=True)
    dexpinv: Literal["exact", "truncated", "none"] = eqx.field(static=True, default="exact")
    coordinates: Coordinates = eqx.field(static=True, default="exp")
    first_same_as_last: bool = eqx.field(static=True, default=True)

    def __check_init__(self) -> None:
        highest = {"exact": 99, "truncated": 4, "none": 2}
        checks.choice("dexpinv", self.dexpinv, highest)
        checks.choice("coordinates", self.coordinates, get_args(Coordinates))
        checks.flag("first_same_as_last", self.first_same_as_last)
        if self.tableau.order > highest[self.dexpinv]:
            raise ValueError(
                f"dexpinv={self.dexpinv!r} keeps order {highest[self.dexpinv]} at most, but {self.tableau.name} has "
                f"order {self.tableau.order}; use dexpinv='exact'."
            )
        if self.dexpinv == "truncated" and self.coordinates != "exp":
            raise ValueError("dexpinv='truncated' is the series of the exponential map; use coordinates='exp'.")

    @property
    def order(self) -> int:
        return self.tableau.order

    @property
    def error_order(self) -> int | None:
        return self.tableau.order_hat

    @property
    def evaluations(self) -> int:
        return self.tableau.stages - int(self._reuses)

    @property
    def interpolation_order(self) -> int:
        return self.tableau.order_dense or 3

    @property
    def _reuses(self) -> bool:
        return self.first_same_as_last and self.tableau.first_same_as_last

    def init(self, system: VectorField, t: Array, h: Array, state: State) -> Carry:
        return Carry(state, system.field(t, state) if self._reuses else None)

    def step(self, system: VectorField, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        space = with_coordinates(system.space, self.coordinates)
        k, f_last = self._stages(space, system, t, h, carry.state, carry.memory)
        theta = combine(h, self.tableau.b, k)
        state = move_if(space, carry.state, theta)
        error = None
        if self.tableau.b_hat is not None:
            error = combine(h, self.tableau.b - self.tableau.b_hat, k)
        return Carry(state, f_last if self._reuses else None), StepInfo(error=error)

    def interpolate(self, system: VectorField, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array) -> State:
        space = with_coordinates(system.space, self.coordinates)
        k, _ = self._stages(space, system, t, h, carry0.state, carry0.memory)
        if self.tableau.dense is None:
            theta = h * sum(float(b) * ki for b, ki in zip(self.tableau.b, k, strict=True))
            return hermite_step(system, t, h, carry0.state, carry1.state, theta, s, space)
        weights = polynomial(np.asarray(self.tableau.dense), s)
        return space.move(carry0.state, h * sum(weights[i] * ki for i, ki in enumerate(k)))

    def _stages(
        self, space: AbstractSpace, system: VectorField, t: Array, h: Array, state: State, f_first: Vector | None
    ) -> tuple[list[Vector], Vector]:
        """The algebra-valued stages k_i, and the field at the last one."""
        A, c = self.tableau.A, self.tableau.c
        # Traced once for all stages.
        field = jax.jit(lambda t, q: system.field(t, q))
        slope = system.slope if f_first is None else f_first
        f = field(t, state) if slope is None else slope
        k = [f]
        for i in range(1, self.tableau.stages):
            theta = combine(h, A[i, :i], k)
            f = field(t + float(c[i]) * h, move_if(space, state, theta))
            k.append(f if theta is None else self._rate(space, theta, f))
        return k, f

    def _rate(self, space: AbstractSpace, theta: Vector, f: Vector) -> Vector:
        if self.dexpinv == "exact":
            return space.rate(theta, f)
        if self.dexpinv == "none":
            return f
        once = space.bracket(theta, f)
        return f - once / 2 + space.bracket(theta, once) / 12
