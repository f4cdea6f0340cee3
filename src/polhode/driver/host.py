"""The driver on the host: compiled blocks of steps, with control in between for progress, stores and Ctrl-C."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.captured.programs import compiled, found
from polhode.driver.legs import Leg
from polhode.driver.observing import Observer, Watch
from polhode.driver.showing import Show
from polhode.driver.stepping import AbstractStepper, ConstantSteps, ControlledSteps, Progress, between, march
from polhode.execution.eager import uncompiled
from polhode.execution.kept import Keeping
from polhode.execution.literals import NotNative
from polhode.execution.marching import Control, Marching
from polhode.execution.once import interpreted
from polhode.execution.placement import on_host
from polhode.execution.reports import Compiled
from polhode.execution.scalars import scalarise
from polhode.frames import Frames
from polhode.integrators.base import AbstractIntegrator
from polhode.results import Result
from polhode.systems.base import AbstractSystem

_BLOCK_SECONDS = 0.2
_STORED_BLOCK_SECONDS = 0.1
_FIRST_BLOCK = 1
_BUFFER_FLOATS = 2_000_000
_BUFFER_SIZES = (1, 256, 4096)
_OBSERVED_ROWS = 512


class Saving(NamedTuple):
    """Which instants are kept: every `every`-th step (None: only the ends), or the times `at`."""

    every: int | None
    at: np.ndarray | None


class Outcome(NamedTuple):
    """What a run on the host returns.

    - `frames`: all that no sink has taken. - `checkpoint`: what it can go on from.
    - `start_time`, `compile_time`, `wall_time`: seconds of making the start, of compiling, of running.
    - `compiled`: how the steps were executed at the end.
    - `error`: what broke it off unforeseen, if anything did.
    """

    frames: Frames
    progress: Progress
    checkpoint: Checkpoint
    start_time: float
    compile_time: float
    wall_time: float
    compiled: Compiled
    error: BaseException | None


class Checkpoint(NamedTuple):
    """Where a run stands between two blocks: the number of its leg, and of frames saved."""

    progress: Progress
    leg: int
    done: int


class Start(NamedTuple):
    """What a run begins with: a state; or a checkpoint, whose frame is saved unless the run `goes_on`."""

    state: Any
    checkpoint: Checkpoint | None = None
    goes_on: bool = False


class Sink(Protocol):
    """What takes the frames of a run while it is going."""

    def append(self, frames: Frames, checkpoint: Checkpoint, stopping: Callable[[], bool]) -> Result:
        """Takes a block of frames, and where the run stands behind it; any code but `successful` ends the run.

        `stopping` tells whether the user wants the run to end.
        """
        ...


class _Buffer(NamedTuple):
    count: Any
    t: Any
    state: Any
    multipliers: Array | None


@interpreted
def begin(
    stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, state: Any, keep: bool
) -> Progress:
    """The beginning of a run; `keep`: with what interpolation needs."""
    return stepper.start(system, integrator, state, keep)


@interpreted
def again(stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, p: Progress) -> Progress:
    """Behind a breakpoint, where loads may have jumped."""
    return stepper.again(system, integrator, p)


@compiled
def _run_block(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    n_limit: Array,
    every: Array,
    targets: Array | None,
    done: Array,
    last: Array,
    capacity: int,
) -> tuple[Progress, _Buffer]:
    """Steps until `n_limit`, until `capacity` frames are saved, until the end of the leg or a failure.

    `targets` are the save times followed by t1, of which `done` lie behind; without them every `every`-th step is
    saved and, in the `last` leg, the end.
    """

    def run(p: Progress, n_stop: Array, *target: Array) -> Progress:
        return march(stepper, system, integrator, p, n_stop, *(target or (None,)))

    on_scalars = scalarise(run, one_kernel=True)
    interpolated = scalarise(lambda p, t: between(stepper, system, integrator, p, t))

    def more(loop: tuple[Progress, _Buffer]) -> Array:
        p, buffer = loop
        left = ~stepper.finished(p)
        if targets is not None:
            waiting = done + buffer.count < targets.shape[0] - 1
            left = waiting & (left | stepper.passed(p, targets[jnp.minimum(done + buffer.count, targets.shape[0] - 1)]))
        return left & (buffer.count < capacity) & (p.n < n_limit) & (p.result == 0)

    def body(loop: tuple[Progress, _Buffer]) -> tuple[Progress, _Buffer]:
        p, buffer = loop
        if targets is None:
            p = on_scalars(p, jnp.minimum((p.n // every + 1) * every, n_limit))
            save = ((p.n % every == 0) | (last & stepper.finished(p))) & (p.result == 0)
            t, state = p.t, p.carry.state
        else:
            t = targets[done + buffer.count]
            p = on_scalars(p, n_limit, t)
            save = stepper.passed(p, t) & (p.result == 0)
            state = interpolated(p, t)
        return p, _write(buffer, save, t, state, p.carry.multipliers)

    zeros = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), (p.carry.state, p.carry.multipliers))
    p, buffer = jax.lax.while_loop(more, body, (p, _Buffer(jnp.zeros((), jnp.int64), jnp.zeros(capacity), *zeros)))
    if targets is not None:
        # After the last save time the run still goes on to t1.
        rest = jnp.where(done + buffer.count >= targets.shape[0] - 1, n_limit, p.n)
        p = on_scalars(p, rest, targets[-1])
    return p, buffer


def _more(args: Any, p: Progress, c: Control) -> Array:
    stepper, *_ = args
    left = ~stepper.finished(p)
    if p.before is not None:
        left = left | (c.waiting & stepper.passed(p, c.target))
    return left & (p.n < c.n_limit) & (p.result == 0)


def _advance(args: Any, p: Progress, c: Control) -> tuple[Progress, Array, Any]:
    stepper, system, integrator = args
    if p.before is None:
        p = march(stepper, system, integrator, p, jnp.minimum((p.n // c.every + 1) * c.every, c.n_limit), None)
        save = ((p.n % c.every == 0) | (c.last & stepper.finished(p))) & (p.result == 0)
        return p, save, (p.t, p.carry.state, p.carry.multipliers)
    p = march(stepper, system, integrator, p, c.n_limit, c.target)
    save = c.waiting & stepper.passed(p, c.target) & (p.result == 0)
    return p, save, (c.target, between(stepper, system, integrator, p, c.target), p.carry.multipliers)


def native(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    tell: Callable[[Compiled], None] = lambda _: None,
) -> tuple[Marching | None, Any]:
    """Steps in machine code with its arguments, if they can be; `tell` is told what is compiled."""
    make = _native if on_host((system, p)) else _on_devices
    (marching,), (args, _) = found(make, (stepper, system, integrator), p, keeping=_KEEPING, beside=(tell,))
    return marching, None if marching is None else marching.arguments(args)


def _native(inputs: Any, rest: Any, tell: Callable[[Compiled], None]) -> tuple[Marching | None]:
    """Steps in machine code, if they can be; `tell` is told what is compiled."""
    (args, progress), others = inputs, rest[0]

    def with_all(function: Callable) -> Callable:
        return lambda given, p, control: function(eqx.combine(given, others), p, control)

    try:
        return (Marching.of(with_all(_more), with_all(_advance), args, progress, _frame(progress), tell),)
    except NotNative:
        return (None,)


def _frame(p: Progress) -> tuple[Any, Any, Array | None]:
    """What a frame consists of."""
    return p.t, p.carry.state, p.carry.multipliers


def _watch(found: tuple[Marching | None], write: Callable[[], None]) -> None:
    if found[0] is not None:
        found[0].code.when_improved = write


_KEEPING: Keeping[tuple[Marching | None]] = Keeping(
    dump=lambda found: None if found[0] is None else found[0].code,
    load=lambda code, inputs: (Marching(code, inputs[0], inputs[1], _frame(inputs[1])),),
    watch=_watch,
)


_BY_XLA = Compiled(None, "xla", kept=False)


def _on_devices(inputs: Any, rest: Any, tell: Callable[[Compiled], None]) -> tuple[None]:
    """No machine code for what JAX does elsewhere."""
    return (None,)


def _write(buffer: _Buffer, save: Array, t: Array, state: Any, multipliers: Array | None) -> _Buffer:
    def put(rows: Any, row: Any) -> Array:
        return rows.at[buffer.count].set(jnp.where(save, row, rows[buffer.count]))

    return _Buffer(
        buffer.count + save,
        put(buffer.t, t),
        jax.tree.map(put, buffer.state, state),
        None if multipliers is None else put(buffer.multipliers, multipliers),
    )


def run(
    legs: Sequence[Leg],
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    start: Start,
    observer: Observer,
    saving: Saving,
    sink: Sink | None,
    show: Show,
    interrupted: threading.Event,
) -> Outcome:
    """The whole run.

    `sink` receives each block of frames and may stop the run with a code; without one frames stay in memory. The run
    stops after the block in which `interrupted` is set.
    """
    began = time.perf_counter()
    made = _Run(legs, system, integrator, start, observer, saving, sink, show, interrupted)
    return made.all(time.perf_counter() - began)


class _Run:
    """A run on its way."""

    @uncompiled()
    def __init__(
        self,
        legs: Sequence[Leg],
        system: AbstractSystem,
        integrator: AbstractIntegrator,
        start: Start,
        observer: Observer,
        saving: Saving,
        sink: Sink | None,
        show: Show,
        interrupted: threading.Event,
    ) -> None:
        self.interrupted, self.show = interrupted, show
        self.native: Any = None
        self.made_anew = False
        self.legs, self.system, self.integrator, self.sink = legs, system, integrator, sink
        self.every = jnp.asarray(saving.every or np.iinfo(np.int64).max)
        end = float(legs[-1].stepper.t1)
        self.targets = None if saving.at is None else jnp.asarray(np.append(saving.at, end))
        self.kept: list[Frames] = []
        self.stop = Result.successful
        self.goes_on = start.goes_on
        if start.checkpoint is not None:
            progress, self.leg, self.done = start.checkpoint
            self.p = _with_previous(jax.tree.map(jnp.asarray, progress), saving.at is not None)
            if not start.goes_on and legs[0].fresh:
                self.p = again(self.stepper, system, integrator, self.p)
        else:
            self.leg = self.done = 0
            self.p = begin(self.stepper, system, integrator, start.state, saving.at is not None)
        self.capacity = _capacity(self.p.carry.state, legs, saving)
        self.watch = Watch(observer, min(self.capacity, _OBSERVED_ROWS))

    @property
    def stepper(self) -> AbstractStepper:
        return self.legs[self.leg].stepper

    def all(self, start_time: float) -> Outcome:
        began = time.perf_counter()
        self.show.stage("recording a step")
        jax.block_until_ready(self.block(0))
        if self.targets is None and not self.goes_on:
            self.keep(*row(self.p))
        else:
            # So that the program that looks at states is compiled before time is taken.
            self.watch.empty(self.p.carry.state, self.p.carry.multipliers)
        compile_time, began = time.perf_counter() - began, time.perf_counter()
        error: BaseException | None = None
        try:
            self._steps()
        except KeyboardInterrupt as pressed:
            error, self.stop = pressed, Result.interrupted
        except Exception as unforeseen:
            # Whatever it was, hours of frames must not go with it.
            error, self.stop = unforeseen, Result.unexpected_error
        code = Result(int(self.p.result)) if int(self.p.result) else self.stop
        none = self.watch.empty(self.p.carry.state, self.p.carry.multipliers)
        frames = jax.tree.map(lambda *parts: np.concatenate(parts), *self.kept) if self.kept else none
        p = self.p._replace(result=np.int32(code))
        wall_time = time.perf_counter() - began
        return Outcome(frames, p, self.checkpoint, start_time, compile_time, wall_time, self.compiled, error)

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.p._replace(result=np.int32(0)), self.leg, self.done)

    @property
    def compiled(self) -> Compiled:
        """How steps are executed."""
        marching = None if self.native is None else self.native[0]
        return _BY_XLA if marching is None else marching.code.form._replace(kept=not self.made_anew)

    def _tell(self, form: Compiled) -> None:
        self.made_anew = True
        self.show.stage(form.making)

    def block(self, steps: int) -> tuple[Progress, _Buffer]:
        if self.native is None:
            self.native = native(self.stepper, self.system, self.integrator, self.p, self._tell)
            if self.native[0] is None:
                self._tell(_BY_XLA)
        marching, arguments = self.native
        if marching is not None:
            p, count, (t, state, multipliers) = marching(
                arguments,
                self.p,
                int(self.p.n) + steps,
                int(self.every),
                self.leg == len(self.legs) - 1,
                self.targets,
                self.done,
                self.capacity,
            )
            return p, _Buffer(count, t, state, multipliers)
        return _run_block(
            self.stepper,
            self.system,
            self.integrator,
            self.p,
            jnp.asarray(int(self.p.n) + steps),
            self.every,
            self.targets,
            jnp.asarray(self.done),
            jnp.asarray(self.leg == len(self.legs) - 1),
            self.capacity,
        )

    def _steps(self) -> None:
        steps, saved = _FIRST_BLOCK, float(self.p.t)
        while self.stop == Result.successful and not self.is_over():
            if self.interrupted.is_set():
                self.stop = Result.interrupted
                break
            if self.leg_is_over():
                self.next_leg()
                continue
            block_began, before = time.perf_counter(), int(self.p.n)
            self.p, buffer = jax.block_until_ready(self.block(steps))
            elapsed, count = time.perf_counter() - block_began, int(buffer.count)
            self.done += count
            if count:
                self.keep(*_head(buffer, count))
                saved = float(buffer.t[count - 1])
            else:
                self.look()
            self.show.reached(float(self.p.t))
            wanted = _BLOCK_SECONDS if self.sink is None else _STORED_BLOCK_SECONDS
            steps = _next_block(int(self.p.n) - before, elapsed, wanted)
        failed = int(self.p.result) not in (Result.successful, Result.max_steps_reached)
        if failed and self.targets is None and float(self.p.t) != saved:
            # The last state, so that the failure can be looked at. Runs that can go on have none but their frames.
            self.keep(*row(self.p), further=False)

    def is_over(self) -> bool:
        if int(self.p.result):
            return True
        return self.leg == len(self.legs) - 1 and self.leg_is_over()

    @uncompiled()
    def leg_is_over(self) -> bool:
        """Whether the leg's end is reached and all save times up to there are behind."""
        if not bool(self.stepper.finished(self.p)):
            return False
        if self.targets is None or self.done >= self.targets.shape[0] - 1:
            return True
        return not bool(self.stepper.passed(self.p, self.targets[self.done]))

    def next_leg(self) -> None:
        self.leg += 1
        self.native = None
        if self.legs[self.leg].fresh:
            self.p = again(self.stepper, self.system, self.integrator, self.p)

    def keep(self, t: Any, state: Any, multipliers: Any, further: bool = True) -> None:
        """Hand frames on."""
        frames = self.watch.frames(t, state, multipliers)
        if self.sink is None:
            self.kept.append(frames)
            return
        code = self.sink.append(frames, self.checkpoint, self.interrupted.is_set)
        if further and self.stop == Result.successful:
            self.stop = code

    def look(self) -> None:
        """Let the sink know where the run stands after a block without frames."""
        if self.sink is not None:
            empty = self.watch.empty(self.p.carry.state, self.p.carry.multipliers)
            self.stop = self.sink.append(empty, self.checkpoint, self.interrupted.is_set)


def _with_previous(p: Progress, keep: bool) -> Progress:
    """With what interpolation needs, or without."""
    if not keep:
        return p._replace(t_before=None, before=None)
    return p if p.before is not None else p._replace(t_before=p.t, before=p.carry)


def _next_block(steps: int, seconds: float, wanted: float = _BLOCK_SECONDS) -> int:
    """Steps for about as many seconds as are wanted, from what the last block took.

    Counted from the steps that it made, not from those it was allowed: full buffers end blocks early.
    """
    return int(steps * np.clip(wanted / max(seconds, 1e-6), 0.1, 10.0)) + 1


def row(p: Progress) -> Any:
    """Time, state and multipliers as stacks of one frame."""
    return jax.tree.map(lambda x: np.asarray(x)[None], (p.t, p.carry.state, p.carry.multipliers))


def _head(buffer: _Buffer, count: int) -> tuple[Any, Any, Any]:
    t, state, multipliers = jax.tree.map(lambda x: np.asarray(x)[:count], (buffer.t, buffer.state, buffer.multipliers))
    return t, state, multipliers


def expected(legs: Sequence[Leg], saving: Saving) -> int | None:
    """How many frames a run saves after its start; None if nobody knows."""
    if saving.at is not None:
        return len(saving.at)
    if saving.every is None:
        return 1
    return None if isinstance(legs[-1].stepper, ControlledSteps) else -(-_steps(legs) // saving.every)


def _steps(legs: Sequence[Leg]) -> int:
    """The number of steps where it is known, otherwise 0."""
    steppers = [leg.stepper for leg in legs if isinstance(leg.stepper, ConstantSteps)]
    return int(steppers[-1].last) - int(steppers[0].first) if steppers else 0


def _capacity(state0: Any, legs: Sequence[Leg], saving: Saving) -> int:
    """Frames in one buffer: no more than are saved, and within a bounded memory."""
    floats = sum(np.size(x) for x in jax.tree.leaves(state0)) + 1
    wanted = expected(legs, saving)
    # Few sizes, so that runs of other lengths find their program compiled.
    size = next((s for s in _BUFFER_SIZES if wanted is not None and s >= wanted), _BUFFER_SIZES[-1])
    return max(1, min(size, _BUFFER_FLOATS // floats))
