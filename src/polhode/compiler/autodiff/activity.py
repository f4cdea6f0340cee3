"""Activity analysis: the variables of a program that depend on others by operations with derivatives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from polhode.compiler.autodiff.partials import FLOAT, NO_DERIVATIVE
from polhode.compiler.scalars.program import Operation, Program, Variable


def active_variables(program: Program, seeds: Iterable[Variable]) -> frozenset[Variable]:
    """All variables, those of loops and branches included, with a derivative with respect to `seeds`."""
    active = set(seeds)
    _mark_program(program, active)
    return frozenset(active)


def _mark_program(program: Program, active: set[Variable]) -> None:
    for operation in program.operations:
        rule = _RULES.get(operation.name)
        if rule is not None:
            rule(operation, active)
        elif operation.name not in NO_DERIVATIVE and _is_any_active(operation.operands, active):
            _mark(operation.results, active)


def _is_any_active(values: Iterable[Any], active: set[Variable]) -> bool:
    return any(isinstance(x, Variable) and x in active for x in values)


def _mark(variables: Iterable[Variable], active: set[Variable]) -> None:
    active.update(v for v in variables if v.dtype == FLOAT)


def _propagate(source: Iterable[Any], to: Iterable[Any], active: set[Variable]) -> None:
    """Marks the targets of active values as active."""
    _mark((b for a, b in zip(source, to, strict=True) if _is_any_active([a], active)), active)


def _mark_while(operation: Operation, active: set[Variable]) -> None:
    body = operation.params["body"]
    _propagate(operation.operands, body.inputs, active)
    _iterate_carry(body, len(body.inputs), active)
    _propagate(operation.operands, operation.results, active)
    _propagate(body.outputs, operation.results, active)


def _iterate_carry(body: Program, n_carry: int, active: set[Variable]) -> None:
    """Fixed point of the carry's activity."""
    before = -1
    while len(active) > before:
        before = len(active)
        _mark_program(body, active)
        _propagate(body.outputs[:n_carry], body.inputs[:n_carry], active)


def _mark_rows(operation: Operation, active: set[Variable]) -> None:
    p, body = operation.params, operation.params["body"]
    n, length = p["carried"], p["length"]
    n_inputs, n_outputs = len(body.inputs) - n, len(body.outputs) - n
    _propagate(operation.operands[:n], body.inputs[:n], active)
    _propagate(operation.operands[n:], body.inputs[n:] * length, active)
    assert len(operation.operands) == n + n_inputs * length
    _iterate_carry(body, n, active)
    _propagate(operation.operands[:n], operation.results[:n], active)
    _propagate(body.outputs[:n], operation.results[:n], active)
    _propagate(body.outputs[n:] * length, operation.results[n:], active)
    assert len(operation.results) == n + n_outputs * length


def _mark_cond(operation: Operation, active: set[Variable]) -> None:
    for branch in operation.params["branches"]:
        _mark_program(branch, active)
        _propagate(branch.outputs, operation.results, active)


def _mark_solution(operation: Operation, active: set[Variable]) -> None:
    if _is_any_active(operation.params["equation"].free_variables, active):
        _mark(operation.results, active)


def _mark_custom_jvp(operation: Operation, active: set[Variable]) -> None:
    if _is_any_active(operation.operands[len(operation.results) :], active):
        _mark(operation.results, active)


_RULES = {
    "while": _mark_while,
    "rows": _mark_rows,
    "cond": _mark_cond,
    "solution": _mark_solution,
    "ruled": _mark_custom_jvp,
}
