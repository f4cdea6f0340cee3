"""SIMD step loop: blocks of steps of several runs at a time, one run in each lane of the processor's vectors.

The program of a step is the same as that of a single run, operation by operation, so every lane has the same
results to the last bit as the run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode.compiler import size_limits
from polhode.compiler.compile_report import CompileReport
from polhode.compiler.llvm.ir_builder import IRBuilder
from polhode.compiler.llvm.jit import CompiledFunction, vector_width
from polhode.compiler.llvm.lane_mask import LaneMask, any_lane
from polhode.compiler.llvm.loop_builder import LoopBuilder
from polhode.compiler.llvm.types import UnsupportedNativeOperation, type_of
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.loops.step_loop import StepPrograms
from polhode.compiler.loops.step_loop_ir import ControlValues
from polhode.compiler.number_pattern import ARGUMENTS, NumberPattern
from polhode.compiler.scalars.program import Program, Variable, split_inputs

_SMALL = 3000
"""Operations of a step up to which a variable is two vectors: while one waits for a result, the other works. RKMK 4 of
a heavy top takes 0.042 µs a step and run then, 0.060 µs otherwise; generalized-α of a slider-crank, of 13,000,
2.4 µs and 1.4 µs, since its numbers don't fit into the caches any more."""

POINTERS = ("args", "progress", "control", "targets", "rows", "counts", "vectors")


class LaneControl(NamedTuple):
    """Control of a block for one lane.

    - `n_limit`, `every`, `last`: as `StepLoop.__call__` takes them. - `n_saved`: frames that it has saved.
    - `targets`: number of instants to save. - `capacity`: of its buffer, for the frames of all blocks.
    """

    n_limit: int
    every: int
    last: bool
    n_saved: int
    targets: int
    capacity: int


class SimdStepLoop:
    """Steps of several runs at a time, in machine code.

    **Arguments:**

    - `code`: the machine code. - `width`: how many runs.
    - `args`, `progress`, `row`: trees like those of one run; only structure, shapes and dtypes matter.
    - `pattern`: numbers of the arguments that are constants of the code.
    """

    def __init__(
        self,
        code: CompiledFunction,
        width: int,
        args: Any,
        progress: Any,
        row: Any,
        pattern: NumberPattern = ARGUMENTS,
    ) -> None:
        self.code, self.width, self.pattern = code, width, pattern
        self.args, self.progress, self.row = Layout(args), Layout(progress), Layout(row)

    @classmethod
    def of(
        cls,
        more: Callable,
        advance: Callable,
        args: Any,
        progress: Any,
        row: Any,
        tell: Callable[[CompileReport], None] | None = None,
        pattern: NumberPattern = ARGUMENTS,
    ) -> SimdStepLoop:
        """Compiles functions, as `StepLoop.of` does.

        Raises `UnsupportedNativeOperation` for unsupported or too many operations.
        """
        traces = StepPrograms.of(more, advance, args, progress, row)
        programs = traces.on_scalars(pattern)
        numbers = len(programs[1].inputs) + traces.layouts[2].size
        if numbers > size_limits.NUMBERS:
            raise UnsupportedNativeOperation(f"{numbers} numbers")
        width = vector_width() * (2 if programs[1].size < _SMALL else 1)
        code = _compile(*programs, traces.layouts, width, tell)
        return cls(code, width, args, progress, row, pattern)

    def interleave(self, slots: np.ndarray) -> np.ndarray:
        """Slots of runs (runs, slots) as vectors (vectors, slots, lanes); remaining lanes repeat the last run."""
        vectors = -(-len(slots) // self.width)
        padded_slots = np.concatenate([slots, np.repeat(slots[-1:], vectors * self.width - len(slots), axis=0)])
        return np.ascontiguousarray(padded_slots.reshape(vectors, self.width, -1).swapaxes(1, 2))

    def deinterleave(self, vectors: np.ndarray, count: int) -> np.ndarray:
        """The slots of so many runs; inverse of `interleave`."""
        return np.ascontiguousarray(vectors.swapaxes(1, 2)).reshape(-1, vectors.shape[1])[:count]

    def advance(
        self,
        args: np.ndarray,
        progress: np.ndarray,
        controls: Sequence[LaneControl],
        targets: np.ndarray,
        rows: np.ndarray,
    ) -> np.ndarray:
        """A block of every run. Returns the number of frames that each has saved in it.

        - `args`, `progress`: (vectors, slots, lanes), the second one of which changes.
        - `controls`: for each run; remaining lanes are idle.
        - `targets`: instants to save and then the end, the same for all.
        - `rows`: (vectors · lanes, capacity, slots), for frames.
        """
        lanes = len(args) * self.width
        control = self.interleave(np.array([*controls, *[_IDLE] * (lanes - len(controls))], np.int64))
        counts = np.zeros(lanes, np.int64)
        self.code(args, progress, control, targets, rows, counts, np.array([len(args)]))
        return counts[: len(controls)]


_IDLE = LaneControl(n_limit=0, every=1, last=True, n_saved=0, targets=0, capacity=0)
"""Control of an idle lane."""


def _compile(
    check: Program,
    steps: Program,
    layouts: tuple[Layout, Layout, Layout],
    width: int,
    tell: Callable[[CompileReport], None] | None,
) -> CompiledFunction:
    """The function of a block: a loop over vectors, and in it one over frames until no lane has any left."""
    lanes, (args, progress, row) = LaneMask(), layouts
    w = IRBuilder(width, lanes.blocks)
    with w.for_each(w.load("%vectors", 0, "i64")) as n:
        mine = {name: w.row(f"%{name}", n, k * width) for name, k in (("args", args.size), ("progress", progress.size))}
        control, counts = w.row("%control", n, len(LaneControl._fields) * width), w.row("%counts", n, width)
        first = w.value(f"mul i64 {n}, {width}")
        calls = [_Call.of(w, program, mine["args"], args, progress) for program in (check, steps)]
        w.put(
            counts,
            0,
            "i64",
            _frames(w, lanes, calls, mine["progress"], control, first, progress, row),
        )
    return CompiledFunction(w, POINTERS, "0", tell, at_once=True)


class _Call(NamedTuple):
    """A program with its arguments.

    - `arguments`: their values. - `progress`: its inputs of the progress. - `used`: the variables that it uses.
    """

    program: Program
    arguments: list[str]
    progress: list[Variable]
    used: Collection[Variable]

    @classmethod
    def of(cls, w: IRBuilder, program: Program, at: str, args: Layout, progress: Layout) -> _Call:
        """A program whose arguments are packed there."""
        used = program.used_variables
        arguments, now, _ = split_inputs(program, [args.size, progress.size, len(ControlValues._fields)])
        return cls(program, w.inputs(at, arguments, used), now, used)

    def __call__(self, w: IRBuilder, at: str, control: ControlValues) -> list[str]:
        """Its results for a progress that is packed there."""
        return w.program(self.program, [*self.arguments, *w.inputs(at, self.progress, self.used), *control])


def _frames(
    w: IRBuilder,
    lanes: LaneMask,
    calls: Sequence[_Call],
    at: str,
    control: str,
    first: str,
    progress: Layout,
    row: Layout,
) -> str:
    """The loop over frames of the vector whose lanes are runs from `first` on; returns the number of frames of each."""
    check, steps = calls
    kinds = [type_of(s) for s in progress.scalars]
    n_limit, every, last, n_saved, n_targets, capacity = (
        w.get(control, k, "i1" if k == 2 else "i64") for k in range(6)
    )
    loop = LoopBuilder(w, [(w.of("i64"), "zeroinitializer")])
    (count,) = loop.values
    body, end = w.label(), w.label()
    n_frames = w.do("add", "i64", n_saved, count)
    has_target = w.do("icmp slt", "i64", n_frames, n_targets)
    values = ControlValues(
        n_limit, every, last, _gather_targets(w, w.intrinsic("smin", "i64", n_frames, n_targets)), has_target
    )
    now = [w.get(at, k, kind) for k, kind in enumerate(kinds)]
    lanes.mask = None
    (goes_on,) = check(w, at, values)
    active = w.do("and", "i1", goes_on, w.do("icmp slt", "i64", n_frames, capacity))
    w.branch(any_lane(w, active), body, end)
    w.open(body)
    lanes.mask = active
    results = steps(w, at, values)
    is_saved = w.do("and", "i1", results.pop(progress.size), active)
    for k, kind in enumerate(kinds):
        w.put(at, k, kind, w.blend(active, kind, results[k], now[k]))
    frame = list(zip(map(type_of, row.scalars), results[progress.size :], strict=True))
    _store_frames(w, is_saved, (first, n_frames, capacity), frame)
    loop.end([w.do("add", "i64", count, w.value(f"zext {w.of('i1')} {is_saved} to {w.of('i64')}"))])
    w.open(end)
    return count


def _gather_targets(w: IRBuilder, places: str) -> str:
    """The instants at these indices, one for each lane."""
    result = "poison"
    for lane in range(w.width):
        place = w.value(f"extractelement {w.of('i64')} {places}, i64 {lane}")
        target = w.load("%targets", place, "double")
        result = w.value(f"insertelement {w.of('double')} {result}, double {target}, i64 {lane}")
    return result


def _store_frames(w: IRBuilder, is_saved: str, place: tuple[str, str, str], row: list[tuple[str, str]]) -> None:
    """Stores the frame of every lane that saves one in its next row.

    `place`: the number of the first lane's run; for all lanes the number of the frame and the capacity.
    """
    first, number, capacity = place
    store, after = w.label(), w.label()
    w.branch(any_lane(w, is_saved), store, after)
    w.open(store)
    table, frame = w.new_table(3), w.new_table(len(row))
    for k, (kind, value) in enumerate((("i1", is_saved), ("i64", number), ("i64", capacity))):
        w.put(table, k, kind, value)
    for k, (kind, value) in enumerate(row):
        w.put(frame, k, kind, value)
    with w.for_each(str(w.width)) as lane:
        copy, next_lane = w.label(), w.label()
        w.branch(w.load(table, lane, "i1"), copy, next_lane)
        w.open(copy)
        mine, room = (w.load(w.row(table, str(k), w.width), lane, "i64") for k in (1, 2))
        lane_run = w.value(f"add i64 {first}, {lane}")
        at = w.value(f"add i64 {w.value(f'mul i64 {lane_run}, {room}')}, {mine}")
        target = w.row("%rows", at, len(row))
        with w.for_each(str(len(row))) as k:
            w.store(target, k, "i64", w.load(w.row(frame, k, w.width), lane, "i64"))
        w.jump(next_lane)
        w.open(next_lane)
    w.jump(after)
    w.open(after)
