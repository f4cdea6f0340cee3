"""Procedures: programs that one program calls several times, unrolled once.

A step of a method evaluates the same accelerations in every stage. JAX's traces have such calls as operations; large
ones stay calls in programs on scalars, so that their code is as long as one evaluation. What depends on operands that
are the same in all calls, such as the parameters of a system, is computed once, outside. The operations are those of
the inlined program, in the same order, so results are the same to the last bit.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from jax.extend import core

from polhode.compiler import size_limits
from polhode.compiler.array_program import Equation
from polhode.compiler.jaxprs import callee
from polhode.compiler.scalars.backend import Values
from polhode.compiler.scalars.cost import cost
from polhode.compiler.scalars.program import Operation, Program, ProgramBackend, Variable

CALLS = frozenset(("jit", "pjit"))
"""Operations that may become calls of procedures."""


def repeated_calls(jaxpr: core.Jaxpr) -> frozenset[core.Jaxpr]:
    """The large programs that a program calls several times, but for those that only these call."""
    candidates = frozenset[core.Jaxpr]()
    for _ in range(2):
        counts = collections.Counter[core.Jaxpr]()
        _count(jaxpr, counts, candidates)
        repeated = (inner for inner, count in counts.items() if count > 1)
        candidates = frozenset(inner for inner in repeated if inner in candidates or _is_large(inner))
    return candidates


def _count(jaxpr: core.Jaxpr, counts: collections.Counter[core.Jaxpr], procedures: frozenset[core.Jaxpr]) -> None:
    for eqn in jaxpr.eqns:
        call = callee(eqn) if eqn.primitive.name in CALLS else None
        if call is not None:
            counts[call[0]] += 1
            if call[0] not in procedures and counts[call[0]] == 1:
                _count(call[0], counts, procedures)


def _is_large(jaxpr: core.Jaxpr) -> bool:
    return cost(jaxpr, scans=True) >= size_limits.PROCEDURE


def shared_operands(equations: Sequence[Equation]) -> dict[core.Jaxpr, list[bool]]:
    """For each procedure which operands are the same in all calls."""
    first: dict[core.Jaxpr, Sequence[Any]] = {}
    shared: dict[core.Jaxpr, list[bool]] = {}
    for equation in equations:
        call = callee(equation.origin) if equation.name in CALLS else None
        if call is not None:
            before = first.setdefault(call[0], equation.inputs)
            same = [a is b for a, b in zip(before, equation.inputs, strict=True)]
            shared[call[0]] = [a and b for a, b in zip(shared.get(call[0], same), same, strict=True)]
    return shared


Function = Callable[[ProgramBackend, Values], Values | None]
"""The results of a program of these operands; None if they are no scalars."""


class Procedures:
    """The procedures of one program under construction."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Procedure | None] = {}
        self._results: dict[Hashable, Values] = {}

    def call(
        self, backend: ProgramBackend, name: Hashable, function: Function, operands: Values, shared: Sequence[bool]
    ) -> Values | None:
        """The results of a function of this name; None if it is no procedure, because it is too small, for example.

        `shared`: which operands are expected to be the same in all calls.
        """
        if all(shared):
            # Nothing depends on the call.
            return None
        key = name, _pattern(operands, shared)
        if key not in self._known:
            self._known[key] = _Procedure.of(function, operands, shared)
        procedure = self._known[key]
        if procedure is None:
            return None
        backend.extend(procedure.before)
        procedure.before.clear()
        arguments = [operands[n] for n in procedure.arguments]
        call = key, *arguments
        if call not in self._results:
            self._results[call] = backend.call(procedure.body, arguments)
        return procedure.outs(operands, self._results[call])


class _Place(NamedTuple):
    """The number of an operand of a call, or of a result of its program."""

    number: int
    is_operand: bool


class _Procedure(NamedTuple):
    """A procedure, for calls whose operands have the same pattern.

    - `body`: its program. - `arguments`: for each input of it, which operand of a call. - `before`: operations before
      the first call. - `results`: for each result of a call a constant, a variable of the surrounding program, or its
      place.
    """

    body: Program
    arguments: list[int]
    before: list[Operation]
    results: list[Any]

    @classmethod
    def of(cls, function: Function, operands: Values, shared: Sequence[bool]) -> _Procedure | None:
        """The procedure of a function; None if it is small, or returns no scalars."""
        places: dict[Variable, int] = {}
        for n, (x, is_shared) in enumerate(zip(operands, shared, strict=True)):
            if isinstance(x, Variable) and not is_shared:
                places.setdefault(x, n)
        parameters = {x: Variable(x.dtype) for x in places}
        body, before = Program([]), Program([])
        backend = ProgramBackend(body, before=before, inside=parameters.values())
        # A variable may be shared as one operand and vary as another.
        own = [x if is_shared else parameters.get(x, x) for x, is_shared in zip(operands, shared, strict=True)]
        values = function(backend, own)
        if values is None:
            return None
        inner = {v for operation in body.operations for v in operation.results}
        body.outputs = list(dict.fromkeys(x for x in values if isinstance(x, Variable) and x in inner))
        body.prune()
        if body.size < size_limits.PROCEDURE:
            return None
        used = body.free_variables
        inputs = {v: n for x, n in places.items() if (v := parameters[x]) in used}
        body.inputs = list(inputs)
        before.outputs = [*used, *values]
        before.prune()
        number = {v: _Place(k, is_operand=False) for k, v in enumerate(body.outputs)}
        number.update((v, _Place(places[x], is_operand=True)) for x, v in parameters.items())
        results = [number.get(x, x) if isinstance(x, Variable) else x for x in values]
        return cls(body, list(inputs.values()), before.operations, results)

    def outs(self, operands: Values, results: Values) -> Values:
        """The results of a call, from its operands and the results of the program."""
        return [
            x if not isinstance(x, _Place) else operands[x.number] if x.is_operand else results[x.number]
            for x in self.results
        ]


def _pattern(operands: Values, shared: Sequence[bool]) -> Hashable:
    """Constants, shared variables, and which of the others are equal."""
    first: dict[Variable, int] = {}
    return tuple(
        (x.dtype, x.tobytes()) if not isinstance(x, Variable) else x if is_shared else first.setdefault(x, n)
        for n, (x, is_shared) in enumerate(zip(operands, shared, strict=True))
    )
