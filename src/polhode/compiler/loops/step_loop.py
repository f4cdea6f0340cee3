"""Step loop as machine code: blocks of steps and saved frames, without Python in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from polhode.compiler.arrays.array_ir import Function
from polhode.compiler.arrays.flat_program import StackProgram
from polhode.compiler.arrays.selection import compile_either
from polhode.compiler.arrays.stacks import runs, split_runs
from polhode.compiler.compile_report import CompileReport
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.loops.loop_code import AbstractLoopCode, ArrayLoopCode, ScalarLoopCode
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.loops.step_loop_ir import block
from polhode.compiler.number_pattern import ARGUMENTS, NumberPattern
from polhode.compiler.scalars.program import Program
from polhode.compiler.scalars.traced_function import TracedFunction
from polhode.compiler.trace import on_scalars, trace

T = TypeVar("T")


class LoopControl(NamedTuple):
    """Control of a block of steps, besides its arguments.

    - `n_limit`: the number of the step at which it ends. - `every`: save every so many steps. - `last`: whether the end
      of the segment is the end of the run. - `target`: the next instant to save. - `has_target`: whether there is one
      before the end of the run.
    """

    n_limit: Any
    every: Any
    last: Any
    target: Any
    has_target: Any


class StepPrograms(NamedTuple):
    """The two programs of a step loop, traced.

    - `check`: whether a block continues. - `steps`: the steps to the next frame. - `examples`: their arguments.
    - `layouts`: of the arguments, the progress and the contents of a frame.
    """

    check: TracedFunction
    steps: TracedFunction
    examples: tuple[Any, Any, LoopControl]
    layouts: tuple[Layout, Layout, Layout]

    @classmethod
    def of(cls, more: Callable, advance: Callable, args: Any, progress: Any, row: Any) -> StepPrograms:
        """Traces the functions of `StepLoop.of`. Raises `UnsupportedNativeOperation` where there is no machine code."""
        control = LoopControl(np.int64(0), np.int64(1), np.bool_(True), np.float64(0.0), np.bool_(False))
        examples, layouts = (args, progress, control), (Layout(args), Layout(progress), Layout(row))
        steps, check = trace(advance, *examples), trace(more, *examples)
        frame_layout = Layout(steps.out_shape[2])
        if frame_layout != layouts[2]:
            raise ValueError(f"Frames consist of {frame_layout.structure}, expected was {layouts[2].structure}.")
        return cls(check, steps, examples, layouts)

    def on_scalars(self, pattern: NumberPattern) -> tuple[Program, Program]:
        """Both on scalars, with constants. Raises `UnsupportedNativeOperation` where there are no such programs."""
        check, steps = (on_scalars(x, *self.examples, pattern=pattern) for x in (self.check, self.steps))
        return check, steps

    def build(self, make: Callable[[AbstractLoopCode, Function], T], pattern: NumberPattern = ARGUMENTS) -> T:
        """The result of `make` for the function of a block of steps, on arrays or on scalars.

        `pattern`: numbers of the arguments that are constants. Raises `UnsupportedNativeOperation` where neither works.
        """
        steps = self.steps.closed_jaxpr

        def on_arrays() -> T:
            code, (args, progress, row) = ArrayLoopCode(), (runs(layout.leaves) for layout in self.layouts)
            inputs = [*args, *progress, *[1] * len(LoopControl._fields)]
            programs = (
                StackProgram(self.check.closed_jaxpr, inputs, [1]),
                StackProgram(steps, inputs, [*progress, 1, *row]),
            )
            return make(code, block(code, *programs, list(map(_with_stacks, self.layouts))))

        def on_scalars() -> T:
            code = ScalarLoopCode()
            return make(code, block(code, *self.on_scalars(pattern), self.layouts))

        return compile_either(steps.jaxpr, on_arrays, on_scalars)


class StepLoop:
    """Steps in machine code.

    **Arguments:**

    - `code`: the machine code.
    - `args`, `progress`, `row`: trees like those that it takes, and like the contents of a frame; only structure,
      shapes and dtypes matter.
    - `pattern`: numbers of the arguments that are constants of the code.
    """

    def __init__(
        self, code: CompiledFunction, args: Any, progress: Any, row: Any, pattern: NumberPattern = ARGUMENTS
    ) -> None:
        self.code, self.args, self.progress, self.row = code, Layout(args), Layout(progress), Layout(row)
        self.pattern = pattern

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
    ) -> StepLoop:
        """Compiles functions.

        - `more`: whether a block continues, from the arguments, the progress and a `LoopControl`.
        - `advance`: from these the progress at the next frame or at the end, whether that is a frame, and its contents.
        - `tell`: called with a report before compilation.
        - `pattern`: numbers of the arguments that are constants.

        Raises `UnsupportedNativeOperation` for unsupported or too many operations.
        """
        traces = StepPrograms.of(more, advance, args, progress, row)
        code = traces.build(lambda code, function: code.compile(function, tell), pattern)
        return cls(code, args, progress, row, pattern)

    def arguments(self, args: Any) -> np.ndarray:
        """The arguments of `more` and `advance`, ready for `__call__`."""
        return self.pattern.check(self.args.pack(args))

    def __call__(
        self,
        arguments: np.ndarray,
        progress: Any,
        n_limit: int,
        every: int,
        last: bool,
        targets: Any,
        n_saved: int,
        capacity: int,
    ) -> tuple[Any, int, Any]:
        """The progress after the block, the number of frames, and these.

        Ends at step number `n_limit`, when `capacity` frames are saved, at the end of the segment, or with a failure.
        `targets` are the instants to save and then the end; `n_saved` of them are saved already.
        """
        slots = self.pack(progress)
        rows = self.advance(arguments, slots, n_limit, every, last, targets, n_saved, capacity)
        return self.unpack(slots), len(rows), self.frames(rows)

    def pack(self, progress: Any) -> np.ndarray:
        """A progress in slots, which `advance` changes."""
        return self.progress.pack(progress)

    def unpack(self, slots: np.ndarray) -> Any:
        """The progress from its slots; from rows of them, all at once."""
        return self.progress.unpack(slots)

    def advance(
        self,
        arguments: np.ndarray,
        slots: np.ndarray,
        n_limit: int,
        every: int,
        last: bool,
        targets: Any,
        n_saved: int,
        capacity: int,
    ) -> np.ndarray:
        """A block as by `__call__`, on a progress in slots. Returns the frames in slots."""
        places = _places(targets)
        control = np.array([n_limit, every, last, n_saved, len(places) - 1, capacity], np.int64)
        rows = np.empty((capacity, self.row.size), np.int64)
        return rows[: self.code(arguments, slots, control, places, rows)]

    def states(self, arguments: np.ndarray, slots: np.ndarray, n: int, n_end: int, targets: Any) -> np.ndarray:
        """Packed progress after step `n`, which is `slots`, and after each of the next steps up to `n_end`.

        `targets` are as for `__call__`; nothing is saved.
        """
        places = _places(targets)
        control = np.array([n, _NEVER, False, 0, len(places) - 1, 1], np.int64)
        now, states = slots.copy(), np.empty((n_end - n + 1, len(slots)), np.int64)
        calls = self.code.calls(arguments, now, control, places, np.empty((1, self.row.size), np.int64))
        states[0] = now
        for k in range(1, len(states)):
            control[0] = n + k
            next(calls)
            states[k] = now
        return states

    def frames(self, rows: np.ndarray) -> Any:
        """The contents of frames in slots."""
        return self.row.unpack(rows)


def _with_stacks(layout: Layout) -> Layout:
    """The same slots, where runs of equal arrays are one array each."""
    parts = split_runs(layout.leaves, runs(layout.leaves))
    return Layout(
        [run[0] if len(run) == 1 else jax.ShapeDtypeStruct((len(run), *run[0].shape), run[0].dtype) for run in parts]
    )


_NEVER = np.iinfo(np.int64).max


def _places(targets: Any) -> np.ndarray:
    """The instants to save and then the end, as machine code reads them."""
    return np.zeros(1) if targets is None else np.ascontiguousarray(targets, np.float64)
