"""Elimination of trees in memory: loops over pivots, what carries them, and pairs of these, eight at once."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING

from polhode.compiler.llvm.loop_builder import LoopBuilder
from polhode.compiler.primitives.elimination import Elimination

if TYPE_CHECKING:
    from polhode.compiler.llvm.builder import Builder
    from polhode.compiler.scalars.program import Operation

_AT_ONCE = 8
"""Entries of a row in one vector; the processor divides it where its own are shorter."""


def elimination(w: Builder, operation: Operation, x: list[str]) -> list[str]:
    """The entries of the factors. What is behind the end of a row is written, too, and never read."""
    plan = operation.params["plan"]
    m = _Matrix(w, plan)
    places = plan.places(m.stride)
    with m.steps(str(m.pivots), _AT_ONCE) as n:
        # Numbers that nobody has set may be so small that arithmetic with them is slow.
        for k in range(w.width):
            at = m.pointer(w.value(f"add i64 {w.value(f'mul i64 {n}, {w.width}')}, {k * _AT_ONCE}"))
            w.lines.append(f"store <{_AT_ONCE} x double> zeroinitializer, ptr {at}, align 8")
    for at, value in zip(places, x, strict=True):
        w.put(m.begin, at, "double", value)
    m.factorise()
    return [w.get(m.begin, at, "double") for at in places]


class _Matrix:
    """A matrix in the workspace while its elimination is written.

    - `begin`: a pointer to it. - `stride`: of its rows. - `pivots`: where these begin.
    """

    def __init__(self, w: Builder, plan: Elimination) -> None:
        self._w, self._unknowns = w, plan.unknowns
        self.stride = -(-plan.longest // _AT_ONCE) * _AT_ONCE
        self.pivots = 2 * self._unknowns * self.stride
        self.begin = w.new_table(self.pivots + self._unknowns)
        self._depths, self._carriers = w.table(plan.depths), w.table(plan.carriers(self.stride).reshape(-1))
        # Lanes are side by side already.
        self._at_once = _AT_ONCE if w.width == 1 else 1
        self._vector = f"<{_AT_ONCE} x double>" if w.width == 1 else w.of("double")

    def factorise(self) -> None:
        w = self._w
        one = w.number("double", 1.0)
        with self.steps(str(self._unknowns)) as n:
            k = w.value(f"sub i64 {self._unknowns - 1}, {n}")
            row, column = self._row_and_column(k)
            pivot = self._sum(k, self.pivots)
            reciprocal = w.do("fdiv", "double", one, self._load(pivot))
            self._store(pivot, reciprocal)
            depth, factor = self._number(self._depths, k), self._in_vector(reciprocal)
            with self.steps(depth, self._at_once) as q:
                at = self._sum(column, q)
                self._store_vector(at, self._do("fmul", self._load_vector(at), factor))
            path = w.value(f"mul i64 {k}, {self.stride}")
            with self.steps(depth) as p:
                self._subtract(self._number(self._carriers, self._sum(path, p)), p, row, column)

    def _subtract(self, i: str, p: str, row: str, column: str) -> None:
        """From row and column of unknown i, number p of the path of the pivot, and from its own pivot."""
        w = self._w
        c, r = self._load(self._sum(column, p)), self._load(self._sum(row, p))
        own = self._sum(i, self.pivots)
        self._store(own, w.do("fsub", "double", self._load(own), w.do("fmul", "double", c, r)))
        to_row, to_column = self._row_and_column(i)
        factor_c, factor_r = self._in_vector(c), self._in_vector(r)
        with self.steps(p, self._at_once) as q:
            for to, of, factor in ((to_row, row, factor_c), (to_column, column, factor_r)):
                at, product = self._sum(to, q), self._do("fmul", self._load_vector(self._sum(of, q)), factor)
                self._store_vector(at, self._do("fsub", self._load_vector(at), product))

    def _row_and_column(self, k: str) -> tuple[str, str]:
        row = self._w.value(f"mul i64 {k}, {2 * self.stride}")
        return row, self._sum(row, self.stride)

    @contextlib.contextmanager
    def steps(self, end: str, by: int = 1) -> Generator[str]:
        """A loop from 0 to an end."""
        w = self._w
        loop, body, after = LoopBuilder(w, [("i64", "0")]), w.label(), w.label()
        (n,) = loop.values
        w.branch(w.value(f"icmp slt i64 {n}, {end}"), body, after)
        w.open(body)
        yield n
        loop.end([w.value(f"add i64 {n}, {by}")])
        w.open(after)

    def pointer(self, slot: str) -> str:
        return self._w.value(f"getelementptr double, ptr {self.begin}, i64 {slot}")

    def _at(self, entry: str) -> str:
        return self.pointer(entry if self._w.width == 1 else self._w.value(f"mul i64 {entry}, {self._w.width}"))

    def _sum(self, a: str, b: str | int) -> str:
        return self._w.value(f"add i64 {a}, {b}")

    def _number(self, table: int, at: str) -> str:
        place = self._w.value(f"getelementptr i64, ptr %tables, i64 {self._sum(at, table)}")
        return self._w.value(f"load i64, ptr {place}, align 8")

    def _load(self, entry: str) -> str:
        return self._w.value(f"load {self._w.of('double')}, ptr {self._at(entry)}, align 8")

    def _store(self, entry: str, value: str) -> None:
        self._w.lines.append(f"store {self._w.of('double')} {value}, ptr {self._at(entry)}, align 8")

    def _load_vector(self, entry: str) -> str:
        return self._w.value(f"load {self._vector}, ptr {self._at(entry)}, align 8")

    def _store_vector(self, entry: str, value: str) -> None:
        self._w.lines.append(f"store {self._vector} {value}, ptr {self._at(entry)}, align 8")

    def _do(self, word: str, a: str, b: str) -> str:
        return self._w.value(f"{word} {self._vector} {a}, {b}")

    def _in_vector(self, value: str) -> str:
        """A number in all places of a vector."""
        if self._w.width > 1:
            return value
        first = self._w.value(f"insertelement {self._vector} poison, double {value}, i64 0")
        zeros = f"<{_AT_ONCE} x i32> zeroinitializer"
        return self._w.value(f"shufflevector {self._vector} {first}, {self._vector} poison, {zeros}")
