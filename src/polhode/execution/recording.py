"""Functions of trees of arrays as programs on scalars."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
from jax.core import Tracer

from polhode.execution import limits
from polhode.execution.derivatives.adjoint import adjoint
from polhode.execution.derivatives.tangent import tangent
from polhode.execution.literals import NotNative
from polhode.execution.machine import missing
from polhode.execution.scalars.emission import NeedsArrays
from polhode.execution.scalars.program import Program
from polhode.execution.scalars.regions import Recording, Region
from polhode.execution.settling import MACHINE_CODE, RECORD_TO_DERIVE
from polhode.execution.slots import Layout


def traced(function: Callable[..., Any], *examples: Any, derived: bool = False) -> Program:
    """A function, traced to become machine code.

    `derived`: whether derivatives are going to be taken of it. Raises `NotNative` if there is no compiler, or if the
    function closes over what JAX traces.
    """
    if missing():
        raise NotNative("no compiler")
    program = Program(function, *examples, target=RECORD_TO_DERIVE if derived else MACHINE_CODE)
    if any(isinstance(c, Tracer) for c in program.closed.consts):
        raise NotNative("what JAX traces")
    return program


def recorded(function: Callable[..., Any], *examples: Any, derived: bool = False) -> tuple[Region, Any]:
    """A function as a program of all elements of its arguments, and the shapes of what it returns.

    As `traced`; raises `NotNative` also if the program is too large.
    """
    program = traced(function, *examples, derived=derived)
    return on_scalars(program, *examples, derived=derived), program.out_shape


def on_scalars(program: Program, *examples: Any, derived: bool = False) -> Region:
    """A traced function as a program of all elements of its arguments. Raises `NotNative` if that can't be."""
    if program.cost > limits.WORTH_TRYING * limits.MACHINE_CODE:
        raise NotNative(f"{program.cost:.0f} operations")
    region = Region([s.dtype for s in Layout(examples).scalars])
    try:
        region.outputs = program.carried_out(Recording(region, derived), region.inputs)
    except NeedsArrays as needed:
        raise NotNative(str(needed)) from None
    return _small(region)


def transposed(function: Callable[..., Any], of: Callable[..., Any], *examples: Any) -> tuple[Region, Any]:
    """The transposed derivative of a function that returns floats, as a program, and the shapes of what it returns.

    It takes the elements of the arguments and then those of the derivative with respect to the function's result.
    `of` picks from a tree like each of the arguments what the derivative is wanted with respect to, all floats.
    """
    region, _, wanted, numbers = _to_derive(function, of, examples)
    return _derived(adjoint, region, numbers), wanted


def pushed(function: Callable[..., Any], of: Callable[..., Any], *examples: Any) -> tuple[Region, Any, Any]:
    """The derivative of such a function along directions, as a program, and the shapes of these and of what it returns.

    It takes the elements of the arguments and then those of the directions.
    """
    region, shape, wanted, numbers = _to_derive(function, of, examples)
    return _derived(tangent, region, numbers), wanted, shape


def _to_derive(function: Callable[..., Any], of: Callable[..., Any], examples: Any) -> tuple[Region, Any, Any, Any]:
    """The program, shapes of its result and of what is picked, and which of the program's inputs that is."""
    region, shape = recorded(function, *examples, derived=True)
    layout = Layout(examples)
    picked = of(*jax.tree.unflatten(layout.structure, range(len(layout.leaves))))
    ends = list(itertools.accumulate(layout.sizes))
    numbers = [n for k in jax.tree.leaves(picked) for n in range(ends[k] - layout.sizes[k], ends[k])]
    return region, shape, jax.tree.map(lambda k: layout.leaves[k], picked), numbers


def _derived(derive: Callable[[Region, list[int]], Region], region: Region, numbers: list[int]) -> Region:
    try:
        return _small(derive(region, numbers))
    except NeedsArrays as needed:
        raise NotNative(str(needed)) from None


def _small(region: Region) -> Region:
    if region.size > limits.MACHINE_CODE:
        raise NotNative(f"{region.size} operations")
    return region
