"""Construction of statements: index arithmetic, workspace, values in scope."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from polhode.compiler.arrays.array_ir import (
    Address,
    Allocate,
    Block,
    DivMod,
    Index,
    Load,
    Nest,
    Place,
    Pointer,
    Scalar,
    Statement,
    Store,
    Table,
)
from polhode.compiler.scalars.program import Operation, Program, Variable

INTEGER, TRUTH, FLOAT = map(np.dtype, ("int64", "bool", "float64"))


class BlockBuilder:
    """Blocks under construction, and the values in scope inside them."""

    def __init__(self) -> None:
        self.block: Block = []
        self._scopes: list[dict[Any, Scalar]] = [{}]
        self._top = 0
        self._tables: dict[int, Table] = {}
        self._allocations: dict[Pointer, tuple[int, int]] = {}
        self._free: list[tuple[int, int]] = []

    def append(self, statement: Statement) -> None:
        self.block.append(statement)

    # --- numbers ------------------------------------------------------------------------------------------------------

    def apply(self, name: str, dtype: Any, *operands: Index, params: Any = None) -> Variable:
        """The result of an operation on numbers."""
        result = Variable(dtype)
        numbers = [np.int64(x) if isinstance(x, int) else x for x in operands]
        self.block.append(Operation(name, params or {}, numbers, [result]))
        return result

    def call(self, program: Program, arguments: Sequence[Scalar]) -> list[Scalar]:
        """The results of a program on scalars."""
        for variable, value in zip(program.inputs, arguments, strict=True):
            if variable is not value:
                self.bind(variable, value)
        self.block += program.operations
        return program.outputs

    def bind(self, variable: Variable, value: Scalar) -> None:
        """Gives a variable of a program on scalars its value."""
        self.block.append(Operation("copy", {}, [value], [variable]))

    def convert(self, value: Scalar, dtype: Any) -> Scalar:
        return value if value.dtype == dtype else self.apply("convert_element_type", dtype, value)

    def blend(self, condition: Scalar, yes: Scalar, no: Scalar) -> Variable:
        """One of two values."""
        return self.apply("select_n", yes.dtype, condition, no, yes)

    # --- places -------------------------------------------------------------------------------------------------------

    def plus(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if (isinstance(a, int) and a == 0) or (isinstance(b, int) and b == 0):
            return b if isinstance(a, int) else a
        return self.apply("add", INTEGER, a, b)

    def times(self, a: Index, b: int) -> Index:
        if isinstance(a, int) or b in (0, 1):
            return a * b if isinstance(a, int) else a if b else 0
        return self.apply("mul", INTEGER, a, b)

    def unravel(self, place: Index, shape: tuple[int, ...]) -> Place:
        """The index along each axis of an element, from its flat index."""
        out: list[Index] = []
        for d, n in reversed(list(enumerate(shape))):
            if n == 1:
                out.append(0)
            elif not any(m > 1 for m in shape[:d]):
                out.append(place)
            elif isinstance(place, int):
                out.append(place % n)
                place //= n
            else:
                quotient, remainder = Variable(INTEGER), Variable(INTEGER)
                self.append(DivMod(quotient, remainder, place, n))
                out.append(remainder)
                place = quotient
        return tuple(reversed(out))

    def clamp(self, place: Index, n: int) -> Index:
        """The nearest valid index along an axis of this length."""
        if isinstance(place, int):
            return min(max(place, 0), max(n - 1, 0))
        return self.apply("min", INTEGER, self.apply("max", INTEGER, place, 0), max(n - 1, 0))

    def less(self, place: Index, n: int) -> Scalar:
        return np.bool_(place < n) if isinstance(place, int) else self.apply("lt", TRUTH, place, n)

    # --- memory -------------------------------------------------------------------------------------------------------

    def load(self, source: Pointer | Table, place: Place, strides: tuple[int, ...], dtype: Any) -> Variable:
        result = Variable(dtype)
        self.block.append(Load(result, source, place, strides))
        return result

    def load_slot(self, source: Pointer, slot: Index, dtype: Any) -> Variable:
        return self.load(source, (slot,), (1,), dtype)

    def store(self, target: Pointer, place: Place, strides: tuple[int, ...], value: Scalar) -> None:
        self.block.append(Store(target, place, strides, value))

    def table(self, values: np.ndarray) -> Table:
        """Constants in memory, once however often they are read."""
        return self._tables.setdefault(id(values), Table(values))

    def address(self, base: Pointer, slots: Index) -> Pointer:
        result = Pointer()
        self.append(Address(result, base, slots))
        return result

    def row(self, base: Pointer, n: Index, size: int) -> Pointer:
        """The address of row n of a table of rows of so many slots."""
        return self.address(base, self.apply("mul", INTEGER, n, size))

    def space(self, slots: int) -> Pointer:
        """Allocates a part of the workspace; the smallest free part is reused first, so that it stays in caches."""
        candidates = [part for part in self._free if part[1] >= slots]
        if candidates and slots:
            at, size = min(candidates, key=lambda part: part[1])
            self._free.remove((at, size))
            if size > slots:
                self._free.append((at + slots, size - slots))
        else:
            at, self._top = self._top, self._top + slots
        pointer = Pointer()
        self.append(Allocate(pointer, at, slots))
        self._allocations[pointer] = at, slots
        return pointer

    def is_allocated(self, pointer: Pointer) -> bool:
        """Whether it is to a part of the workspace, which nothing else shares."""
        return pointer in self._allocations

    def release(self, pointer: Pointer) -> None:
        """Frees a part of the workspace."""
        at, slots = self._allocations.pop(pointer)
        for part in list(self._free):
            if part[0] + part[1] == at or at + slots == part[0]:
                self._free.remove(part)
                at, slots = min(at, part[0]), slots + part[1]
        self._free.append((at, slots))

    @contextlib.contextmanager
    def scratch(self) -> Generator[None]:
        """A scope whose memory is freed and whose values are dropped at its end."""
        top, free = self._top, list(self._free)
        with self.scope():
            yield
        self._top, self._free = top, free

    @contextlib.contextmanager
    def alternatives(self) -> Generator[Callable[[], contextlib.AbstractContextManager[Block]]]:
        """Blocks of alternative branches, which share the same memory; each branch enters the context it yields."""
        begin, tops, free = self._top, [self._top], self._free

        @contextlib.contextmanager
        def alternative() -> Generator[Block]:
            self._top, self._free = begin, []
            with self.inside() as block, self.scope():
                yield block
            tops.append(self._top)

        yield alternative
        self._top, self._free = max(tops), free

    # --- values in scope ----------------------------------------------------------------------------------------------

    def memoise(self, key: Any, make: Callable[[], Scalar]) -> Scalar:
        """A value that is computed only once in a scope."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        value = self._scopes[-1][key] = make()
        return value

    @contextlib.contextmanager
    def scope(self) -> Generator[None]:
        """A scope whose values are dropped at its end."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    # --- blocks -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def inside(self) -> Generator[Block]:
        """A new block, to which statements are appended until the end of the context."""
        outer, self.block = self.block, []
        yield self.block
        self.block = outer

    @contextlib.contextmanager
    def nest(self, bounds: Sequence[Index], independent: bool = False) -> Generator[tuple[Variable, ...]]:
        """Nested loops; yields their indices. `independent`: no iteration reads what another one writes."""
        if not bounds:
            yield ()
            return
        indices = tuple(Variable(INTEGER) for _ in bounds)
        with self.inside() as body, self.scope():
            yield indices
        self.append(Nest(indices, tuple(bounds), body, independent))

    @contextlib.contextmanager
    def loop(self, count: Index, independent: bool = False) -> Generator[Variable]:
        """A loop; yields its index."""
        with self.nest((count,), independent) as (index,):
            yield index
