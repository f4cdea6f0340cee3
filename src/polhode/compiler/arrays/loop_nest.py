"""Loops over elements in LLVM IR: index arithmetic, workspace, values in scope."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from polhode.compiler.llvm.ir_builder import IRBuilder
from polhode.compiler.llvm.loop_builder import LoopBuilder

Index = int | str
"""An index along an axis: a constant, or a register."""


class LoopNest:
    """Loops under construction, and the values in scope inside them.

    **Arguments:**

    - `ir_builder`: to which they are appended.
    """

    def __init__(self, ir_builder: IRBuilder) -> None:
        self.w = ir_builder
        self._scopes: list[dict[Any, str]] = [{}]
        self._independent: str | None = None
        self._marks = 0
        self._top = 0
        self._tables: dict[int, int] = {}
        self._allocations: dict[str, tuple[int, int]] = {}
        self._free: list[tuple[int, int]] = []

    # --- places -------------------------------------------------------------------------------------------------------

    def plus(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.w.value(f"add i64 {a}, {b}")

    def times(self, a: Index, b: int) -> Index:
        if isinstance(a, int) or b in (0, 1):
            return a * b if isinstance(a, int) else a if b else 0
        return self.w.value(f"mul i64 {a}, {b}")

    def unravel(self, place: Index, shape: tuple[int, ...]) -> tuple[Index, ...]:
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
                out.append(self.w.value(f"urem i64 {place}, {n}"))
                place = self.w.value(f"udiv i64 {place}, {n}")
        return tuple(reversed(out))

    def clamp(self, place: Index, n: int) -> Index:
        """The nearest valid index along an axis of this length."""
        if isinstance(place, int):
            return min(max(place, 0), max(n - 1, 0))
        low = self.w.call("llvm.smax.i64", "i64", ("i64", place), ("i64", "0"))
        return self.w.call("llvm.smin.i64", "i64", ("i64", low), ("i64", str(max(n - 1, 0))))

    def less(self, place: Index, n: int) -> str:
        if isinstance(place, int):
            return "true" if place < n else "false"
        return self.w.value(f"icmp slt i64 {place}, {n}")

    # --- memory -------------------------------------------------------------------------------------------------------

    def load(self, pointer: str, slot: Index, kind: str) -> str:
        return self.w.load(pointer, slot, kind, self._independent or "")

    def store(self, pointer: str, slot: Index, kind: str, value: str) -> None:
        self.w.store(pointer, slot, kind, value, self._independent or "")

    def constant_element(self, values: np.ndarray, position: Index, kind: str) -> str:
        """An element of a constant array, which must stay alive."""
        if id(values) not in self._tables:
            self._tables[id(values)] = self.w.table(_slots(values))
        begin = self._tables[id(values)]
        if kind != "i32":
            return self.load("%tables", self.plus(position, begin), kind)
        at = self.w.value(f"getelementptr i32, ptr %tables, i64 {self.plus(position, 2 * begin)}")
        return self.w.value(f"load i32, ptr {at}, align 4{self._independent or ''}")

    def space(self, slots: int) -> str:
        """Allocates a part of the workspace; the smallest free part is reused first, so that it stays in caches."""
        candidates = [part for part in self._free if part[1] >= slots]
        if candidates and slots:
            at, size = min(candidates, key=lambda part: part[1])
            self._free.remove((at, size))
            if size > slots:
                self._free.append((at + slots, size - slots))
        else:
            at, self._top = self._top, self._top + slots
            self.w.workspace = max(self.w.workspace, self._top)
        pointer = self.w.value(f"getelementptr i64, ptr %workspace, i64 {at}")
        self._allocations[pointer] = at, slots
        return pointer

    def release(self, pointer: str) -> None:
        """Frees a part of the workspace."""
        at, slots = self._allocations.pop(pointer)
        for part in list(self._free):
            if part[0] + part[1] == at or at + slots == part[0]:
                self._free.remove(part)
                at, slots = min(at, part[0]), slots + part[1]
        self._free.append((at, slots))

    @contextlib.contextmanager
    def scratch(self) -> Iterator[None]:
        """A scope whose memory is freed and whose values are dropped at its end."""
        top, free = self._top, list(self._free)
        with self.scope():
            yield
        self._top, self._free = top, free

    @contextlib.contextmanager
    def alternatives(self) -> Iterator[Callable[[], contextlib.AbstractContextManager[None]]]:
        """Scopes of alternative branches, which share the same memory; each branch enters the context it yields."""
        begin, tops, free = self._top, [self._top], self._free

        @contextlib.contextmanager
        def alternative() -> Iterator[None]:
            self._top, self._free = begin, []
            with self.scope():
                yield
            tops.append(self._top)

        yield alternative
        self._top, self._free = max(tops), free

    # --- values in scope ----------------------------------------------------------------------------------------------

    def memoise(self, key: Any, make: Any) -> str:
        """A value that is computed only once in a scope."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        value = self._scopes[-1][key] = make()
        return value

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """A scope whose values are dropped at its end."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    # --- loops --------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def loop(self, count: int, independent: bool = False) -> Iterator[str]:
        """A loop; yields its index. `independent`: no iteration reads what another writes."""
        w, outer = self.w, self._independent
        builder, body, after = LoopBuilder(w, [("i64", "0")]), w.label(), w.label()
        (place,) = builder.values
        w.branch(w.value(f"icmp slt i64 {place}, {count}"), body, after)
        w.open(body)
        self._independent = self._metadata("") if independent else None
        mark = self._independent
        with self.scope():
            yield place
        self._independent = outer
        next_place = w.value(f"add i64 {place}, 1")
        builder.end([next_place], "" if mark is None else f", !llvm.loop {self._metadata(mark)}")
        w.open(after)

    def _metadata(self, accesses: str) -> str:
        """LLVM metadata: an access group, or, given its accesses, that of a loop with independent iterations."""
        self._marks += 1
        name = f"!{2 * self._marks}"
        if not accesses:
            self.w.module_lines.append(f"{name} = distinct !{{}}")
            return f", !llvm.access.group {name}"
        group = accesses.rpartition(" ")[2]
        property_name = f"!{2 * self._marks + 1}"
        self.w.module_lines.append(f'{property_name} = !{{!"llvm.loop.parallel_accesses", {group}}}')
        self.w.module_lines.append(f"{name} = distinct !{{{name}, {property_name}}}")
        return name

    @contextlib.contextmanager
    def nest(self, lengths: tuple[int, ...], independent: bool = False) -> Iterator[tuple[str, ...]]:
        """Nested loops; yields their indices."""
        with contextlib.ExitStack() as stack:
            last = len(lengths) - 1
            yield tuple(stack.enter_context(self.loop(n, independent and k == last)) for k, n in enumerate(lengths))


def _slots(values: np.ndarray) -> np.ndarray:
    """Constants in slots of eight bytes; two of 32 bits share one, since reading indices can dominate a gather."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.dtype == np.int32:
        flat = np.concatenate([flat, np.zeros(flat.size % 2, np.int32)])
    return flat.view(np.int64) if flat.dtype in (np.int32, np.float64) else flat.astype(np.int64)
