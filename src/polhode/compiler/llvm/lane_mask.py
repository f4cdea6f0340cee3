"""Masked loops and branches of programs on lanes: each lane has the results that it would have alone, to the last bit.

A loop runs until no lane is active; inactive ones keep their values. Every alternative that some lane takes is
evaluated for all lanes, and each lane selects the results of its own. Inactive lanes have no side effects: operations
of IEEE 754 don't trap, and integer division is guarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from polhode.compiler.llvm.builder import Builder
from polhode.compiler.llvm.control_flow import Block, rows
from polhode.compiler.llvm.elimination import elimination
from polhode.compiler.llvm.loop_builder import LoopBuilder
from polhode.compiler.llvm.procedures import call
from polhode.compiler.llvm.types import type_of

if TYPE_CHECKING:
    from polhode.compiler.scalars.program import Operation


class LaneMask:
    """The mask of active lanes while a program is written.

    - `mask`: the active lanes; None: all.
    """

    def __init__(self) -> None:
        self.mask: str | None = None

    @property
    def blocks(self) -> Mapping[str, Block]:
        """Operations that become basic blocks of their own."""
        same = {"rows": rows, "elimination": elimination}
        return {"while": self._loop, "cond": self._branch, "call": self._call, **same}

    def among(self, w: Builder, which: str) -> str:
        """The active ones among some lanes."""
        return which if self.mask is None else w.do("and", "i1", which, self.mask)

    def program(self, w: Builder, operation: Operation, key: str, n: int | None, mask: str, x: list[str]) -> list[str]:
        """The results of a region of an operation, for these lanes."""
        region = operation.params[key] if n is None else operation.params[key][n]
        outer, self.mask = self.mask, mask
        results = w.program(region, x)
        self.mask = outer
        return results

    def _loop(self, w: Builder, operation: Operation, start: list[str]) -> list[str]:
        kinds = [type_of(v) for v in operation.results]
        loop = LoopBuilder(w, [(w.of(kind), first) for kind, first in zip(kinds, start, strict=True)])
        body, after = w.label(), w.label()
        (goes_on,) = w.program(operation.params["cond"], loop.values)
        active = self.among(w, goes_on)
        w.branch(any_lane(w, active), body, after)
        w.open(body)
        then = self.program(w, operation, "body", None, active, loop.values)
        values = zip(kinds, then, loop.values, strict=True)
        loop.end([old if new == old else w.blend(active, kind, new, old) for kind, new, old in values])
        w.open(after)
        return loop.values

    def _call(self, w: Builder, operation: Operation, x: list[str]) -> list[str]:
        return call(w, operation, x, self)

    def _branch(self, w: Builder, operation: Operation, x: list[str]) -> list[str]:
        kinds = [type_of(v) for v in operation.results]
        previous: list[str] | None = None
        for k, here in enumerate(self._branch_masks(w, operation, x[0])):
            inside, after, before = w.label(), w.label(), w.block
            active = self.among(w, here)
            w.branch(any_lane(w, active), inside, after)
            w.open(inside)
            results = self.program(w, operation, "branches", k, active, [])
            if previous is not None:
                results = [w.blend(here, *parts) for parts in zip(kinds, results, previous, strict=True)]
            otherwise = ["zeroinitializer"] * len(kinds) if previous is None else previous
            last = w.block
            w.jump(after)
            w.open(after)
            previous = [
                w.value(f"phi {w.of(kind)} [ {new}, %{last} ], [ {old}, %{before} ]")
                for kind, new, old in zip(kinds, results, otherwise, strict=True)
            ]
        return previous or []

    def _branch_masks(self, w: Builder, operation: Operation, which: str) -> list[str]:
        """For every alternative of a branch the lanes that take it; the last one has those of no other."""
        kind, count = type_of(operation.operands[0]), len(operation.params["branches"])
        if kind == "i1":
            return [w.logical_not(which), which]
        masks = [w.do("icmp eq", kind, which, w.number(kind, k)) for k in range(count - 1)]
        others = w.number("i1", 0)
        for lanes in masks:
            others = w.do("or", "i1", others, lanes)
        return [*masks, w.logical_not(others)]


def any_lane(w: Builder, lanes: str) -> str:
    """Whether any lane is set."""
    return w.call(f"llvm.vector.reduce.or.v{w.width}i1", "i1", (w.of("i1"), lanes))
