"""Compositions of a symmetric one-step method with itself, of higher order."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from polhode.checks import short_repr
from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo
from polhode.systems.base import AbstractSystem, State

_SUZUKI = 1 / (4 - 4 ** (1 / 3))

WEIGHTS: dict[int, tuple[float, ...]] = {
    4: (_SUZUKI, _SUZUKI, 1 - 4 * _SUZUKI, _SUZUKI, _SUZUKI),
    6: (
        0.39216144400731413928,
        0.33259913678935943860,
        -0.70624617255763935981,
        0.082213596293550800230,
        0.79854399093482996340,
        0.082213596293550800230,
        -0.70624617255763935981,
        0.33259913678935943860,
        0.39216144400731413928,
    ),
}
"""Order → lengths of the partial steps: M. Suzuki (1990), order 4; W. Kahan & R.-C. Li (1997), order 6."""


class SymmetricComposition(AbstractIntegrator):
    r"""Steps of length γ₁h, …, γₛh of a symmetric method of order 2, one after the other: order 4 or 6.

    - Order: `target`, for what is of order 2 in the method.
    - Preserves: what the method preserves: the space, the symplectic form, momenta; the energy without drift.
    - Some of the partial steps go backwards, so it is for systems without friction. Five partial steps for order 4
      (Suzuki), nine for order 6 (Kahan and Li).
    - Interpolation, result codes: those of the method.

    **Arguments:**

    - `method`: a symmetric integrator of order 2, such as `SymplecticLieGroup(0.5)`.
    - `target`: 4 or 6.

    ??? cite "Reference"
        E. Hairer, C. Lubich, G. Wanner, Geometric Numerical Integration (2006), sections II.4 and V.3.
    """

    one_step: ClassVar = True
    method: AbstractIntegrator
    target: int = eqx.field(static=True, default=4)

    def __check_init__(self) -> None:
        if not isinstance(self.target, int) or self.target not in WEIGHTS:
            raise ValueError(f"`target` must be one of {', '.join(map(str, WEIGHTS))}, got {short_repr(self.target)}.")
        if not isinstance(self.method, AbstractIntegrator):
            raise ValueError(
                f"`method` must be an integrator such as `SymplecticLieGroup(0.5)`, got {short_repr(self.method)}."
            )
        if not self.method.symmetric:
            raise ValueError(
                f"Compositions raise the order of symmetric methods, and {self.method!r} is not symmetric; for the "
                "symplectic family take theta = 0.5."
            )

    @property
    def kinds(self) -> Any:
        """The systems that the method takes."""
        return self.method.kinds

    @property
    def promises(self) -> dict[str, str]:
        """The promises of the composed method."""
        return self.method.promises

    def promises_for(self, system: AbstractSystem, state: State) -> dict[str, str]:
        return self.method.promises_for(system, state)

    @property
    def order(self) -> int:
        return self.target

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def implicit(self) -> bool:
        return self.method.implicit

    @property
    def evaluations(self) -> int:
        return len(WEIGHTS[self.target]) * self.method.evaluations

    @property
    def interpolation_order(self) -> int:
        return self.method.interpolation_order

    def check(self, system: AbstractSystem, t: Any, state: State) -> None:
        self.method.check(system, t, state)

    def init(self, system: AbstractSystem, t: Array, h: Array, state: State) -> Carry:
        return self.method.init(system, t, h, state)

    def step(self, system: AbstractSystem, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        weights = np.asarray(WEIGHTS[self.target])
        starts = np.concatenate(([0.0], np.cumsum(weights)[:-1]))

        def part(carry: Carry, row: tuple[Array, Array]) -> tuple[Carry, StepInfo]:
            return self.method.step(system, t + row[0] * h, row[1] * h, carry)

        carry, infos = jax.lax.scan(part, carry, (jnp.asarray(starts), jnp.asarray(weights)))
        return carry, _combine_infos(infos)

    def interpolate(self, system: AbstractSystem, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array) -> State:
        return self.method.interpolate(system, t, h, carry0, carry1, s)


def _combine_infos(infos: StepInfo) -> StepInfo:
    """The first failure, the sum of iterations and the largest residual of the partial steps."""
    result = None if infos.result is None else _first(infos.result)
    iterations = None if infos.newton_iterations is None else jnp.sum(infos.newton_iterations).astype(jnp.int32)
    residual = None if infos.residual is None else jnp.max(infos.residual)
    return StepInfo(result=result, newton_iterations=iterations, residual=residual)


def _first(codes: Int[Array, " parts"]) -> Int[Array, ""]:
    """The first code that isn't 0. Not looked up by its place, which machine code can't."""
    *others, code = codes
    for earlier in reversed(others):
        code = jnp.where(earlier != 0, earlier, code)
    return code
