"""Classical Runge–Kutta methods in the coordinates in which points are stored, for comparison."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from polhode.integrators.base import Carry, StepInfo
from polhode.integrators.explicit._stages import polynomial
from polhode.integrators.explicit.base import AbstractExplicit
from polhode.integrators.tableaus.runge_kutta import Tableau
from polhode.spaces.base import Point
from polhode.systems.base import State
from polhode.systems.vector_field import VectorField


class ClassicalRungeKutta(AbstractExplicit):
    r"""Runge–Kutta method on the stored numbers of a point: matrix entries, quaternion components, coordinates.

    The comparison that every paper of the field makes. It treats $\dot q = f$ as an equation in the ambient vector
    space and ignores the manifold.

    - Order: that of the tableau. - Preserves: nothing; the state leaves curved spaces at the method's order.
    - Error estimate: algebra element between the two end points, for pairs.
    - Interpolation: cubic Hermite or the tableau's continuous extension, in the ambient coordinates.
    """

    promises: ClassVar = {}

    tableau: Tableau = eqx.field(static=True)

    @property
    def order(self) -> int:
        return self.tableau.order

    @property
    def error_order(self) -> int | None:
        return self.tableau.order_hat

    @property
    def evaluations(self) -> int:
        return self.tableau.stages - int(self.tableau.first_same_as_last)

    @property
    def interpolation_order(self) -> int:
        return self.tableau.order_dense or 3

    def init(self, system: VectorField, t: Array, h: Array, state: State) -> Carry:
        return Carry(state, system.derivative(t, state) if self.tableau.first_same_as_last else None)

    def step(self, system: VectorField, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        k = self._stages(system, t, h, carry)
        state = _shift(carry.state, h, self.tableau.b, k)
        error = None
        if self.tableau.b_hat is not None:
            error = system.space.difference(_shift(carry.state, h, self.tableau.b_hat, k), state)
        return Carry(state, k[-1] if self.tableau.first_same_as_last else None), StepInfo(error=error)

    def interpolate(self, system: VectorField, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array) -> State:
        if self.tableau.dense is not None:
            weights = polynomial(np.asarray(self.tableau.dense), s)
            return _shift(carry0.state, h, list(weights), self._stages(system, t, h, carry0))
        slope0, slope1 = system.derivative(t, carry0.state), system.derivative(t + h, carry1.state)
        return jax.tree.map(
            lambda q0, q1, v0, v1: (
                q0 + s * ((1 - s) ** 2 * h * v0 + s * (s - 1) * h * v1 + s * (3 - 2 * s) * (q1 - q0))
            ),
            carry0.state,
            carry1.state,
            slope0,
            slope1,
        )

    def _stages(self, system: VectorField, t: Array, h: Array, carry: Carry) -> list[Point]:
        A, c = self.tableau.A, self.tableau.c
        k = [system.derivative(t, carry.state) if carry.memory is None else carry.memory]
        for i in range(1, self.tableau.stages):
            k.append(system.derivative(t + float(c[i]) * h, _shift(carry.state, h, A[i, :i], k)))
        return k


def _shift(q: Point, h: Array, weights: list | np.ndarray, k: list[Point]) -> Point:
    """q + h Σ wᵢ kᵢ, leaving out weights known to be zero."""
    used = [(w, ki) for w, ki in zip(weights, k, strict=False) if not (isinstance(w, float) and w == 0)]
    if not used:
        return q
    return jax.tree.map(
        lambda x, *ks: x + h * sum(w * y for (w, _), y in zip(used, ks, strict=True)), q, *(ki for _, ki in used)
    )
