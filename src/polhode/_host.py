"""The driver on the host: compiled blocks of steps, with control in between for progress, stores and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode._scalar import scalarise
from polhode._scalar.rows import in_loops
from polhode._stepping import AbstractStepper, ConstantSteps, Progress, between, march
from polhode.integrators.base import AbstractIntegrator
from polhode.observing import Observer
from polhode.results import Result
from polhode.solution import Frames
from polhode.systems.base import AbstractSystem

SCALAR_LIMIT = int(os.environ.get("POLHODE_SCALAR_LIMIT", 20_000))
"""Steps of more scalar operations than this stay on arrays: compile time grows with the operations."""

_LONG_RUN = 100_000
"""Constant steps from which on three times the limit pays: a Puma 560 in absolute coordinates (45,000 operations)
compiles 40 s longer and then takes 16 µs a step in place of 230 µs."""

_BLOCK_SECONDS = 0.2
_FIRST_BLOCK = 256
_BUFFER_FLOATS = 2_000_000
_BUFFER_SIZES = (1, 256, 4096)
_OBSERVED_ROWS = 512


class Saving(NamedTuple):
    """Which instants are kept: every `every`-th step (None: only the ends), or the times `at`."""

    every: int | None
    at: np.ndarray | None


class Outcome(NamedTuple):
    """What a run on the host returns; `error` is what broke it off unforeseen, if anything did."""

    frames: Frames
    progress: Progress
    wall_time: float
    compile_time: float
    error: Exception | None


class _Buffer(NamedTuple):
    count: Array
    t: Array
    state: Any
    multipliers: Array | None


@eqx.filter_jit
def _start(
    stepper: AbstractStepper, system: AbstractSystem, integrator: AbstractIntegrator, state: Any, keep: bool
) -> Progress:
    return stepper.start(system, integrator, state, keep)


@eqx.filter_jit
def _run_block(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    n_limit: Array,
    every: Array,
    targets: Array | None,
    done: Array,
    one: Any,
    capacity: int,
    limit: int,
) -> tuple[Progress, _Buffer]:
    """Steps until `n_limit`, until `capacity` frames are saved, until the end or a failure.

    `targets` are the save times followed by t1, of which `done` lie behind; without them every `every`-th step and the
    last one are saved. `one` is 1 (see `_scalar.Program`).
    """

    def run(p: Progress, n_stop: Array, *target: Array) -> Progress:
        return march(stepper, system, integrator, p, n_stop, *(target or (None,)))

    on_scalars = scalarise(run, limit, one_kernel=True)
    interpolated = scalarise(lambda p, t: between(system, integrator, p, t, stepper.t1 - stepper.t0), limit)

    def more(loop: tuple[Progress, _Buffer]) -> Array:
        p, buffer = loop
        left = ~stepper.finished(p) if targets is None else done + buffer.count < targets.shape[0] - 1
        return left & (buffer.count < capacity) & (p.n < n_limit) & (p.result == 0)

    def body(loop: tuple[Progress, _Buffer]) -> tuple[Progress, _Buffer]:
        p, buffer = loop
        if targets is None:
            p = on_scalars(one, p, jnp.minimum((p.n // every + 1) * every, n_limit))
            save = ((p.n % every == 0) | stepper.finished(p)) & (p.result == 0)
            t, state = p.t, p.carry.state
        else:
            t = targets[done + buffer.count]
            p = on_scalars(one, p, n_limit, t)
            save = stepper.passed(p, t) & (p.result == 0)
            state = interpolated(one, p, t)
        return p, _write(buffer, save, t, state, p.carry.multipliers)

    zeros = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), (p.carry.state, p.carry.multipliers))
    p, buffer = jax.lax.while_loop(more, body, (p, _Buffer(jnp.zeros((), jnp.int64), jnp.zeros(capacity), *zeros)))
    if targets is not None:
        # After the last save time the run still goes on to t1.
        rest = jnp.where(done + buffer.count >= targets.shape[0] - 1, n_limit, p.n)
        p = on_scalars(one, p, rest, targets[-1])
    return p, buffer


def _write(buffer: _Buffer, save: Array, t: Array, state: Any, multipliers: Array | None) -> _Buffer:
    def put(rows: Any, row: Any) -> Array:
        return rows.at[buffer.count].set(jnp.where(save, row, rows[buffer.count]))

    return _Buffer(
        buffer.count + save,
        put(buffer.t, t),
        jax.tree.map(put, buffer.state, state),
        None if multipliers is None else put(buffer.multipliers, multipliers),
    )


@in_loops()
def run(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state0: Any,
    observer: Observer,
    saving: Saving,
    on_frames: Callable[[Frames], Result],
    on_progress: Callable[[float, float], None],
) -> Outcome:
    """The whole run. `on_frames` receives each block of frames and may stop the run with a code."""
    began = time.perf_counter()
    every = jnp.asarray(saving.every or np.iinfo(np.int64).max)
    targets = None if saving.at is None else jnp.asarray(np.append(saving.at, float(stepper.t1)))
    capacity, one = _capacity(state0, stepper, saving), np.ones(())
    limit = SCALAR_LIMIT * (3 if isinstance(stepper, ConstantSteps) and int(stepper.count) >= _LONG_RUN else 1)

    p = _start(stepper, system, integrator, state0, saving.at is not None)
    block = lambda p, n_limit, done: _run_block(  # noqa: E731
        stepper, system, integrator, p, jnp.asarray(n_limit), every, targets, jnp.asarray(done), one, capacity, limit
    )
    jax.block_until_ready(block(p, 0, 0))
    blocks: list[Frames] = []
    rows = min(capacity, _OBSERVED_ROWS)

    def keep(t: Any, state: Any, multipliers: Any) -> Result:
        frames = observer.frames(t, state, multipliers, rows)
        blocks.append(frames)
        return on_frames(frames)

    stop = Result.successful
    if saving.at is None:
        stop = keep(*_row(p))
    else:
        observer.empty(p.carry.state, rows)
    compile_time = time.perf_counter() - began

    done, per_block, began = 0, _FIRST_BLOCK, time.perf_counter()
    saved_n = 0
    error: Exception | None = None
    with _interrupts() as interrupted:
        try:
            while stop == Result.successful and not _is_over(stepper, p, targets, done):
                if interrupted.is_set():
                    stop = Result.interrupted
                    break
                block_began, before = time.perf_counter(), int(p.n)
                p, buffer = jax.block_until_ready(block(p, before + per_block, done))
                elapsed = time.perf_counter() - block_began
                count = int(buffer.count)
                if count:
                    stop = keep(*_head(buffer, count))
                    saved_n = int(p.n)
                done += count
                on_progress(float(p.t), time.perf_counter() - began)
                per_block = _next_block(int(p.n) - before, elapsed)
            if (int(p.result) or stop != Result.successful) and saving.at is None and int(p.n) > saved_n:
                # The last good state, so that the failure can be looked at.
                keep(*_row(p))
        except Exception as unforeseen:
            # Whatever it was, hours of frames must not go with it.
            error, stop = unforeseen, Result.unexpected_error
    code = Result(int(p.result)) if int(p.result) else stop
    wall_time = time.perf_counter() - began
    frames = jax.tree.map(lambda *parts: np.concatenate(parts), *blocks) if blocks else observer.empty(state0, rows)
    return Outcome(frames, p._replace(result=np.int32(code)), wall_time, compile_time, error)


def _next_block(steps: int, seconds: float) -> int:
    """Steps for about `_BLOCK_SECONDS`, from what the last block took.

    Counted from the steps that it made, not from those it was allowed: full buffers end blocks early.
    """
    return int(steps * np.clip(_BLOCK_SECONDS / max(seconds, 1e-6), 0.1, 10.0)) + 1


def _row(p: Progress) -> Any:
    """Time, state and multipliers as stacks of one frame."""
    return jax.tree.map(lambda x: np.asarray(x)[None], (p.t, p.carry.state, p.carry.multipliers))


def _is_over(stepper: AbstractStepper, p: Progress, targets: Array | None, done: int) -> bool:
    if int(p.result):
        return True
    return bool(stepper.finished(p)) and (targets is None or done >= targets.shape[0] - 1)


def _head(buffer: _Buffer, count: int) -> tuple[Any, Any, Any]:
    t, state, multipliers = jax.tree.map(lambda x: np.asarray(x)[:count], (buffer.t, buffer.state, buffer.multipliers))
    return t, state, multipliers


def _capacity(state0: Any, stepper: AbstractStepper, saving: Saving) -> int:
    """Frames in one buffer: no more than are saved, and within a bounded memory."""
    floats = sum(np.size(x) for x in jax.tree.leaves(state0)) + 1
    if saving.at is not None:
        wanted = len(saving.at)
    elif isinstance(stepper, ConstantSteps):
        wanted = 1 if saving.every is None else -(-int(stepper.count) // saving.every)
    else:
        wanted = _BUFFER_SIZES[-1] if saving.every else 1
    # Few sizes, so that runs of other lengths find their program compiled.
    size = next((s for s in _BUFFER_SIZES if s >= wanted), _BUFFER_SIZES[-1])
    return max(1, min(size, _BUFFER_FLOATS // floats))


@contextlib.contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event set by the first Ctrl-C; the second one interrupts at once."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handler(signum: int, frame: Any) -> None:
        if event.is_set():
            signal.default_int_handler(signum, frame)
        event.set()

    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, previous)
