"""Evaluates a scalar program inside the program of its derivative, which needs intermediate values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from polhode.compiler.autodiff.partials import FLOAT
from polhode.compiler.scalars.backend import AbstractScalarBackend, Kind, Values
from polhode.compiler.scalars.graph import Graph, is_known
from polhode.compiler.scalars.program import ConstantArray, Operation, Program, ProgramBackend, Variable

Elements = list[Any]


class PrimalReplay:
    """The values of a program's variables in another program under construction.

    **Arguments:**

    - `backend`: the program under construction.
    - `outer`: the replay that surrounds a loop body, a branch or a subreplay.
    - `graph`: that of the outer replay, for a subreplay; a new one by default.
    """

    def __init__(self, backend: ProgramBackend, outer: PrimalReplay | None = None, graph: Graph | None = None) -> None:
        self.backend, self.outer = backend, outer
        self.graph = Graph(backend) if graph is None else graph
        self.elements: dict[Variable, Any] = {}
        self._row_carries: dict[Operation, list[Elements]] = {}

    def subreplay(self) -> PrimalReplay:
        """A replay of another program at the same place."""
        return PrimalReplay(self.backend, self, self.graph)

    def in_loop(self, loop: PrimalReplay) -> PrimalReplay:
        """A view of this replay from the body of a loop inside it."""
        return PrimalReplay(loop.backend, self, loop.graph)

    def for_body(self, backend: AbstractScalarBackend) -> PrimalReplay:
        """A replay for the body of a loop or a branch."""
        assert isinstance(backend, ProgramBackend)
        return PrimalReplay(backend, self)

    def read(self, x: Any) -> Any:
        """The element of a variable."""
        if not isinstance(x, Variable):
            return x
        element = self.graph.leaf(x) if isinstance(x, ConstantArray) else self.elements.get(x)
        if element is None:
            assert self.outer is not None
            element = self.outer.read(x)
            if self.outer.graph is not self.graph:
                element = self.adopt(self.outer.values([element]))[0]
            self.elements[x] = element
        return element

    def row_carries(self, operation: Operation) -> list[Elements]:
        """The saved carry at the start of each row."""
        carries = self._row_carries.get(operation)
        if carries is None:
            assert self.outer is not None
            carries = self.outer.row_carries(operation)
            if self.outer.graph is not self.graph:
                carries = [self.adopt(self.outer.values(row)) for row in carries]
            self._row_carries[operation] = carries
        return carries

    def values(self, elements: Iterable[Any]) -> Values:
        """Elements as scalars of the program under construction, which bodies inside it can read."""
        return self.graph.emit(list(elements))

    def floats(self, elements: Iterable[Any]) -> Values:
        """The same as floats; zeros for None."""
        return [self.backend.scalar(x, FLOAT) for x in self.values(zeros_for_none(elements))]

    def with_dtypes(self, elements: Iterable[Any], like: Sequence[Any]) -> Values:
        """The same with the types of these variables."""
        return [self.backend.scalar(x, v.dtype) for x, v in zip(self.values(elements), like, strict=True)]

    def adopt(self, values: Iterable[Any]) -> Elements:
        """Elements from scalars of this program or an outer one."""
        return [x if is_known(x) else self.graph.leaf(x) for x in values]

    def evaluate(self, program: Program, inputs: Iterable[Any], active: frozenset[Variable] = frozenset()) -> Elements:
        """The outputs of a program. Loops over rows with `active` results save the carry of each row."""
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

        def run_part(backend: AbstractScalarBackend, program: Program, flat: Values) -> Values:
            inner = self.for_body(backend)
            return inner.with_dtypes(inner.evaluate(program, inner.adopt(flat)), program.outputs)

        start = self.with_dtypes(map(self.read, operation.operands), operation.results)
        return self.adopt(
            self.backend.loop(
                lambda e, flat: run_part(e, cond, flat)[0], lambda e, flat: run_part(e, body, flat), start
            )
        )

    def _cond(self, operation: Operation) -> Elements:
        def run_branch(backend: AbstractScalarBackend, branch: Program) -> Values:
            inner = self.for_body(backend)
            return inner.with_dtypes(inner.evaluate(branch, []), operation.results)

        branches = [lambda e, b=b: run_branch(e, b) for b in operation.params["branches"]]
        return self.adopt(self.backend.branch(self.which(operation), branches))

    def which(self, operation: Operation) -> Any:
        """The index of the branch."""
        return self.with_dtypes([self.read(operation.operands[0])], operation.operands)[0]

    def _rows(self, operation: Operation, saves: bool) -> Elements:
        """`saves`: whether the carry of each row is saved for the reverse sweep."""
        p, program = operation.params, operation.params["body"]
        n, length = p["carried"], p["length"]

        def row(backend: AbstractScalarBackend, carry: Values, values: Values) -> tuple[Values, Values]:
            inner = self.for_body(backend)
            outs = inner.with_dtypes(inner.evaluate(program, inner.adopt([*carry, *values])), program.outputs)
            return outs[:n], [*outs[n:], *(carry if saves else ())]

        start = self.with_dtypes(map(self.read, operation.operands[:n]), program.inputs[:n])
        carry, outputs = self.backend.rows(row, start, self.row_inputs(operation), p["reverse"])
        width = len(program.outputs) - n
        if saves:
            self._row_carries[operation] = [self.adopt(row_values[width:]) for row_values in outputs]
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
