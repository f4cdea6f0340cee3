"""Jaxprs in the normal form that array loops are generated from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from jax.core import Tracer
from jax.extend import core

from polhode.compiler.array_program import Equation, FlatProgram, Value
from polhode.compiler.arrays.op_kinds import VIEWS
from polhode.compiler.arrays.rewrites import rewrite
from polhode.compiler.jaxprs import LINEAR_SOLVE, solve_program
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.normaliser import AbstractNormaliser
from polhode.compiler.numpy.interpreter import fold

_UINT32 = np.dtype(np.uint32)
_MODULAR = frozenset(["add", "sub", "mul", "convert_element_type"])
_RANGE_PRESERVING = frozenset(
    (
        *("select_n", "div", "rem", "max", "min", "and", "or", "xor", "clamp", "gather", "dynamic_slice"),
        *("reduce_max", "reduce_min", "while", "scan", "cond", "scatter", *VIEWS),
    )
)
"""Operations whose results stay within the range of their operands."""

_OF_PARTS = frozenset(("concatenate", "stack"))
_PARTS = 8
"""Parts above which arrays made of them are copied to memory: each read in a loop compares its place with all parts, so
that loops along n parts take n² comparisons. A step of a chain of 38 links took 960 µs with them and takes 66; where
between few parts and many a copy begins to pay was not measured."""


def flatten(closed_jaxpr: core.ClosedJaxpr) -> FlatProgram:
    """The program of a jaxpr. Raises `UnsupportedNativeOperation` if it closes over tracers."""
    return _Normaliser().program(closed_jaxpr.jaxpr, closed_jaxpr.consts)


@final
class _Normaliser(AbstractNormaliser):
    """Normal form for array loops: there are no unsigned numbers, so those of 32 bits are stored in 64."""

    def __init__(self) -> None:
        super().__init__()
        self._in_memory: dict[Value, Value] = {}
        self._producers: dict[Value, Equation] = {}

    def value(self, aval: Any) -> Value:
        return Value(aval.shape, _storage_dtype(aval.dtype))

    def constant(self, value: Any) -> np.ndarray:
        if isinstance(value, Tracer):
            raise UnsupportedNativeOperation("what JAX traces")
        values = np.asarray(value)
        return super().constant(values.astype(_storage_dtype(values.dtype), copy=False))

    def fold(self, eqn: Any, inputs: list[Any]) -> list[np.ndarray] | None:
        return None if any(v.aval.dtype == _UINT32 for v in eqn.outvars) else fold(eqn, inputs)

    def rewrite(self, eqn: Any, inputs: list[Any]) -> tuple[core.ClosedJaxpr, Sequence[Any]] | None:
        if eqn.primitive.name == LINEAR_SOLVE:
            return solve_program(eqn.params, inputs)
        simpler = rewrite(eqn)
        return None if simpler is None else (simpler, inputs)

    def append(self, eqn: Any, inputs: list[Any]) -> Sequence[Any]:
        name = eqn.primitive.name
        if eqn.effects and not eqn.outvars:
            # It is called for its side effect, such as printing.
            raise UnsupportedNativeOperation(name)
        if name == "gather" and self._is_better_in_memory(inputs[0], eqn.outvars[0].aval.size):
            inputs = [self._materialise(inputs[0]), *inputs[1:]]
        outputs = super().append(eqn, inputs)
        self._producers.update((v, self.equations[-1]) for v in outputs)
        if name in _OF_PARTS and len(inputs) > _PARTS:
            return [self._materialise(v) for v in outputs]
        if any(v.aval.dtype == _UINT32 for v in eqn.outvars) and name not in _RANGE_PRESERVING:
            return self._modulo_2_32(self.equations[-1])
        return outputs

    def _is_better_in_memory(self, x: Any, reads: int) -> bool:
        """Whether a copy in memory makes reads cheaper: each read would have to find the part and the place in it."""
        producer = self._producers.get(x) if isinstance(x, Value) else None
        has_parts = producer is not None and producer.name in (*_OF_PARTS, "reshape")
        return has_parts and (x in self._in_memory or reads >= x.size // 4)

    def _materialise(self, x: Value) -> Value:
        """The same array, contiguous in memory."""
        if x not in self._in_memory:
            self._in_memory[x] = Value(x.shape, x.dtype)
            self.equations.append(Equation("placed", {}, [x], [self._in_memory[x]]))
        return self._in_memory[x]

    def _modulo_2_32(self, equation: Equation) -> list[Value]:
        """The result modulo 2³²."""
        if equation.name not in _MODULAR:
            raise UnsupportedNativeOperation(f"{equation.name} of unsigned numbers")
        (v,) = equation.outputs
        low = Value(v.shape, v.dtype)
        self.equations.append(Equation("and", {}, [v, np.asarray(np.iinfo(_UINT32).max, v.dtype)], [low]))
        return [low]


def _storage_dtype(dtype: Any) -> Any:
    return np.dtype(np.int64) if dtype == _UINT32 else dtype
