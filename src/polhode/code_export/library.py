"""A file in C with the functions of an exported step, and its header."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.header import header_of
from polhode.code_export.interface import Interface
from polhode.code_export.source import HASH, Source
from polhode.compiler.c.array_printer import CFunction, print_function
from polhode.compiler.loops.loop_code import AbstractLoopCode
from polhode.simulation.loops import native


class Library(NamedTuple):
    """A file in C and its header.

    - `digest`: of the source, in hexadecimal digits. - `interface`: what is in the header.
    """

    source: str
    header: str
    digest: str
    interface: Interface


def library_of(step: ExportedStep, name: str, problem: str) -> Library:
    """The library of a step, whose functions and types begin with a name.

    Raises `UnsupportedNativeOperation` for operations that C has not.
    """

    def printer(what: str) -> Callable[[AbstractLoopCode, Any], CFunction]:
        return lambda code, function: print_function(function, f"{name}_{what}", is_static=True)

    blocks = step.steps.build(printer("block"), native.pattern_of((step.numbers,)))
    calls = {"initial": step.initial, "observe": step.observe, "restart": step.restart, "change": step.leaves}
    calls |= step.derivatives
    functions = {key: call.build(printer(key)) for key, call in calls.items() if call is not None}
    interface = Interface.of(step, name, problem)
    source = Source(interface, step, blocks, functions)
    text = source.text()
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    header = header_of(interface, step, stack=source.stack, operations=blocks.operations, digest=digest)
    return Library(text.replace(HASH, digest.upper()), header, digest, interface)
