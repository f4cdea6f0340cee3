"""Blocks of steps of several runs at a time: each lane of the processor's vectors is a run of its own.

The program of a step is the same as that of a single run, operation by operation, so every lane comes to the bytes that
the run would come to alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode.execution import limits
from polhode.execution.blocks import Told
from polhode.execution.literals import NotNative, type_of
from polhode.execution.machine import Code, vector_width
from polhode.execution.marching import Control
from polhode.execution.masked import Masked, some
from polhode.execution.passes import Passes
from polhode.execution.recording import on_scalars, traced
from polhode.execution.reports import Compiled
from polhode.execution.scalars.regions import Region
from polhode.execution.slots import Layout
from polhode.execution.writer import Writer

POINTERS = ("args", "progress", "control", "targets", "rows", "counts")


class Room(NamedTuple):
    """What one lane is told of a block.

    - `n_limit`, `every`, `last`, `done`: as `Marching.__call__` takes them. - `targets`: how many instants to save.
    - `capacity`: of its buffer of frames.
    """

    n_limit: int
    every: int
    last: bool
    done: int
    targets: int
    capacity: int


class Lanes:
    """Steps of several runs at a time in machine code.

    **Arguments:**

    - `code`: the machine code. - `width`: how many runs.
    - `args`, `progress`, `row`: trees like those of one run; only structure, shapes and dtypes matter.
    """

    def __init__(self, code: Code, width: int, args: Any, progress: Any, row: Any) -> None:
        self.code, self.width = code, width
        self.args, self.progress, self.row = Layout(args), Layout(progress), Layout(row)

    @classmethod
    def of(
        cls,
        more: Callable,
        advance: Callable,
        args: Any,
        progress: Any,
        row: Any,
        tell: Callable[[Compiled], None] | None = None,
    ) -> Lanes:
        """Functions as machine code, as `Marching.of` takes them.

        Raises `NotNative` for what can't be done on scalars, or takes too many.
        """
        control = Control(np.int64(0), np.int64(1), np.bool_(True), np.float64(0.0), np.bool_(False))
        examples, layouts = (args, progress, control), (Layout(args), Layout(progress), Layout(row))
        steps, check = traced(advance, *examples), traced(more, *examples)
        numbers = sum(layout.size for layout in layouts)
        if numbers > limits.NUMBERS:
            raise NotNative(f"{numbers} numbers")
        width = vector_width()
        code = _compiled(on_scalars(check, *examples), on_scalars(steps, *examples), layouts, width, tell)
        return cls(code, width, args, progress, row)

    def together(self, slots: Sequence[np.ndarray]) -> np.ndarray:
        """Slots of at most `width` runs side by side, those of the last one in all lanes that are left."""
        return _beside([*slots, *[slots[-1]] * (self.width - len(slots))])

    def move(
        self, args: np.ndarray, progress: np.ndarray, told: Sequence[Room], targets: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """A block of each lane. Returns how many frames each has saved.

        - `args`, `progress`: (slots, lanes), the second one of which changes.
        - `told`: for each run; the lanes that are left stand still.
        - `targets`: instants to save and then the end, the same for all.
        - `rows`: (lanes, capacity, slots), for frames.
        """
        control = _beside([np.array(room, np.int64) for room in (*told, *[_IDLE] * (self.width - len(told)))])
        counts = np.zeros(self.width, np.int64)
        self.code(args, progress, control, targets, rows, counts)
        return counts[: len(told)]


_IDLE = Room(n_limit=0, every=1, last=True, done=0, targets=0, capacity=0)
"""What a lane is told that is to stand still."""


def _beside(slots: Sequence[np.ndarray]) -> np.ndarray:
    return np.ascontiguousarray(np.stack(slots, axis=-1))


def _compiled(
    check: Region,
    steps: Region,
    layouts: tuple[Layout, Layout, Layout],
    width: int,
    tell: Callable[[Compiled], None] | None,
) -> Code:
    """The function of a block: a loop over frames, which goes on until no lane has any left."""
    lanes, (args, progress, row) = Masked(), layouts
    w = Writer(width, lanes.blocks)
    given = [w.get("%args", k, type_of(s)) for k, s in enumerate(args.scalars)]
    kinds = [type_of(s) for s in progress.scalars]
    n_limit, every, last, done, n_targets, capacity = (
        w.get("%control", k, "i1" if k == 2 else "i64") for k in range(6)
    )
    passes = Passes(w, [(w.of("i64"), "zeroinitializer")])
    (count,) = passes.now
    body, end = w.label(), w.label()
    reached = w.do("add", "i64", done, count)
    waiting = w.do("icmp slt", "i64", reached, n_targets)
    told = Told(n_limit, every, last, _gathered(w, w.intrinsic("smin", "i64", reached, n_targets)), waiting)
    now = [w.get("%progress", k, kind) for k, kind in enumerate(kinds)]
    (goes_on,) = w.program(check, [*given, *now, *told])
    active = w.do("and", "i1", goes_on, w.do("icmp slt", "i64", count, capacity))
    w.branch(some(w, active), body, end)
    w.open(body)
    lanes.mask = active
    results = w.program(steps, [*given, *now, *told])
    saved = w.do("and", "i1", results.pop(progress.size), active)
    for k, kind in enumerate(kinds):
        w.put("%progress", k, kind, w.chosen(active, kind, results[k], now[k]))
    _keep(w, saved, count, capacity, list(zip(map(type_of, row.scalars), results[progress.size :], strict=True)))
    passes.end([w.do("add", "i64", count, w.value(f"zext {w.of('i1')} {saved} to {w.of('i64')}"))])
    w.open(end)
    w.put("%counts", 0, "i64", count)
    return Code(w, POINTERS, "0", tell, at_once=True)


def _gathered(w: Writer, places: str) -> str:
    """The instants at these places, one for each lane."""
    result = "poison"
    for lane in range(w.width):
        place = w.value(f"extractelement {w.of('i64')} {places}, i64 {lane}")
        target = w.load("%targets", place, "double")
        result = w.value(f"insertelement {w.of('double')} {result}, double {target}, i64 {lane}")
    return result


def _keep(w: Writer, saved: str, count: str, capacity: str, row: list[tuple[str, str]]) -> None:
    """Puts the frame of every lane that saves one into its next row."""
    keeping, behind = w.label(), w.label()
    w.branch(some(w, saved), keeping, behind)
    w.open(keeping)
    told, frame = w.new_table(3), w.new_table(len(row))
    for k, (kind, value) in enumerate((("i1", saved), ("i64", count), ("i64", capacity))):
        w.put(told, k, kind, value)
    for k, (kind, value) in enumerate(row):
        w.put(frame, k, kind, value)
    with w.each(str(w.width)) as lane:
        copying, next_lane = w.label(), w.label()
        w.branch(w.load(told, lane, "i1"), copying, next_lane)
        w.open(copying)
        mine, room = (w.load(w.row(told, str(k), w.width), lane, "i64") for k in (1, 2))
        at = w.value(f"add i64 {w.value(f'mul i64 {lane}, {room}')}, {mine}")
        target = w.row("%rows", at, len(row))
        with w.each(str(len(row))) as k:
            w.store(target, k, "i64", w.load(w.row(frame, k, w.width), lane, "i64"))
        w.jump(next_lane)
        w.open(next_lane)
    w.jump(behind)
    w.open(behind)
