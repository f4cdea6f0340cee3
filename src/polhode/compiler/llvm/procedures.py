"""Procedures of programs on scalars as functions of the module, whose arguments and results lie in the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from polhode.compiler.llvm.types import type_of
from polhode.compiler.scalars.program import ArrayType

if TYPE_CHECKING:
    from polhode.compiler.llvm.builder import Builder
    from polhode.compiler.scalars.program import Operation, Program, Variable


class Procedure(NamedTuple):
    """A function of the module.

    - `name`: its name. - `arrays`, `captures`: arrays in memory and variables of the surrounding program that it
      reads. - `captured`, `arguments`, `results`: where the latter and its own lie in the workspace.
    """

    name: str
    arrays: list[Variable]
    captures: list[Variable]
    captured: int
    arguments: int
    results: int


def call(w: Builder, operation: Operation, x: list[str], mask: Any = None) -> list[str]:
    """A call. `mask`: that of the active lanes, which the function takes as another argument."""
    body = operation.params["body"]
    lanes = [] if mask is None or mask.mask is None else [("i1", mask.mask)]
    procedure = w.procedures.get(body)
    if procedure is None:
        procedure = w.procedures[body] = _write(w, body, mask if lanes else None)
        # All calls are in this program, after the first one.
        captures = w.slots(procedure.captured)
        for n, v in enumerate(procedure.captures):
            w.put(captures, n, type_of(v), w.operand(v))
    arguments, results = w.slots(procedure.arguments), w.slots(procedure.results)
    for n, (kind, value) in enumerate((*zip(map(type_of, body.inputs), x, strict=True), *lanes)):
        w.put(arguments, n, kind, value)
    pointers = ("%workspace", "%tables", *map(w.operand, procedure.arrays))
    w.lines.append(f"call void @{procedure.name}({', '.join(f'ptr {x}' for x in pointers)})")
    return [w.get(results, n, type_of(v)) for n, v in enumerate(body.outputs)]


def _write(outer: Builder, body: Program, mask: Any) -> Procedure:
    """Writes the function."""
    w, outside = outer.procedure(), body.free_variables
    arrays = [v for v in outside if isinstance(v.dtype, ArrayType)]
    captures = [v for v in outside if v not in arrays]
    for n, v in enumerate(arrays):
        w.name(v, f"%array{n}")
    places = [w.reserve(n) for n in (len(captures), len(body.inputs) + 1, len(body.outputs))]
    captured, arguments, results = map(w.slots, places)
    unread = {v: (captured, n) for n, v in enumerate(captures)}
    unread.update((v, (arguments, n)) for n, v in enumerate(body.inputs))
    before = None if mask is None else mask.mask
    if mask is not None:
        mask.mask = w.get(arguments, len(body.inputs), "i1")
    for operation in body.operations:
        # Where they are first used: from the start on, there wouldn't be registers for all of them.
        for v in operation.reads:
            if v in unread:
                w.name(v, w.get(*unread.pop(v), type_of(v)))
        w.operation(operation)
    if mask is not None:
        mask.mask = before
    for n, v in enumerate(body.outputs):
        w.put(results, n, type_of(v), w.operand(v))
    outer.workspace = w.workspace
    # The functions that this one calls have their names by now.
    name = f"procedure{len(outer.procedures)}"
    pointers = ("%workspace", "%tables", *map(w.operand, arrays))
    head = f"define internal void @{name}({', '.join(f'ptr {x}' for x in pointers)}) noinline {{", "entry:"
    outer.module_lines += [*head, *w.lines, "ret void", "}"]
    return Procedure(name, arrays, captures, *places)
