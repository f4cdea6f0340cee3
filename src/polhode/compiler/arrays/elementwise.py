"""Operations computed element by element: arithmetic, reductions, gathers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polhode.compiler.array_program import Equation
from polhode.compiler.arrays.array_ir import Index, Place, Scalar
from polhode.compiler.arrays.block_builder import INTEGER, TRUTH, BlockBuilder
from polhode.compiler.arrays.fusion import MAX_UNROLLED, is_long
from polhode.compiler.arrays.operands import AbstractArray, Constant, LazyArray, allocate
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.scalars.primitives import ELEMENTWISE, REDUCTIONS
from polhode.compiler.scalars.program import Variable

LANES = 16
"""Number of partial sums of a long sum, so that additions needn't wait for each other."""

_TOTAL = {"le_to": "le", "lt_to": "lt"}

Element = Callable[[BlockBuilder, Place], Scalar]
Prepare = Callable[[tuple[int, ...], Place], None]


def build_elements(e: Equation, x: list[AbstractArray], prepare: Prepare) -> list[AbstractArray]:
    """The results. `prepare` is called with shape and place of the operand's elements in a long reduction."""
    if e.name in ELEMENTWISE or e.name in _TOTAL:
        element = _elementwise(e, x)
    elif e.name in REDUCTIONS:
        element = _long_reduction(e, x[0], prepare) if is_long(e) else _short_reduction(e, x[0])
    elif e.name in _OTHERS:
        element = _OTHERS[e.name](e, x)
    else:
        raise UnsupportedNativeOperation(e.name)
    (v,) = e.outputs
    return [LazyArray(v.shape, v.dtype, element)]


def _elementwise(e: Equation, x: list[AbstractArray]) -> Element:
    name = e.name if x[0].dtype.kind == "f" else _TOTAL.get(e.name, e.name)
    dtype, same = (
        e.outputs[0].dtype,
        e.name == "real" or (e.name, x[0].dtype) == ("convert_element_type", e.outputs[0].dtype),
    )

    def element(k: BlockBuilder, place: Place) -> Scalar:
        values = [a.at(k, _stretched_place(a, place)) for a in x]
        return values[0] if same else k.apply(name, dtype, *values, params=e.params)

    return element


def _stretched_place(a: AbstractArray, place: Place) -> Place:
    """The place in an operand, whose axes of length one are broadcast."""
    return tuple(p if n != 1 else 0 for p, n in zip(place, a.shape, strict=True)) if a.shape else ()


# --- reductions -------------------------------------------------------------------------------------------------------


def _short_reduction(e: Equation, a: AbstractArray) -> Element:
    along = e.params["axes"]
    lengths = [a.shape[d] for d in along]

    def element(k: BlockBuilder, place: Place) -> Scalar:
        parts = (a.at(k, _operand_place(along, inside, place)) for inside in itertools.product(*map(range, lengths)))
        total = next(parts, None)
        if total is None:
            return identity(e.name, e.outputs[0].dtype)
        for part in parts:
            total = combine(k, e.name, total, part)
        return total

    return element


def _long_reduction(e: Equation, a: AbstractArray, prepare: Prepare) -> Element:
    """Element l of the last long axis contributes to partial result l modulo `LANES`."""
    along, (v,) = e.params["axes"], e.outputs
    long = [d for d in along if a.shape[d] > MAX_UNROLLED]
    short = [d for d in along if a.shape[d] <= MAX_UNROLLED]
    if not long:
        return _short_reduction(e, a)
    *outer, last = long
    count = a.shape[last]

    def element(k: BlockBuilder, place: Place) -> Scalar:
        lanes = allocate(k, (LANES,), v.dtype)
        for lane in range(LANES):
            lanes.put(k, (lane,), identity(e.name, v.dtype))

        def add(outer_indices: Place, lane: Index, at: Index) -> None:
            total: Scalar = k.load_slot(lanes.pointer, lane, v.dtype)
            for inside in itertools.product(*(range(a.shape[d]) for d in short)):
                where = _operand_place((*outer, last, *short), (*outer_indices, at, *inside), place)
                prepare(a.shape, where)
                total = combine(k, e.name, total, a.at(k, where))
            lanes.put(k, (lane,), total)

        with k.nest(tuple(a.shape[d] for d in outer)) as outer_indices:
            with k.loop(count // LANES) as block, k.loop(LANES, independent=True) as lane:
                add(outer_indices, lane, k.plus(k.times(block, LANES), lane))
            with k.loop(count % LANES, independent=True) as lane:
                add(outer_indices, lane, k.plus(lane, count - count % LANES))
        total = k.load_slot(lanes.pointer, 0, v.dtype)
        for lane in range(1, LANES):
            total = combine(k, e.name, total, k.load_slot(lanes.pointer, lane, v.dtype))
        return total

    return element


def _operand_place(along: Any, inside: Place, place: Place) -> Place:
    """The place in the operand of a reduction."""
    by_axis, rest = dict(zip(along, inside, strict=True)), iter(place)
    return tuple(by_axis[d] if d in by_axis else next(rest) for d in range(len(inside) + len(place)))


def combine(k: BlockBuilder, name: str, a: Scalar, b: Scalar) -> Variable:
    """The operation of a reduction, applied to two elements."""
    return k.apply(REDUCTIONS[name], a.dtype, a, b)


def identity(name: str, dtype: Any) -> Any:
    """The result of a reduction of no elements."""
    if name in ("reduce_sum", "reduce_prod"):
        return np.asarray(int(name == "reduce_prod"), dtype)[()]
    if name in ("reduce_and", "reduce_or"):
        return np.asarray(-1 if name == "reduce_and" else 0).astype(dtype)[()]
    largest = np.inf if dtype.kind == "f" else 1 if dtype.kind == "b" else np.iinfo(dtype).max
    smallest = -np.inf if dtype.kind == "f" else 0 if dtype.kind == "b" else np.iinfo(dtype).min
    return np.asarray(largest if name == "reduce_min" else smallest).astype(dtype)[()]


# --- data-dependent reads ---------------------------------------------------------------------------------------------


def window_start(
    k: BlockBuilder, dims: Any, names: tuple[Any, Any, Any], x: AbstractArray, place: Place, rank: int
) -> list[Index]:
    """Start of the window of a gather or a scatter; `names` are fields of its dimension numbers."""
    index_map, batch_dims, of_indices = (getattr(dims, name) for name in names)
    begins: list[Index] = [0] * rank
    for number, d in enumerate(index_map):
        begins[d] = k.convert(x.at(k, (*place, number)), INTEGER)
    for d, of in zip(batch_dims, of_indices, strict=True):
        begins[d] = place[of]
    return begins


_OF_GATHER = "start_index_map", "operand_batching_dims", "start_indices_batching_dims"


def _gather(e: Equation, x: list[AbstractArray]) -> Element:
    a, indices = x
    dims, sizes = e.params["dimension_numbers"], e.params["slice_sizes"]
    window = [d for d in range(len(a.shape)) if d not in (*dims.collapsed_slice_dims, *dims.operand_batching_dims)]
    fills = "FILL" in str(e.params["mode"]).upper()
    within = _are_within(indices, [a.shape[d] - sizes[d] for d in dims.start_index_map])

    def element(k: BlockBuilder, place: Place) -> Scalar:
        batch = tuple(p for d, p in enumerate(place) if d not in dims.offset_dims)
        begins = window_start(k, dims, _OF_GATHER, indices, batch, len(a.shape))
        inside = begins
        if not within:
            inside = [k.clamp(b, n - size + 1) for b, n, size in zip(begins, a.shape, sizes, strict=True)]
        at = list(inside)
        for d, of in zip(window, dims.offset_dims, strict=True):
            at[d] = k.plus(inside[d], place[of])
        element_inside = a.at(k, tuple(at))
        return _or_fill_value(k, e, element_inside, begins, inside) if fills and not within else element_inside

    return element


def _are_within(indices: AbstractArray, last: Sequence[int]) -> bool:
    """Whether all indices are constants inside the array, so that no bounds check is needed."""
    if not isinstance(indices, Constant):
        return False
    rows = indices.values.reshape(-1, len(last))
    return bool(((rows >= 0) & (rows <= np.array(last, np.int64))).all())


def _or_fill_value(k: BlockBuilder, e: Equation, value: Scalar, begins: list[Index], inside: list[Index]) -> Scalar:
    """The element, or the fill value where the window isn't inside the array."""
    fill, dtype = e.params["fill_value"], e.outputs[0].dtype
    if fill is None:
        fill = np.nan if dtype.kind == "f" else np.iinfo(dtype).min if dtype.kind == "i" else True
    other = np.asarray(fill).astype(dtype).reshape(-1)[0]
    for b, c in zip(begins, inside, strict=True):
        if not (isinstance(b, int) and isinstance(c, int) and b == c):
            value = k.blend(k.apply("eq", TRUTH, b, c), value, other)
    return value


def _dynamic_slice(e: Equation, x: list[AbstractArray]) -> Element:
    a, *starts = x

    def element(k: BlockBuilder, place: Place) -> Scalar:
        at = []
        for p, start, n, size in zip(place, starts, a.shape, e.outputs[0].shape, strict=True):
            at.append(k.plus(k.clamp(k.convert(start.at(k, ()), INTEGER), n - size + 1), p))
        return a.at(k, tuple(at))

    return element


_OTHERS: dict[str, Callable[[Equation, list[AbstractArray]], Element]] = {
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
}
