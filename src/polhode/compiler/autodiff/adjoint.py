"""Reverse-mode derivatives of scalar programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from polhode.compiler.autodiff.activity import active_variables
from polhode.compiler.autodiff.partials import FLOAT, Terms, partials
from polhode.compiler.autodiff.primal_replay import Elements, PrimalReplay, zeros_for_none
from polhode.compiler.scalars.backend import AbstractScalarBackend, UnsupportedScalarOperation, Values
from polhode.compiler.scalars.graph import is_zero
from polhode.compiler.scalars.iterative_refinement import solve_by_refinement
from polhode.compiler.scalars.program import Operation, Program, ProgramBackend, Variable


def adjoint(program: Program, inputs: Sequence[int]) -> Program:
    """The vector-Jacobian product: from all inputs and the cotangents of the outputs to the cotangents of `inputs`.

    All outputs are floats. The program evaluates the primal, then propagates cotangents through its operations in
    reverse order. Implicit solutions are differentiated by their transposed equations; loops of unknown length have no
    derivative. Raises `UnsupportedScalarOperation` for what can't be differentiated.
    """
    result = Program([*(x.dtype for x in program.inputs), *(FLOAT for _ in program.outputs)])
    primal = PrimalReplay(ProgramBackend(result))
    elements = primal.adopt(result.inputs)
    n = len(program.inputs)
    active = active_variables(program, (program.inputs[k] for k in inputs))
    primal.evaluate(program, elements[:n], active)
    cotangents = _AdjointSweep(primal, active).propagate(program, elements[n:], (program.inputs[k] for k in inputs))
    result.outputs = primal.floats(cotangents)
    result.prune()
    return result


class _AdjointSweep:
    """A reverse sweep through a program.

    **Arguments:**

    - `primal`: where cotangents are computed; it or its outer replays have the values of the program's variables.
    - `active`: the variables with a derivative.
    """

    def __init__(self, primal: PrimalReplay, active: frozenset[Variable]) -> None:
        self._primal, self._active = primal, active
        self._f = Terms(primal.graph)
        self._cotangents: dict[Variable, Any] = {}

    def propagate(self, program: Program, cotangents: Iterable[Any], variables: Iterable[Variable]) -> Elements:
        """From cotangents of the outputs to those of variables; None where there is none."""
        for x, element in zip(program.outputs, cotangents, strict=True):
            self._add(x, element)
        for operation in reversed(program.operations):
            of_results = [self._cotangents.pop(v, None) for v in operation.results]
            if any(c is not None for c in of_results):
                _RULES.get(operation.name, _AdjointSweep._elementwise)(self, operation, of_results)
        return [self._cotangents.get(v) for v in variables]

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
        (c,), selector = of_results, self._primal.read(which)
        for k, x in enumerate(cases):
            if which.dtype == bool:
                self._add(x, self._f.where(selector, c, 0.0) if k else self._f.where(selector, 0.0, c))
            else:
                self._add(x, self._f.where(self._f.test("eq", selector, which.dtype.type(k)), c, 0.0))

    def _while(self, operation: Operation, of_results: Elements) -> None:
        raise UnsupportedScalarOperation("the derivative of a loop of unknown length")

    def _cond(self, operation: Operation, of_results: Elements) -> None:
        branches = operation.params["branches"]
        targets = self._active_captures(*branches)

        def run_branch(backend: AbstractScalarBackend, branch: Program) -> Values:
            primal = self._primal.for_body(backend)
            primal.evaluate(branch, [], self._active)
            cotangents = _adopt_from(primal, self._primal, of_results)
            return primal.floats(_AdjointSweep(primal, self._active).propagate(branch, cotangents, targets))

        if targets:
            which = self._primal.which(operation)
            results = self._primal.backend.branch(which, [lambda e, b=b: run_branch(e, b) for b in branches])
            self._add_all(targets, self._primal.adopt(results))

    def _rows(self, operation: Operation, of_results: Elements) -> None:
        """A reverse loop over rows; each is evaluated again from its saved carry."""
        p, body, primal = operation.params, operation.params["body"], self._primal
        n, length, width, n_outputs = p["carried"], p["length"], len(body.inputs), len(body.outputs)
        carry_inputs, active_carry = body.inputs[:n], [v for v in body.inputs[:n] if v in self._active]
        of_row = [v for v in body.inputs[n:] if v in self._active]
        targets = self._active_captures(body)
        of_rows = [of_results[n + k * (n_outputs - n) : n + (k + 1) * (n_outputs - n)] for k in range(length)]
        columns = [j for j in range(n_outputs - n) if any(row[j] is not None for row in of_rows)]
        row_carries = primal.row_carries(operation) if n else [[]] * length
        row_inputs = primal.row_inputs(operation)
        rows = [
            [
                *primal.with_dtypes(row_carries[k], carry_inputs),
                *row_inputs[k],
                *primal.floats(of_rows[k][j] for j in columns),
            ]
            for k in range(length)
        ]

        def row(backend: AbstractScalarBackend, carry: Values, values: Values) -> tuple[Values, Values]:
            body_primal = primal.for_body(backend)
            row_elements, carry_elements = body_primal.adopt(values), body_primal.adopt(carry)
            body_primal.evaluate(body, row_elements[:width], self._active)
            ends: Elements = [None] * n_outputs
            by_variable = dict(zip(active_carry, carry_elements, strict=False))
            ends[:n] = [by_variable.get(v) for v in carry_inputs]
            for j, c in zip(columns, row_elements[width:], strict=True):
                ends[n + j] = c
            cotangents = _AdjointSweep(body_primal, self._active).propagate(
                body, ends, [*active_carry, *targets, *of_row]
            )
            sums = [*cotangents[: len(active_carry)]]
            for before, more in zip(
                carry_elements[len(active_carry) :],
                cotangents[len(active_carry) : len(active_carry) + len(targets)],
                strict=True,
            ):
                sums.append(before if more is None else Terms(body_primal.graph)("add", before, more))
            return body_primal.floats(sums), body_primal.floats(cotangents[len(active_carry) + len(targets) :])

        of_carry = dict(zip(carry_inputs, of_results[:n], strict=True))
        start = primal.floats([*(of_carry[v] for v in active_carry), *(None for _ in targets)])
        carry, cotangents = primal.backend.rows(row, start, rows, not p["reverse"])
        back = dict(zip(active_carry, primal.adopt(carry), strict=False))
        self._add_all(operation.operands[:n], (back.get(v) for v in carry_inputs))
        self._add_all(targets, primal.adopt(carry[len(active_carry) :]))
        for k in range(length):
            of_inputs = dict(zip(of_row, primal.adopt(cotangents[k]), strict=True))
            at = n + k * (width - n)
            self._add_all(operation.operands[at : at + width - n], (of_inputs.get(v) for v in body.inputs[n:]))

    def _solution(self, operation: Operation, of_results: Elements) -> None:
        r"""With $F_x\dot x = -\dot F$: $F_x^T\lambda = \bar x$, and $-\lambda$ is the cotangent of F."""
        p, n = operation.params, operation.params["unknowns"]
        equation, targets = p["equation"], self._active_captures(p["equation"])
        unknowns, x = equation.inputs, [self._primal.read(v) for v in operation.operands[:n]]
        of_place = of_results[n:]
        none: Elements = [None] * (len(equation.outputs) - len(of_place))
        along, across = active_variables(equation, unknowns), active_variables(equation, targets)
        exact = self._primal.subreplay()
        exact.evaluate(equation, x, active_variables(equation, [*unknowns, *targets]))
        direct = _AdjointSweep(exact, along).propagate(equation, [*none, *of_place], unknowns)
        of_x = [_sum(self._f, a, b) for a, b in zip(of_results[:n], direct, strict=True)]
        solve = _transposed_solver(self._primal, exact, equation, along, p["precondition"], x)
        weights = [self._f("sub", 0.0, c) for c in solve(of_x)]
        cotangents = _AdjointSweep(exact, across).propagate(equation, [*weights, *of_place], targets)
        self._add_all(targets, cotangents)

    def _custom_jvp(self, operation: Operation, of_results: Elements) -> None:
        tangents, of = operation.params["tangents"], operation.operands[len(operation.results) :]
        linear, primal = active_variables(tangents, tangents.inputs), self._primal.subreplay()
        primal.evaluate(tangents, [np.float64(0.0) for _ in of], linear)
        self._add_all(of, _AdjointSweep(primal, linear).propagate(tangents, of_results, tangents.inputs))

    def _active_captures(self, *programs: Program) -> list[Variable]:
        """Free variables of programs that have a derivative."""
        return [v for v in dict.fromkeys(v for body in programs for v in body.free_variables) if v in self._active]


def _transposed_solver(
    primal: PrimalReplay,
    exact: PrimalReplay,
    equation: Program,
    along: frozenset[Variable],
    precondition: Program,
    x: Elements,
) -> Callable[[Elements], Elements]:
    """Solves the transposed equations, linearised at x, with the transposed preconditioner."""
    unknowns, parts = equation.inputs, precondition.inputs[len(x) :]
    approximate, linear = primal.subreplay(), active_variables(precondition, parts)
    # It is linear in these inputs, so that its derivative is the same everywhere.
    approximate.evaluate(precondition, [*x, *(np.float64(0.0) for _ in parts)], linear)

    def matvec(inner: PrimalReplay, y: Elements) -> Elements:
        none = [None] * (len(equation.outputs) - len(y))
        return _AdjointSweep(exact.in_loop(inner), along).propagate(equation, [*y, *none], unknowns)

    def inverse(inner: PrimalReplay, r: Elements) -> Elements:
        return _AdjointSweep(approximate.in_loop(inner), linear).propagate(precondition, r, parts)

    return lambda b: solve_by_refinement(primal, matvec, inverse, zeros_for_none(b))


def _adopt_from(primal: PrimalReplay, source: PrimalReplay, elements: Elements) -> Elements:
    """Elements of another replay in this one; None stays None."""
    positions = [k for k, x in enumerate(elements) if x is not None]
    by_position = dict(zip(positions, primal.adopt(source.values([elements[k] for k in positions])), strict=True))
    return [by_position.get(k) for k in range(len(elements))]


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
