"""The order-4 method of Casas and Owren with two commutators a step."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Array

from polhode.integrators.base import Carry, StepInfo
from polhode.integrators.explicit._stages import hermite_step
from polhode.integrators.explicit.base import AbstractExplicit
from polhode.systems.base import State
from polhode.systems.vector_field import VectorField


class RKMK4TwoCommutators(AbstractExplicit):
    r"""Runge–Kutta–Munthe-Kaas method of order 4 with two commutators in all instead of inverse differentials.

    - Order: 4 for attitude and velocity. Four evaluations a step.
    - Preserves: the space to round-off, with everything that the group action keeps.
    - Interpolation: cubic Hermite in the algebra.

    ??? cite "Reference"
        F. Casas, B. Owren, Cost efficient Lie group integrators in the RKMK class, BIT 43 (2003);
        Celledoni et al., Lie group integrators for mechanical systems (2021), section 2.
    """

    promises: ClassVar = {"manifold": "round-off", "action invariants": "round-off"}

    @property
    def order(self) -> int:
        return 4

    @property
    def evaluations(self) -> int:
        return 4

    def init(self, system: VectorField, t: Array, h: Array, state: State) -> Carry:
        return Carry(state)

    def step(self, system: VectorField, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        theta = self._increment(system, t, h, carry.state)
        return Carry(system.space.move(carry.state, theta)), StepInfo()

    def interpolate(self, system: VectorField, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array) -> State:
        theta = self._increment(system, t, h, carry0.state)
        return hermite_step(system, t, h, carry0.state, carry1.state, theta, s, system.space)

    def _increment(self, system: VectorField, t: Array, h: Array, q0: State) -> Array:
        space, f = system.space, system.field
        k1 = h * (f(t, q0) if system.slope is None else system.slope)
        k2 = h * f(t + h / 2, space.move(q0, k1 / 2))
        k3 = h * f(t + h / 2, space.move(q0, k2 / 2 - space.bracket(k1, k2) / 8))
        k4 = h * f(t + h, space.move(q0, k3))
        return (k1 + 2 * k2 + 2 * k3 + k4 - space.bracket(k1, k4) / 2) / 6
