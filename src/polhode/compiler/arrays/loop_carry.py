"""The carry of loops on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polhode.compiler.array_program import FlatProgram
from polhode.compiler.arrays.array_builder import ArrayBuilder
from polhode.compiler.arrays.array_ir import Other, Pointer, Scalar, While
from polhode.compiler.arrays.block_builder import INTEGER
from polhode.compiler.arrays.fusion import Schedule
from polhode.compiler.arrays.operands import AbstractArray, Buffer, allocate, declare_like
from polhode.compiler.scalars.program import Variable


class LoopCarry:
    """The carry of a loop.

    Numbers are variables. Arrays that no iteration changes stay where they are. Others are updated in place where that
    is possible, or else double-buffered.

    - `count`: the number of iterations before the current one. - `current`: the values with which it begins.
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
        self.count = Variable(INTEGER)
        self.current: list[AbstractArray] = list(start)
        self._spare_buffers: dict[int, Buffer] = {}

    def loop(
        self, condition: Callable[[], Scalar], step: Callable[[], Sequence[AbstractArray]], counted: bool = False
    ) -> list[AbstractArray]:
        """Appends the loop; returns the carry at its end. `condition` and `step` append the statements of an iteration.

        `counted`: whether they need `count`.
        """
        k = self.b.k
        start, pairs = self._initial_values()
        variables = self._name_values(start)
        with k.inside() as head:
            for n, (a, b) in pairs.items():
                self._spare_buffers[n] = a.with_pointer(self._other(self.current[n], a, b))
            with k.scratch():
                proceeds = condition()
                with k.inside() as body:
                    following = self._next_values(step())
                    if counted:
                        following.insert(0, k.apply("add", INTEGER, self.count, 1))
        count, zero = ((self.count,), (np.int64(0),)) if counted else ((), ())
        k.append(While((*count, *variables), (*zero, *start.values()), head, proceeds, body, tuple(following)))
        return self.current

    def _initial_values(self) -> tuple[dict[int, Scalar | Pointer], dict[int, tuple[Buffer, Buffer]]]:
        """By index, the initial values of what the loop carries, and the two buffers of double-buffered arrays."""
        k, start = self.b.k, {}
        pairs: dict[int, tuple[Buffer, Buffer]] = {}
        for n, (x, v) in enumerate(zip(self.current, self._inputs, strict=True)):
            if not self._unchanged[n] and not v.shape:
                start[n] = self.b.number(x)
            elif self._in_place[n]:
                self.current[n] = self.b.new_copy(x)
            elif not self._unchanged[n]:
                pairs[n] = allocate(k, v.shape, v.dtype), allocate(k, v.shape, v.dtype)
                begin = self._initial_buffer(x, pairs[n][0])
                self.current[n], start[n] = begin, begin.pointer
        return start, pairs

    def _name_values(self, start: dict[int, Scalar | Pointer]) -> list[Variable | Pointer]:
        """New variables and pointers for what the loop carries."""
        variables: list[Variable | Pointer] = []
        for n in start:
            self.current[n], variable = declare_like(self.current[n])
            variables.append(variable)
        self.b.keep_alive(list(self.current))
        return variables

    def _other(self, now: Any, a: Buffer, b: Buffer) -> Pointer:
        """The memory of one of two buffers that the current value isn't in."""
        other = Pointer()
        self.b.k.append(Other(other, now.pointer, a.pointer, b.pointer))
        return other

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

    def _next_values(self, outs: Sequence[AbstractArray]) -> list[Scalar | Pointer]:
        """The start of the next iteration."""
        following: list[Scalar | Pointer] = []
        for n, out in enumerate(outs):
            if self._unchanged[n]:
                continue
            if not out.shape:
                following.append(self.b.number(out))
            elif n in self._spare_buffers:
                self.b.copy(out, self._spare_buffers[n])
                following.append(self._spare_buffers[n].pointer)
            else:
                place: Any = self.current[n]
                self.b.copy(out, place)
        return following
