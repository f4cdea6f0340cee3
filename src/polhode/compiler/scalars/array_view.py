"""Arrays that stay in memory while a program on scalars is unrolled, and look-ups in them.

Such an array costs as much to compile with ten thousand numbers as with ten, and a read at an index known only at run
time is one load. What else is done with one is done element by element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode.compiler.primitives import gather_scatter
from polhode.compiler.scalars.backend import Kind
from polhode.compiler.scalars.graph import Elements, Graph, is_known
from polhode.compiler.scalars.program import ConstantArray, Variable
from polhode.compiler.scalars.select_gather import fill_value

SELECTED = 16
"""Numbers of an array up to which an element is selected by comparing its index with every position: a read takes some
five instructions, and a comparison with a choice two for each position, without access to memory."""

VIEWS = ("reshape", "squeeze", "expand_dims", "broadcast_in_dim", "slice", "stack", "concatenate", "stop_gradient")
"""Operations that may only say where elements are; arrays with derivatives are no views."""

INTEGER, _TRUTH = np.dtype(np.int64), np.dtype(bool)
_READ, _SELECT = Kind("read", {}), Kind("select_n", {})
_CONVERT = Kind("convert_element_type", {"new_dtype": INTEGER})


class ArrayView(NamedTuple):
    """Parts of one array in memory, each of them contiguous: tables of several functions are stacked so.

    - `array`: the variable.
    - `begins`: positions of the first elements of the parts, without an axis for a single part, or with one.
    - `shape`, `dtype`: of the whole, where the axis of `begins` comes first.
    """

    array: Variable
    begins: Elements
    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def at(cls, array: Variable, begin: Any, shape: tuple[int, ...], dtype: Any) -> ArrayView:
        """A single part."""
        return cls(array, _single(begin), shape, dtype)

    @property
    def part(self) -> tuple[int, ...]:
        """The shape of a part."""
        return self.shape[self.begins.ndim :]

    def elements(self, graph: Graph) -> Elements:
        """All elements, one by one."""
        size, out = math.prod(self.part), np.empty(math.prod(self.shape), dtype=object)
        for k in range(len(out)):
            out[k] = self.read(graph, self.begins.flat[k // size], k % size)
        return out.reshape(self.shape)

    def read(self, graph: Graph, begin: Any, position: Any) -> Any:
        """The element of a part at this position, a number or an element."""
        position = np.int64(position) if isinstance(position, int) else position
        return graph.operation(_READ, self.dtype, (graph.leaf(self.array), graph.binary("add", begin, position)))

    def rows(self, graph: Graph) -> list[Any]:
        """Where each of the parts along the first axis begins."""
        if self.begins.ndim:
            return list(self.begins)
        size = math.prod(self.shape[1:])
        return [graph.binary("add", self.begins[()], np.int64(k * size)) for k in range(self.shape[0])]

    def shift(self, graph: Graph, slots: Any, shape: tuple[int, ...]) -> ArrayView:
        """A part of the only part, so many slots further."""
        return self._replace(begins=_single(graph.binary("add", self.begins[()], slots)), shape=shape)


def constant_view(elements: Elements, dtype: Any, arrays: dict[tuple[Any, bytes], ConstantArray]) -> ArrayView | None:
    """A view of constants, for look-ups; None of others, and of few. `arrays`: equal ones are one."""
    if elements.size <= SELECTED or not all(map(is_known, elements.flat)):
        return None
    values = elements.astype(dtype)
    array = arrays.setdefault((values.dtype, values.tobytes()), ConstantArray(values.reshape(-1)))
    return ArrayView.at(array, np.int64(0), elements.shape, values.dtype)


def look_up(graph: Graph, eqn: Any, inputs: Sequence[Any]) -> Elements | ArrayView | None:
    """The result of an operation on views, or on a view and indices; None if it takes the elements."""
    name, shape = eqn.primitive.name, eqn.outvars[0].aval.shape
    if name in ("stack", "concatenate"):
        return _join(eqn, inputs, shape)
    view = inputs[0]
    if not isinstance(view, ArrayView) or any(isinstance(x, ArrayView) for x in inputs[1:]):
        return None
    if name == "dynamic_slice":
        return _dynamic_slice(graph, eqn, view, inputs[1:])
    if name == "gather":
        return _gather(graph, eqn, view, inputs[1])
    if name == "slice":
        return _slice(graph, eqn, view)
    if name not in VIEWS or math.prod(shape) != math.prod(view.shape):
        return None
    if view.begins.size == 1:
        return view._replace(begins=_single(view.begins.flat[0]), shape=shape)
    return view._replace(shape=shape) if shape[:1] == view.shape[:1] else None


def _single(begin: Any) -> Elements:
    out = np.empty((), dtype=object)
    out[()] = begin
    return out


def _join(eqn: Any, views: Sequence[Any], shape: tuple[int, ...]) -> ArrayView | None:
    """Parts side by side along a first axis."""
    axis = eqn.params["axis" if eqn.primitive.name == "stack" else "dimension"]
    new = int(eqn.primitive.name == "concatenate")
    if axis or not all(isinstance(x, ArrayView) and x.array is views[0].array for x in views):
        return None
    if any(x.begins.size > 1 or x.shape[:new] not in ((), (1,)) for x in views):
        return None
    begins = np.empty(len(views), dtype=object)
    for k, x in enumerate(views):
        begins[k] = x.begins.flat[0]
    return views[0]._replace(begins=begins, shape=shape)


def _slice(graph: Graph, eqn: Any, view: ArrayView) -> ArrayView | None:
    """Whole rows, one after the other."""
    p, out = eqn.params, eqn.outvars[0].aval.shape
    begins, ends = p["start_indices"], p["limit_indices"]
    if any(begins[1:]) or tuple(ends[1:]) != view.shape[1:] or not begins or (p["strides"] or (1,))[0] != 1:
        return None
    if view.begins.ndim:
        return view._replace(begins=view.begins[begins[0] : ends[0]], shape=out)
    return view.shift(graph, np.int64(begins[0] * math.prod(view.shape[1:])), out)


def _dynamic_slice(graph: Graph, eqn: Any, view: ArrayView, starts: Sequence[Elements]) -> Elements | ArrayView | None:
    sizes = tuple(eqn.params["slice_sizes"])
    places = [_clip(graph, s[()], n - m) for s, n, m in zip(starts, view.shape, sizes, strict=True)]
    if view.begins.ndim:
        if not is_known(places[0]) or sizes[0] != 1:
            return None
        view = view._replace(begins=_single(view.begins[int(places[0])]), shape=(1, *view.part))
        places[0] = np.int64(0)
    position: Any = np.int64(0)
    for place, stride in zip(places, _strides(view.shape), strict=True):
        position = graph.binary("add", position, _times(graph, place, stride))
    window = view.shift(graph, position, view.shape)
    if sizes[1:] == view.shape[1:]:
        return window._replace(shape=sizes)
    within = np.arange(math.prod(view.shape)).reshape(view.shape)[tuple(slice(0, m) for m in sizes)]
    out = np.empty(sizes, dtype=object)
    for place in np.ndindex(sizes):
        out[place] = window.read(graph, window.begins[()], int(within[place]))
    return out


def _gather(graph: Graph, eqn: Any, view: ArrayView, indices: Elements) -> Elements | None:
    p, dims, out = eqn.params, eqn.params["dimension_numbers"], eqn.outvars[0].aval
    strides, starts = _strides(view.shape), [k for k, d in enumerate(dims.start_index_map) if d < view.begins.ndim]
    if not all(is_known(i) for k in starts for i in indices[..., k].flat):
        return None
    rows, moves, inside = (np.empty(indices.shape[:-1], dtype=object) for _ in range(3))
    for place in np.ndindex(rows.shape):
        at: list[Any] = [np.int64(0), np.int64(0)]
        is_inside: Any = np.bool_(True)
        for k, d in enumerate(dims.start_index_map):
            high, index = view.shape[d] - p["slice_sizes"][d], indices[(*place, k)]
            step = _times(graph, _clip(graph, index, high), strides[d])
            at[k in starts] = graph.binary("add", at[k in starts], step)
            is_inside = graph.binary("and", is_inside, _is_within(graph, index, high))
        moves[place], rows[place], inside[place] = *at, is_inside
    first = gather_scatter.gather_positions(p, view.shape, np.zeros(indices.shape, np.int64))
    rows, moves, inside = (
        np.broadcast_to(np.expand_dims(x, dims.offset_dims), out.shape) for x in (rows, moves, inside)
    )
    size, result = math.prod(view.part), np.empty(out.shape, dtype=object)
    fill = out.dtype.type(fill_value(p, out.dtype)) if "FILL" in str(p["mode"]).upper() else None
    for place in np.ndindex(out.shape):
        row, position = divmod(int(first[place]) + int(rows[place]), size)
        value = view.read(graph, view.begins.flat[row], graph.binary("add", np.int64(position), moves[place]))
        choice = (inside[place], fill, value)
        result[place] = value if fill is None else graph.operation(_SELECT, out.dtype, choice)
    return result


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _whole(graph: Graph, index: Any) -> Any:
    """An index as a number of 64 bits."""
    return index if index.dtype == INTEGER else graph.operation(_CONVERT, INTEGER, (index,))


def _clip(graph: Graph, index: Any, high: int) -> Any:
    """The nearest index from 0 to the highest."""
    return graph.binary("min", graph.binary("max", _whole(graph, index), np.int64(0)), np.int64(high))


def _times(graph: Graph, index: Any, stride: int) -> Any:
    return index if stride == 1 else graph.binary("mul", index, np.int64(stride))


def _is_within(graph: Graph, index: Any, high: int) -> Any:
    index = _whole(graph, index)
    low = graph.operation(Kind("ge", {}), _TRUTH, (index, np.int64(0)))
    return graph.binary("and", low, graph.operation(Kind("le", {}), _TRUTH, (index, np.int64(high))))
