"""Normal form of the programs that are unrolled into scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from jax.core import Tracer
from jax.extend import core

from polhode.compiler.jaxprs import LINEAR_SOLVE, solve_program
from polhode.compiler.normaliser import IDENTITIES, AbstractNormaliser
from polhode.compiler.primitives.elimination import ELIMINATION
from polhode.compiler.scalars.backend import AbstractScalarBackend
from polhode.compiler.scalars.data_movement import MOVES
from polhode.compiler.scalars.decompositions import (
    DECOMPOSITIONS,
    decompose,
    differentiable_solve,
    is_batch_of_loops,
    merge_loops,
)
from polhode.compiler.scalars.linear_algebra import expand_library_call
from polhode.compiler.scalars.primitives import ELEMENTWISE
from polhode.compiler.scalars.procedures import CALLS

CUSTOM_JVP = ("custom_jvp_call",)
CUSTOM_VJP = ("custom_vjp_call", "custom_vjp_call_jaxpr")
"""Operations with a custom derivative, and those with a custom reverse rule, which only JAX can use."""


@final
class ScalarNormaliser(AbstractNormaliser):
    """Normal form for unrolling. Constants are folded later, element by element, as compiled code would round.

    **Arguments:**

    - `backend`: what the program will be unrolled for.
    - `procedures`: programs whose calls stay calls.
    """

    def __init__(self, backend: AbstractScalarBackend, procedures: frozenset[core.Jaxpr] = frozenset()) -> None:
        super().__init__()
        self._backend, self._procedures = backend, procedures
        # Its derivative is zero.
        self.identities = IDENTITIES - {"stop_gradient"} if backend.keeps_rules else IDENTITIES

    def constant(self, value: Any) -> Any:
        return value if isinstance(value, Tracer) else super().constant(value)

    def inlines(self, eqn: Any) -> bool:
        name = eqn.primitive.name
        if name in CALLS:
            return eqn.params["jaxpr"].jaxpr not in self._procedures
        if eqn.primitive is ELIMINATION:
            return not self._backend.has_eliminations
        return not (self._backend.keeps_rules and name in (*CUSTOM_JVP, *CUSTOM_VJP))

    def fold(self, eqn: Any, inputs: list[Any]) -> list[np.ndarray] | None:
        return None

    def rewrite(self, eqn: Any, inputs: list[Any]) -> tuple[core.ClosedJaxpr, Sequence[Any]] | None:
        name = eqn.primitive.name
        if name in ELEMENTWISE or name in MOVES:
            return None
        if name == LINEAR_SOLVE and self._backend.has_rows:
            return (
                (differentiable_solve(eqn), inputs) if self._backend.keeps_rules else solve_program(eqn.params, inputs)
            )
        if name in DECOMPOSITIONS:
            return decompose(eqn), inputs
        if is_batch_of_loops(eqn):
            return merge_loops(eqn), inputs
        simpler = expand_library_call(eqn) if self._backend.has_rows else None
        return None if simpler is None else (simpler, inputs)
