"""Recorded programs carried out again, as part of others that need what happens on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from polhode.compiler.autodiff.partials import NO_DERIVATIVE
from polhode.compiler.scalars.backend import AbstractScalarBackend, Kind, Values
from polhode.compiler.scalars.graph import Graph, is_known
from polhode.compiler.scalars.program import Operation, Program, ProgramBackend, Variable

FLOAT = np.dtype(np.float64)

Elements = list[Any]


class PrimalReplay:
    """The variables of a recorded program in another one under construction.

    **Arguments:**

    - `emission`: the program under construction.
    - `around`: the scope of what surrounds it, if it is a loop, a branch or a part.
    - `graph`: of the surrounding scope, for a part that is carried out there; a new one by default.
    """

    def __init__(self, backend: ProgramBackend, outer: PrimalReplay | None = None, graph: Graph | None = None) -> None:
        self.backend, self.outer = backend, outer
        self.graph = Graph(backend) if graph is None else graph
        self.elements: dict[Variable, Any] = {}
        self._row_carries: dict[Operation, list[Elements]] = {}

    def subreplay(self) -> PrimalReplay:
        """A scope for other programs that are carried out here."""
        return PrimalReplay(self.backend, self, self.graph)

    def in_loop(self, loop: PrimalReplay) -> PrimalReplay:
        """A scope in the program of a loop for what has been carried out here, around it."""
        return PrimalReplay(loop.backend, self, loop.graph)

    def for_body(self, backend: AbstractScalarBackend) -> PrimalReplay:
        """A scope for a loop or a branch."""
        assert isinstance(backend, ProgramBackend)
        return PrimalReplay(backend, self)

    def read(self, x: Any) -> Any:
        """The element that a variable is here."""
        if not isinstance(x, Variable):
            return x
        element = self.elements.get(x)
        if element is None:
            assert self.outer is not None
            element = self.outer.read(x)
            if self.outer.graph is not self.graph:
                element = self.adopt(self.outer.values([element]))[0]
            self.elements[x] = element
        return element

    def row_carries(self, operation: Operation) -> list[Elements]:
        """The carry with which each of some rows began, where that was kept."""
        carries = self._row_carries.get(operation)
        if carries is None:
            assert self.outer is not None
            carries = self.outer.row_carries(operation)
            if self.outer.graph is not self.graph:
                carries = [self.adopt(self.outer.values(row)) for row in carries]
            self._row_carries[operation] = carries
        return carries

    def values(self, elements: Iterable[Any]) -> Values:
        """Elements as scalars of the program under construction, ready for what is inside."""
        return self.graph.emit(list(elements))

    def floats(self, elements: Iterable[Any]) -> Values:
        """The same as floats; zeros for None."""
        return [self.backend.scalar(x, FLOAT) for x in self.values(zeros_for_none(elements))]

    def with_dtypes(self, elements: Iterable[Any], like: Sequence[Any]) -> Values:
        """The same with the types of these variables."""
        return [self.backend.scalar(x, v.dtype) for x, v in zip(self.values(elements), like, strict=True)]

    def adopt(self, values: Iterable[Any]) -> Elements:
        """Elements from scalars of this program or one around it."""
        return [x if is_known(x) else self.graph.leaf(x) for x in values]

    def evaluate(self, program: Program, inputs: Iterable[Any], active: frozenset[Variable] = frozenset()) -> Elements:
        """The outputs of a program; what it carries through rows is kept where that is `active`."""
        self.elements.update(zip(program.inputs, inputs, strict=True))
        for operation in program.operations:
            self.elements.update(zip(operation.results, self._apply(operation, active), strict=True))
        return [self.read(x) for x in program.outputs]

    def _apply(self, operation: Operation, active: frozenset[Variable]) -> Elements:
        name = operation.name
        if name == "while":
            return self._while(operation)
        if name == "cond":
            return self._cond(operation)
        if name == "rows":
            return self._rows(operation, not active.isdisjoint(operation.results))
        operands = [self.read(x) for x in operation.operands]
        if name in ("solution", "ruled"):
            return operands[: len(operation.results)]
        (result,) = operation.results
        return [self.graph.operation(Kind(name, operation.params), result.dtype, operands)]

    def _while(self, operation: Operation) -> Elements:
        cond, body = operation.params["cond"], operation.params["body"]

        def run_part(inside: AbstractScalarBackend, program: Program, flat: Values) -> Values:
            inner = self.for_body(inside)
            return inner.with_dtypes(inner.evaluate(program, inner.adopt(flat)), program.outputs)

        start = self.with_dtypes(map(self.read, operation.operands), operation.results)
        return self.adopt(
            self.backend.loop(
                lambda e, flat: run_part(e, cond, flat)[0], lambda e, flat: run_part(e, body, flat), start
            )
        )

    def _cond(self, operation: Operation) -> Elements:
        def run_branch(inside: AbstractScalarBackend, branch: Program) -> Values:
            inner = self.for_body(inside)
            return inner.with_dtypes(inner.evaluate(branch, []), operation.results)

        branches = [lambda e, b=b: run_branch(e, b) for b in operation.params["branches"]]
        return self.adopt(self.backend.branch(self.which(operation), branches))

    def which(self, operation: Operation) -> Any:
        """The number of the branch that is taken."""
        return self.with_dtypes([self.read(operation.operands[0])], operation.operands)[0]

    def _rows(self, operation: Operation, saves: bool) -> Elements:
        """`saves`: whether what each row begins with is kept for the way back."""
        p, program = operation.params, operation.params["body"]
        n, length = p["carried"], p["length"]

        def row(inside: AbstractScalarBackend, carry: Values, given: Values) -> tuple[Values, Values]:
            inner = self.for_body(inside)
            outs = inner.with_dtypes(inner.evaluate(program, inner.adopt([*carry, *given])), program.outputs)
            return outs[:n], [*outs[n:], *(carry if saves else ())]

        start = self.with_dtypes(map(self.read, operation.operands[:n]), program.inputs[:n])
        carry, outputs = self.backend.rows(row, start, self.row_inputs(operation), p["reverse"])
        width = len(program.outputs) - n
        if saves:
            self._row_carries[operation] = [self.adopt(values[width:]) for values in outputs]
        return self.adopt([*carry, *(x for k in range(length) for x in outputs[k][:width])])

    def row_inputs(self, operation: Operation) -> list[Values]:
        """The operands of a loop over rows, row by row."""
        p = operation.params
        n, of_row = p["carried"], p["body"].inputs[p["carried"] :]
        width, elements = len(of_row), [self.read(x) for x in operation.operands[n:]]
        return [self.with_dtypes(elements[k * width : (k + 1) * width], of_row) for k in range(p["length"])]


_ZERO = np.float64(0.0)


def zeros_for_none(elements: Iterable[Any]) -> Elements:
    """Elements with zeros for None."""
    return [_ZERO if x is None else x for x in elements]


def active_variables(program: Program, seeds: Iterable[Variable]) -> frozenset[Variable]:
    """All variables, those of loops and branches included, with a derivative with respect to these."""
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
    """Marks what active values are passed to as active."""
    _mark((b for a, b in zip(source, to, strict=True) if _is_any_active([a], active)), active)


def _mark_while(operation: Operation, active: set[Variable]) -> None:
    body = operation.params["body"]
    _propagate(operation.operands, body.inputs, active)
    _iterate_carry(body, len(body.inputs), active)
    _propagate(operation.operands, operation.results, active)
    _propagate(body.outputs, operation.results, active)


def _iterate_carry(body: Program, n_carry: int, active: set[Variable]) -> None:
    """Until what is carried from one round to the next changes nothing."""
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
