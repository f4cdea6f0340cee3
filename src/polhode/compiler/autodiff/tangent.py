"""Derivatives of recorded programs along directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from polhode.compiler.autodiff.partials import Terms, partials
from polhode.compiler.autodiff.primal_replay import FLOAT, Elements, PrimalReplay, active_variables, zeros_for_none
from polhode.compiler.scalars.backend import AbstractScalarBackend, Values
from polhode.compiler.scalars.graph import is_zero
from polhode.compiler.scalars.iterative_refinement import solve_by_refinement
from polhode.compiler.scalars.program import Operation, Program, ProgramBackend, Variable


def tangent(region: Program, inputs: Sequence[int]) -> Program:
    """From all inputs and the tangents of some, all floats, to those of the outputs, which are floats.

    Solutions have the derivative of their equations. Raises `UnsupportedScalarOperation` for what can't be derived.
    """
    made = Program([*(x.dtype for x in region.inputs), *(FLOAT for _ in inputs)])
    scope = PrimalReplay(ProgramBackend(made))
    given = scope.adopt(made.inputs)
    n = len(region.inputs)
    moving = [region.inputs[k] for k in inputs]
    scope.evaluate(region, given[:n])
    made.outputs = scope.floats(
        _TangentSweep(scope, active_variables(region, moving)).propagate(region, moving, given[n:])
    )
    made.prune()
    return made


class _TangentSweep:
    """The tangents of a program's variables.

    **Arguments:**

    - `scope`: where they are computed; it knows, or what is around it, the values of the variables.
    - `active`: the variables with a derivative.
    - `around`: the tangents of what is around, for loops and branches.
    """

    def __init__(self, scope: PrimalReplay, active: frozenset[Variable], around: _TangentSweep | None = None) -> None:
        self._primal, self._active, self._outer = scope, active, around
        self._f = Terms(scope.graph)
        self._tangents: dict[Variable, Any] = {}

    def propagate(self, region: Program, moving: Iterable[Variable], dots: Iterable[Any]) -> Elements:
        """From tangents of variables to those of the outputs; None where there is none."""
        self._tangents.update(zip(moving, dots, strict=True))
        needed = _required_variables(region, self._active)
        for operation in region.operations:
            if not needed.isdisjoint(operation.results):
                found = _RULES.get(operation.name, _TangentSweep._elementwise)(self, operation)
                self._tangents.update(zip(operation.results, found, strict=True))
        return [self._tangent(x) for x in region.outputs]

    def _tangent(self, x: Any) -> Any:
        """The tangent of a variable, None if it has none."""
        if not isinstance(x, Variable) or x not in self._active:
            return None
        if x not in self._tangents and self._outer is not None:
            found = self._outer._tangent(x)
            other = self._outer._primal
            if found is not None and other.graph is not self._primal.graph:
                (found,) = self._primal.adopt(other.values([found]))
            self._tangents[x] = found
        found = self._tangents.get(x)
        return None if found is None or is_zero(found) else found

    def _elementwise(self, operation: Operation) -> Elements:
        operands, (result,) = [self._primal.read(x) for x in operation.operands], operation.results
        factors = partials(self._f, operation.name, operands, self._primal.read(result), operation.params)
        total = None
        for x, factor in zip(operation.operands, factors, strict=True):
            dot = self._tangent(x)
            if factor is not None and dot is not None:
                term = self._f.times(dot, factor)
                total = term if total is None else self._f("add", total, term)
        return [total]

    def _select(self, operation: Operation) -> Elements:
        which, *cases = operation.operands
        chosen, dots = self._primal.read(which), zeros_for_none(map(self._tangent, cases))
        if which.dtype == bool:
            return [self._f.where(chosen, dots[1], dots[0])]
        total = dots[0]
        for k, dot in enumerate(dots[1:], 1):
            total = self._f.where(self._f.test("eq", chosen, which.dtype.type(k)), dot, total)
        return [total]

    def _evaluate_body(
        self, emission: AbstractScalarBackend, region: Program, given: Values, moving: list[Variable]
    ) -> _BodyResult:
        """Results of a region and their tangents inside a loop, from its inputs and the tangents of some."""
        scope = self._primal.for_body(emission)
        here = scope.adopt(given)
        n = len(region.inputs)
        outs = scope.evaluate(region, here[:n])
        dots = _TangentSweep(scope, self._active, self).propagate(region, moving, here[n:])
        return scope, outs, dots

    def _while(self, operation: Operation) -> Elements:
        cond, body = operation.params["cond"], operation.params["body"]
        n, going = len(body.inputs), [k for k, v in enumerate(body.inputs) if v in self._active]
        moving = [body.inputs[k] for k in going]

        def more(inside: AbstractScalarBackend, flat: Values) -> Any:
            scope = self._primal.for_body(inside)
            return scope.with_dtypes(scope.evaluate(cond, scope.adopt(flat[:n])), cond.outputs)[0]

        def again(inside: AbstractScalarBackend, flat: Values) -> Values:
            scope, outs, dots = self._evaluate_body(inside, body, flat, moving)
            return [*scope.with_dtypes(outs, body.inputs), *scope.floats(dots[k] for k in going)]

        start = self._primal.with_dtypes(map(self._primal.read, operation.operands), body.inputs)
        dots = self._primal.floats(self._tangent(operation.operands[k]) for k in going)
        end = self._primal.adopt(self._primal.backend.loop(more, again, [*start, *dots]))
        found = dict(zip(going, end[n:], strict=True))
        return [found.get(k) for k in range(n)]

    def _cond(self, operation: Operation) -> Elements:
        wanted = [k for k, v in enumerate(operation.results) if v in self._active]

        def run(inside: AbstractScalarBackend, branch: Program) -> Values:
            scope, _, dots = self._evaluate_body(inside, branch, [], [])
            return scope.floats(dots[k] for k in wanted)

        branches = [lambda e, b=b: run(e, b) for b in operation.params["branches"]]
        made = self._primal.adopt(self._primal.backend.branch(self._primal.which(operation), branches))
        found = dict(zip(wanted, made, strict=True))
        return [found.get(k) for k in range(len(operation.results))]

    def _rows(self, operation: Operation) -> Elements:
        p, body, scope = operation.params, operation.params["body"], self._primal
        n, length, width, made = p["carried"], p["length"], len(body.inputs), len(body.outputs)
        going = [k for k in range(n) if body.inputs[k] in self._active]
        given = [k for k in range(n, width) if body.inputs[k] in self._active]
        wanted = [k for k in range(n, made) if _is_in(body.outputs[k], self._active)]
        moving = [body.inputs[k] for k in (*given, *going)]
        carried_dots = scope.floats(self._tangent(operation.operands[k]) for k in going)
        start = scope.with_dtypes(map(scope.read, operation.operands[:n]), body.inputs[:n])
        row_dots = [
            scope.floats(self._tangent(operation.operands[k + r * (width - n)]) for k in given) for r in range(length)
        ]
        rows = [[*values, *dots] for values, dots in zip(scope.row_inputs(operation), row_dots, strict=True)]

        def row(inside: AbstractScalarBackend, carried: Values, values: Values) -> tuple[Values, Values]:
            told = [*carried[:n], *values, *carried[n:]]
            inner, outs, dots = self._evaluate_body(inside, body, told, moving)
            now = [*inner.with_dtypes(outs[:n], body.inputs[:n]), *inner.floats(dots[k] for k in going)]
            return now, inner.floats(dots[k] for k in wanted)

        end, found = scope.backend.rows(row, [*start, *carried_dots], rows, p["reverse"])
        last = dict(zip(going, scope.adopt(end[n:]), strict=True))
        out: Elements = [last.get(k) for k in range(n)]
        for r in range(length):
            of_row = dict(zip(wanted, scope.adopt(found[r]), strict=True))
            out += [of_row.get(k) for k in range(n, made)]
        return out

    def _solution(self, operation: Operation) -> Elements:
        r"""$F_x\dot x = -\dot F$."""
        p, n = operation.params, operation.params["unknowns"]
        equation, precondition = p["equation"], p["precondition"]
        unknowns, parts = equation.inputs, precondition.inputs[n:]
        x = [self._primal.read(v) for v in operation.operands[:n]]
        exact, approximate = self._primal.nested(), self._primal.nested()
        exact.evaluate(equation, x)
        # Linear in what it is applied to, so that its derivative is the same everywhere.
        approximate.evaluate(precondition, [*x, *(np.float64(0.0) for _ in parts)])
        along, linear = active_variables(equation, unknowns), active_variables(precondition, parts)
        across = active_variables(equation, (v for v in equation.free_variables if v in self._active))
        of_rest = _TangentSweep(exact, across, self).propagate(equation, [], [])

        def matvec(inner: PrimalReplay, y: Elements) -> Elements:
            return _TangentSweep(exact.in_loop(inner), along).propagate(equation, unknowns, y)[: len(parts)]

        def inverse(inner: PrimalReplay, r: Elements) -> Elements:
            return _TangentSweep(approximate.in_loop(inner), linear).propagate(precondition, parts, r)

        minus = [self._f("sub", 0.0, c) for c in zeros_for_none(of_rest[: len(parts)])]
        dots = solve_by_refinement(self._primal, matvec, inverse, minus)
        moved = zeros_for_none(_TangentSweep(exact, along).propagate(equation, unknowns, dots)[len(parts) :])
        return [
            *dots,
            *(self._f("add", a, b) for a, b in zip(moved, zeros_for_none(of_rest[len(parts) :]), strict=True)),
        ]

    def _custom_jvp(self, operation: Operation) -> Elements:
        of = operation.operands[len(operation.results) :]
        return self._primal.nested().evaluate(operation.params["tangents"], zeros_for_none(map(self._tangent, of)))


def _is_in(x: Any, variables: frozenset[Variable]) -> bool:
    return isinstance(x, Variable) and x in variables


_BodyResult = tuple[PrimalReplay, Elements, Elements]
"""A scope, and what a region returns in it with its tangents."""


def _required_variables(region: Program, active: frozenset[Variable]) -> set[Variable]:
    """Variables whose tangents those of the outputs depend on."""
    needed = {x for x in region.outputs if isinstance(x, Variable) and x in active}
    for operation in reversed(region.operations):
        if needed.isdisjoint(operation.results):
            continue
        if operation.name == "solution":
            through: Iterable[Any] = operation.params["equation"].free_variables
        elif operation.name == "ruled":
            through = operation.operands[len(operation.results) :]
        else:
            through = [*operation.operands, *(v for inner in _bodies(operation) for v in inner.free_variables)]
        needed.update(x for x in through if isinstance(x, Variable) and x in active)
    return needed


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
