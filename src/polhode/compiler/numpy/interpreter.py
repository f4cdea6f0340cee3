"""Interpreter of jaxprs: lists of operations on arrays, evaluated one by one with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core

from polhode.compiler.jaxprs import open_jaxpr, parameters
from polhode.compiler.numpy.cse import Simplification, Value
from polhode.compiler.numpy.elementwise import NUMPY
from polhode.compiler.numpy.rules import RULES, needs_jax
from polhode.compiler.primitives.lowering import ARRAYS, lower
from polhode.jax_context import IS_KNOWN


class UnsupportedNumPyOperation(Exception):
    """A program has operations that NumPy can't evaluate: programs for several devices, or special types of JAX."""


class ArrayType(NamedTuple):
    """An array's shape and type. JAX's own class takes longer to construct than an operation to evaluate."""

    shape: tuple[int, ...]
    dtype: np.dtype


class Equation:
    """One operation.

    - `name`, `params`: of its primitive, with interpreters for programs. - `inputs`: positions of its operands, or
      constants. - `outputs`: positions of its results. - `outs`: their shapes and types. - `origin`: JAX's equation, in
      the process that traced it.
    """

    __slots__ = ("inputs", "name", "origin", "outputs", "outs", "params")

    def __init__(self, origin: Any, inputs: list[Value], outputs: list[int]) -> None:
        self.name = origin.primitive.name
        self.params = {key: _parameter(value) for key, value in parameters(origin).items()}
        if self.name not in RULES and any(map(_programs, self.params.values())):
            raise UnsupportedNumPyOperation(self.name)
        self.inputs, self.outputs, self.origin = inputs, outputs, origin
        self.outs = [ArrayType(v.aval.shape, v.aval.dtype) for v in origin.outvars]

    @property
    def is_portable(self) -> bool:
        """Whether it is always evaluated without JAX."""
        if self.name in NUMPY:
            return True
        if self.name not in RULES or needs_jax(self):
            return False
        return all(program.is_portable for program in self.programs)

    @property
    def is_known(self) -> bool:
        """Whether it is folded where its operands are constant; loops may take long."""
        return self.is_portable and not self.programs

    @property
    def programs(self) -> list[Interpreter]:
        """The programs among its parameters."""
        return [program for value in self.params.values() for program in _programs(value)]

    def __getstate__(self) -> tuple[Any, ...]:
        params = {key: value for key, value in self.params.items() if key in _PLAIN_PARAMETERS}
        return self.name, params, self.inputs, self.outputs, [(out.shape, out.dtype.str) for out in self.outs]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.name, self.params, self.inputs, self.outputs, outs = state
        self.outs, self.origin = [ArrayType(shape, np.dtype(dtype)) for shape, dtype in outs], None

    def __call__(self, x: list[np.ndarray]) -> Sequence[Any]:
        """The results."""
        if self.name in NUMPY:
            return [NUMPY[self.name](*x)]
        rule = RULES.get(self.name)
        return self._by_jax(x) if rule is None or needs_jax(self) else rule(self, x)

    def _by_jax(self, x: list[np.ndarray]) -> Sequence[Any]:
        if self.origin is None:
            raise UnsupportedNumPyOperation(self.name)
        primitive = self.origin.primitive
        outs = primitive.bind(*(jax.device_put(v) for v in x), **self.origin.params)
        return outs if primitive.multiple_results else [outs]


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
        simplification = Simplification(len(jaxpr.invars), Equation)
        constants = [simplification.intern(np.asarray(c)) for c in consts]
        self.results = simplification.results(jaxpr, constants, range(len(jaxpr.invars)))
        self.equations, self.size = simplification.live_operations(self.results), simplification.size
        self.weak = [bool(getattr(v.aval, "weak_type", False)) for v in jaxpr.outvars]

    @property
    def is_portable(self) -> bool:
        """Whether another process can evaluate it."""
        return all(equation.is_portable for equation in self.equations)

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        values: list[Any] = [*args, *[None] * (self.size - len(args))]

        def read(place: Value) -> np.ndarray:
            return values[place] if isinstance(place, int) else place

        for equation in self.equations:
            results = equation([read(place) for place in equation.inputs])
            for place, result, like in zip(equation.outputs, results, equation.outs, strict=True):
                values[place] = np.asarray(result, like.dtype)
        return [read(place) for place in self.results]


def from_jaxpr(jaxpr: core.ClosedJaxpr) -> Interpreter:
    """The interpreter of a trace."""
    if not IS_KNOWN:
        raise UnsupportedNumPyOperation("a version of JAX that is not known")
    jaxpr = lower(jaxpr, ARRAYS)
    return Interpreter(jaxpr.jaxpr, jaxpr.consts)


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
