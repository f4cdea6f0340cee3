"""Functions of trees of arrays as programs on scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax.core import Tracer

from polhode._scalar.emission import NeedsArrays
from polhode._scalar.program import Program
from polhode._scalar.regions import Recording, Region
from polhode._scalar.rows import in_scans
from polhode.execution.machine import missing
from polhode.execution.slots import Layout
from polhode.execution.writer import NotNative

LIMIT = 150_000
"""Operations, in loops counted once, above which a program stays with XLA: compiling takes some 50 µs for each."""

_WORTH_TRYING = 8
"""How far the count before simplification may exceed the limit: that of multibody systems falls to a quarter."""


def traced(function: Callable[..., Any], *examples: Any, differentiates: bool = False) -> Program:
    """A function, traced to become machine code.

    `differentiates`: whether it takes derivatives by itself. Raises `NotNative` if there is no compiler, or if the
    function closes over what JAX traces.
    """
    if missing():
        raise NotNative("no compiler")
    with in_scans(differentiates):
        program = Program(function, *examples, scans=True)
    if any(isinstance(c, Tracer) for c in program.closed.consts):
        raise NotNative("what JAX traces")
    return program


def recorded(function: Callable[..., Any], *examples: Any, differentiates: bool = False) -> tuple[Region, Any]:
    """A function as a program of all elements of its arguments, and the shapes of what it returns.

    As `traced`; raises `NotNative` also if the program is too large.
    """
    program = traced(function, *examples, differentiates=differentiates)
    return on_scalars(program, *examples), program.out_shape


def on_scalars(program: Program, *examples: Any) -> Region:
    """What was traced as a program of all elements of its arguments. Raises `NotNative` if that can't be."""
    if program.cost > _WORTH_TRYING * LIMIT:
        raise NotNative(f"{program.cost:.0f} operations")
    region = Region([s.dtype for s in Layout(examples).scalars])
    try:
        region.outputs = program.carried_out(Recording(region), region.inputs)
    except NeedsArrays as needed:
        raise NotNative(str(needed)) from None
    if region.size > LIMIT:
        raise NotNative(f"{region.size} operations")
    return region
