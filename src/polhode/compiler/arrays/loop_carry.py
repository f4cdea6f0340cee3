"""The carry of loops on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polhode.compiler.arrays.array_builder import ArrayBuilder
from polhode.compiler.arrays.flat_program import FlatProgram
from polhode.compiler.arrays.fusion import Schedule
from polhode.compiler.arrays.operands import AbstractArray, Buffer, Register, allocate
from polhode.compiler.llvm.loop_builder import LoopBuilder
from polhode.compiler.llvm.types import type_of


class LoopCarry:
    """The carry of a loop.

    Numbers are registers. Arrays that no iteration changes stay where they are. Others are updated in place where that
    is possible, or else double-buffered.
    """

    def __init__(self, builder: ArrayBuilder, body: FlatProgram, before: int, start: Sequence[AbstractArray]) -> None:
        self.b = builder
        schedule = Schedule(body)
        self._inputs = body.inputs[before : before + len(start)]
        self._unchanged = [out is v for v, out in zip(self._inputs, body.outputs, strict=False)]
        is_repeated = [sum(out is other for other in body.outputs) > 1 for out in body.outputs]
        self._in_place = [
            not is_repeated[n] and schedule.in_place(v, body.outputs[n]) for n, v in enumerate(self._inputs)
        ]
        self._repeated = is_repeated
        self._start = list(start)
        self.current: list[AbstractArray] = list(start)
        self._spare_buffers: dict[int, Buffer] = {}

    def begin(self, count: Register | None = None) -> None:
        """Opens the block at which every iteration begins. `count` becomes the number of iterations before."""
        w, k = self.b.w, self.b.k
        first: dict[int, str] = {}
        pairs: dict[int, tuple[Buffer, Buffer]] = {}
        for n, (x, v) in enumerate(zip(self._start, self._inputs, strict=True)):
            if not self._unchanged[n] and not v.shape:
                first[n] = self.b.number(x)
            elif self._in_place[n]:
                self.current[n] = self.b.new_copy(x)
            elif not self._unchanged[n]:
                pairs[n] = allocate(k, v.shape, v.dtype), allocate(k, v.shape, v.dtype)
                begin = self._initial_buffer(x, pairs[n][0])
                self.current[n], first[n] = begin, begin.pointer
        counters = [] if count is None else [("i64", "0")]
        kinds = [("ptr" if self.current[n].shape else type_of(self.current[n]), begin) for n, begin in first.items()]
        self._loop = LoopBuilder(w, [*counters, *kinds])
        if count is not None:
            count.name = self._loop.values[0]
        self._loop_values, self._count = list(first), count
        for n, name in zip(first, self._loop.values[len(counters) :], strict=True):
            x = self.current[n]
            self.current[n] = x.with_pointer(name) if isinstance(x, Buffer) and x.shape else Register(name, x.dtype)
        for n, (a, b) in pairs.items():
            now: Any = self.current[n]
            is_first = w.value(f"icmp eq ptr {now.pointer}, {a.pointer}")
            self._spare_buffers[n] = a.with_pointer(w.value(f"select i1 {is_first}, ptr {b.pointer}, ptr {a.pointer}"))
        self.b.keep_alive(list(self.current))

    def _initial_buffer(self, x: AbstractArray, place: Buffer) -> Buffer:
        """The initial value of a double-buffered array: not copied if it has the layout of the buffers."""
        if isinstance(x, Buffer) and x.strides == place.strides:
            return x
        self.b.copy(x, place)
        return place

    def targets(self) -> dict[int, Buffer]:
        """Memory for the results of an iteration, by index."""
        places: dict[int, Buffer] = {n: x for n, x in self._spare_buffers.items() if not self._repeated[n]}
        return {**places, **{n: x for n, x in enumerate(self.current) if self._in_place[n] and isinstance(x, Buffer)}}

    def end(self, outs: Sequence[AbstractArray]) -> None:
        """Closes an iteration."""
        w = self.b.w
        next_values: dict[int, str] = {}
        for n, out in enumerate(outs):
            if self._unchanged[n]:
                continue
            if not out.shape:
                next_values[n] = self.b.number(out)
            elif n in self._spare_buffers:
                self.b.copy(out, self._spare_buffers[n])
                next_values[n] = self._spare_buffers[n].pointer
            else:
                self.b.copy(out, self.current[n])  # type: ignore[arg-type]
        next_count = [] if self._count is None else [w.value(f"add i64 {self._count.name}, 1")]
        self._loop.end([*next_count, *(next_values[n] for n in self._loop_values)])
