"""Unrolls a jaxpr on arrays, element by element, into a graph of scalar operations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast, final

import jax
import numpy as np
from jax.extend import core

from polhode.compiler.jaxprs import Callee, callee, parameters
from polhode.compiler.primitives.elimination import ELIMINATION
from polhode.compiler.primitives.implicit_solution import SOLUTION, split_operands
from polhode.compiler.primitives.lowering import MACHINE_CODE, lower
from polhode.compiler.scalars.array_view import INTEGER, ArrayView
from polhode.compiler.scalars.backend import AbstractScalarBackend, UnsupportedScalarOperation
from polhode.compiler.scalars.graph import Elements, is_known
from polhode.compiler.scalars.normal_form import CUSTOM_JVP, CUSTOM_VJP
from polhode.compiler.scalars.procedures import CALLS, Procedures
from polhode.compiler.scalars.program import ProgramBackend
from polhode.compiler.scalars.straight_line import AbstractUnroller, element_array


@final
class Unroller(AbstractUnroller):
    """Evaluates jaxprs element by element; each loop body, branch and procedure in a graph of its own."""

    def __init__(self, backend: AbstractScalarBackend, scalars_only: bool = False) -> None:
        super().__init__(backend, scalars_only)
        self._procedures = Procedures()

    def _compound(self, eqn: Any, inputs: list[Elements]) -> Sequence[Elements]:
        name = eqn.primitive.name
        if name in CALLS:
            return self._call(eqn, inputs)
        if name in CUSTOM_JVP:
            return self._custom_jvp(eqn, inputs)
        if name in CUSTOM_VJP:
            raise UnsupportedScalarOperation(name)
        if name == "while":
            return self._while(eqn, inputs)
        if name == "cond":
            return self._cond(eqn, inputs)
        if name == "scan" and self._backend.has_rows and eqn.params["length"]:
            return self._scan(eqn, inputs)
        if eqn.primitive is ELIMINATION:
            return self._eliminate(eqn, *map(self.elements, inputs))
        if name == SOLUTION:
            return self._solution(eqn, inputs)
        return self._foreign(eqn, inputs)

    def _call(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        """A call of a procedure; a small one is inlined, and one that returns parts of arrays in memory.

        Arrays in memory are those of the surrounding program; where their parts begin are operands.
        """
        program, backend = eqn.params["jaxpr"], self._backend
        assert isinstance(backend, ProgramBackend)
        scalars = [x.begins if isinstance(x, ArrayView) else x for x in inputs]
        dtypes = [
            _DtypeOnly(INTEGER if isinstance(x, ArrayView) else v.aval.dtype)
            for x, v in zip(inputs, eqn.invars, strict=True)
        ]
        of_operands = self._shared[program.jaxpr]
        shared = [is_shared for x, is_shared in zip(scalars, of_operands, strict=True) for _ in x.flat]

        def run(backend: AbstractScalarBackend, flat: list[Any]) -> list[Any] | None:
            unroller, values = Unroller(backend), iter(flat)
            own = [element_array(x.shape, (unroller.element(next(values)) for _ in x.flat)) for x in scalars]
            operands: list[Any] = [
                x._replace(begins=b) if isinstance(x, ArrayView) else b for x, b in zip(inputs, own, strict=True)
            ]
            results = unroller.evaluate_closed(program, operands)
            has_views = any(isinstance(x, ArrayView) for x in results)
            return None if has_views else unroller.flatten(results, program.out_avals)

        views = [(x.array, x.begins.shape) if isinstance(x, ArrayView) else None for x in inputs]
        outs = self._procedures.call(backend, (program.jaxpr, *views), run, self.flatten(scalars, dtypes), shared)
        if outs is None:
            return self.evaluate_closed(program, inputs)
        elements = map(self.element, outs)
        return [element_array(v.aval.shape, (next(elements) for _ in range(v.aval.size))) for v in eqn.outvars]

    def _while(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        p = eqn.params
        nc, nb = p["cond_nconsts"], p["body_nconsts"]
        consts, start = inputs[: nc + nb], inputs[nc + nb :]
        avals = [v.aval for v in eqn.outvars]
        captures = self.capture(consts)

        def run_part(
            backend: AbstractScalarBackend, closed_jaxpr: Any, which: slice, flat: list[Any]
        ) -> tuple[Unroller, list[Elements]]:
            unroller = Unroller(backend)
            operands = [*unroller.adopt(captures[which]), *unroller.restore(flat, avals)]
            return unroller, unroller.evaluate_closed(closed_jaxpr, operands)

        def cond(backend: AbstractScalarBackend, flat: list[Any]) -> Any:
            unroller, (out,) = run_part(backend, p["cond_jaxpr"], slice(0, nc), flat)
            return unroller.flatten([out], p["cond_jaxpr"].out_avals)[0]

        def body(backend: AbstractScalarBackend, flat: list[Any]) -> list[Any]:
            unroller, outs = run_part(backend, p["body_jaxpr"], slice(nc, None), flat)
            return unroller.flatten(outs, avals)

        return self.restore(self._backend.loop(cond, body, self.flatten(start, avals)), avals)

    def _cond(self, eqn: Any, inputs: list[Elements]) -> Sequence[Elements]:
        index, *operands = inputs
        branches = eqn.params["branches"]
        if is_known(index[()]):
            taken_branch = branches[int(index[()])]
            return self.evaluate_closed(taken_branch, operands)
        avals = [v.aval for v in eqn.outvars]
        captures = self.capture(operands)

        def run_branch(backend: AbstractScalarBackend, branch: Any) -> list[Any]:
            unroller = Unroller(backend)
            outs = unroller.evaluate_closed(branch, unroller.adopt(captures))
            return unroller.flatten(outs, avals)

        (which,) = self.graph.emit([index[()]])
        return self.restore(self._backend.branch(which, [lambda e, b=b: run_branch(e, b) for b in branches]), avals)

    def _scan(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        """A loop over rows. Inputs and outputs that are equal in all rows are not part of the loop."""
        p = parameters(eqn)
        closed_jaxpr = p["jaxpr"]
        n_consts, n_carry, length = p["num_consts"], p["num_carry"], p["length"]
        consts, carry = inputs[:n_consts], inputs[n_consts : n_consts + n_carry]
        rows_in = inputs[n_consts + n_carry :]
        tables = [self._table(x, length) for x in rows_in]
        of_carry, of_rows = (
            closed_jaxpr.in_avals[n_consts : n_consts + n_carry],
            closed_jaxpr.in_avals[n_consts + n_carry :],
        )
        columns = [table[:, k] for table in tables for k in range(table.shape[1])]
        const_captures = self.capture(consts)
        common = [self.capture([column[:1]])[0][0] if _is_common(column) else None for column in columns]
        varying_columns = [column for column, same in zip(columns, common, strict=True) if same is None]
        constants: list[Any] = []

        def row(
            backend: AbstractScalarBackend, carry_values: list[Any], row_values: list[Any]
        ) -> tuple[list[Any], list[Any]]:
            unroller, here = Unroller(backend), iter(row_values)
            at = iter(unroller.element(next(here) if same is None else same) for same in common)
            row_inputs = [_row_of(x, a, at) for x, a in zip(rows_in, of_rows, strict=True)]
            args = [*unroller.adopt(const_captures), *unroller.restore(carry_values, of_carry), *row_inputs]
            outs = unroller.evaluate_closed(closed_jaxpr, args)
            next_carry = unroller.flatten(outs[:n_carry], closed_jaxpr.out_avals[:n_carry])
            own = [unroller.elements(x) for x in outs[n_carry:]]
            constants[:] = [e if is_known(e) else None for x in own for e in x.flat]
            row_outputs = unroller.flatten(own, closed_jaxpr.out_avals[n_carry:])
            return next_carry, [value for value, same in zip(row_outputs, constants, strict=True) if same is None]

        flat = [self.flatten([column], [_DtypeOnly(column[0].dtype)]) for column in varying_columns]
        rows = [[column[k] for column in flat] for k in range(length)]
        carry_values, row_results = self._backend.rows(row, self.flatten(carry, of_carry), rows, p["reverse"])
        out = np.empty((length, len(constants)), dtype=object)
        for k in range(length):
            values = iter(row_results[k])
            for column, same in enumerate(constants):
                out[k, column] = self.graph.leaf(next(values)) if same is None else same
        row_arrays, at = [], 0
        for v in eqn.outvars[n_carry:]:
            width = math.prod(v.aval.shape[1:])
            row_arrays.append(out[:, at : at + width].reshape(v.aval.shape))
            at += width
        return [*self.restore(carry_values, of_carry), *row_arrays]

    def _table(self, x: Elements | ArrayView, length: int) -> Elements:
        """The elements that vary from row to row; of an array in memory, where each row begins."""
        if not isinstance(x, ArrayView):
            return x.reshape(length, -1)
        return element_array((length, 1), x.rows(self.graph))

    def _eliminate(self, eqn: Any, a: Elements) -> list[Elements]:
        backend, plan = self._backend, eqn.params["plan"]
        assert isinstance(backend, ProgramBackend)
        at, out = plan.entries, a.copy()
        entries = self.flatten([a[at]], [_DtypeOnly(eqn.outvars[0].aval.dtype)])
        out[at] = list(map(self.element, backend.eliminate(plan, entries)))
        return [out]

    def _solution(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        p, avals = eqn.params, [v.aval for v in eqn.outvars]
        *captures, x, place = split_operands(p, inputs)
        of_equation, of_precondition = map(self.capture, captures)
        of_x, of_place = avals[: len(x)], avals[len(x) :]

        def run_part(
            backend: AbstractScalarBackend, jaxpr: Any, closed_over: list[Elements], *flat: list[Any]
        ) -> list[Any]:
            unroller = Unroller(backend)
            operands = unroller.restore([value for part in flat for value in part], [v.aval for v in jaxpr.invars])
            outs = unroller.evaluate(jaxpr, unroller.adopt(closed_over), operands)
            return unroller.flatten(outs, [v.aval for v in jaxpr.outvars])

        outs = self._backend.solution(
            self.flatten(x, of_x),
            self.flatten(place, of_place),
            lambda backend, x: run_part(backend, p["equation"], of_equation, x),
            lambda backend, x, b: run_part(backend, p["precondition"], of_precondition, x, b),
        )
        return self.restore(outs, avals)

    def _custom_jvp(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        """An operation with a custom derivative, by JAX's `custom_jvp`."""
        inner, consts = cast(Callee, callee(eqn))
        outs = self.evaluate(inner, [self.unpack(c) for c in consts], inputs)
        avals = [v.aval for v in eqn.invars]
        float_inputs, float_outputs = (
            [k for k, v in enumerate(of) if v.aval.dtype == float] for of in (eqn.invars, eqn.outvars)
        )
        captures = self.capture(inputs)

        def tangents(backend: AbstractScalarBackend, flat: list[Any]) -> list[Any]:
            unroller, closed_jaxpr = Unroller(backend), _jvp_rule(eqn, avals, float_inputs, float_outputs)
            operands = [*unroller.adopt(captures), *unroller.restore(flat, [avals[k] for k in float_inputs])]
            results = unroller.evaluate_closed(closed_jaxpr, operands)
            return unroller.flatten(results, closed_jaxpr.out_avals)

        of_outs = [eqn.outvars[k].aval for k in float_outputs]
        of = self.flatten([inputs[k] for k in float_inputs], [avals[k] for k in float_inputs])
        with_rule = self._backend.custom_jvp(self.flatten([outs[k] for k in float_outputs], of_outs), of, tangents)
        for k, out in zip(float_outputs, self.restore(with_rule, of_outs), strict=True):
            outs[k] = out
        return outs


def _jvp_rule(
    eqn: Any, avals: Sequence[Any], float_inputs: Sequence[int], float_outputs: Sequence[int]
) -> core.ClosedJaxpr:
    """From all operands and the tangents of `float_inputs` to the tangents of `float_outputs`."""
    names = [core.Var(aval) for aval in avals]
    inner, _ = cast(Callee, callee(eqn))
    equation = eqn.replace(invars=names)
    alone = core.ClosedJaxpr(core.Jaxpr([], names, eqn.outvars, [equation], debug_info=inner.debug_info), [])

    def tangents(operands: list[Any], directions: list[Any]) -> list[Any]:
        def outs(values: list[Any]) -> list[Any]:
            by_position = dict(zip(float_inputs, values, strict=True))
            results = core.jaxpr_as_fun(alone)(*(by_position.get(k, x) for k, x in enumerate(operands)))
            return [results[k] for k in float_outputs]

        return jax.jvp(outs, ([operands[k] for k in float_inputs],), (directions,))[1]

    return lower(jax.make_jaxpr(tangents)(list(avals), [avals[k] for k in float_inputs]), MACHINE_CODE)


def _row_of(x: Elements | ArrayView, aval: Any, elements: Iterator[Any]) -> Any:
    """A row from its next elements, or the part of an array in memory."""
    if isinstance(x, ArrayView):
        return ArrayView.at(x.array, next(elements), aval.shape, x.dtype)
    return element_array(aval.shape, itertools.islice(elements, math.prod(aval.shape)))


class _DtypeOnly(NamedTuple):
    """Stands for the shape and dtype of an array where only the dtype matters."""

    dtype: Any


def _is_common(column: Elements) -> bool:
    """Whether all rows have the same node, or bitwise the same number."""
    first = column[0]
    if not is_known(first):
        return all(e is first for e in column)
    bits = first.tobytes()
    return all(is_known(e) and e.tobytes() == bits for e in column)
