"""Traces of functions of trees of arrays, and their programs on scalars."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from jax.core import Tracer

from polhode.compiler import size_limits
from polhode.compiler.llvm.jit import is_compiler_missing
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.primitives.lowering import MACHINE_CODE, Backend
from polhode.compiler.scalars.backend import UnsupportedScalarOperation
from polhode.compiler.scalars.look_up import looked_up
from polhode.compiler.scalars.program import ArrayType, Program, ProgramBackend
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


def on_scalars(program: TracedFunction, *examples: Any, wrt: Collection[int] | None = None) -> Program:
    """A traced function as a program of all elements of its arguments; arrays that it only reads stay whole.

    `wrt`: leaves with respect to which the program will be differentiated; None if it will not be. Raises `UnsupportedNativeOperation` where there is
    no such program.
    """
    if program.cost > size_limits.TRACED_OPERATIONS:
        raise UnsupportedNativeOperation(f"{program.cost:.0f} operations")
    region = Program(_types(program, Layout(examples), wrt or ()))
    try:
        region.outputs = program.emit(ProgramBackend(region, wrt is not None), region.inputs)
    except UnsupportedScalarOperation as needed:
        raise UnsupportedNativeOperation(str(needed)) from None
    return small(region)


def _types(program: TracedFunction, layout: Layout, wrt: Collection[int]) -> list[Any]:
    """Types of the inputs: an array in memory where that is read only, a scalar for each element of others."""
    reads = looked_up(program.closed_jaxpr.jaxpr)
    out: list[Any] = []
    for k, (leaf, size) in enumerate(zip(layout.leaves, layout.sizes, strict=True)):
        out += [ArrayType(leaf.dtype, size)] if reads[k] and k not in wrt else [leaf.dtype] * size
    return out


def small(region: Program) -> Program:
    """The same program; raises `UnsupportedNativeOperation` if it is too large to be compiled."""
    if region.size > size_limits.MACHINE_CODE:
        raise UnsupportedNativeOperation(f"{region.size} operations")
    return region
