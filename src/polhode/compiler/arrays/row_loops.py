"""Loops over rows whose body is an unrolled scalar program: a row in registers, constants folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from polhode.compiler import size_limits
from polhode.compiler.array_program import Equation
from polhode.compiler.arrays.array_ir import Place, Scalar, While
from polhode.compiler.arrays.block_builder import INTEGER, TRUTH, BlockBuilder
from polhode.compiler.arrays.operands import AbstractArray, Buffer, Constant, allocate, allocate_rows
from polhode.compiler.arrays.selection import has_dynamic_indices
from polhode.compiler.scalars.backend import UnsupportedScalarOperation
from polhode.compiler.scalars.cost import cost
from polhode.compiler.scalars.graph import Elements, is_known
from polhode.compiler.scalars.program import Program, ProgramBackend, Variable
from polhode.compiler.scalars.unroll import Unroller

_ANY_ROW = Variable(INTEGER)
"""Stands for the row index while constants of all rows are determined."""


class ScalarBody:
    """The program of one row.

    - `consts`, `carry`, `rows`: for each operand, its elements: variables or constants.
    - `program`: the scalar program; `outs`: for each result, its elements.
    """

    def __init__(self, closed_jaxpr: Any, n_consts: int, n_carry: int, operands: Sequence[AbstractArray]) -> None:
        avals = closed_jaxpr.in_avals
        kinds = [_elements(x, a.shape, ()) for x, a in zip(operands[:n_consts], avals, strict=False)]
        kinds += [_variables(a) for a in avals[n_consts : n_consts + n_carry]]
        n_before_rows = n_consts + n_carry
        kinds += [
            _elements(x, a.shape, (_ANY_ROW,))
            for x, a in zip(operands[n_before_rows:], avals[n_before_rows:], strict=True)
        ]
        self.consts, self.carry, self.rows = kinds[:n_consts], kinds[n_consts:n_before_rows], kinds[n_before_rows:]
        self.program = Program([])
        unroller = Unroller(ProgramBackend(self.program))
        consts = [unroller.unpack(c) for c in closed_jaxpr.consts]
        results = unroller.evaluate(closed_jaxpr.jaxpr, consts, unroller.adopt(kinds))
        self.program.outputs = unroller.flatten(results, closed_jaxpr.out_avals)
        self.program.prune()
        self.operand_variables = self.program.free_variables
        outputs = iter(self.program.outputs)
        self.outs = [_reshape([next(outputs) for _ in range(x.size)], x.shape) for x in results]

    def read_operands(
        self, k: BlockBuilder, elements: Sequence[Elements], operands: Sequence[AbstractArray], at: Place
    ) -> None:
        """Reads those elements of operands that the program uses."""
        for of, x in zip(elements, operands, strict=True):
            for place in np.ndindex(of.shape):
                element: Any = of[place]
                if isinstance(element, Variable) and element in self.operand_variables:
                    k.bind(element, x.at(k, (*at, *place)))


def scalar_body(p: Any, operands: Sequence[AbstractArray]) -> ScalarBody | None:
    """The body of a scan as a scalar program; None if it is large or needs arrays."""
    closed_jaxpr, n_consts = p["jaxpr"], p["num_consts"]
    avals = (*closed_jaxpr.in_avals, *closed_jaxpr.out_avals)
    if sum(a.size for a in closed_jaxpr.in_avals) > size_limits.NUMBERS or any(a.dtype == np.uint32 for a in avals):
        return None
    # Rows differ from each other, even constant ones.
    is_constant = [isinstance(x, Constant) and k < n_consts for k, x in enumerate(operands)]
    if has_dynamic_indices(closed_jaxpr.jaxpr, is_constant) or cost(closed_jaxpr.jaxpr, scans=True) > size_limits.ROW:
        return None
    try:
        return ScalarBody(closed_jaxpr, n_consts, p["num_carry"], operands)
    except UnsupportedScalarOperation:
        return None


@final
class PartlyConstant(AbstractArray):
    """An array in memory of which some elements are constants, equal in all rows.

    **Arguments:**

    - `memory`: all elements. - `elements`: those of a row: variables, or constants.
    """

    def __init__(self, memory: Buffer, elements: Elements) -> None:
        self.memory, self.elements = memory, elements
        self.shape, self.dtype = memory.shape, memory.dtype

    def at(self, k: BlockBuilder, place: Place) -> Scalar:
        inside: Any = place[1:]
        if all(isinstance(p, int) for p in inside):
            element = self.elements[inside]
            if is_known(element):
                return element
        return self.memory.at(k, place)


def _variables(aval: Any) -> Elements:
    return _reshape([Variable(np.dtype(aval.dtype)) for _ in range(aval.size)], aval.shape)


def _elements(x: AbstractArray, shape: tuple[int, ...], at: Place) -> Elements:
    """Variables, or constants where an element is known."""
    aside = BlockBuilder()
    out = np.empty(shape, dtype=object)
    for place in np.ndindex(shape):
        if at and isinstance(x, Constant) and _same_bits(column := x.values[:, *place]):
            out[place] = column[0]
            continue
        element = x.at(aside, (*at, *place))
        out[place] = Variable(np.dtype(x.dtype)) if isinstance(element, Variable) else element
    return out


def _same_bits(column: np.ndarray) -> bool:
    return len({element.tobytes() for element in column}) == 1


def _reshape(elements: list[Any], shape: tuple[int, ...]) -> Elements:
    out = np.empty(len(elements), dtype=object)
    out[:] = elements
    return out.reshape(shape)


def scan_rows(
    k: BlockBuilder, e: Equation, x: Sequence[AbstractArray], body: ScalarBody
) -> list[Buffer | PartlyConstant]:
    """The results of a scan."""
    p = e.params
    n_consts, n_carry, length = p["num_consts"], p["num_carry"], p["length"]
    n_before_rows = n_consts + n_carry
    rows = [allocate_rows(k, v.shape, v.dtype) for v in e.outputs[n_carry:]]
    ends = [allocate(k, v.shape, v.dtype) for v in e.outputs[:n_carry]]
    with k.scratch():
        body.read_operands(k, body.consts, x[:n_consts], ())
        start = [a.at(k, place) for a in x[n_consts:n_before_rows] for place in np.ndindex(a.shape)]
        count, carry = Variable(INTEGER), [v for of in body.carry for v in of.flat]
        with k.inside() as condition:
            proceeds = k.apply("lt", TRUTH, count, length)
        with k.inside() as block, k.scope():
            at = k.apply("sub", INTEGER, length - 1, count) if p["reverse"] else count
            body.read_operands(k, body.rows, x[n_before_rows:], (at,))
            results = k.call(body.program, [])
            _put_all(k, rows, (at,), results[len(start) :])
            following = k.apply("add", INTEGER, count, 1), *results[: len(start)]
        k.append(While((count, *carry), (np.int64(0), *start), condition, proceeds, block, following))
        _put_all(k, ends, (), carry)
    return [*ends, *(PartlyConstant(to, elements) for to, elements in zip(rows, body.outs[n_carry:], strict=True))]


def _put_all(k: BlockBuilder, into: Sequence[Buffer], at: Place, values: Sequence[Scalar]) -> None:
    """Stores all elements of arrays, or of their parts at a place."""
    remaining_values = iter(values)
    for to in into:
        for place in np.ndindex(to.shape[len(at) :]):
            to.put(k, (*at, *place), next(remaining_values))
