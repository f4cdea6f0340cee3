"""Forward-mode derivatives of scalar programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from polhode.compiler.autodiff.activity import active_variables
from polhode.compiler.autodiff.partials import FLOAT, Terms, partials
from polhode.compiler.autodiff.primal_replay import Elements, PrimalReplay, zeros_for_none
from polhode.compiler.scalars.backend import AbstractScalarBackend, Values
from polhode.compiler.scalars.graph import is_zero
from polhode.compiler.scalars.iterative_refinement import solve_by_refinement
from polhode.compiler.scalars.program import Operation, Program, ProgramBackend, Variable


def tangent(program: Program, inputs: Sequence[int]) -> Program:
    """The Jacobian-vector product: from all inputs and the tangents of `inputs` to the tangents of the outputs.

    These inputs and all outputs are floats. Implicit solutions are differentiated by their equations. Raises
    `UnsupportedScalarOperation` for what can't be differentiated.
    """
    result = Program([*(x.dtype for x in program.inputs), *(FLOAT for _ in inputs)])
    primal = PrimalReplay(ProgramBackend(result))
    elements = primal.adopt(result.inputs)
    n = len(program.inputs)
    variables = [program.inputs[k] for k in inputs]
    primal.evaluate(program, elements[:n])
    result.outputs = primal.floats(
        _TangentSweep(primal, active_variables(program, variables)).propagate(program, variables, elements[n:])
    )
    result.prune()
    return result


class _TangentSweep:
    """The tangents of a program's variables.

    **Arguments:**

    - `primal`: where tangents are computed; it or its outer replays have the values of the variables.
    - `active`: the variables with a derivative.
    - `outer`: the sweep of the surrounding program, for loops and branches.
    """

    def __init__(self, primal: PrimalReplay, active: frozenset[Variable], outer: _TangentSweep | None = None) -> None:
        self._primal, self._active, self._outer = primal, active, outer
        self._f = Terms(primal.graph)
        self._tangents: dict[Variable, Any] = {}

    def propagate(self, program: Program, variables: Iterable[Variable], tangents: Iterable[Any]) -> Elements:
        """From tangents of variables to those of the outputs; None where there is none."""
        self._tangents.update(zip(variables, tangents, strict=True))
        dependencies = _required_variables(program, self._active)
        for operation in program.operations:
            if not dependencies.isdisjoint(operation.results):
                results = _RULES.get(operation.name, _TangentSweep._elementwise)(self, operation)
                self._tangents.update(zip(operation.results, results, strict=True))
        return [self._tangent(x) for x in program.outputs]

    def _tangent(self, x: Any) -> Any:
        """The tangent of a variable, None if it has none."""
        if not isinstance(x, Variable) or x not in self._active:
            return None
        if x not in self._tangents and self._outer is not None:
            tangent = self._outer._tangent(x)
            other = self._outer._primal
            if tangent is not None and other.graph is not self._primal.graph:
                (tangent,) = self._primal.adopt(other.values([tangent]))
            self._tangents[x] = tangent
        tangent = self._tangents.get(x)
        return None if tangent is None or is_zero(tangent) else tangent

    def _elementwise(self, operation: Operation) -> Elements:
        operands, (result,) = [self._primal.read(x) for x in operation.operands], operation.results
        factors = partials(self._f, operation.name, operands, self._primal.read(result), operation.params)
        total = None
        for x, factor in zip(operation.operands, factors, strict=True):
            tangent = self._tangent(x)
            if factor is not None and tangent is not None:
                term = self._f.times(tangent, factor)
                total = term if total is None else self._f("add", total, term)
        return [total]

    def _select(self, operation: Operation) -> Elements:
        which, *cases = operation.operands
        selector, tangents = self._primal.read(which), zeros_for_none(map(self._tangent, cases))
        if which.dtype == bool:
            return [self._f.where(selector, tangents[1], tangents[0])]
        total = tangents[0]
        for k, tangent in enumerate(tangents[1:], 1):
            total = self._f.where(self._f.test("eq", selector, which.dtype.type(k)), tangent, total)
        return [total]

    def _evaluate_body(
        self, backend: AbstractScalarBackend, program: Program, values: Values, variables: list[Variable]
    ) -> _BodyResult:
        """Outputs of a loop body or branch and their tangents, from its inputs and the tangents of some."""
        primal = self._primal.for_body(backend)
        elements = primal.adopt(values)
        n = len(program.inputs)
        outs = primal.evaluate(program, elements[:n])
        tangents = _TangentSweep(primal, self._active, self).propagate(program, variables, elements[n:])
        return primal, outs, tangents

    def _while(self, operation: Operation) -> Elements:
        cond, body = operation.params["cond"], operation.params["body"]
        n, active_carry = len(body.inputs), [k for k, v in enumerate(body.inputs) if v in self._active]
        variables = [body.inputs[k] for k in active_carry]

        def condition(backend: AbstractScalarBackend, flat: Values) -> Any:
            primal = self._primal.for_body(backend)
            return primal.with_dtypes(primal.evaluate(cond, primal.adopt(flat[:n])), cond.outputs)[0]

        def step(backend: AbstractScalarBackend, flat: Values) -> Values:
            primal, outs, tangents = self._evaluate_body(backend, body, flat, variables)
            return [*primal.with_dtypes(outs, body.inputs), *primal.floats(tangents[k] for k in active_carry)]

        start = self._primal.with_dtypes(map(self._primal.read, operation.operands), body.inputs)
        tangents = self._primal.floats(self._tangent(operation.operands[k]) for k in active_carry)
        end = self._primal.adopt(self._primal.backend.loop(condition, step, [*start, *tangents]))
        by_position = dict(zip(active_carry, end[n:], strict=True))
        return [by_position.get(k) for k in range(n)]

    def _cond(self, operation: Operation) -> Elements:
        active_results = [k for k, v in enumerate(operation.results) if v in self._active]

        def run_branch(backend: AbstractScalarBackend, branch: Program) -> Values:
            primal, _, tangents = self._evaluate_body(backend, branch, [], [])
            return primal.floats(tangents[k] for k in active_results)

        branches = [lambda e, b=b: run_branch(e, b) for b in operation.params["branches"]]
        tangents = self._primal.adopt(self._primal.backend.branch(self._primal.which(operation), branches))
        by_position = dict(zip(active_results, tangents, strict=True))
        return [by_position.get(k) for k in range(len(operation.results))]

    def _rows(self, operation: Operation) -> Elements:
        p, body, primal = operation.params, operation.params["body"], self._primal
        n, length, width, n_outputs = p["carried"], p["length"], len(body.inputs), len(body.outputs)
        active_carry = [k for k in range(n) if body.inputs[k] in self._active]
        active_inputs = [k for k in range(n, width) if body.inputs[k] in self._active]
        active_outputs = [k for k in range(n, n_outputs) if _is_in(body.outputs[k], self._active)]
        variables = [body.inputs[k] for k in (*active_inputs, *active_carry)]
        carry_tangents = primal.floats(self._tangent(operation.operands[k]) for k in active_carry)
        start = primal.with_dtypes(map(primal.read, operation.operands[:n]), body.inputs[:n])
        row_tangents = [
            primal.floats(self._tangent(operation.operands[k + r * (width - n)]) for k in active_inputs)
            for r in range(length)
        ]
        rows = [
            [*values, *tangents] for values, tangents in zip(primal.row_inputs(operation), row_tangents, strict=True)
        ]

        def row(backend: AbstractScalarBackend, carry: Values, values: Values) -> tuple[Values, Values]:
            operands = [*carry[:n], *values, *carry[n:]]
            inner, outs, tangents = self._evaluate_body(backend, body, operands, variables)
            now = [*inner.with_dtypes(outs[:n], body.inputs[:n]), *inner.floats(tangents[k] for k in active_carry)]
            return now, inner.floats(tangents[k] for k in active_outputs)

        end, row_outputs = primal.backend.rows(row, [*start, *carry_tangents], rows, p["reverse"])
        last = dict(zip(active_carry, primal.adopt(end[n:]), strict=True))
        out: Elements = [last.get(k) for k in range(n)]
        for r in range(length):
            of_row = dict(zip(active_outputs, primal.adopt(row_outputs[r]), strict=True))
            out += [of_row.get(k) for k in range(n, n_outputs)]
        return out

    def _solution(self, operation: Operation) -> Elements:
        r"""$F_x\dot x = -\dot F$."""
        p, n = operation.params, operation.params["unknowns"]
        equation, precondition = p["equation"], p["precondition"]
        unknowns, parts = equation.inputs, precondition.inputs[n:]
        x = [self._primal.read(v) for v in operation.operands[:n]]
        exact, approximate = self._primal.subreplay(), self._primal.subreplay()
        exact.evaluate(equation, x)
        # It is linear in these inputs, so that its derivative is the same everywhere.
        approximate.evaluate(precondition, [*x, *(np.float64(0.0) for _ in parts)])
        along, linear = active_variables(equation, unknowns), active_variables(precondition, parts)
        across = active_variables(equation, (v for v in equation.free_variables if v in self._active))
        of_rest = _TangentSweep(exact, across, self).propagate(equation, [], [])

        def matvec(inner: PrimalReplay, y: Elements) -> Elements:
            return _TangentSweep(exact.in_loop(inner), along).propagate(equation, unknowns, y)[: len(parts)]

        def inverse(inner: PrimalReplay, r: Elements) -> Elements:
            return _TangentSweep(approximate.in_loop(inner), linear).propagate(precondition, parts, r)

        minus = [self._f("sub", 0.0, c) for c in zeros_for_none(of_rest[: len(parts)])]
        tangents = solve_by_refinement(self._primal, matvec, inverse, minus)
        of_place = zeros_for_none(_TangentSweep(exact, along).propagate(equation, unknowns, tangents)[len(parts) :])
        return [
            *tangents,
            *(self._f("add", a, b) for a, b in zip(of_place, zeros_for_none(of_rest[len(parts) :]), strict=True)),
        ]

    def _custom_jvp(self, operation: Operation) -> Elements:
        of = operation.operands[len(operation.results) :]
        return self._primal.subreplay().evaluate(operation.params["tangents"], zeros_for_none(map(self._tangent, of)))


def _is_in(x: Any, variables: frozenset[Variable]) -> bool:
    return isinstance(x, Variable) and x in variables


_BodyResult = tuple[PrimalReplay, Elements, Elements]
"""The replay of a body, its outputs and their tangents."""


def _required_variables(program: Program, active: frozenset[Variable]) -> set[Variable]:
    """Active variables on whose tangents those of the outputs depend."""
    dependencies = {x for x in program.outputs if isinstance(x, Variable) and x in active}
    for operation in reversed(program.operations):
        if dependencies.isdisjoint(operation.results):
            continue
        if operation.name == "solution":
            candidates: Iterable[Any] = operation.params["equation"].free_variables
        elif operation.name == "ruled":
            candidates = operation.operands[len(operation.results) :]
        else:
            candidates = [*operation.operands, *(v for inner in _bodies(operation) for v in inner.free_variables)]
        dependencies.update(x for x in candidates if isinstance(x, Variable) and x in active)
    return dependencies


def _bodies(operation: Operation) -> list[Program]:
    if operation.name == "cond":
        return operation.params["branches"]
    return [operation.params["body"]] if operation.name in ("while", "rows") else []


_RULES: dict[str, Callable[[_TangentSweep, Operation], Elements]] = {
    "select_n": _TangentSweep._select,
    "while": _TangentSweep._while,
    "cond": _TangentSweep._cond,
    "rows": _TangentSweep._rows,
    "solution": _TangentSweep._solution,
    "ruled": _TangentSweep._custom_jvp,
}
