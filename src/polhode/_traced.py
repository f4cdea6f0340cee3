"""The driver inside jit, grad and vmap: the same steps as one traced expression, differentiable in both modes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode._host import SCALAR_LIMIT, Saving
from polhode._scalar import Program, iterates, join, split
from polhode._stepping import AbstractStepper, ControlledSteps, Progress, _outcome, accept
from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.observing import Observer
from polhode.solution import Frames
from polhode.systems.base import AbstractSystem

Step = Callable[[Progress, Any], Progress]


@eqx.filter_jit
def run(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state0: Any,
    observer: Observer,
    saving: Saving,
    count: int,
    one: Any,
) -> tuple[Frames, Progress]:
    """The whole run as one expression.

    Constant steps are a scan. Controlled steps are found first, without derivatives; then the accepted sequence is
    replayed, held fixed, and that is what is differentiated. Memory of reverse mode is O(√steps) states, plus what is
    saved.
    """
    found = None
    if isinstance(stepper, ControlledSteps):
        xs, found = _find_steps(stepper, system, integrator, state0, count)
    else:
        n = jnp.arange(count)
        h = (stepper.t1 - stepper.t0) / count
        xs = (stepper.t0 + n * h, jnp.broadcast_to(h, (count,)), jnp.ones(count, bool))
    start = stepper.start(system, integrator, state0, keep_previous=False)
    start = start._replace(h=jax.lax.stop_gradient(start.h))

    def step(p: Progress, x: tuple[Array, Array, Array]) -> Progress:
        t, h, active = x
        carry, info = integrator.step(system, t, h, p.carry)
        moved = accept(p, t + h, h, carry, info, _outcome(carry, info), p.error)
        if found is None:
            return moved
        return jax.tree.map(lambda a, b: jnp.where(active, a, b), moved, p)

    if saving.at is not None:
        p, carries = _scan(one, step, start, xs, emit=True)
        reached = found if found is not None else p
        t, state, multipliers = _interpolated(system, integrator, start, carries, xs, count, saving.at, reached.t)
    else:
        p, t, state, multipliers = _at_steps(one, step, start, xs, count, saving.every)
    if found is not None:
        result = jnp.where(found.result != 0, found.result, p.result)
        p = p._replace(rejected=found.rejected, newton=found.newton, result=result)
    outputs, invariants, residuals = jax.vmap(observer)(t, state)
    return Frames(t, state, outputs, invariants, residuals, multipliers), p


def _at_steps(
    one: Array, step: Step, p: Progress, xs: Any, count: int, every: int | None
) -> tuple[Progress, Array, Any, Any]:
    """Frames at the start, every `every` steps and at the end."""
    every = min(every or count, count)
    whole = count // every
    frames = [jax.tree.map(lambda x: x[None], (p.t, p.carry.state, p.carry.multipliers))]

    def interval(p: Progress, x: Any) -> tuple[Progress, Any]:
        p, _ = _scan(one, step, p, x, emit=False)
        return p, (p.t, p.carry.state, p.carry.multipliers)

    chunks = jax.tree.map(lambda x: x[: whole * every].reshape(whole, every, *x.shape[1:]), xs)
    p, saved = jax.lax.scan(interval, p, chunks)
    frames.append(saved)
    if count % every:
        p, last = interval(p, jax.tree.map(lambda x: x[whole * every :], xs))
        frames.append(jax.tree.map(lambda x: x[None], last))
    t, state, multipliers = jax.tree.map(lambda *x: jnp.concatenate(x), *frames)
    return p, t, state, multipliers


def _scan(one: Array, step: Step, p: Progress, xs: Any, emit: bool) -> tuple[Progress, Any]:
    """A scan on scalars with square-root checkpointing; with `emit`, also the carries after each step."""
    program = Program(step, p, jax.tree.map(lambda x: x[0], xs))
    if program.cost <= SCALAR_LIMIT / 2 and not iterates(program.closed.jaxpr):
        enter, leave = split, lambda flat: join(flat, p)
        advance = lambda flat, x: program([*flat, *split(x)], one)  # noqa: E731
    else:
        enter, leave, advance = (lambda p: p), (lambda p: p), step

    def body(flat: Any, x: Any) -> tuple[Any, Any]:
        flat = jax.checkpoint(advance)(flat, x)
        return flat, (leave(flat).carry if emit else None)

    def chunk(flat: Any, x: Any) -> tuple[Any, Any]:
        return jax.lax.scan(body, flat, x)

    count = len(jax.tree.leaves(xs)[0])
    size = max(1, math.isqrt(count))
    whole = count // size
    head = jax.tree.map(lambda x: x[: whole * size].reshape(whole, size, *x.shape[1:]), xs)
    flat, carries = jax.lax.scan(jax.checkpoint(chunk), enter(p), head)
    carries = jax.tree.map(lambda x: x.reshape(whole * size, *x.shape[2:]), carries)
    if count % size:
        flat, rest = chunk(flat, jax.tree.map(lambda x: x[whole * size :], xs))
        carries = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), carries, rest)
    return leave(flat), carries


def _interpolated(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    start: Progress,
    carries: Carry,
    xs: Any,
    count: int,
    at: np.ndarray,
    t_reached: Array,
) -> tuple[Array, Any, Any]:
    """Frames at given times, interpolated within the step that holds each."""
    t, h, active = xs
    first = jax.tree.map(lambda x: x[None], start.carry)
    carries = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, carries)
    times = jnp.asarray(at)
    ends = jnp.where(active, t + h, jnp.inf * jnp.sign(h[0]))
    index = jnp.sum((times[:, None] - ends[None, :]) * jnp.sign(h[0]) > 1e-9 * jnp.abs(h)[None, :], axis=1)
    index = jnp.minimum(index, count - 1)

    def one(time: Array, i: Array) -> Any:
        carry0 = jax.tree.map(lambda x: x[i], carries)
        carry1 = jax.tree.map(lambda x: x[i + 1], carries)
        s = jnp.clip((time - t[i]) / h[i], 0.0, 1.0)
        inside = integrator.interpolate(system, t[i], h[i], carry0, carry1, s)
        exact = jnp.abs(s - 1) < 1e-9
        return jax.tree.map(lambda a, b: jnp.where(exact, a, b), carry1.state, inside), carry1.multipliers

    state, multipliers = jax.vmap(one)(times, index)
    # A run that stopped early has no state at later times; its result code says why.
    there = (times - t_reached) * jnp.sign(h[0]) <= 1e-9 * jnp.abs(h[0])
    keep = jax.vmap(lambda k, row: jnp.where(k, row, jnp.nan))
    state, multipliers = jax.tree.map(lambda x: keep(there, x), (state, multipliers))
    return times, state, multipliers


def _find_steps(
    stepper: ControlledSteps, system: AbstractSystem, integrator: AbstractIntegrator, state0: Any, max_steps: int
) -> tuple[tuple[Array, Array, Array], Progress]:
    """Start times and sizes of the accepted steps, padded to `max_steps`; no derivatives pass through here."""
    stepper, system, integrator, state0 = _without_derivatives((stepper, system, integrator, state0))
    p = stepper.start(system, integrator, state0, keep_previous=False)
    zeros = jnp.zeros(max_steps)

    def more(loop: tuple[Progress, Array, Array]) -> Array:
        return ~stepper.finished(loop[0]) & (loop[0].result == 0)

    def body(loop: tuple[Progress, Array, Array]) -> tuple[Progress, Array, Array]:
        p, t, h = loop
        new = stepper.attempt(system, integrator, p)
        index = jnp.where(new.n > p.n, p.n, max_steps)
        return new, t.at[index].set(p.t, mode="drop"), h.at[index].set(new.t - p.t, mode="drop")

    p, t, h = jax.lax.while_loop(more, body, (p, zeros, zeros))
    active = jnp.arange(max_steps) < p.n
    # Padding with a real step size keeps unused steps finite, so that their zero derivatives stay zero.
    return jax.lax.stop_gradient((t, jnp.where(active, h, h[0]), active)), p


def _without_derivatives(tree: Any) -> Any:
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if isinstance(x, jax.Array | np.ndarray) else x, tree)
