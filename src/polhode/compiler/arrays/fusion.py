"""Loop fusion: groups operations into kernels, chooses the results stored in memory, and orders both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

from polhode.compiler.array_program import Equation, FlatProgram, Value
from polhode.compiler.arrays.op_kinds import MAX_UNROLLED_REDUCTION, STANDALONE, VIEWS
from polhode.compiler.scalars.primitives import ELEMENTWISE, REDUCTIONS

MAX_UNROLLED = 4
"""Longest axis that is unrolled."""

Group = tuple[Any, ...]
"""The key of a kernel: the axes of its loops, or its reduction."""


def axes(shape: Sequence[int]) -> tuple[int, ...]:
    """The lengths of the loops over an array of this shape."""
    return tuple(n for n in shape if n > MAX_UNROLLED)


def reduction_size(equation: Equation) -> int | None:
    """Number of elements that a reduction combines into one; None for other operations."""
    if equation.name not in REDUCTIONS:
        return None
    count = 1
    for axis in equation.params["axes"]:
        count *= equation.inputs[0].shape[axis]
    return count


def is_long(equation: Equation) -> bool:
    """Whether it is a reduction with its own loops."""
    count = reduction_size(equation)
    return count is not None and count > MAX_UNROLLED_REDUCTION


def in_memory(equation: Equation) -> Sequence[int]:
    """Indices of the operands that it reads at data-dependent places."""
    if equation.name in STANDALONE:
        return range(len(equation.inputs))
    return [0] if equation.name in ("gather", "dynamic_slice") else []


class Kernel:
    """A fused loop: operations in order, and those of their results that are stored.

    - `level`: position in the schedule; `group`: key of the operations that share it.
    """

    def __init__(self, level: int, group: Group) -> None:
        self.level, self.group = level, group
        self.equations: list[Equation] = []
        self.stored: list[Value] = []

    @property
    def is_reduction(self) -> bool:
        return self.group[0] == "reduction"


def _returns(stage: Equation | Kernel) -> TypeGuard[Equation]:
    return not isinstance(stage, Kernel) and stage.name in ("while", "scan", "cond", "sort")


def _may_return(e: Equation) -> Sequence[Any]:
    """The operands that may be results of a loop or a branch as they are, without a copy."""
    p = e.params
    if e.name == "cond":
        like = {(v.shape, v.dtype) for v in e.outputs if v.shape}
        return [x for x in e.inputs[1:] if isinstance(x, Value) and (x.shape, x.dtype) in like]
    if e.name == "while":
        return e.inputs[p["cond_nconsts"] + p["body_nconsts"] :]
    return e.inputs[p["num_consts"] : p["num_consts"] + p["num_carry"]] if e.name == "scan" else ()


class Schedule:
    """The schedule of a program.

    - `stages`: standalone operations and kernels, in order.
    """

    def __init__(self, flat: FlatProgram) -> None:
        self.flat = flat
        self._producers = {id(v): e for e in flat.equations for v in e.outputs}
        self._sources: dict[int, list[Value]] = {}
        self._uses: dict[int, list[tuple[Equation, bool]]] = defaultdict(list)
        self._results = {id(v) for x in flat.outputs for v in self.sources(x)}
        equations = [e for e in flat.equations if e.name not in VIEWS]
        for e in equations:
            memory = set(in_memory(e))
            for k, x in enumerate(e.inputs):
                for v in self.sources(x):
                    self._uses[id(v)].append((e, k in memory))
        self._groups = self._assign_groups(equations)
        self._levels = self._assign_levels(equations)
        self.stages = list(self._build_stages(equations))
        self._last_reads = self._find_last_reads()

    def sources(self, x: Any) -> list[Value]:
        """The values of which an operand is a view."""
        if not isinstance(x, Value):
            return []
        sources = self._sources.get(id(x))
        if sources is None:
            producer = self._producers.get(id(x))
            is_view = producer is not None and producer.name in VIEWS
            sources = [v for y in producer.inputs for v in self.sources(y)] if producer is not None and is_view else [x]
            self._sources[id(x)] = sources
        return sources

    def last_used(self, stage: Equation | Kernel) -> list[Value]:
        """Values that are not read after a stage."""
        return self._last_reads[id(stage)]

    def _find_last_reads(self) -> dict[int, list[Value]]:
        """For each stage, the values that are read there for the last time."""
        last_reads: dict[int, list[Value]] = {id(stage): [] for stage in self.stages}
        # Results of a loop or a branch may share memory with an operand, so operands stay alive.
        may_alias = (v for stage in self.stages if _returns(stage) for v, _ in self._operands(stage))
        later_reads = {*self._results, *map(id, may_alias)}
        for stage in reversed(self.stages):
            equations = stage.equations if isinstance(stage, Kernel) else [stage]
            for e in equations:
                for v in (*(v for v, _ in self._operands(e)), *e.outputs):
                    if id(v) not in later_reads:
                        later_reads.add(id(v))
                        last_reads[id(stage)].append(v)
        return last_reads

    def _assign_groups(self, equations: Sequence[Equation]) -> dict[int, Group]:
        """The group of each operation; those that only one reduction uses belong to its group."""
        groups: dict[int, Group] = {}
        for e in reversed(equations):
            if is_long(e):
                groups[id(e)] = ("reduction", id(e))
                continue
            (first, *_), shape = e.outputs, axes(e.outputs[0].shape)
            own: Group = ("loop", shape)
            preferences = {
                self._preferred_group(v, shape, use, memory, groups, own)
                for v in [first]
                for use, memory in self._uses_of(v)
            }
            ends = e.name in STANDALONE or id(first) in self._results or len(preferences) != 1
            preference = own if ends else preferences.pop()
            # Operands of several short reductions, which may run at different levels, have to be stored.
            several = len({id(use) for use, _ in self._uses_of(first)}) > 1
            groups[id(e)] = own if several and preference[0] == "loop" else preference
        return groups

    def _uses_of(self, v: Value) -> list[tuple[Equation, bool]]:
        return self._uses[id(v)]

    def _preferred_group(
        self, v: Value, shape: Any, consumer: Equation, memory: bool, groups: dict[int, Group], own: Group
    ) -> Group:
        if memory or consumer.name in STANDALONE:
            return own
        same = shape == axes(consumer.outputs[0].shape)
        return groups[id(consumer)] if reduction_size(consumer) is not None or same else own

    def _assign_levels(self, equations: Sequence[Equation]) -> dict[int, int]:
        """The level of each operation: as early as its operands allow, or that of its consumers."""
        levels: dict[int, int] = {}
        for e in equations:
            levels[id(e)] = max((self._ready(e, v, memory, levels) for v, memory in self._operands(e)), default=0)
        for e in reversed(equations):
            uses = [use for v in e.outputs for use in self._uses_of(v)]
            alone = not any(id(v) in self._results for v in e.outputs) and uses and e.name not in STANDALONE
            if alone and all(not m and self._groups[id(u)] == self._groups[id(e)] for u, m in uses):
                levels[id(e)] = min(levels[id(u)] for u, _ in uses)
        return levels

    def _operands(self, e: Equation) -> Iterator[tuple[Value, bool]]:
        memory = set(in_memory(e))
        for k, x in enumerate(e.inputs):
            for v in self.sources(x):
                yield v, k in memory

    def _ready(self, e: Equation, v: Value, memory: bool, levels: dict[int, int]) -> int:
        producer = self._producers.get(id(v))
        if producer is None:
            return 0
        if producer.name in STANDALONE:
            return levels[id(producer)]
        together = not memory and e.name not in STANDALONE and self._groups[id(producer)] == self._groups[id(e)]
        return levels[id(producer)] + (0 if together else 1)

    def _build_stages(self, equations: Sequence[Equation]) -> Iterator[Equation | Kernel]:
        kernels: dict[tuple[int, Group], Kernel] = {}
        alone: dict[int, list[Equation]] = defaultdict(list)
        for e in equations:
            level, group = self._levels[id(e)], self._groups[id(e)]
            if e.name in STANDALONE:
                alone[level].append(e)
                continue
            kernel = kernels.setdefault((level, group), Kernel(level, group))
            kernel.equations.append(e)
            kernel.stored += [v for v in e.outputs if self._is_stored(e, v)]
        last = max((*alone, *(level for level, _ in kernels)), default=-1)
        for level in range(last + 1):
            yield from alone[level]
            yield from (kernel for (at, _), kernel in kernels.items() if at == level)

    def _is_stored(self, e: Equation, v: Value) -> bool:
        if id(v) in self._results:
            return True
        here = self._levels[id(e)], self._groups[id(e)]
        return any(m or (self._levels[id(u)], self._groups[id(u)]) != here for u, m in self._uses_of(v))

    # --- updates in place ---------------------------------------------------------------------------------------------

    def in_place(self, operand: Value, result: Any) -> bool:
        """Whether `result` may overwrite `operand`, because that is not read afterwards."""
        producer = self._producers.get(id(result)) if isinstance(result, Value) else None
        if (
            producer is None
            or operand.shape != result.shape
            or producer.name in VIEWS
            or producer.name in ("while", "scan")
        ):
            return False
        if any(operand in self.sources(x) for x in self.flat.outputs):
            return False
        uses = self._uses_of(operand)
        if producer.name in STANDALONE:
            return self._is_last(operand, producer)
        here = self._levels[id(producer)], self._groups[id(producer)]
        together = all(not m and (self._levels[id(u)], self._groups[id(u)]) == here for u, m in uses)
        plain = all(self._is_plain(u, operand) for u, _ in uses)
        return here[1] == ("loop", axes(operand.shape)) and together and plain

    def _is_last(self, operand: Value, producer: Equation) -> bool:
        """Whether a standalone operation updates an operand that is read neither elsewhere in it nor afterwards."""
        at = [k for k, x in enumerate(producer.inputs) if operand in self.sources(x)]
        changes = len(at) == 1 and (at == [0] or producer.name == "cond") and producer.name != "sort"
        others = [u for u, _ in self._uses_of(operand) if u is not producer]
        last = all(self._levels[id(u)] < self._levels[id(producer)] for u in others)
        # A loop or a branch before may have given it another name.
        last &= not any(operand in self.sources(x) for u in others for x in _may_return(u))
        return changes and producer.inputs[at[0]] is operand and last

    def _is_plain(self, use: Equation, operand: Value) -> bool:
        """Whether an operation reads each element only for the element of its result at the same place."""
        direct = all(x is operand for x in use.inputs if operand in self.sources(x))
        return direct and use.name in ELEMENTWISE and use.outputs[0].shape == operand.shape
