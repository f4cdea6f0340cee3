"""Arrays in code generation: constants, registers, buffers, views, computed elements."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, final

import numpy as np

from polhode.compiler.arrays.array_ir import Index, Place, Pointer, Scalar
from polhode.compiler.arrays.block_builder import BlockBuilder
from polhode.compiler.arrays.fusion import axes
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.scalars.program import Variable


class AbstractArray(abc.ABC):
    """An array of static `shape` and `dtype`."""

    shape: tuple[int, ...]
    dtype: Any

    @abc.abstractmethod
    def at(self, k: BlockBuilder, place: Place) -> Scalar:
        """The element at a place."""


@final
class Constant(AbstractArray):
    """A constant array."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def at(self, k: BlockBuilder, place: Place) -> Scalar:
        if self.values.size and (self.values == self.values.flat[0]).all() and not _mixed_zeros(self.values):
            return self.values.reshape(-1)[0]
        if all(isinstance(p, int) for p in place):
            at: Any = place
            return np.atleast_1d(self.values[at])[0]
        return k.load(k.table(self.values), place, _row_major(self.shape), self.dtype)


def _mixed_zeros(values: np.ndarray) -> bool:
    return values.dtype.kind == "f" and len(set(np.signbit(values).flat)) > 1


@final
class Register(AbstractArray):
    """A number that is known, or in a variable."""

    def __init__(self, value: Scalar) -> None:
        self.value, self.shape, self.dtype = value, (), value.dtype

    def at(self, k: BlockBuilder, place: Place) -> Scalar:
        return self.value


@final
class Buffer(AbstractArray):
    """An array in memory, in slots of eight bytes.

    **Arguments:**

    - `pointer`: to its first element. - `strides`: slots from one element to the next along each axis.
    """

    def __init__(self, pointer: Pointer, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...]) -> None:
        self.pointer, self.shape, self.dtype, self.strides = pointer, shape, dtype, strides

    def at(self, k: BlockBuilder, place: Place) -> Scalar:
        return k.memoise(
            (self.pointer, self.strides, place),
            lambda: k.load(self.pointer, place, self.strides, self.dtype),
        )

    def put(self, k: BlockBuilder, place: Place, value: Scalar) -> None:
        k.store(self.pointer, place, self.strides, value)

    def with_pointer(self, pointer: Pointer) -> Buffer:
        """The same layout at another pointer."""
        return Buffer(pointer, self.shape, self.dtype, self.strides)

    @property
    def is_dense(self) -> bool:
        """Whether it is contiguous in row-major order."""
        axes = zip(self.strides, _row_major(self.shape), self.shape, strict=True)
        return all(stride == dense or n == 1 for stride, dense, n in axes)

    def part(self, k: BlockBuilder, axis: int, begin: int, count: int) -> Buffer:
        """A slice along an axis."""
        at = k.address(self.pointer, begin * self.strides[axis])
        shape = (*self.shape[:axis], count, *self.shape[axis + 1 :])
        return Buffer(at, shape, self.dtype, self.strides)

    def layer(self, k: BlockBuilder, axis: int, place: int) -> Buffer:
        """All elements with an index along an axis."""
        at = k.address(self.pointer, place * self.strides[axis])
        without = slice(axis), slice(axis + 1, None)
        shape, strides = ((*of[without[0]], *of[without[1]]) for of in (self.shape, self.strides))
        return Buffer(at, shape, self.dtype, strides)

    def row(self, k: BlockBuilder, place: Index) -> Buffer:
        """A row: an index along the first axis."""
        at = k.address(self.pointer, k.times(place, self.strides[0]))
        return Buffer(at, self.shape[1:], self.dtype, self.strides[1:])


def dense(pointer: Pointer, shape: tuple[int, ...], dtype: Any) -> Buffer:
    """A contiguous array in row-major order."""
    return Buffer(pointer, shape, dtype, _row_major(shape))


def allocate(k: BlockBuilder, shape: tuple[int, ...], dtype: Any) -> Buffer:
    """Allocates an array. Short axes come first, so that loops go along neighbouring elements."""
    return Buffer(k.space(slots_of(shape)), shape, dtype, strides_of(shape))


def allocate_rows(k: BlockBuilder, shape: tuple[int, ...], dtype: Any) -> Buffer:
    """Allocates an array, one row after the other."""
    size = slots_of(shape[1:])
    return Buffer(k.space(size * shape[0]), shape, dtype, (size, *strides_of(shape[1:])))


def declare_like(like: AbstractArray) -> tuple[AbstractArray, Variable | Pointer]:
    """A number or an array in memory like another one, and its variable or pointer, which a statement has to assign."""
    if isinstance(like, Buffer) and like.shape:
        pointer = Pointer()
        return like.with_pointer(pointer), pointer
    variable = Variable(like.dtype)
    return Register(variable), variable


def leaf_buffers(k: BlockBuilder, pointer: Pointer, layout: Layout) -> list[Buffer]:
    """Buffers for the leaves of a tree that is packed at a pointer."""
    out, at = [], 0
    for like, n in zip(layout.leaves, layout.sizes, strict=True):
        out.append(dense(k.address(pointer, at), like.shape, np.dtype(like.dtype)))
        at += n
    return out


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an allocated array of this shape."""
    return _layout(shape)[0]


def slots_of(shape: tuple[int, ...]) -> int:
    """Number of slots of an allocated array of this shape."""
    return _layout(shape)[1]


_LINE = 8
"""Slots of a cache line."""


def _layout(shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    long = axes(shape)
    order = sorted(range(len(shape)), key=lambda d: shape[d] in long)
    strides, at = [0] * len(shape), 1
    for d in reversed(order):
        strides[d], at = at, at * shape[d]
        if at > _LINE**2 and shape[d] in long and len(long) < len(shape):
            # An odd number of cache lines, since lines a power of two apart compete for few places in the cache.
            at = _LINE * (-(-at // _LINE) | 1)
    return tuple(strides), at


@final
class View(AbstractArray):
    """An array whose elements are those of others."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, reader: Callable[[BlockBuilder, Place], Scalar]) -> None:
        self.shape, self.dtype, self._read = shape, dtype, reader

    def at(self, k: BlockBuilder, place: Place) -> Scalar:
        return self._read(k, place)


@final
class LazyArray(AbstractArray):
    """An array whose elements are computed where they are used, once in each iteration."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, element: Callable[[BlockBuilder, Place], Scalar]) -> None:
        self.shape, self.dtype, self._element = shape, dtype, element

    def at(self, k: BlockBuilder, place: Place) -> Scalar:
        return k.memoise((id(self), place), lambda: self._element(k, place))


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, at = [0] * len(shape), 1
    for d in reversed(range(len(shape))):
        strides[d], at = at, at * shape[d]
    return tuple(strides)
