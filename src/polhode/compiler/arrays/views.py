"""Views: index maps without computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polhode.compiler.array_program import Equation
from polhode.compiler.arrays.array_ir import Index, Place, Scalar
from polhode.compiler.arrays.block_builder import BlockBuilder
from polhode.compiler.arrays.operands import AbstractArray, Buffer, View, dense

Reader = Callable[[BlockBuilder, Place], Scalar]


def build_views(e: Equation, x: list[AbstractArray]) -> list[AbstractArray]:
    """The results, as views."""
    reads = _MULTIPLE_READERS[e.name](e, x[0]) if e.name in _MULTIPLE_READERS else [_READERS[e.name](e, x)]
    return [View(v.shape, v.dtype, reader) for v, reader in zip(e.outputs, reads, strict=True)]


def _same(e: Equation, x: list[AbstractArray]) -> Reader:
    return x[0].at


def _broadcast(e: Equation, x: list[AbstractArray]) -> Reader:
    dims, a = e.params["broadcast_dimensions"], x[0]
    return lambda k, place: a.at(k, tuple(place[d] if n > 1 else 0 for d, n in zip(dims, a.shape, strict=True)))


def _reshape(e: Equation, x: list[AbstractArray]) -> Reader:
    a, shape = x[0], e.outputs[0].shape
    long_axes = [d for d, n in enumerate(shape) if n != 1]
    if [shape[d] for d in long_axes] == [n for n in a.shape if n != 1]:

        def among(k: BlockBuilder, place: Place) -> Scalar:
            axes = iter(long_axes)
            return a.at(k, tuple(0 if n == 1 else place[next(axes)] for n in a.shape))

        return among
    if isinstance(a, Buffer) and a.is_dense:
        # Without divisions.
        return dense(a.pointer, shape, a.dtype).at

    def anywhere(k: BlockBuilder, place: Place) -> Scalar:
        number: Index = 0
        for p, n in zip(place, shape, strict=True):
            number = k.plus(k.times(number, n), p)
        return a.at(k, k.unravel(number, a.shape))

    return anywhere


def _transpose(e: Equation, x: list[AbstractArray]) -> Reader:
    order, a = e.params["permutation"], x[0]
    return lambda k, place: a.at(k, tuple(place[order.index(d)] for d in range(len(order))))


def _slice(e: Equation, x: list[AbstractArray]) -> Reader:
    starts, a = e.params["start_indices"], x[0]
    strides = e.params["strides"] or (1,) * len(starts)
    return lambda k, place: a.at(
        k, tuple(k.plus(k.times(p, step), s) for p, s, step in zip(place, starts, strides, strict=True))
    )


def _reverse(e: Equation, x: list[AbstractArray]) -> Reader:
    along, a = e.params["dimensions"], x[0]

    def at(k: BlockBuilder, place: Place) -> Scalar:
        return a.at(
            k,
            tuple(
                k.plus(k.times(p, -1), n - 1) if d in along else p
                for d, (p, n) in enumerate(zip(place, a.shape, strict=True))
            ),
        )

    return at


def _iota(e: Equation, x: list[AbstractArray]) -> Reader:
    (v,), along = e.outputs, e.params["dimension"]

    def at(k: BlockBuilder, place: Place) -> Scalar:
        p = place[along]
        return np.full(1, p, v.dtype)[0] if isinstance(p, int) else k.convert(p, v.dtype)

    return at


def _stack(e: Equation, x: list[AbstractArray]) -> Reader:
    axis = e.params["axis"]

    def at(k: BlockBuilder, place: Place) -> Scalar:
        rest = (*place[:axis], *place[axis + 1 :])
        return _select_part(k, place[axis], x, [1] * len(x), lambda a, _: a.at(k, rest))

    return at


def _concatenate(e: Equation, x: list[AbstractArray]) -> Reader:
    axis = e.params["dimension"]

    def at(k: BlockBuilder, place: Place) -> Scalar:
        def read_part(a: AbstractArray, p: Index) -> Scalar:
            return a.at(k, (*place[:axis], k.clamp(p, a.shape[axis]), *place[axis + 1 :]))

        return _select_part(k, place[axis], x, [a.shape[axis] for a in x], read_part)

    return at


def _select_part(
    k: BlockBuilder, p: Index, x: list[AbstractArray], sizes: list[int], read_part: Callable[[Any, Index], Scalar]
) -> Scalar:
    """The element at p of concatenated parts of these sizes."""
    parts = [(a, begin, n) for a, begin, n in zip(x, np.cumsum([0, *sizes[:-1]]).tolist(), sizes, strict=True) if n]
    if isinstance(p, int):
        return next(read_part(a, p - begin) for a, begin, n in parts if begin <= p < begin + n)
    (a, begin, _), *others = parts
    element = read_part(a, k.plus(p, -begin))
    for a, begin, _ in others:
        here = read_part(a, k.plus(p, -begin))
        element = k.blend(k.less(p, begin), element, here)
    return element


def _unstack(e: Equation, a: AbstractArray) -> list[Reader]:
    axis = e.params["axis"]
    return [lambda k, place, i=i: a.at(k, (*place[:axis], i, *place[axis:])) for i in range(a.shape[axis])]


def _split(e: Equation, a: AbstractArray) -> list[Reader]:
    axis, begins = e.params["axis"], np.cumsum([0, *e.params["sizes"][:-1]]).tolist()
    return [
        lambda k, place, begin=begin: a.at(k, (*place[:axis], k.plus(place[axis], begin), *place[axis + 1 :]))
        for begin in begins
    ]


_MULTIPLE_READERS = {"unstack": _unstack, "split": _split}

_READERS: dict[str, Callable[[Equation, list[AbstractArray]], Reader]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "rev": _reverse,
    "iota": _iota,
    "stack": _stack,
    "concatenate": _concatenate,
    **dict.fromkeys(("stop_gradient", "copy", "copy_p", "optimization_barrier"), _same),
}
