"""Traces of functions of trees of arrays, and their programs on scalars."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from polhode.compiler import size_limits
from polhode.compiler.llvm.jit import is_compiler_missing
from polhode.compiler.llvm.types import TooManyOperations, UnsupportedNativeOperation
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.number_pattern import ARGUMENTS, NumberPattern
from polhode.compiler.primitives.lowering import MACHINE_CODE, Backend
from polhode.compiler.scalars.array_view import ArrayView
from polhode.compiler.scalars.backend import UnsupportedScalarOperation
from polhode.compiler.scalars.cost import cost_of_code
from polhode.compiler.scalars.program import ArrayType, Program, ProgramBackend, Variable
from polhode.compiler.scalars.read_only import read_only
from polhode.compiler.scalars.traced_function import TracedFunction


def trace(function: Callable[..., Any], *examples: Any, target: Backend = MACHINE_CODE) -> TracedFunction:
    """Traces a function for machine code, or for machine code of its derivatives.

    Raises `UnsupportedNativeOperation` if there is no compiler, or if the function closes over what JAX traces.
    """
    if is_compiler_missing():
        raise UnsupportedNativeOperation("no compiler")
    program = TracedFunction(function, *examples, target=target)
    if any(isinstance(c, Tracer) for c in program.closed_jaxpr.consts):
        raise UnsupportedNativeOperation("what JAX traces")
    return program


def on_scalars(
    program: TracedFunction, *examples: Any, wrt: Collection[int] | None = None, pattern: NumberPattern = ARGUMENTS
) -> Program:
    """A traced function as a program of all elements of its arguments; arrays that it only reads stay whole.

    `wrt`: leaves with respect to which the program will be differentiated; None if it will not be. `pattern`: numbers
    of the first example that are constants; they remain inputs, which are not used. Raises
    `UnsupportedNativeOperation` where there is no such program.
    """
    if program.cost > size_limits.TRACED_OPERATIONS:
        size = cost_of_code(program.closed_jaxpr.jaxpr)
        if size > size_limits.TRACED_OPERATIONS:
            raise TooManyOperations(f"{size:.0f} operations")
    region, inputs = _inputs(program, examples, wrt or (), pattern)
    try:
        region.outputs = program.emit(ProgramBackend(region, wrt is not None), inputs)
    except UnsupportedScalarOperation as needed:
        raise UnsupportedNativeOperation(str(needed)) from None
    return small(region)


def _inputs(
    program: TracedFunction, examples: Sequence[Any], wrt: Collection[int], pattern: NumberPattern
) -> tuple[Program, list[Any]]:
    """An empty program, and its inputs: arrays in memory where they are only read, a scalar for each element of others.

    Arrays of the same example are in the same memory, so that they are read relative to the first one.
    """
    layout, reads = Layout(examples), read_only(program.closed_jaxpr.jaxpr)
    types = [
        [ArrayType(size)] if is_read and k not in wrt else [leaf.dtype] * size
        for k, (leaf, size, is_read) in enumerate(zip(layout.leaves, layout.sizes, reads, strict=True))
    ]
    region = Program([dtype for of_leaf in types for dtype in of_leaf])
    variables, leaves, inputs = iter(region.inputs), iter(zip(layout.leaves, layout.sizes, types, strict=True)), []
    for number, example in enumerate(examples):
        base: tuple[Variable, int] | None = None
        slot = 0
        for leaf, size, of_leaf in itertools.islice(leaves, len(jax.tree.leaves(example))):
            own: list[Any] = list(itertools.islice(variables, len(of_leaf)))
            if of_leaf == [ArrayType(size)]:
                base = base or (own[0], slot)
                own = [ArrayView.at(base[0], np.int64(slot - base[1]), leaf.shape, leaf.dtype)]
            elif number == 0:
                own = pattern.replace(own, slot)
            inputs += own
            slot += size
    return region, inputs


def small(region: Program) -> Program:
    """The same program; raises `UnsupportedNativeOperation` if it is too large to be compiled."""
    if region.size > size_limits.MACHINE_CODE:
        raise TooManyOperations(f"{region.size} operations")
    return region
