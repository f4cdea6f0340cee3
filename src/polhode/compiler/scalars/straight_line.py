"""Straight-line code of programs on scalars: arithmetic and data movement, element by element."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jax.core import Tracer
from jax.extend import core

from polhode.compiler.array_program import Value
from polhode.compiler.primitives import gather_scatter
from polhode.compiler.primitives.implicit_solution import SOLUTION
from polhode.compiler.scalars.array_view import ArrayView, constant_view, look_up
from polhode.compiler.scalars.backend import AbstractScalarBackend, Kind, UnsupportedScalarOperation
from polhode.compiler.scalars.data_movement import MOVES, scatter_targets
from polhode.compiler.scalars.graph import Elements, Graph, is_known
from polhode.compiler.scalars.normal_form import CUSTOM_JVP, ScalarNormaliser
from polhode.compiler.scalars.primitives import ELEMENTWISE, IDENTITIES, REDUCTIONS, SCATTERS
from polhode.compiler.scalars.procedures import CALLS, repeated_calls, shared_operands
from polhode.compiler.scalars.program import ConstantArray
from polhode.compiler.scalars.select_gather import as_selections


class AbstractUnroller(abc.ABC):
    """Evaluates jaxprs element by element in one graph; straight-line code here, programs in it where it is inherited.

    **Arguments:**

    - `backend`: the program under construction.
    - `scalars_only`: whether to raise `UnsupportedScalarOperation` where an operation needs arrays, instead of packing
      their elements.
    """

    def __init__(self, backend: AbstractScalarBackend, scalars_only: bool = False) -> None:
        self.graph = Graph(backend)
        self._backend = backend
        self._scalars_only = scalars_only
        self._constant_arrays: dict[tuple[Any, bytes], ConstantArray] = {}
        self._shared: dict[core.Jaxpr, list[bool]] = {}
        self._kinds: dict[int, tuple[Any, Kind]] = {}

    def evaluate(self, jaxpr: Any, consts: Sequence[Elements], args: Sequence[Elements]) -> list[Elements]:
        repeated = repeated_calls(jaxpr) if self._backend.has_procedures else frozenset[core.Jaxpr]()
        program = ScalarNormaliser(self._backend, repeated).program(jaxpr)
        if repeated:
            self._shared.update(shared_operands(program.equations))
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

    def evaluate_closed(self, program: core.ClosedJaxpr, args: Sequence[Elements]) -> list[Elements]:
        return self.evaluate(program.jaxpr, list(map(self.unpack, program.consts)), args)

    def unpack(self, x: Any) -> Elements:
        """The elements of an array; those of a constant array are constants."""
        shape = np.shape(x)
        if not isinstance(x, Tracer):
            # JAX arrays too: as constants inside one machine function they make XLA abort.
            return element_array(shape, np.asarray(x).reshape(-1))
        array: Any = x
        return element_array(shape, (self.graph.leaf(array[index] if shape else array) for index in np.ndindex(shape)))

    def restore(self, flat: Sequence[Any], avals: Sequence[Any]) -> list[Elements]:
        """Elements of the given shapes from one flat list of scalars, and arrays, of the program."""
        out, at = [], 0
        for aval in avals:
            size = math.prod(aval.shape)
            if size and isinstance(flat[at], ArrayView):
                out.append(flat[at]._replace(shape=aval.shape))
                at += 1
                continue
            out.append(element_array(aval.shape, map(self.element, flat[at : at + size])))
            at += size
        return out

    def flatten(self, values: Sequence[Elements], avals: Sequence[Any]) -> list[Any]:
        """All elements as one flat list of scalars of the program."""
        values = list(map(self.elements, values))
        elements = [e for v in values for e in v.flat]
        dtypes = [a.dtype for v, a in zip(values, avals, strict=True) for _ in v.flat]
        return list(map(self._backend.scalar, self.graph.emit(elements), dtypes))

    def _apply(self, eqn: Any, inputs: list[Elements]) -> Sequence[Elements]:
        """The results of an operation of the normal form, see `ScalarNormaliser`."""
        name = eqn.primitive.name
        if any(isinstance(x, ArrayView) for x in inputs) and name not in _WITH_PROGRAMS:
            return self._apply_to_views(eqn, inputs)
        if name in ELEMENTWISE:
            return [self._elementwise(eqn, inputs)]
        if name == "dot_general":
            return [self._dot_general(eqn, *inputs)]
        if name in REDUCTIONS:
            return [self._reduction(eqn, *inputs)]
        moved = self._move(eqn, inputs)
        if moved is not None:
            return moved
        constants = self._constants(eqn, inputs) if name in ("gather", "dynamic_slice") else None
        if constants is not None:
            return self._apply_to_views(eqn, [constants, *inputs[1:]])
        selections = as_selections(eqn, inputs) if self._backend.has_rows else None
        if selections is not None:
            return self.evaluate_closed(selections, inputs)
        if self._scalars_only and not (name == "cond" and is_known(inputs[0][()])):
            raise UnsupportedScalarOperation(name)
        return self._compound(eqn, inputs)

    def elements(self, x: Elements | ArrayView) -> Elements:
        """The elements of an array, of one in memory too."""
        return x.elements(self.graph) if isinstance(x, ArrayView) else x

    def _apply_to_views(self, eqn: Any, inputs: list[Any]) -> Sequence[Any]:
        """The results of an operation on arrays in memory: a look-up, or that on their elements."""
        result = look_up(self.graph, eqn, inputs)
        return self._apply(eqn, list(map(self.elements, inputs))) if result is None else [result]

    def _constants(self, eqn: Any, inputs: list[Elements]) -> ArrayView | None:
        """The operand of a read, if it is to be constants in memory."""
        if not self._backend.has_rows:
            return None
        return constant_view(inputs[0], eqn.invars[0].aval.dtype, self._constant_arrays)

    def _move(self, eqn: Any, inputs: list[Elements]) -> list[Elements] | None:
        """The results of data movement to and from places that are known; None for other operations."""
        name = eqn.primitive.name
        if name in MOVES:
            return MOVES[name](eqn, inputs)
        result = self._scatter(eqn, *inputs) if name in SCATTERS else None
        return None if result is None else [result]

    @abc.abstractmethod
    def _compound(self, eqn: Any, inputs: list[Elements]) -> Sequence[Elements]:
        """The results of an operation that has programs inside, or needs arrays."""

    def _foreign(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        flat = [self.flatten([x], [v.aval]) for x, v in zip(inputs, eqn.invars, strict=True)]
        return [self.unpack(out) for out in self._backend.foreign(eqn, flat)]

    def _elementwise(self, eqn: Any, inputs: list[Elements]) -> Elements:
        shape, dtype = eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype
        # Dimensions of size one are broadcast, as by the primitives themselves.
        flat = [(x if x.shape == shape else np.broadcast_to(x, shape)).reshape(-1) for x in inputs]
        if eqn.primitive.name == "add_any":
            # The sum of cotangents in differentiation, whatever their types.
            add = self.graph.binary
            return element_array(shape, (add("add", a, b) for a, b in zip(*flat, strict=True)))
        kind, operation = self._kind(eqn), self.graph.operation
        return element_array(shape, (operation(kind, dtype, operands) for operands in zip(*flat, strict=True)))

    def _kind(self, eqn: Any) -> Kind:
        """The kind of an operation; programs that are called several times have the same one again and again."""
        if id(eqn) not in self._kinds:
            params = {key: None if key == "sharding" else value for key, value in eqn.params.items()}
            # The operation stays alive, since its address identifies it.
            self._kinds[id(eqn)] = eqn, Kind(eqn.primitive.name, params, eqn.primitive)
        return self._kinds[id(eqn)][1]

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

    def element(self, value: Any) -> Any:
        """An element of this graph, from a constant or a scalar of the program."""
        return value if is_known(value) else self.graph.leaf(value)

    def capture(self, values: Sequence[Elements]) -> list[Elements]:
        """The same elements as constants and scalars of the program, for use in another graph."""
        out: list[Any] = []
        for value in values:
            if isinstance(value, ArrayView):
                out.append(value._replace(begins=self.capture([value.begins])[0]))
                continue
            copy = np.empty(value.shape, dtype=object)
            for index, scalar in zip(np.ndindex(value.shape), self.graph.emit(list(value.flat)), strict=True):
                copy[index] = scalar
            out.append(copy)
        return out

    def adopt(self, values: Sequence[Elements]) -> list[Elements]:
        """Elements of this graph from the result of `capture`."""
        out: list[Any] = []
        for value in values:
            if isinstance(value, ArrayView):
                out.append(value._replace(begins=self.adopt([value.begins])[0]))
                continue
            copy = np.empty(value.shape, dtype=object)
            for index in np.ndindex(value.shape):
                copy[index] = self.element(value[index])
            out.append(copy)
        return out


_WITH_PROGRAMS = frozenset(["while", "cond", "scan", SOLUTION, *CUSTOM_JVP, *CALLS])
"""Operations whose programs may look up in arrays in memory, too."""


def element_array(shape: tuple[int, ...], elements: Iterable[Any]) -> Elements:
    """An array of this shape, filled with elements in row-major order."""
    return np.fromiter(elements, object, math.prod(shape)).reshape(shape)
