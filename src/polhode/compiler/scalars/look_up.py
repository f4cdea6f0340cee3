"""Look-ups at indices known only at run time, in arrays that stay in memory.

An array that programs only read, such as a table of a user's load, is a variable of its own: it costs as much to compile
with ten thousand numbers as with ten, and a read is one load. What else is done with one is done element by element.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend import core

from polhode.compiler.jaxprs import callee, parameters
from polhode.compiler.primitives import gather_scatter
from polhode.compiler.scalars.backend import Kind
from polhode.compiler.scalars.graph import Elements, Graph, is_known
from polhode.compiler.scalars.program import ConstantArray, Variable
from polhode.compiler.scalars.select_gather import fill_value

SELECTED = 16
"""Numbers of an array up to which an element is selected by comparing its index with every position: a read takes some
five instructions, and a comparison with a choice two for each position, without access to memory."""

_SMALL = 4
"""Numbers of a part of an array that may be read one by one."""

_INTEGER, _TRUTH = np.dtype(np.int64), np.dtype(bool)
_READ, _CONVERT = Kind("read", {}), Kind("convert_element_type", {"new_dtype": _INTEGER})
_RESHAPES = ("reshape", "squeeze", "expand_dims")
VIEWS_OF_ARRAYS = (*_RESHAPES, "slice")
"""Operations that only say where elements are; `slice` where it takes whole rows."""


class ArrayView(NamedTuple):
    """An array in memory, or a contiguous part of it.

    - `array`: the variable. - `begin`: the position of the first element, an element itself. - `shape`: of the part.
    - `dtype`: of its elements.
    """

    array: Variable
    begin: Any
    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def whole(cls, array: Variable, shape: tuple[int, ...]) -> ArrayView:
        """All of an array."""
        return cls(array, np.int64(0), shape, array.dtype.dtype)

    def elements(self, graph: Graph) -> Elements:
        """All elements, one by one."""
        return self.read(graph, np.arange(math.prod(self.shape)).reshape(self.shape))

    def read(self, graph: Graph, positions: np.ndarray) -> Elements:
        """The elements at these positions, which are elements or numbers."""
        leaf, out = graph.leaf(self.array), np.empty(positions.shape, dtype=object)
        for place in np.ndindex(positions.shape):
            position = positions[place]
            position = graph.binary("add", self.begin, np.int64(position) if is_known(position) else position)
            out[place] = graph.operation(_READ, self.dtype, (leaf, position))
        return out

    def rows(self, graph: Graph) -> Iterator[ArrayView]:
        """The parts along the first axis."""
        size = math.prod(self.shape[1:])
        for k in range(self.shape[0]):
            yield self._replace(begin=graph.binary("add", self.begin, np.int64(k * size)), shape=self.shape[1:])


def constant_view(elements: Elements, dtype: Any, arrays: dict[bytes, ConstantArray]) -> ArrayView | None:
    """A view of constants, for look-ups; None of others, and of few. `arrays`: equal ones are one."""
    if elements.size <= SELECTED or not all(map(is_known, elements.flat)):
        return None
    values = elements.astype(dtype)
    array = arrays.setdefault(values.tobytes(), ConstantArray(values.reshape(-1)))
    return ArrayView.whole(array, elements.shape)


def look_up(graph: Graph, eqn: Any, view: ArrayView, others: Sequence[Elements]) -> Elements | ArrayView | None:
    """The result of an operation on an array in memory; None if it takes the elements."""
    name = eqn.primitive.name
    if name in _RESHAPES:
        return view._replace(shape=eqn.outvars[0].aval.shape)
    if name == "slice" and _is_contiguous(eqn):
        begin = eqn.params["start_indices"][0] * math.prod(view.shape[1:])
        return view._replace(
            begin=graph.binary("add", view.begin, np.int64(begin)), shape=tuple(eqn.outvars[0].aval.shape)
        )
    if name == "dynamic_slice":
        return _dynamic_slice(graph, eqn, view, others)
    return _gather(graph, eqn, view, others[0]) if name == "gather" else None


def _is_contiguous(eqn: Any) -> bool:
    """Whether a slice takes whole rows, one after the other."""
    p, shape = eqn.params, eqn.invars[0].aval.shape
    begins, ends = p["start_indices"], p["limit_indices"]
    return not any(begins[1:]) and tuple(ends[1:]) == shape[1:] and (p["strides"] or (1,))[0] == 1 and bool(shape)


def _dynamic_slice(graph: Graph, eqn: Any, view: ArrayView, starts: Sequence[Elements]) -> Elements | ArrayView:
    sizes, begin = eqn.params["slice_sizes"], view.begin
    for start, n, m, stride in zip(starts, view.shape, sizes, _strides(view.shape), strict=True):
        begin = graph.binary("add", begin, _scaled(graph, _clipped(graph, start[()], n - m), stride))
    if tuple(sizes[1:]) == view.shape[1:]:
        return view._replace(begin=begin, shape=tuple(sizes))
    window = np.arange(math.prod(view.shape)).reshape(view.shape)[tuple(slice(0, m) for m in sizes)]
    return view._replace(begin=begin).read(graph, window)


def _gather(graph: Graph, eqn: Any, view: ArrayView, indices: Elements) -> Elements:
    p, dims = eqn.params, eqn.params["dimension_numbers"]
    out, strides = eqn.outvars[0].aval, _strides(view.shape)
    begins, inside = (np.empty(indices.shape[:-1], dtype=object) for _ in range(2))
    for place in np.ndindex(begins.shape):
        begin, is_inside = np.int64(0), np.bool_(True)
        for k, d in enumerate(dims.start_index_map):
            high, index = view.shape[d] - p["slice_sizes"][d], indices[(*place, k)]
            begin = graph.binary("add", begin, _scaled(graph, _clipped(graph, index, high), strides[d]))
            is_inside = graph.binary("and", is_inside, _is_within(graph, index, high))
        begins[place], inside[place] = begin, is_inside
    first = gather_scatter.gather_positions(p, view.shape, np.zeros(indices.shape, np.int64))
    begins, inside = (np.broadcast_to(np.expand_dims(x, dims.offset_dims), out.shape) for x in (begins, inside))
    positions = np.empty(out.shape, dtype=object)
    for place in np.ndindex(out.shape):
        positions[place] = graph.binary("add", np.int64(first[place]), begins[place])
    result = view.read(graph, positions)
    if "FILL" in str(p["mode"]).upper():
        fill = out.dtype.type(fill_value(p, out.dtype))
        for place in np.ndindex(out.shape):
            choice = (inside[place], fill, result[place])
            result[place] = graph.operation(Kind("select_n", {}), out.dtype, choice)
    return result


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _whole(graph: Graph, index: Any) -> Any:
    """An index as a number of 64 bits."""
    return index if index.dtype == _INTEGER else graph.operation(_CONVERT, _INTEGER, (index,))


def _clipped(graph: Graph, index: Any, high: int) -> Any:
    """The nearest index from 0 to the highest."""
    return graph.binary("min", graph.binary("max", _whole(graph, index), np.int64(0)), np.int64(high))


def _scaled(graph: Graph, index: Any, stride: int) -> Any:
    return index if stride == 1 else graph.binary("mul", index, np.int64(stride))


def _is_within(graph: Graph, index: Any, high: int) -> Any:
    index = _whole(graph, index)
    low = graph.operation(Kind("ge", {}), _TRUTH, (index, np.int64(0)))
    return graph.binary("and", low, graph.operation(Kind("le", {}), _TRUTH, (index, np.int64(high))))


def looked_up(jaxpr: core.Jaxpr) -> list[bool]:
    """Which arguments of a program are arrays that it only reads, whole ones or small parts of them."""
    return [math.prod(v.aval.shape) > SELECTED and _is_only_read(jaxpr, v) for v in jaxpr.invars]


def _is_only_read(jaxpr: core.Jaxpr, v: Any) -> bool:
    if any(x is v for x in jaxpr.outvars):
        return False
    uses = [(eqn, k) for eqn in jaxpr.eqns for k, x in enumerate(eqn.invars) if x is v]
    return all(_reads(jaxpr, eqn, k) for eqn, k in uses)


def _reads(jaxpr: core.Jaxpr, eqn: Any, k: int) -> bool:
    """Whether an operation only reads its operand number k."""
    name, out = eqn.primitive.name, eqn.outvars[0] if eqn.outvars else None
    if name == "gather":
        return k == 0 and math.prod(out.aval.shape) <= _SMALL
    if name in (*VIEWS_OF_ARRAYS, "dynamic_slice"):
        return k == 0 and (math.prod(out.aval.shape) <= _SMALL or _is_only_read(jaxpr, out))
    inside = _inside(eqn, k)
    return bool(inside) and all(_is_only_read(inner, inner.invars[n]) for inner, n in inside)


def _inside(eqn: Any, k: int) -> list[tuple[core.Jaxpr, int]]:
    """The programs inside an operation that take its operand number k, and as which argument."""
    call = callee(eqn)
    if call is not None:
        return [(call[0], k)]
    name, p = eqn.primitive.name, parameters(eqn)
    if name == "while":
        nc, nb = p["cond_nconsts"], p["body_nconsts"]
        if k < nc:
            return [(p["cond_jaxpr"].jaxpr, k)]
        return [(p["body_jaxpr"].jaxpr, k - nc)] if k < nc + nb else []
    if name == "scan":
        is_carry = p["num_consts"] <= k < p["num_consts"] + p["num_carry"]
        return [] if is_carry else [(p["jaxpr"].jaxpr, k)]
    if name == "cond":
        return [(branch.jaxpr, k - 1) for branch in p["branches"]] if k else []
    return []
