"""Code for reading numbers and copying arrays."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Sequence
from typing import Any

from polhode.compiler.arrays.array_ir import Place, Scalar
from polhode.compiler.arrays.block_builder import BlockBuilder
from polhode.compiler.arrays.fusion import MAX_UNROLLED, axes
from polhode.compiler.arrays.operands import AbstractArray, Buffer, allocate


class ArrayBuilder:
    """Appends statements on arrays to a block.

    - `k`: the block under construction.
    """

    def __init__(self) -> None:
        self.k = BlockBuilder()
        # Elements are identified by `id` of their arrays, which therefore must stay alive.
        self._alive: list[Any] = []

    def keep_alive(self, thing: Any) -> Any:
        self._alive.append(thing)
        return thing

    def number(self, x: AbstractArray) -> Scalar:
        """The value of a number."""
        with self.k.scope():
            return x.at(self.k, ())

    def copy(self, x: AbstractArray, to: Buffer) -> None:
        """Copies all elements of `x` to `to`."""
        if isinstance(x, Buffer) and (x.pointer, x.strides) == (to.pointer, to.strides):
            return
        with self.elements(x.shape) as places:
            values = [x.at(self.k, place) for place in places]
            for place, value in zip(places, values, strict=True):
                to.put(self.k, place, value)

    @contextlib.contextmanager
    def elements(self, shape: tuple[int, ...], independent: bool = True) -> Generator[list[Place]]:
        """A loop over an array; yields the places of the elements of one iteration."""
        with self.k.scope(), self.k.nest(axes(shape), independent) as loop_indices:
            yield places(shape, loop_indices)

    def materialise(self, x: AbstractArray) -> Buffer:
        """The array, copied to memory if it is not there."""
        return x if isinstance(x, Buffer) else self.new_copy(x)

    def new_copy(self, x: AbstractArray) -> Buffer:
        """A copy of the array in new memory, with short axes first."""
        to = allocate(self.k, x.shape, x.dtype)
        self.copy(x, to)
        return to


def places(shape: tuple[int, ...], loop_indices: Sequence[Any]) -> list[Place]:
    """The places of all elements that one iteration of the loops over an array computes."""
    indices = iter(loop_indices)
    return list(itertools.product(*([next(indices)] if n > MAX_UNROLLED else range(n) for n in shape)))
