"""Jaxprs in the normal form that array loops are generated from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
from jax.core import Tracer
from jax.extend import core

from polhode.compiler.array_program import Equation, FlatProgram, Value
from polhode.compiler.arrays.op_kinds import VIEWS
from polhode.compiler.arrays.rewrites import rewrite
from polhode.compiler.arrays.stacks import MANY, Stacker, runs, split_runs
from polhode.compiler.jaxprs import LINEAR_SOLVE, solve_program
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.normaliser import AbstractNormaliser, kind, live_equations
from polhode.compiler.numpy.interpreter import fold
from polhode.compiler.primitives.elimination import ELIMINATION

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


class StackProgram(NamedTuple):
    """A program some of whose operands and results are rows of arrays.

    - `inputs`, `outputs`: the numbers of rows of each; 1 where it is an array by itself.
    """

    closed_jaxpr: core.ClosedJaxpr
    inputs: Sequence[int]
    outputs: Sequence[int]


def flatten(program: core.ClosedJaxpr | StackProgram) -> FlatProgram:
    """The program of a jaxpr. Raises `UnsupportedNativeOperation` if it closes over tracers."""
    if isinstance(program, StackProgram):
        return _Normaliser().of_stacks(program)
    return _Normaliser().program(program.jaxpr, program.consts)


def parts_of_while(params: Any) -> tuple[StackProgram, StackProgram]:
    """Condition and body of a loop as its equation takes them, which has stacks in place of runs of equal arrays."""
    counts = params["runs"]
    condition, body = (([1] * params[name], counts) for name in ("cond_nconsts", "body_nconsts"))
    return (
        StackProgram(params["cond_jaxpr"], [*condition[0], *counts], [1]),
        StackProgram(params["body_jaxpr"], [*body[0], *counts], counts),
    )


@final
class _Normaliser(AbstractNormaliser):
    """Normal form for array loops: there are no unsigned numbers, so those of 32 bits are stored in 64."""

    def __init__(self) -> None:
        super().__init__()
        self._in_memory: dict[Value, Value] = {}
        self._producers: dict[Value, Equation] = {}
        self._stacker = Stacker(self.equations.append, self.constant)

    def of_stacks(self, program: StackProgram) -> FlatProgram:
        """The normal form of a program whose operands and results are stacked."""
        jaxpr, consts = program.closed_jaxpr.jaxpr, program.closed_jaxpr.consts
        inputs, rows = list[Value](), list[Value]()
        for run in split_runs(program.closed_jaxpr.in_avals, program.inputs):
            first = self.value(run[0])
            inputs.append(first if len(run) == 1 else Value((len(run), *first.shape), first.dtype))
            rows += [first] if len(run) == 1 else self._stacker.unstack(inputs[-1])
        outputs = self.evaluate(jaxpr, [*map(self.constant, consts), *rows])
        results = [self._stack(run) for run in split_runs(outputs, program.outputs)]
        return FlatProgram(inputs, live_equations(self.equations, results), results)

    def _stack(self, run: Sequence[Any]) -> Any:
        """Values as one: itself, or an array of which they are the rows."""
        if len(run) == 1:
            return run[0]
        whole = self._stacker.stack(run)
        if whole is not None:
            return whole
        result = Value((len(run), *run[0].shape), run[0].dtype)
        self.equations.append(Equation("stack", {"axis": 0}, list(run), [result]))
        return self._materialise(result)

    def _while(self, eqn: Any, inputs: list[Any]) -> list[Any]:
        """A loop that carries runs of equal arrays as one each."""
        params = eqn.params
        n_consts = params["cond_nconsts"] + params["body_nconsts"]
        counts = runs([v.aval for v in eqn.outvars])
        start = [self._stack(run) for run in split_runs(inputs[n_consts:], counts)]
        ends = [Value(x.shape, x.dtype) for x in start]
        self.equations.append(Equation("while", {**params, "runs": counts}, [*inputs[:n_consts], *start], ends, eqn))
        return [
            row
            for end, count in zip(ends, counts, strict=True)
            for row in ([end] if count == 1 else self._stacker.unstack(end))
        ]

    def value(self, aval: Any) -> Value:
        return Value(aval.shape, _storage_dtype(aval.dtype))

    def constant(self, value: Any) -> np.ndarray:
        if isinstance(value, Tracer):
            raise UnsupportedNativeOperation("what JAX traces")
        values = np.asarray(value)
        return super().constant(values.astype(_storage_dtype(values.dtype), copy=False))

    def inlines(self, eqn: Any) -> bool:
        # Programs for trees know which entries are zero.
        return eqn.primitive is not ELIMINATION or not eqn.params["plan"].is_full

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
        if name == "while":
            return self._while(eqn, inputs)
        if name in _OF_PARTS and len(inputs) > MANY and (whole := self._whole(eqn, inputs)) is not None:
            return [whole]
        outputs = super().append(eqn, inputs)
        self._producers.update((v, self.equations[-1]) for v in outputs)
        self._stacker.record(self.equations[-1], kind(eqn))
        if name in _OF_PARTS and len(inputs) > MANY:
            return [self._materialise(v) for v in outputs]
        if any(v.aval.dtype == _UINT32 for v in eqn.outvars) and name not in _RANGE_PRESERVING:
            return self._modulo_2_32(self.equations[-1])
        return outputs

    def _whole(self, eqn: Any, parts: Sequence[Any]) -> Any:
        """An array from its parts along the first axis, where operations on them are one on the whole."""
        first, shape = parts[0], eqn.outvars[0].aval.shape
        axis = eqn.params["axis" if eqn.primitive.name == "stack" else "dimension"]
        if axis or any((x.shape, x.dtype) != (first.shape, first.dtype) for x in parts):
            return None
        whole = self._stacker.stack(parts)
        return None if whole is None else self._stacker.as_concatenation(whole, shape)

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
