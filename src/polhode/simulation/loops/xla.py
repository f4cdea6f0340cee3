"""Blocks of steps that XLA compiles, with the frames that they save."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.compiler.cache.program_cache import xla_jit
from polhode.compiler.xla.entry_points import scalarise
from polhode.integrators.base import AbstractIntegrator
from polhode.simulation.stepping.stepper import AbstractStepper, Progress, advance, dense_output
from polhode.systems.base import AbstractSystem


class Buffer(NamedTuple):
    """Frames saved so far, `count` of them, in arrays with room for more; `events`: those of rows of compiled steps."""

    count: Any
    t: Any
    state: Any
    multipliers: Array | None
    events: Any = None

    def head(self) -> tuple[Any, Any, Any]:
        """Times, states and multipliers of the frames that are there."""
        rows = self.t, self.state, self.multipliers
        return jax.tree.map(lambda x: np.asarray(x)[: int(self.count)], rows)

    def select_frames(self) -> Buffer:
        """The frames among rows of which some are events only."""
        at = np.flatnonzero(self.events.is_frame)
        return Buffer(len(at), *jax.tree.map(lambda x: x[at], self.head()))


@xla_jit
def run_block(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    n_limit: Array,
    every: Array,
    targets: Array | None,
    saved_count: Array,
    last: Array,
    capacity: int,
) -> tuple[Progress, Buffer]:
    """Steps until `n_limit`, until `capacity` frames are saved, until the end of the segment or a failure.

    `targets` are the save times followed by t1, of which `saved_count` are saved; without them every `every`-th step
    is saved and, in the `last` segment, the end.
    """

    def advance_to(p: Progress, n_stop: Array, *target: Array) -> Progress:
        return advance(stepper, system, integrator, p, n_stop, *(target or (None,)))

    on_scalars = scalarise(advance_to, one_kernel=True)
    interpolate = scalarise(lambda p, t: dense_output(stepper, system, integrator, p, t))

    def more(loop: tuple[Progress, Buffer]) -> Array:
        p, buffer = loop
        unfinished = ~stepper.is_finished(p)
        if targets is not None:
            has_target = saved_count + buffer.count < targets.shape[0] - 1
            unfinished = has_target & (
                unfinished
                | stepper.has_passed(p, targets[jnp.minimum(saved_count + buffer.count, targets.shape[0] - 1)])
            )
        return unfinished & (buffer.count < capacity) & (p.n < n_limit) & (p.result == 0)

    def body(loop: tuple[Progress, Buffer]) -> tuple[Progress, Buffer]:
        p, buffer = loop
        if targets is None:
            p = on_scalars(p, jnp.minimum((p.n // every + 1) * every, n_limit))
            save = ((p.n % every == 0) | (last & stepper.is_finished(p))) & (p.result == 0)
            t, state, multipliers = p.t, p.carry.state, p.carry.multipliers
        else:
            t = targets[saved_count + buffer.count]
            p = on_scalars(p, n_limit, t)
            save = stepper.has_passed(p, t) & (p.result == 0)
            state, multipliers = interpolate(p, t)
        return p, _write(buffer, save, t, state, multipliers)

    zeros = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), (p.carry.state, p.carry.multipliers))
    p, buffer = jax.lax.while_loop(more, body, (p, Buffer(jnp.zeros((), jnp.int64), jnp.zeros(capacity), *zeros)))
    if targets is not None:
        # After the last save time the run still continues to t1.
        rest = jnp.where(saved_count + buffer.count >= targets.shape[0] - 1, n_limit, p.n)
        p = on_scalars(p, rest, targets[-1])
    return p, buffer


def _write(buffer: Buffer, save: Array, t: Array, state: Any, multipliers: Array | None) -> Buffer:
    def put(rows: Any, row: Any) -> Array:
        return rows.at[buffer.count].set(jnp.where(save, row, rows[buffer.count]))

    return Buffer(
        buffer.count + save,
        put(buffer.t, t),
        jax.tree.map(put, buffer.state, state),
        None if multipliers is None else put(buffer.multipliers, multipliers),
    )
