"""Jaxprs as flat lists of operations: calls inlined, common subexpressions shared, dead code eliminated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.core import Tracer
from jax.extend import core

from polhode.compiler.arrays.constant_folding import fold
from polhode.compiler.arrays.op_kinds import VIEWS
from polhode.compiler.arrays.rewrites import rewrite
from polhode.compiler.jaxprs import LINEAR_SOLVE, callee, parameters, solve_program
from polhode.compiler.llvm.types import UnsupportedNativeOperation


class Value:
    """An array that is computed at run time."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


Atom = Value | np.ndarray
"""An operand: a value or a constant."""


class Equation:
    """One operation: name, parameters, operands and results."""

    __slots__ = ("inputs", "name", "outputs", "params")

    def __init__(self, name: str, params: Any, inputs: list[Atom], outputs: list[Value]) -> None:
        self.name, self.params, self.inputs, self.outputs = name, params, inputs, outputs


class FlatProgram:
    """A program: inputs, operations in a valid order, and results."""

    __slots__ = ("equations", "inputs", "outputs")

    def __init__(self, inputs: list[Value], equations: list[Equation], outputs: list[Atom]) -> None:
        self.inputs, self.equations, self.outputs = inputs, equations, outputs


_UINT32 = np.dtype(np.uint32)
_MODULAR = frozenset(["add", "sub", "mul", "convert_element_type"])
_RANGE_PRESERVING = frozenset(
    (
        *("select_n", "div", "rem", "max", "min", "and", "or", "xor", "clamp", "gather", "dynamic_slice"),
        *("reduce_max", "reduce_min", "while", "scan", "cond", "scatter", *VIEWS),
    )
)
"""Operations whose results stay within the range of their operands."""

_NOT_SHARED = frozenset(["while", "scan", "cond", "sort"])
"""Operations excluded from sharing: their inner programs would have to be compared."""


def flatten(closed_jaxpr: core.ClosedJaxpr) -> FlatProgram:
    """The program of a jaxpr. Raises `UnsupportedNativeOperation` if it closes over tracers."""
    flat = _Flattener()
    inputs = [Value(a.shape, _storage_dtype(a.dtype)) for a in closed_jaxpr.in_avals]
    outputs = flat.evaluate(closed_jaxpr.jaxpr, [_constant(c) for c in closed_jaxpr.consts], inputs)
    return FlatProgram(inputs, _eliminate_dead(flat.equations, outputs), outputs)


class _Flattener:
    """Flattens jaxprs into one list of operations."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self._same: dict[Any, list[Value]] = {}
        self._alive: list[Any] = []
        self._producers: dict[int, Equation] = {}

    def evaluate(self, jaxpr: core.Jaxpr, consts: Sequence[Atom], args: Sequence[Atom]) -> list[Atom]:
        env: dict[Any, Atom] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

        def read(atom: Any) -> Atom:
            like: Any = atom.aval
            return _constant(np.asarray(atom.val, like.dtype)) if isinstance(atom, core.Literal) else env[atom]

        for eqn in jaxpr.eqns:
            inputs, name = [read(v) for v in eqn.invars], eqn.primitive.name
            if (call := callee(eqn)) is not None:
                inner, consts_inside = call
                results: Sequence[Atom] = self.evaluate(inner, [_constant(c) for c in consts_inside], inputs)
            elif name == LINEAR_SOLVE:
                solver, operands = solve_program(eqn.params, inputs)
                results = self.evaluate(solver.jaxpr, [_constant(c) for c in solver.consts], operands)
            elif (constants := fold(eqn, inputs)) is not None:
                results = constants
            elif (simpler := rewrite(eqn)) is not None:
                results = self.evaluate(simpler.jaxpr, [_constant(c) for c in simpler.consts], inputs)
            else:
                results = self._append(eqn, inputs)
            env.update(zip(eqn.outvars, results, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _append(self, eqn: Any, inputs: list[Atom]) -> list[Value]:
        name, params = eqn.primitive.name, parameters(eqn)
        if eqn.effects and not eqn.outvars:
            # It is called for its side effect, such as printing.
            raise UnsupportedNativeOperation(name)
        if name == "gather" and self._is_better_in_memory(inputs[0], eqn.outvars[0].aval.size):
            inputs = [self._materialise(inputs[0]), *inputs[1:]]
        types = [(v.aval.shape, _storage_dtype(v.aval.dtype)) for v in eqn.outvars]
        key = None
        if name not in _NOT_SHARED:
            key = (name, str(params), str(types), *map(_identity, inputs))
            if key in self._same:
                return self._same[key]
        equation = Equation(name, params, inputs, [Value(*kind) for kind in types])
        self.equations.append(equation)
        self._producers.update((id(v), equation) for v in equation.outputs)
        if any(v.aval.dtype == _UINT32 for v in eqn.outvars) and name not in _RANGE_PRESERVING:
            equation = self._modulo_2_32(equation)
        # Operands are identified by `id` and therefore must stay alive.
        self._alive.append(inputs)
        if key is not None:
            self._same[key] = equation.outputs
        return equation.outputs

    def _is_better_in_memory(self, x: Atom, reads: int) -> bool:
        """Whether a copy in memory makes reads cheaper: each read would have to find the part and the place in it."""
        producer = self._producers.get(id(x))
        has_parts = producer is not None and producer.name in ("concatenate", "stack", "reshape")
        return has_parts and (("placed", id(x)) in self._same or reads >= x.size // 4)

    def _materialise(self, x: Any) -> Value:
        """The same array, contiguous in memory."""
        key = "placed", id(x)
        if key not in self._same:
            equation = Equation("placed", {}, [x], [Value(x.shape, x.dtype)])
            self.equations.append(equation)
            self._same[key] = equation.outputs
        return self._same[key][0]

    def _modulo_2_32(self, equation: Equation) -> Equation:
        """The result modulo 2³²."""
        if equation.name not in _MODULAR:
            raise UnsupportedNativeOperation(f"{equation.name} of unsigned numbers")
        (v,) = equation.outputs
        low = Equation("and", {}, [v, np.asarray(np.iinfo(_UINT32).max, v.dtype)], [Value(v.shape, v.dtype)])
        self.equations.append(low)
        return low


def _storage_dtype(dtype: Any) -> Any:
    """The dtype in memory: there are no unsigned numbers, so those of 32 bits are stored in 64."""
    return np.dtype(np.int64) if dtype == _UINT32 else dtype


def _identity(atom: Atom) -> Any:
    return id(atom) if isinstance(atom, Value) else (atom.dtype, atom.shape, atom.tobytes())


def _constant(constant: Any) -> Atom:
    if isinstance(constant, Tracer):
        raise UnsupportedNativeOperation("what JAX traces")
    values = np.asarray(constant)
    return values.astype(_storage_dtype(values.dtype))


def _eliminate_dead(equations: list[Equation], outputs: Sequence[Atom]) -> list[Equation]:
    used = {id(x) for x in outputs}
    live = []
    for equation in reversed(equations):
        if any(id(v) in used for v in equation.outputs):
            live.append(equation)
            used.update(map(id, equation.inputs))
    return live[::-1]
