"""Transposed derivatives of recorded programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from polhode.compiler.autodiff.partials import Terms, partials
from polhode.compiler.autodiff.primal_replay import FLOAT, Elements, PrimalReplay, active_variables, zeros_for_none
from polhode.compiler.scalars.backend import AbstractScalarBackend, UnsupportedScalarOperation, Values
from polhode.compiler.scalars.graph import is_zero
from polhode.compiler.scalars.iterative_refinement import solve_by_refinement
from polhode.compiler.scalars.program import Operation, Program, ProgramBackend, Variable


def adjoint(region: Program, inputs: Sequence[int]) -> Program:
    """From all inputs and derivatives with respect to the outputs, which are floats, to those with respect to `inputs`.

    It carries the program out, and goes back through its operations. Solutions have the derivative of their equations,
    by the transposed ones; loops of unknown length have none. Raises `UnsupportedScalarOperation` for what can't be derived.
    """
    made = Program([*(x.dtype for x in region.inputs), *(FLOAT for _ in region.outputs)])
    scope = PrimalReplay(ProgramBackend(made))
    given = scope.adopt(made.inputs)
    n = len(region.inputs)
    active = active_variables(region, (region.inputs[k] for k in inputs))
    scope.evaluate(region, given[:n], active)
    found = _AdjointSweep(scope, active).propagate(region, given[n:], (region.inputs[k] for k in inputs))
    made.outputs = scope.floats(found)
    made.prune()
    return made


class _AdjointSweep:
    """One way back through a program.

    **Arguments:**

    - `scope`: where derivatives are computed; it knows, or what is around it, the values of the program's variables.
    - `active`: the variables with a derivative.
    """

    def __init__(self, scope: PrimalReplay, active: frozenset[Variable]) -> None:
        self._primal, self._active = scope, active
        self._f = Terms(scope.graph)
        self._cotangents: dict[Variable, Any] = {}

    def propagate(self, region: Program, given: Iterable[Any], wanted: Iterable[Variable]) -> Elements:
        """From derivatives with respect to the outputs to those with respect to variables; None where there is none."""
        for x, element in zip(region.outputs, given, strict=True):
            self._add(x, element)
        for operation in reversed(region.operations):
            of_results = [self._cotangents.pop(v, None) for v in operation.results]
            if any(c is not None for c in of_results):
                _RULES.get(operation.name, _AdjointSweep._elementwise)(self, operation, of_results)
        return [self._cotangents.get(v) for v in wanted]

    def _add(self, x: Any, element: Any) -> None:
        if element is None or not isinstance(x, Variable) or x not in self._active or is_zero(element):
            return
        before = self._cotangents.get(x)
        self._cotangents[x] = element if before is None else self._f("add", before, element)

    def _add_all(self, variables: Iterable[Any], elements: Iterable[Any]) -> None:
        for x, element in zip(variables, elements, strict=True):
            self._add(x, element)

    def _elementwise(self, operation: Operation, of_results: Elements) -> None:
        (c,), (result,) = of_results, operation.results
        operands = [self._primal.read(x) for x in operation.operands]
        y = self._primal.read(result)
        factors = partials(self._f, operation.name, operands, y, operation.params)
        for x, factor in zip(operation.operands, factors, strict=True):
            if factor is not None and isinstance(x, Variable) and x in self._active:
                self._add(x, self._f.times(c, factor))

    def _select(self, operation: Operation, of_results: Elements) -> None:
        which, *cases = operation.operands
        (c,), chosen = of_results, self._primal.read(which)
        for k, x in enumerate(cases):
            if which.dtype == bool:
                self._add(x, self._f.where(chosen, c, 0.0) if k else self._f.where(chosen, 0.0, c))
            else:
                self._add(x, self._f.where(self._f.test("eq", chosen, which.dtype.type(k)), c, 0.0))

    def _while(self, operation: Operation, of_results: Elements) -> None:
        raise UnsupportedScalarOperation("the derivative of a loop of unknown length")

    def _cond(self, operation: Operation, of_results: Elements) -> None:
        branches = operation.params["branches"]
        targets = self._active_captures(*branches)

        def run(inside: AbstractScalarBackend, branch: Program) -> Values:
            scope = self._primal.for_body(inside)
            scope.evaluate(branch, [], self._active)
            given = _adopt_from(scope, self._primal, of_results)
            return scope.floats(_AdjointSweep(scope, self._active).propagate(branch, given, targets))

        if targets:
            which = self._primal.which(operation)
            made = self._primal.backend.branch(which, [lambda e, b=b: run(e, b) for b in branches])
            self._add_all(targets, self._primal.adopt(made))

    def _rows(self, operation: Operation, of_results: Elements) -> None:
        """Back through rows: each is carried out again from what it began with."""
        p, body, scope = operation.params, operation.params["body"], self._primal
        n, length, width, made = p["carried"], p["length"], len(body.inputs), len(body.outputs)
        begun, going = body.inputs[:n], [v for v in body.inputs[:n] if v in self._active]
        of_row = [v for v in body.inputs[n:] if v in self._active]
        targets = self._active_captures(body)
        told = [of_results[n + k * (made - n) : n + (k + 1) * (made - n)] for k in range(length)]
        columns = [j for j in range(made - n) if any(row[j] is not None for row in told)]
        begins = scope.row_carries(operation) if n else [[]] * length
        given = scope.row_inputs(operation)
        rows = [
            [*scope.with_dtypes(begins[k], begun), *given[k], *scope.floats(told[k][j] for j in columns)]
            for k in range(length)
        ]

        def row(inside: AbstractScalarBackend, carried: Values, values: Values) -> tuple[Values, Values]:
            inner = scope.for_body(inside)
            here, now = inner.adopt(values), inner.adopt(carried)
            inner.evaluate(body, here[:width], self._active)
            ends: Elements = [None] * made
            known = dict(zip(going, now, strict=False))
            ends[:n] = [known.get(v) for v in begun]
            for j, c in zip(columns, here[width:], strict=True):
                ends[n + j] = c
            found = _AdjointSweep(inner, self._active).propagate(body, ends, [*going, *targets, *of_row])
            sums = [*found[: len(going)]]
            for before, more in zip(now[len(going) :], found[len(going) : len(going) + len(targets)], strict=True):
                sums.append(before if more is None else Terms(inner.graph)("add", before, more))
            return inner.floats(sums), inner.floats(found[len(going) + len(targets) :])

        of_carried = dict(zip(begun, of_results[:n], strict=True))
        start = scope.floats([*(of_carried[v] for v in going), *(None for _ in targets)])
        carried, found = scope.backend.rows(row, start, rows, not p["reverse"])
        back = dict(zip(going, scope.adopt(carried), strict=False))
        self._add_all(operation.operands[:n], (back.get(v) for v in begun))
        self._add_all(targets, scope.adopt(carried[len(going) :]))
        for k in range(length):
            of_inputs = dict(zip(of_row, scope.adopt(found[k]), strict=True))
            at = n + k * (width - n)
            self._add_all(operation.operands[at : at + width - n], (of_inputs.get(v) for v in body.inputs[n:]))

    def _solution(self, operation: Operation, of_results: Elements) -> None:
        r"""With $F_x\dot x = -\dot F$: $F_x^T\lambda = \bar x$, and $-\lambda$ is the derivative with respect to F."""
        p, n = operation.params, operation.params["unknowns"]
        equation, targets = p["equation"], self._active_captures(p["equation"])
        unknowns, x = equation.inputs, [self._primal.read(v) for v in operation.operands[:n]]
        of_place = of_results[n:]
        none: Elements = [None] * (len(equation.outputs) - len(of_place))
        along, across = active_variables(equation, unknowns), active_variables(equation, targets)
        exact = self._primal.nested()
        exact.evaluate(equation, x, active_variables(equation, [*unknowns, *targets]))
        direct = _AdjointSweep(exact, along).propagate(equation, [*none, *of_place], unknowns)
        of_x = [_sum(self._f, a, b) for a, b in zip(of_results[:n], direct, strict=True)]
        solve = _transposed_solver(self._primal, exact, equation, along, p["precondition"], x)
        weights = [self._f("sub", 0.0, c) for c in solve(of_x)]
        found = _AdjointSweep(exact, across).propagate(equation, [*weights, *of_place], targets)
        self._add_all(targets, found)

    def _custom_jvp(self, operation: Operation, of_results: Elements) -> None:
        tangents, of = operation.params["tangents"], operation.operands[len(operation.results) :]
        linear, scope = active_variables(tangents, tangents.inputs), self._primal.nested()
        scope.evaluate(tangents, [np.float64(0.0) for _ in of], linear)
        self._add_all(of, _AdjointSweep(scope, linear).propagate(tangents, of_results, tangents.inputs))

    def _active_captures(self, *regions: Program) -> list[Variable]:
        """Captured variables of regions that have a derivative."""
        return [v for v in dict.fromkeys(v for region in regions for v in region.free_variables) if v in self._active]


def _transposed_solver(
    scope: PrimalReplay,
    exact: PrimalReplay,
    equation: Program,
    along: frozenset[Variable],
    precondition: Program,
    x: Elements,
) -> Callable[[Elements], Elements]:
    """Solutions of the transposed equations, linear in unknowns at x, by the transposed precondition."""
    unknowns, parts = equation.inputs, precondition.inputs[len(x) :]
    approximate, linear = scope.nested(), active_variables(precondition, parts)
    # Linear in what it is applied to, so that its derivative is the same everywhere.
    approximate.evaluate(precondition, [*x, *(np.float64(0.0) for _ in parts)], linear)

    def matvec(inner: PrimalReplay, y: Elements) -> Elements:
        none = [None] * (len(equation.outputs) - len(y))
        return _AdjointSweep(exact.in_loop(inner), along).propagate(equation, [*y, *none], unknowns)

    def inverse(inner: PrimalReplay, r: Elements) -> Elements:
        return _AdjointSweep(approximate.in_loop(inner), linear).propagate(precondition, r, parts)

    return lambda b: solve_by_refinement(scope, matvec, inverse, zeros_for_none(b))


def _adopt_from(scope: PrimalReplay, source: PrimalReplay, elements: Elements) -> Elements:
    """Elements of what is around."""
    there = [k for k, x in enumerate(elements) if x is not None]
    found = dict(zip(there, scope.adopt(source.values([elements[k] for k in there])), strict=True))
    return [found.get(k) for k in range(len(elements))]


def _sum(f: Terms, a: Any, b: Any) -> Any:
    return a if b is None else b if a is None else f("add", a, b)


_RULES: dict[str, Callable[[_AdjointSweep, Operation, Elements], None]] = {
    "select_n": _AdjointSweep._select,
    "while": _AdjointSweep._while,
    "cond": _AdjointSweep._cond,
    "rows": _AdjointSweep._rows,
    "solution": _AdjointSweep._solution,
    "ruled": _AdjointSweep._custom_jvp,
}
