"""Procedures of programs on scalars as functions of the module, whose arguments and results lie in the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from polhode.compiler.llvm.types import type_of

if TYPE_CHECKING:
    from polhode.compiler.llvm.builder import Builder
    from polhode.compiler.scalars.program import Operation, Program, Variable


class Procedure(NamedTuple):
    """A function of the module.

    - `name`: its name. - `captures`: variables of the surrounding program that it reads. - `arguments`, `results`:
      where its variables lie in the workspace.
    """

    name: str
    captures: list[Variable]
    arguments: int
    results: int


def call(w: Builder, operation: Operation, x: list[str], mask: Any = None) -> list[str]:
    """A call. `mask`: that of the active lanes, which the function takes as another argument."""
    body = operation.params["body"]
    lanes = [] if mask is None or mask.mask is None else [("i1", mask.mask)]
    procedure = w.procedures.get(body)
    if procedure is None:
        procedure = w.procedures[body] = _write(w, body, mask if lanes else None)
    values = [*x, *(w.operand(v) for v in procedure.captures)]
    variables = [*body.inputs, *procedure.captures]
    arguments, results = w.slots(procedure.arguments), w.slots(procedure.results)
    for n, (kind, value) in enumerate((*zip(map(type_of, variables), values, strict=True), *lanes)):
        w.put(arguments, n, kind, value)
    w.lines.append(f"call void @{procedure.name}(ptr %workspace)")
    return [w.get(results, n, type_of(v)) for n, v in enumerate(body.outputs)]


def _write(outer: Builder, body: Program, mask: Any) -> Procedure:
    """Writes the function."""
    own = set(body.inputs)
    captures = [v for v in body.free_variables if v not in own]
    variables, name = [*body.inputs, *captures], f"procedure{len(outer.procedures)}"
    # Its name is taken before those of functions that it calls.
    w = outer.procedure()
    arguments, results = w.reserve(len(variables) + 1), w.reserve(len(body.outputs))
    source, target = w.slots(arguments), w.slots(results)
    values = [w.get(source, n, type_of(v)) for n, v in enumerate(variables)]
    for v, value in zip(captures, values[len(body.inputs) :], strict=True):
        w.name(v, value)
    if mask is not None:
        before, mask.mask = mask.mask, w.get(source, len(variables), "i1")
    outs = w.program(body, values[: len(body.inputs)])
    if mask is not None:
        mask.mask = before
    for n, (v, value) in enumerate(zip(body.outputs, outs, strict=True)):
        w.put(target, n, type_of(v), value)
    outer.workspace = w.workspace
    outer.module_lines += [f"define internal void @{name}(ptr %workspace) noinline {{", "entry:", *w.lines, "ret void", "}"]
    return Procedure(name, captures, arguments, results)
