"""Functions of trees of arrays as programs on scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.extend import core

from polhode._scalar.cost import cost
from polhode._scalar.program import Program
from polhode._scalar.replay import NeedsArrays
from polhode._scalar.rows import in_scans
from polhode.execution.machine import missing
from polhode.execution.slots import Layout
from polhode.execution.writer import NotNative

LIMIT = 150_000
"""Operations, in loops counted once, above which a program stays with XLA: compiling takes some 50 µs for each."""

_WORTH_TRYING = 8
"""How far the count before simplification may exceed the limit: that of multibody systems falls to a quarter."""


def recorded(
    function: Callable[..., Any], *examples: Any, differentiates: bool = False
) -> tuple[core.ClosedJaxpr, Any]:
    """A function as a program of all elements of its arguments, and the shapes of what it returns.

    `differentiates`: whether it takes derivatives by itself. Raises `NotNative` if it is too large or closes over what
    JAX traces.
    """
    if missing():
        raise NotNative("no compiler")
    with in_scans(differentiates):
        program = Program(function, *examples, scans=True)
    if program.cost > _WORTH_TRYING * LIMIT:
        raise NotNative(f"{program.cost:.0f} operations")
    try:
        closed = jax.make_jaxpr(lambda *flat: program(flat))(*Layout(examples).scalars)
    except NeedsArrays as needed:
        raise NotNative(str(needed)) from None
    left = cost(closed.jaxpr, scans=True)
    if left > LIMIT:
        raise NotNative(f"{left:.0f} operations")
    return closed, program.out_shape
