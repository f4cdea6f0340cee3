"""Adjoint sweep of a run: from cotangents of its frames to those of parameters and initial state."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from polhode.compiler.numpy.eager import eager_numpy
from polhode.jax_context import relaxed_gc
from polhode.simulation.derivatives import differentiable_maps, vjp_kernels
from polhode.simulation.derivatives.checkpointed_run import CheckpointedRun
from polhode.simulation.derivatives.differentiable_maps import Instant, LeafNumbers, Step, Tree
from polhode.simulation.stepping.stepper import Progress


class AdjointSweep:
    """Adjoint sweep for some arrays of system, initial state and observer, given by their `places` among all."""

    def __init__(self, run: CheckpointedRun, places: LeafNumbers) -> None:
        self._run = run
        self._of_system, self._of_state, self._of_observer = differentiable_maps.split(
            places, run.system, run.state0, run.observer
        )
        self._to_system = [np.zeros(x.shape) for x in differentiable_maps.pick(run.system, self._of_system)]
        self._to_observer = [np.zeros(x.shape) for x in differentiable_maps.pick(run.observer, self._of_observer)]
        self._pending = np.ones(0 if run.schedule.at is None else len(run.schedule.at), bool)

    @relaxed_gc()
    @eager_numpy()
    def __call__(self, states: list[Any], observation: list[Any], multipliers: Any) -> list[Any]:
        """From cotangents of the frames' leaves, None where there is none, to those of the arrays, in order.

        Raises `UnsupportedNativeOperation` if it can't be machine code.
        """
        run = self._run
        self._states = self._of_frames(states, observation)
        self._multipliers = multipliers
        cotangent = jax.tree.map(np.zeros_like, differentiable_maps.floats(run.p.carry))
        segment = len(run.segments) - 1
        for checkpoint, p in run.chunks():
            while segment > checkpoint.segment:
                cotangent, segment = self._restart(segment, cotangent), segment - 1
            cotangent = self._steps(p, segment, cotangent)
        if run.schedule.at is None:
            # The first frame is the start.
            row = jax.tree.map(lambda x: x[None], cotangent)
            self._add_frames(row, np.zeros(1, int), np.zeros(1, int))
            cotangent = jax.tree.map(lambda x: x[0], row)
        args = run.segments[0].stepper, run.system, run.integrator, run.state0, self._of_system, cotangent
        to_system, to_state = vjp_kernels.start_vjp(*args)
        self._add(to_system)
        return [*self._to_system, *differentiable_maps.pick(to_state, self._of_state), *self._to_observer]

    def _of_frames(self, states: list[Any], observation: list[Any]) -> Tree:
        """Cotangents of the states of frames, with those through observations."""
        run, frames = self._run, self._run.frames
        leaves, structure = jax.tree.flatten(frames.state)
        derivatives = [np.zeros(x.shape) if d is None else np.array(d) for x, d in zip(leaves, states, strict=True)]
        total = differentiable_maps.floats(jax.tree.unflatten(structure, derivatives))
        leaf_numbers = tuple(k for k, d in enumerate(observation) if d is not None)
        if not leaf_numbers:
            return total
        rows = (frames.t, frames.state), [np.asarray(observation[k]) for k in leaf_numbers]
        pull = vjp_kernels.observation_vjp(
            run.observer, self._of_observer, leaf_numbers, jax.tree.map(lambda x: x[0], rows)
        )
        to_observer, to_states = pull(rows)
        for total_of, each in zip(self._to_observer, to_observer, strict=True):
            total_of += each.sum(0)
        return jax.tree.map(np.add, total, to_states)

    def _steps(self, p: Progress, segment: int, cotangent: Tree) -> Tree:
        """Back through steps, whose progress is stacked."""
        run, stepper = self._run, self._run.segments[segment].stepper
        begins, ends = jax.tree.map(lambda x: x[:-1], p), jax.tree.map(lambda x: x[1:], p)
        t, h = stepper.last_step(ends._replace(t_before=begins.t))
        count = len(begins.n)
        begin_carry = run.integrator.with_order(begins.carry, run.integrator.selected_order(ends.carry))
        steps = Step(np.asarray(t), np.broadcast_to(h, count), begin_carry)
        cotangents = jax.tree.map(np.zeros_like, differentiable_maps.floats(ends.carry))
        first = jax.tree.map(lambda x: np.zeros_like(x[:1]), cotangents)
        if run.schedule.at is None:
            saved_steps = run.saved_steps
            here = np.flatnonzero((saved_steps > begins.n[0]) & (saved_steps <= ends.n[-1]))
            self._add_frames(cotangents, saved_steps[here] - begins.n[0] - 1, here)
        else:
            self._add_instants(steps, ends, begins.n[0] == 0, cotangents, first)
        example = jax.tree.map(lambda x: x[0], steps)
        pull = vjp_kernels.steps_vjp(run.system, run.integrator, self._of_system, example)
        cotangent, to_system = pull(steps, cotangent, cotangents)
        self._add(to_system)
        return jax.tree.map(lambda a, b: a + b[0], cotangent, first)

    def _add_frames(self, cotangents: Tree, at: np.ndarray, frames: np.ndarray) -> None:
        """Add derivatives with respect to some frames to those with respect to stacked carries."""
        _add_rows(cotangents.state, at, jax.tree.map(lambda x: x[frames], self._states))
        if self._multipliers is not None and cotangents.multipliers is not None:
            _add_rows(cotangents.multipliers, at, np.asarray(self._multipliers)[frames])

    def _add_instants(self, steps: Step, ends: Progress, is_first: bool, cotangents: Tree, first: Tree) -> None:
        """The same for frames between steps: derivatives go to both ends of the step that each lies in."""
        times = np.asarray(self._run.schedule.at)
        begin = ends.t[0] - steps.h[0]
        numbers = np.flatnonzero(self._pending & (differentiable_maps.is_after(times, begin, steps.h[0]) | is_first))
        self._pending[numbers] = False
        if not len(numbers):
            return
        at, s, exact = differentiable_maps.locate(times[numbers], steps, ends)
        _add_rows(cotangents.state, at[exact], jax.tree.map(lambda x: x[numbers[exact]], self._states))
        if self._multipliers is not None and cotangents.multipliers is not None:
            _add_rows(cotangents.multipliers, at, np.asarray(self._multipliers)[numbers])
        numbers, at, s = numbers[~exact], at[~exact], s[~exact]
        if not len(numbers):
            return
        run = self._run
        instants = Instant(jax.tree.map(lambda x: x[at], steps), s, jax.tree.map(lambda x: x[at], ends.carry))
        example = jax.tree.map(lambda x: x[0], instants)
        pull = vjp_kernels.interpolation_vjp(run.system, run.integrator, self._of_system, example)
        to_system, to_begin, to_end = pull(instants, jax.tree.map(lambda x: x[numbers], self._states))
        self._add([each.sum(0) for each in to_system])
        _add_rows(cotangents, at, to_end)
        inside = at > 0
        _add_rows(cotangents, at[inside] - 1, jax.tree.map(lambda x: x[inside], to_begin))
        _add_rows(first, at[~inside], jax.tree.map(lambda x: x[~inside], to_begin))

    def _restart(self, segment: int, cotangent: Tree) -> Tree:
        """Back through the restart at the beginning of a segment."""
        run = self._run
        if segment not in run.before:
            return cotangent
        args = (
            run.segments[segment].stepper,
            run.system,
            run.integrator,
            run.before[segment],
            self._of_system,
            cotangent,
        )
        to_system, cotangent = vjp_kernels.restart_vjp(*args)
        self._add(to_system)
        return jax.tree.map(np.array, cotangent)

    def _add(self, to_system: list[Any]) -> None:
        for total, one in zip(self._to_system, to_system, strict=True):
            total += np.asarray(one)


def _add_rows(stacked: Tree, at: np.ndarray, rows: Tree) -> None:
    """Add rows to those at some places of stacked arrays."""
    jax.tree.map(lambda x, y: np.add.at(x, at, y), stacked, rows)
