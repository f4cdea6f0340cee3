"""Unrolls a jaxpr on arrays, element by element, into a graph of scalar operations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jax.core import Tracer
from jax.extend import core

from polhode.compiler.array_program import Value
from polhode.compiler.jaxprs import Callee, callee, parameters
from polhode.compiler.primitives import gather_scatter
from polhode.compiler.primitives.implicit_solution import SOLUTION, split_operands
from polhode.compiler.primitives.lowering import MACHINE_CODE, lower
from polhode.compiler.scalars.backend import AbstractScalarBackend, Kind, UnsupportedScalarOperation
from polhode.compiler.scalars.data_movement import MOVES, scatter_targets
from polhode.compiler.scalars.graph import Elements, Graph, is_known
from polhode.compiler.scalars.normal_form import CUSTOM_JVP, CUSTOM_VJP, ScalarNormaliser
from polhode.compiler.scalars.primitives import ELEMENTWISE, IDENTITIES, REDUCTIONS, SCATTERS
from polhode.compiler.scalars.select_gather import as_selections


class Unroller:
    """Evaluates jaxprs element by element in one graph.

    **Arguments:**

    - `backend`: the program under construction.
    - `scalars_only`: whether to raise `UnsupportedScalarOperation` where an operation needs arrays, instead of packing
      their elements.
    """

    def __init__(self, backend: AbstractScalarBackend, scalars_only: bool = False) -> None:
        self.graph = Graph(backend)
        self._backend = backend
        self._scalars_only = scalars_only

    def evaluate(self, jaxpr: Any, consts: Sequence[Elements], args: Sequence[Elements]) -> list[Elements]:
        program = ScalarNormaliser(self._backend).program(jaxpr)
        env: dict[Any, Elements] = dict(zip(program.inputs, (*consts, *args), strict=True))
        constants: dict[int, Elements] = {}

        def read(x: Any) -> Elements:
            if isinstance(x, Value):
                return env[x]
            if id(x) not in constants:
                constants[id(x)] = self.unpack(x)
            return constants[id(x)]

        for equation in program.equations:
            results = self._apply(equation.origin, list(map(read, equation.inputs)))
            env.update(zip(equation.outputs, results, strict=True))
        return list(map(read, program.outputs))

    def unpack(self, x: Any) -> Elements:
        """The elements of an array; those of a constant array are constants."""
        shape = np.shape(x)
        if not isinstance(x, Tracer):
            # JAX arrays too: as constants inside one machine function they make XLA abort.
            return element_array(shape, np.asarray(x).reshape(-1))
        array: Any = x
        return element_array(shape, (self.graph.leaf(array[index] if shape else array) for index in np.ndindex(shape)))

    def restore(self, flat: Sequence[Any], avals: Sequence[Any]) -> list[Elements]:
        """Elements of the given shapes from one flat list of scalars of the program."""
        out, at = [], 0
        for aval in avals:
            size = math.prod(aval.shape)
            out.append(element_array(aval.shape, map(self.graph.leaf, flat[at : at + size])))
            at += size
        return out

    def flatten(self, values: Sequence[Elements], avals: Sequence[Any]) -> list[Any]:
        """All elements as one flat list of scalars of the program."""
        elements = [e for v in values for e in v.flat]
        dtypes = [a.dtype for v, a in zip(values, avals, strict=True) for _ in v.flat]
        return list(map(self._backend.scalar, self.graph.emit(elements), dtypes))

    def _apply(self, eqn: Any, inputs: list[Elements]) -> Sequence[Elements]:
        """The results of an operation of the normal form, see `ScalarNormaliser`."""
        name = eqn.primitive.name
        if name in ELEMENTWISE:
            return [self._elementwise(eqn, inputs)]
        if name == "dot_general":
            return [self._dot_general(eqn, *inputs)]
        if name in REDUCTIONS:
            return [self._reduction(eqn, *inputs)]
        if name in CUSTOM_JVP:
            return self._custom_jvp(eqn, inputs)
        if name in CUSTOM_VJP:
            raise UnsupportedScalarOperation(name)
        moved = self._move(eqn, inputs)
        if moved is not None:
            return moved
        selections = as_selections(eqn, inputs) if self._backend.has_rows else None
        if selections is not None:
            return self.evaluate(selections.jaxpr, [self.unpack(c) for c in selections.consts], inputs)
        if self._scalars_only and not (name == "cond" and is_known(inputs[0][()])):
            raise UnsupportedScalarOperation(name)
        return self._control_flow(eqn, inputs)

    def _move(self, eqn: Any, inputs: list[Elements]) -> list[Elements] | None:
        """The results of data movement to and from places that are known; None for other operations."""
        name = eqn.primitive.name
        if name in MOVES:
            return MOVES[name](eqn, inputs)
        result = self._scatter(eqn, *inputs) if name in SCATTERS else None
        return None if result is None else [result]

    def _control_flow(self, eqn: Any, inputs: list[Elements]) -> Sequence[Elements]:
        name = eqn.primitive.name
        if name == "while":
            return self._while(eqn, inputs)
        if name == "cond":
            return self._cond(eqn, inputs)
        if name == "scan" and self._backend.has_rows and eqn.params["length"]:
            return self._scan(eqn, inputs)
        if name == SOLUTION:
            return self._solution(eqn, inputs)
        return self._foreign(eqn, inputs)

    def _foreign(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        flat = [self.flatten([x], [v.aval]) for x, v in zip(inputs, eqn.invars, strict=True)]
        return [self.unpack(out) for out in self._backend.foreign(eqn, flat)]

    def _elementwise(self, eqn: Any, inputs: list[Elements]) -> Elements:
        shape, dtype = eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype
        params = dict(eqn.params)
        if "sharding" in params:
            params["sharding"] = None
        # Dimensions of size one are broadcast, as by the primitives themselves.
        flat = [(x if x.shape == shape else np.broadcast_to(x, shape)).reshape(-1) for x in inputs]
        if eqn.primitive.name == "add_any":
            # The sum of cotangents in differentiation, whatever their types.
            add = self.graph.binary
            return element_array(shape, (add("add", a, b) for a, b in zip(*flat, strict=True)))
        kind, operation = Kind(eqn.primitive.name, params, eqn.primitive), self.graph.operation
        return element_array(shape, (operation(kind, dtype, operands) for operands in zip(*flat, strict=True)))

    def _reduction(self, eqn: Any, x: Elements) -> Elements:
        name, aval = eqn.primitive.name, eqn.outvars[0].aval
        if x.size:
            return self._reduce(REDUCTIONS[name], eqn.params["axes"], x)
        return self.unpack(np.full(aval.shape, IDENTITIES[name], aval.dtype))

    def _reduce(self, name: str, axes: Sequence[int], x: Elements) -> Elements:
        free_axes = [d for d in range(x.ndim) if d not in axes]
        table = x.transpose(*free_axes, *axes).reshape(*(x.shape[d] for d in free_axes), -1)
        out = np.empty(table.shape[:-1], dtype=object)
        for index in np.ndindex(out.shape):
            total = table[index][0]
            for term in table[index][1:]:
                total = self.graph.binary(name, total, term)
            out[index] = total
        return out

    def _scatter(self, eqn: Any, x: Elements, indices: Elements, updates: Elements) -> Elements | None:
        """Constant indices: combine each update with its target element."""
        if not all(is_known(i) for i in indices.flat):
            return None
        operation = SCATTERS[eqn.primitive.name]
        out = x.reshape(-1).copy()
        for target, update in zip(scatter_targets(eqn, x.shape, indices).flat, updates.flat, strict=True):
            if target != gather_scatter.OUTSIDE:
                out[target] = self.graph.binary(operation, out[target], update)
        return out.reshape(x.shape)

    def _dot_general(self, eqn: Any, a: Elements, b: Elements) -> Elements:
        (contract_a, contract_b), (batch_a, batch_b) = eqn.params["dimension_numbers"]
        free_a = [d for d in range(a.ndim) if d not in (*contract_a, *batch_a)]
        free_b = [d for d in range(b.ndim) if d not in (*contract_b, *batch_b)]
        nbatch = math.prod(a.shape[d] for d in batch_a)
        nfree_a = math.prod(a.shape[d] for d in free_a)
        nfree_b = math.prod(b.shape[d] for d in free_b)
        ncontract = math.prod(a.shape[d] for d in contract_a)
        A = a.transpose(*batch_a, *free_a, *contract_a).reshape(nbatch, nfree_a, ncontract).tolist()
        B = b.transpose(*batch_b, *free_b, *contract_b).reshape(nbatch, nfree_b, ncontract).tolist()
        products = (self._product(row, col) for rows, cols in zip(A, B, strict=True) for row in rows for col in cols)
        return element_array(eqn.outvars[0].aval.shape, products)

    def _product(self, row: list[Any], col: list[Any]) -> Any:
        """The scalar product of two lists of elements."""
        binary = self.graph.binary
        total: Any = np.float64(0.0)
        for x, y in zip(row, col, strict=True):
            total = binary("add", total, binary("mul", x, y))
        return total

    def _while(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        p = eqn.params
        nc, nb = p["cond_nconsts"], p["body_nconsts"]
        consts, start = inputs[: nc + nb], inputs[nc + nb :]
        avals = [v.aval for v in eqn.outvars]
        captures = self._capture(consts)

        def run_part(
            backend: AbstractScalarBackend, closed_jaxpr: Any, which: slice, flat: list[Any]
        ) -> tuple[Unroller, list[Elements]]:
            unroller = Unroller(backend)
            operands = [*unroller.adopt(captures[which]), *unroller.restore(flat, avals)]
            return unroller, unroller.evaluate(
                closed_jaxpr.jaxpr, [unroller.unpack(c) for c in closed_jaxpr.consts], operands
            )

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
            return self.evaluate(taken_branch.jaxpr, [self.unpack(c) for c in taken_branch.consts], operands)
        avals = [v.aval for v in eqn.outvars]
        captures = self._capture(operands)

        def run_branch(backend: AbstractScalarBackend, branch: Any) -> list[Any]:
            unroller = Unroller(backend)
            outs = unroller.evaluate(
                branch.jaxpr, [unroller.unpack(c) for c in branch.consts], unroller.adopt(captures)
            )
            return unroller.flatten(outs, avals)

        (which,) = self.graph.emit([index[()]])
        return self.restore(self._backend.branch(which, [lambda e, b=b: run_branch(e, b) for b in branches]), avals)

    def _scan(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        """A loop over rows. Inputs and outputs that are equal in all rows are not part of the loop."""
        p = parameters(eqn)
        closed_jaxpr = p["jaxpr"]
        n_consts, n_carry, length = p["num_consts"], p["num_carry"], p["length"]
        consts, carry = inputs[:n_consts], inputs[n_consts : n_consts + n_carry]
        tables = [x.reshape(length, -1) for x in inputs[n_consts + n_carry :]]
        of_carry, of_rows = (
            closed_jaxpr.in_avals[n_consts : n_consts + n_carry],
            closed_jaxpr.in_avals[n_consts + n_carry :],
        )
        columns = [table[:, k] for table in tables for k in range(table.shape[1])]
        const_captures = self._capture(consts)
        common = [self._capture([column[:1]])[0][0] if _is_common(column) else None for column in columns]
        varying_columns = [column for column, same in zip(columns, common, strict=True) if same is None]
        constants: list[Any] = []

        def row(
            backend: AbstractScalarBackend, carry_values: list[Any], row_values: list[Any]
        ) -> tuple[list[Any], list[Any]]:
            unroller, here = Unroller(backend), iter(row_values)
            at = iter(unroller.element(next(here) if same is None else same) for same in common)
            row_inputs = [element_array(a.shape, at) for a in of_rows]
            args = [*unroller.adopt(const_captures), *unroller.restore(carry_values, of_carry), *row_inputs]
            outs = unroller.evaluate(closed_jaxpr.jaxpr, [unroller.unpack(c) for c in closed_jaxpr.consts], args)
            next_carry = unroller.flatten(outs[:n_carry], closed_jaxpr.out_avals[:n_carry])
            constants[:] = [e if is_known(e) else None for x in outs[n_carry:] for e in x.flat]
            row_outputs = unroller.flatten(outs[n_carry:], closed_jaxpr.out_avals[n_carry:])
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

    def _solution(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        p, avals = eqn.params, [v.aval for v in eqn.outvars]
        *captures, x, place = split_operands(p, inputs)
        of_equation, of_precondition = map(self._capture, captures)
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
        captures = self._capture(inputs)

        def tangents(backend: AbstractScalarBackend, flat: list[Any]) -> list[Any]:
            unroller, closed_jaxpr = Unroller(backend), _jvp_rule(eqn, avals, float_inputs, float_outputs)
            operands = [*unroller.adopt(captures), *unroller.restore(flat, [avals[k] for k in float_inputs])]
            results = unroller.evaluate(closed_jaxpr.jaxpr, [unroller.unpack(c) for c in closed_jaxpr.consts], operands)
            return unroller.flatten(results, closed_jaxpr.out_avals)

        of_outs = [eqn.outvars[k].aval for k in float_outputs]
        of = self.flatten([inputs[k] for k in float_inputs], [avals[k] for k in float_inputs])
        with_rule = self._backend.custom_jvp(self.flatten([outs[k] for k in float_outputs], of_outs), of, tangents)
        for k, out in zip(float_outputs, self.restore(with_rule, of_outs), strict=True):
            outs[k] = out
        return outs

    def element(self, value: Any) -> Any:
        """An element of this graph, from a constant or a scalar of the program."""
        return value if is_known(value) else self.graph.leaf(value)

    def _capture(self, values: Sequence[Elements]) -> list[Elements]:
        """The same elements as constants and scalars of the program, for use in another graph."""
        out = []
        for value in values:
            copy = np.empty(value.shape, dtype=object)
            for index, scalar in zip(np.ndindex(value.shape), self.graph.emit(list(value.flat)), strict=True):
                copy[index] = scalar
            out.append(copy)
        return out

    def adopt(self, values: Sequence[Elements]) -> list[Elements]:
        """Elements of this graph from the result of `_capture`."""
        out = []
        for value in values:
            copy = np.empty(value.shape, dtype=object)
            for index in np.ndindex(value.shape):
                copy[index] = self.element(value[index])
            out.append(copy)
        return out


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


class _DtypeOnly(NamedTuple):
    """Stands for the shape and dtype of an array where only the dtype matters."""

    dtype: Any


def element_array(shape: tuple[int, ...], elements: Iterable[Any]) -> Elements:
    """An array of this shape, filled with elements in row-major order."""
    return np.fromiter(elements, object, math.prod(shape)).reshape(shape)


def _is_common(column: Elements) -> bool:
    """Whether all rows have the same node, or bitwise the same number."""
    first = column[0]
    if not is_known(first):
        return all(e is first for e in column)
    bits = first.tobytes()
    return all(is_known(e) and e.tobytes() == bits for e in column)
