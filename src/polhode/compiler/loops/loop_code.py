"""Programs in the body of a loop, on scalars or on arrays, and how the loop reads and writes their values."""

from __future__ import annotations

import abc
import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, final, overload

from jax.extend import core

from polhode.compiler.arrays.array_builder import ArrayBuilder
from polhode.compiler.arrays.array_ir import Address, Function, Load, Pointer, Scalar
from polhode.compiler.arrays.block_builder import BlockBuilder
from polhode.compiler.arrays.codegen import generate
from polhode.compiler.arrays.elementwise import combine
from polhode.compiler.arrays.flat_program import StackProgram, flatten
from polhode.compiler.arrays.llvm_printer import Tell, compile_function
from polhode.compiler.arrays.operands import AbstractArray, Buffer, Register, leaf_buffers
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.scalars.program import ArrayType, Program, Variable


class AbstractLoopCode(abc.ABC):
    """A loop under construction, whose body calls programs: the kind of these decides what values and places are.

    - `k`: the block under construction.
    - `has_long_loops`: whether programs have loops over many elements.
    """

    k: BlockBuilder
    has_long_loops: bool

    @abc.abstractmethod
    def size(self, layout: Layout) -> int:
        """Number of values in a tree."""

    @abc.abstractmethod
    def places(self, pointer: Pointer, layout: Layout) -> Sequence[Any]:
        """Places in memory of the values of a tree that is packed at a pointer."""

    @abc.abstractmethod
    def read(self, places: Sequence[Any]) -> Sequence[Any]:
        """The values at these places."""

    @abc.abstractmethod
    def write(self, values: Sequence[Any], *targets: Sequence[Any]) -> None:
        """Stores values, each at its place in every target."""

    @abc.abstractmethod
    def add(self, places: Sequence[Any], values: Sequence[Any]) -> None:
        """Adds values to those at these places."""

    @abc.abstractmethod
    def call(self, program: Any, arguments: Sequence[Any]) -> list[Any]:
        """The results of a program."""

    @abc.abstractmethod
    def detach(self, results: Sequence[Any], places: Sequence[Any]) -> list[Any]:
        """Results that stay as they are when all of them are written to these places; None: elsewhere."""

    @abc.abstractmethod
    def to_scalar(self, value: Any) -> Scalar:
        """The number that a value is."""

    @abc.abstractmethod
    def from_scalar(self, scalar: Scalar) -> Any:
        """A number as a value."""

    @final
    def compile(self, function: Function, tell: Tell = None) -> CompiledFunction:
        """The machine code of the function that has been made. `tell`: called with a report before compilation.

        Raises `UnsupportedNativeOperation` for unsupported or too many operations.
        """
        return compile_function(function, tell, self.has_long_loops)


LoopCompiler: TypeAlias = Callable[[AbstractLoopCode, Any], CompiledFunction]
"""Compiles a loop around a program; takes the loop, which is empty as yet, and the program."""


class _Slot(NamedTuple):
    """The place of a number: a slot after a pointer."""

    pointer: Pointer
    slot: int
    dtype: Any


class _Slots(Sequence[_Slot]):
    """The places of the numbers of a tree that is packed at a pointer.

    Each is made where it is used: programs read single elements of tables with a million of them.
    """

    def __init__(self, pointer: Pointer, layout: Layout) -> None:
        self._pointer, self._layout = pointer, layout

    def __len__(self) -> int:
        return self._layout.size

    @overload
    def __getitem__(self, index: int) -> _Slot: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Slot]: ...
    def __getitem__(self, index: int | slice) -> _Slot | list[_Slot]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        slot = range(len(self))[index]
        return _Slot(self._pointer, slot, self._layout.dtype_at(slot))


class Concatenation(Sequence[Any]):
    """Sequences one after the other, which aren't copied."""

    def __init__(self, *parts: Sequence[Any]) -> None:
        self._parts = [part for part in parts if len(part)]
        self._ends = list(itertools.accumulate(map(len, self._parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        k = bisect.bisect_right(self._ends, at)
        return self._parts[k][at - (self._ends[k - 1] if k else 0)]


@final
class ScalarLoopCode(AbstractLoopCode):
    """A loop around programs on scalars. Values are numbers, or slots, which are read where a program uses them."""

    has_long_loops = False

    def __init__(self) -> None:
        self.k = BlockBuilder()

    def size(self, layout: Layout) -> int:
        return layout.size

    def places(self, pointer: Pointer, layout: Layout) -> Sequence[_Slot]:
        return _Slots(pointer, layout)

    def read(self, places: Sequence[_Slot]) -> Sequence[_Slot]:
        return places

    def write(self, values: Sequence[Scalar | _Slot], *targets: Sequence[_Slot]) -> None:
        for value, *places in zip(values, *targets, strict=True):
            number = self.to_scalar(value)
            for pointer, slot, _ in places:
                self.k.store(pointer, (slot,), (1,), number)

    def add(self, places: Sequence[_Slot], values: Sequence[Scalar | _Slot]) -> None:
        for place, value in zip(places, values, strict=True):
            total = self.k.apply("add", place.dtype, self.to_scalar(place), self.to_scalar(value))
            self.write([total], [place])

    def call(self, program: Program, arguments: Sequence[Scalar | _Slot]) -> list[Scalar]:
        used, at = program.used_variables, 0
        for variable in program.inputs:
            if variable in used:
                self._bind(variable, arguments[at])
            at += variable.slots
        return list(self.k.call(program, program.inputs))

    def _bind(self, variable: Variable, value: Scalar | _Slot) -> None:
        """An input of a program is a value, a number in memory, or an array that stays there."""
        if not isinstance(value, _Slot):
            self.k.bind(variable, value)
        elif isinstance(variable.dtype, ArrayType):
            self.k.append(Address(variable, value.pointer, value.slot))
        else:
            self.k.append(Load(variable, value.pointer, (value.slot,), (1,)))

    def detach(self, results: Sequence[Scalar], places: Sequence[_Slot | None]) -> list[Scalar]:
        return list(results)

    def to_scalar(self, value: Scalar | _Slot) -> Scalar:
        return self.k.load_slot(*value) if isinstance(value, _Slot) else value

    def from_scalar(self, scalar: Scalar) -> Scalar:
        return scalar


@final
class ArrayLoopCode(AbstractLoopCode):
    """A loop around programs on arrays. Values are arrays and numbers; what is in memory is read there."""

    has_long_loops = True

    def __init__(self) -> None:
        self._b = ArrayBuilder()
        self.k = self._b.k

    def size(self, layout: Layout) -> int:
        return len(layout.leaves)

    def places(self, pointer: Pointer, layout: Layout) -> list[Buffer]:
        return leaf_buffers(self.k, pointer, layout)

    def read(self, places: Sequence[Buffer]) -> Sequence[Buffer]:
        return places

    def write(self, values: Sequence[AbstractArray], *targets: Sequence[Buffer]) -> None:
        for value, *places in zip(values, *targets, strict=True):
            for place in places:
                self._b.copy(value, place)

    def add(self, places: Sequence[Buffer], values: Sequence[AbstractArray]) -> None:
        k = self.k
        for total, x in zip(places, values, strict=True):
            with self._b.elements(x.shape) as elements:
                for element in elements:
                    total.put(k, element, combine(k, "reduce_sum", total.at(k, element), x.at(k, element)))

    def call(self, program: core.ClosedJaxpr | StackProgram, arguments: Sequence[AbstractArray]) -> list[AbstractArray]:
        return generate(self._b, flatten(program), list(arguments))

    def detach(self, results: Sequence[AbstractArray], places: Sequence[Buffer | None]) -> list[AbstractArray]:
        def detach_array(x: AbstractArray, own: Buffer | None) -> AbstractArray:
            if not x.shape:
                return Register(self.to_scalar(x))
            # Results of loops and branches may be an operand as it is, under another pointer.
            if isinstance(x, Buffer) and (x is own or self.k.is_allocated(x.pointer)):
                return x
            return self._b.new_copy(x)

        return [detach_array(x, own) for x, own in zip(results, places, strict=True)]

    def to_scalar(self, value: AbstractArray) -> Scalar:
        return self._b.number(value)

    def from_scalar(self, scalar: Scalar) -> Register:
        return Register(scalar)
