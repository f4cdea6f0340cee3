"""Interpreter of jaxprs: lists of operations on arrays, evaluated one by one with NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import jax
import numpy as np
from jax.extend import core

from polhode.compiler.array_program import Equation, Value
from polhode.compiler.jaxprs import open_jaxpr, parameters
from polhode.compiler.normaliser import AbstractNormaliser
from polhode.compiler.numpy.elementwise import NUMPY
from polhode.compiler.numpy.rules import RULES, needs_jax
from polhode.compiler.primitives.lowering import ARRAYS, lower
from polhode.jax_context import IS_KNOWN

_FOLDED = 1000
"""Elements of the largest results that are folded: larger ones are computed when they are needed."""


class UnsupportedNumPyOperation(Exception):
    """A program has operations that NumPy can't evaluate: programs for several devices, or special types of JAX."""


_PLAIN_PARAMETERS = frozenset(
    (
        *("axes", "axis", "dimension", "dimensions", "dimension_numbers", "permutation", "permutation_size"),
        *("broadcast_dimensions", "length", "limit_indices", "padding_config", "shape", "sizes", "slice_sizes"),
        *("start_indices", "strides", "dtype", "fill_value", "mode", "new_dtype", "reverse", "rounding_method", "y"),
        *("body_jaxpr", "body_nconsts", "branches", "call_jaxpr", "cond_jaxpr", "cond_nconsts", "fun_jaxpr", "jaxpr"),
        *("const_lengths", "jaxprs", "num_carry", "num_consts", "num_keys", "platforms"),
        *("conjugate_a", "left_side", "lower", "transpose_a", "unit_diagonal"),
    )
)
"""Parameters that rules read, all of them plain values or interpreters: those that are stored on disk."""


class Interpreter:
    """The interpreter of a jaxpr; called with the list of its arguments it returns that of its results.

    Its construction raises `UnsupportedNumPyOperation` for inner programs that NumPy can't evaluate.
    """

    def __init__(self, jaxpr: core.Jaxpr, consts: Sequence[Any]) -> None:
        everything = (*jaxpr.constvars, *jaxpr.invars, *(v for e in jaxpr.eqns for v in e.outvars))
        if not all(isinstance(getattr(v.aval, "dtype", None), np.dtype | None) for v in everything):
            raise UnsupportedNumPyOperation("keys of random numbers")
        program = _Normaliser().program(jaxpr, consts)
        self.inputs, self.equations, self.results = program.inputs, program.equations, program.outputs
        self.weak = [bool(getattr(v.aval, "weak_type", False)) for v in jaxpr.outvars]

    @property
    def is_portable(self) -> bool:
        """Whether another process can evaluate it."""
        return all(map(_is_portable, self.equations))

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        values: dict[Value, np.ndarray] = dict(zip(self.inputs, args, strict=True))
        for equation in self.equations:
            results = _evaluate(equation, [values[x] if isinstance(x, Value) else x for x in equation.inputs])
            for value, result in zip(equation.outputs, results, strict=True):
                values[value] = np.asarray(result, value.dtype)
        return [values[x] if isinstance(x, Value) else x for x in self.results]

    def __getstate__(self) -> tuple[Any, ...]:
        """Plain values: numbers stand for values, in the order of inputs and results of operations."""
        values = [*self.inputs, *(v for equation in self.equations for v in equation.outputs)]
        places = {value: n for n, value in enumerate(values)}

        def number(atoms: Sequence[Any]) -> list[Any]:
            return [places[x] if isinstance(x, Value) else x for x in atoms]

        equations = [
            (e.name, {k: v for k, v in e.params.items() if k in _PLAIN_PARAMETERS}, number(e.inputs), len(e.outputs))
            for e in self.equations
        ]
        types = [(value.shape, value.dtype.str) for value in values]
        return types, len(self.inputs), equations, number(self.results), self.weak

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        types, count, equations, results, self.weak = state
        values = [Value(shape, np.dtype(dtype)) for shape, dtype in types]

        def read(atoms: Sequence[Any]) -> list[Any]:
            return [values[x] if isinstance(x, int) else x for x in atoms]

        outputs = iter(values[count:])
        self.inputs, self.results = values[:count], read(results)
        self.equations = [
            Equation(name, params, read(inputs), [next(outputs) for _ in range(n)])
            for name, params, inputs, n in equations
        ]


def from_jaxpr(jaxpr: core.ClosedJaxpr) -> Interpreter:
    """The interpreter of a trace."""
    if not IS_KNOWN:
        raise UnsupportedNumPyOperation("a version of JAX that is not known")
    jaxpr = lower(jaxpr, ARRAYS)
    return Interpreter(jaxpr.jaxpr, jaxpr.consts)


def fold(eqn: Any, inputs: list[np.ndarray]) -> list[np.ndarray] | None:
    """The results of JAX's operation on constants; None if NumPy can't evaluate it, or it has programs inside."""
    name, params = eqn.primitive.name, parameters(eqn)
    if name not in NUMPY and (name not in RULES or any(map(_has_programs, params.values()))):
        return None
    equation = Equation(name, params, list(inputs), [Value(v.aval.shape, v.aval.dtype) for v in eqn.outvars])
    if needs_jax(equation):
        return None
    # Infinite or NaN without a warning, as in compiled code; it may belong to an unselected branch.
    with np.errstate(all="ignore"):
        results = _evaluate(equation, list(inputs))
    # In C order, as after loading from disk: sums depend on it.
    return [np.array(x, like.dtype, order="C") for x, like in zip(results, equation.outputs, strict=True)]


def programs(equation: Equation) -> list[Interpreter]:
    """The programs among an operation's parameters."""
    return [program for value in equation.params.values() for program in _programs(value)]


@final
class _Normaliser(AbstractNormaliser):
    """Normal form for NumPy: programs among parameters become interpreters."""

    def fold(self, eqn: Any, inputs: list[Any]) -> list[np.ndarray] | None:
        return fold(eqn, inputs) if sum(math.prod(v.aval.shape) for v in eqn.outvars) <= _FOLDED else None

    def append(self, eqn: Any, inputs: list[Any]) -> Sequence[Any]:
        outputs = super().append(eqn, inputs)
        equation = self.equations[-1]
        equation.params = {key: _parameter(value) for key, value in equation.params.items()}
        if equation.name not in RULES and programs(equation):
            raise UnsupportedNumPyOperation(equation.name)
        return outputs


def _evaluate(equation: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    """The results of an operation."""
    if equation.name in NUMPY:
        return [NUMPY[equation.name](*x)]
    rule = RULES.get(equation.name)
    return _by_jax(equation, x) if rule is None or needs_jax(equation) else rule(equation, x)


def _by_jax(equation: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    if equation.origin is None:
        raise UnsupportedNumPyOperation(equation.name)
    primitive = equation.origin.primitive
    outs = primitive.bind(*(jax.device_put(v) for v in x), **equation.origin.params)
    return outs if primitive.multiple_results else [outs]


def _is_portable(equation: Equation) -> bool:
    """Whether an operation is always evaluated without JAX."""
    if equation.name in NUMPY:
        return True
    if equation.name not in RULES or needs_jax(equation):
        return False
    return all(program.is_portable for program in programs(equation))


def _parameter(value: Any) -> Any:
    """A parameter, with interpreters for programs."""
    if isinstance(value, core.Jaxpr | core.ClosedJaxpr):
        return Interpreter(*open_jaxpr(value))
    if isinstance(value, tuple):
        items = list(map(_parameter, value))
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def _programs(value: Any) -> list[Interpreter]:
    if isinstance(value, tuple):
        return [program for item in value for program in _programs(item)]
    return [value] if isinstance(value, Interpreter) else []


def _has_programs(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_programs, value))
    return isinstance(value, core.Jaxpr | core.ClosedJaxpr)
