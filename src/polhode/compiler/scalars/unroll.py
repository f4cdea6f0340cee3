"""A trace on arrays, replayed element by element into a graph of scalar operations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jax.core import Tracer
from jax.extend import core

from polhode.compiler.jaxprs import LINEAR_SOLVE, Callee, callee, parameters, solve_program
from polhode.compiler.primitives import gather_scatter
from polhode.compiler.primitives.implicit_solution import SOLUTION, split_operands
from polhode.compiler.primitives.lowering import MACHINE_CODE, lower
from polhode.compiler.scalars.backend import AbstractScalarBackend, Kind, UnsupportedScalarOperation
from polhode.compiler.scalars.data_movement import MOVES, scatter_targets
from polhode.compiler.scalars.decompositions import (
    DECOMPOSITIONS,
    decompose,
    differentiable_solve,
    is_batch_of_loops,
    merge_loops,
)
from polhode.compiler.scalars.graph import Elements, Graph, is_known
from polhode.compiler.scalars.linear_algebra import expand_library_call
from polhode.compiler.scalars.primitives import ELEMENTWISE, IDENTITIES, REDUCTIONS, SCATTERS
from polhode.compiler.scalars.select_gather import as_selections


class Unroller:
    """One replay of a trace into a graph.

    **Arguments:**

    - `emission`: the program under construction.
    - `scalars_only`: whether to raise `UnsupportedScalarOperation` where an operation needs arrays, instead of putting them together.
    """

    def __init__(self, emission: AbstractScalarBackend, scalars_only: bool = False) -> None:
        self.graph = Graph(emission)
        self._backend = emission
        self._scalars_only = scalars_only

    def evaluate(self, jaxpr: Any, consts: Sequence[Elements], args: Sequence[Elements]) -> list[Elements]:
        env: dict[Any, Elements] = {}
        env.update(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Elements:
            if isinstance(atom, core.Literal):
                aval: Any = atom.aval
                return self.unpack(np.asarray(atom.val, dtype=aval.dtype))
            return env[atom]

        for eqn in jaxpr.eqns:
            inputs = [read(v) for v in eqn.invars]
            env.update(zip(eqn.outvars, self._apply(eqn, inputs), strict=True))
        return [read(v) for v in jaxpr.outvars]

    def unpack(self, x: Any) -> Elements:
        """The elements of an array; constants stay known."""
        shape = np.shape(x)
        if not isinstance(x, Tracer):
            # Also arrays that JAX holds: as constants inside one machine function they make XLA abort.
            return element_array(shape, np.asarray(x).reshape(-1))
        given: Any = x
        return element_array(shape, (self.graph.leaf(given[index] if shape else given) for index in np.ndindex(shape)))

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
        wanted = [e for v in values for e in v.flat]
        dtypes = [a.dtype for v, a in zip(values, avals, strict=True) for _ in v.flat]
        return list(map(self._backend.scalar, self.graph.emit(wanted), dtypes))

    def _apply(self, eqn: Any, inputs: list[Elements]) -> Sequence[Elements]:
        name, params = eqn.primitive.name, eqn.params
        if self._backend.keeps_rules and name in _CUSTOM_JVP:
            return self._custom_jvp(eqn, inputs)
        if self._backend.keeps_rules and name in _CUSTOM_VJP:
            raise UnsupportedScalarOperation(name)
        if (called := callee(eqn)) is not None:
            inner, consts = called
            return self.evaluate(inner, [self.unpack(c) for c in consts], inputs)
        if name == LINEAR_SOLVE and self._backend.has_rows:
            if self._backend.keeps_rules:
                closed, given = differentiable_solve(eqn), inputs
            else:
                closed, given = solve_program(params, inputs)
            return self.evaluate(closed.jaxpr, [self.unpack(c) for c in closed.consts], given)
        if name in MOVES:
            moved = MOVES[name](eqn, inputs)
            if moved is not None:
                return moved
        elif name in ELEMENTWISE:
            return [self._elementwise(eqn, inputs)]
        elif name in REDUCTIONS:
            if inputs[0].size:
                return [self._reduce(REDUCTIONS[name], params["axes"], inputs[0])]
            aval: Any = eqn.outvars[0].aval
            return [self.unpack(np.full(aval.shape, IDENTITIES[name], aval.dtype))]
        elif name in SCATTERS:
            scattered = self._scatter(eqn, *inputs)
            if scattered is not None:
                return [scattered]
        elif name in DECOMPOSITIONS:
            closed = decompose(eqn)
            return self.evaluate(closed.jaxpr, [self.unpack(c) for c in closed.consts], inputs)
        elif name == "dot_general":
            return [self._dot_general(eqn, *inputs)]
        if self._backend.has_rows:
            spelled = as_selections(eqn, inputs) or expand_library_call(eqn)
            if spelled is not None:
                return self.evaluate(spelled.jaxpr, [self.unpack(c) for c in spelled.consts], inputs)
        if self._scalars_only and not (name == "cond" and is_known(inputs[0][()])):
            raise UnsupportedScalarOperation(name)
        if is_batch_of_loops(eqn):
            closed = merge_loops(eqn)
            return self.evaluate(closed.jaxpr, [self.unpack(c) for c in closed.consts], inputs)
        if name == "while":
            return self._while(eqn, inputs)
        elif name == "cond":
            return self._cond(eqn, inputs)
        elif name == "scan" and self._backend.has_rows and eqn.params["length"]:
            return self._scan(eqn, inputs)
        elif name == SOLUTION:
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
        # Dimensions of size one are stretched, as the primitives themselves do.
        flat = [(x if x.shape == shape else np.broadcast_to(x, shape)).reshape(-1) for x in inputs]
        if eqn.primitive.name == "add_any":
            # The sum that differentiation makes, where it does not know the types.
            add = self.graph.binary
            return element_array(shape, (add("add", a, b) for a, b in zip(*flat, strict=True)))
        kind, operation = Kind(eqn.primitive.name, params, eqn.primitive), self.graph.operation
        return element_array(shape, (operation(kind, dtype, operands) for operands in zip(*flat, strict=True)))

    def _reduce(self, name: str, axes: Sequence[int], x: Elements) -> Elements:
        kept = [d for d in range(x.ndim) if d not in axes]
        moved = x.transpose(*kept, *axes).reshape(*(x.shape[d] for d in kept), -1)
        out = np.empty(moved.shape[:-1], dtype=object)
        for index in np.ndindex(out.shape):
            total = moved[index][0]
            for term in moved[index][1:]:
                total = self.graph.binary(name, total, term)
            out[index] = total
        return out

    def _scatter(self, eqn: Any, x: Elements, indices: Elements, updates: Elements) -> Elements | None:
        """Known indices: combine each update with the element that it goes to."""
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
        """The sum of the products of some elements."""
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
        captured = self._capture(consts)

        def run(
            inside: AbstractScalarBackend, closed: Any, which: slice, flat: list[Any]
        ) -> tuple[Unroller, list[Elements]]:
            inner = Unroller(inside)
            given = [*inner.adopt(captured[which]), *inner.restore(flat, avals)]
            return inner, inner.evaluate(closed.jaxpr, [inner.unpack(c) for c in closed.consts], given)

        def cond(inside: AbstractScalarBackend, flat: list[Any]) -> Any:
            inner, (out,) = run(inside, p["cond_jaxpr"], slice(0, nc), flat)
            return inner.flatten([out], p["cond_jaxpr"].out_avals)[0]

        def body(inside: AbstractScalarBackend, flat: list[Any]) -> list[Any]:
            inner, outs = run(inside, p["body_jaxpr"], slice(nc, None), flat)
            return inner.flatten(outs, avals)

        return self.restore(self._backend.loop(cond, body, self.flatten(start, avals)), avals)

    def _cond(self, eqn: Any, inputs: list[Elements]) -> Sequence[Elements]:
        index, *operands = inputs
        branches = eqn.params["branches"]
        if is_known(index[()]):
            chosen = branches[int(index[()])]
            return self.evaluate(chosen.jaxpr, [self.unpack(c) for c in chosen.consts], operands)
        avals = [v.aval for v in eqn.outvars]
        captured = self._capture(operands)

        def run(inside: AbstractScalarBackend, branch: Any) -> list[Any]:
            inner = Unroller(inside)
            outs = inner.evaluate(branch.jaxpr, [inner.unpack(c) for c in branch.consts], inner.adopt(captured))
            return inner.flatten(outs, avals)

        (which,) = self.graph.emit([index[()]])
        return self.restore(self._backend.branch(which, [lambda e, b=b: run(e, b) for b in branches]), avals)

    def _scan(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        """A loop over rows. What is known and equal in all of them is part of the program, or no part of it at all."""
        p = parameters(eqn)
        closed = p["jaxpr"]
        n_consts, n_carry, length = p["num_consts"], p["num_carry"], p["length"]
        consts, carry = inputs[:n_consts], inputs[n_consts : n_consts + n_carry]
        tables = [x.reshape(length, -1) for x in inputs[n_consts + n_carry :]]
        of_carry, of_rows = closed.in_avals[n_consts : n_consts + n_carry], closed.in_avals[n_consts + n_carry :]
        columns = [table[:, k] for table in tables for k in range(table.shape[1])]
        fixed = self._capture(consts)
        common = [self._capture([column[:1]])[0][0] if _is_common(column) else None for column in columns]
        varying = [column for column, same in zip(columns, common, strict=True) if same is None]
        known: list[Any] = []

        def row(inside: AbstractScalarBackend, carried: list[Any], given: list[Any]) -> tuple[list[Any], list[Any]]:
            inner, here = Unroller(inside), iter(given)
            at = iter(inner.element(next(here) if same is None else same) for same in common)
            shaped = [element_array(a.shape, at) for a in of_rows]
            args = [*inner.adopt(fixed), *inner.restore(carried, of_carry), *shaped]
            outs = inner.evaluate(closed.jaxpr, [inner.unpack(c) for c in closed.consts], args)
            moved = inner.flatten(outs[:n_carry], closed.out_avals[:n_carry])
            known[:] = [e if is_known(e) else None for x in outs[n_carry:] for e in x.flat]
            kept = inner.flatten(outs[n_carry:], closed.out_avals[n_carry:])
            return moved, [value for value, same in zip(kept, known, strict=True) if same is None]

        flat = [self.flatten([column], [_DtypeOnly(column[0].dtype)]) for column in varying]
        rows = [[column[k] for column in flat] for k in range(length)]
        carried, found = self._backend.rows(row, self.flatten(carry, of_carry), rows, p["reverse"])
        out = np.empty((length, len(known)), dtype=object)
        for k in range(length):
            made = iter(found[k])
            for column, same in enumerate(known):
                out[k, column] = self.graph.leaf(next(made)) if same is None else same
        stacked, at = [], 0
        for v in eqn.outvars[n_carry:]:
            width = math.prod(v.aval.shape[1:])
            stacked.append(out[:, at : at + width].reshape(v.aval.shape))
            at += width
        return [*self.restore(carried, of_carry), *stacked]

    def _solution(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        p, avals = eqn.params, [v.aval for v in eqn.outvars]
        *captured, x, place = split_operands(p, inputs)
        of_equation, of_precondition = map(self._capture, captured)
        of_x, of_place = avals[: len(x)], avals[len(x) :]

        def run(inside: AbstractScalarBackend, jaxpr: Any, closed_over: list[Elements], *flat: list[Any]) -> list[Any]:
            inner = Unroller(inside)
            given = inner.restore([value for part in flat for value in part], [v.aval for v in jaxpr.invars])
            outs = inner.evaluate(jaxpr, inner.adopt(closed_over), given)
            return inner.flatten(outs, [v.aval for v in jaxpr.outvars])

        outs = self._backend.solution(
            self.flatten(x, of_x),
            self.flatten(place, of_place),
            lambda inside, x: run(inside, p["equation"], of_equation, x),
            lambda inside, x, b: run(inside, p["precondition"], of_precondition, x, b),
        )
        return self.restore(outs, avals)

    def _custom_jvp(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        """An operation with a derivative of its own, which is that of JAX's `custom_jvp`."""
        inner, consts = cast(Callee, callee(eqn))
        outs = self.evaluate(inner, [self.unpack(c) for c in consts], inputs)
        avals = [v.aval for v in eqn.invars]
        moving, floats = ([k for k, v in enumerate(of) if v.aval.dtype == float] for of in (eqn.invars, eqn.outvars))
        captured = self._capture(inputs)

        def tangents(inside: AbstractScalarBackend, flat: list[Any]) -> list[Any]:
            replay, closed = Unroller(inside), _jvp_rule(eqn, avals, moving, floats)
            given = [*replay.adopt(captured), *replay.restore(flat, [avals[k] for k in moving])]
            made = replay.evaluate(closed.jaxpr, [replay.unpack(c) for c in closed.consts], given)
            return replay.flatten(made, closed.out_avals)

        of_outs = [eqn.outvars[k].aval for k in floats]
        of = self.flatten([inputs[k] for k in moving], [avals[k] for k in moving])
        ruled = self._backend.custom_jvp(self.flatten([outs[k] for k in floats], of_outs), of, tangents)
        for k, out in zip(floats, self.restore(ruled, of_outs), strict=True):
            outs[k] = out
        return outs

    def element(self, value: Any) -> Any:
        """An element of this graph from a known scalar or one of the program."""
        return value if is_known(value) else self.graph.leaf(value)

    def _capture(self, values: Sequence[Elements]) -> list[Elements]:
        """The same elements as known scalars and those of the program, ready to be used in another graph."""
        out = []
        for value in values:
            copy = np.empty(value.shape, dtype=object)
            for index, scalar in zip(np.ndindex(value.shape), self.graph.emit(list(value.flat)), strict=True):
                copy[index] = scalar
            out.append(copy)
        return out

    def adopt(self, values: Sequence[Elements]) -> list[Elements]:
        """Elements of this graph from `_captured` ones."""
        out = []
        for value in values:
            copy = np.empty(value.shape, dtype=object)
            for index in np.ndindex(value.shape):
                copy[index] = self.element(value[index])
            out.append(copy)
        return out


_CUSTOM_JVP = ("custom_jvp_call",)
_CUSTOM_VJP = ("custom_vjp_call", "custom_vjp_call_jaxpr")
"""Operations with derivatives of their own, and with such as only JAX knows to go back through."""


def _jvp_rule(eqn: Any, avals: Sequence[Any], moving: Sequence[int], floats: Sequence[int]) -> core.ClosedJaxpr:
    """From all operands and the tangents of those that move to the tangents of those results that are floats."""
    names = [core.Var(aval) for aval in avals]
    inner, _ = cast(Callee, callee(eqn))
    equation = eqn.replace(invars=names)
    alone = core.ClosedJaxpr(core.Jaxpr([], names, eqn.outvars, [equation], debug_info=inner.debug_info), [])

    def tangents(given: list[Any], dots: list[Any]) -> list[Any]:
        def outs(values: list[Any]) -> list[Any]:
            known = dict(zip(moving, values, strict=True))
            made = core.jaxpr_as_fun(alone)(*(known.get(k, x) for k, x in enumerate(given)))
            return [made[k] for k in floats]

        return jax.jvp(outs, ([given[k] for k in moving],), (dots,))[1]

    return lower(jax.make_jaxpr(tangents)(list(avals), [avals[k] for k in moving]), MACHINE_CODE)


class _DtypeOnly(NamedTuple):
    """In the place of an array's shape and type, where all that matters is the type."""

    dtype: Any


def element_array(shape: tuple[int, ...], elements: Iterable[Any]) -> Elements:
    """Elements in this shape, taken one after the other."""
    return np.fromiter(elements, object, math.prod(shape)).reshape(shape)


def _is_common(column: Elements) -> bool:
    """Whether all rows hold the same node, or the same number to the last bit."""
    first = column[0]
    if not is_known(first):
        return all(e is first for e in column)
    bits = first.tobytes()
    return all(is_known(e) and e.tobytes() == bits for e in column)
