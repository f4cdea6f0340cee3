"""Tangent sweep of a run: from tangents of parameters and initial state to tangents of its frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from polhode.compiler.numpy.eager import eager_numpy
from polhode.jax_context import relaxed_gc
from polhode.simulation.derivatives import differentiable_maps, jvp_kernels
from polhode.simulation.derivatives.checkpointed_run import CheckpointedRun
from polhode.simulation.derivatives.differentiable_maps import Instant, LeafNumbers, Step, Tree
from polhode.simulation.stepping.stepper import Progress


class TangentSweep:
    """Tangent sweep for some arrays of system, initial state and observer, given by their `places` among all."""

    def __init__(self, run: CheckpointedRun, places: LeafNumbers) -> None:
        self._run = run
        self._of_system, self._of_state, self._of_observer = differentiable_maps.split(
            places, run.system, run.state0, run.observer
        )

    @relaxed_gc()
    @eager_numpy()
    def __call__(self, directions: Sequence[Any]) -> tuple[Tree, list[Any], Any]:
        """From directions, in the order of the places, to derivatives of states, observations and multipliers.

        Raises `UnsupportedNativeOperation` if it can't be machine code.
        """
        run = self._run
        first, second = len(self._of_system), len(self._of_system) + len(self._of_state)
        self._system_tangents = [np.asarray(x) for x in directions[:first]]
        self._states = jax.tree.map(np.zeros_like, run.frames.state)
        self._multipliers = None if run.frames.multipliers is None else np.zeros_like(run.frames.multipliers)
        tangent = self._start(directions[first:second])
        if run.schedule.at is None:
            # The first frame is the start.
            self._store(np.zeros(1, int), jax.tree.map(lambda x: x[None], tangent))
        self._pending = np.ones(0 if run.schedule.at is None else len(run.schedule.at), bool)
        segment = 0
        for checkpoint, p in run.chunks(back=False):
            while segment < checkpoint.segment:
                segment += 1
                tangent = self._restart(segment, tangent)
            tangent = self._steps(p, segment, tangent)
        return self._states, self._observation(directions[second:]), self._multipliers

    def _start(self, of_state: Sequence[Any]) -> Tree:
        run = self._run
        leaves, structure = jax.tree.flatten(jax.tree.map(np.zeros_like, run.state0))
        for k, x in zip(self._of_state, of_state, strict=True):
            leaves[k] = np.asarray(x)
        directions = self._system_tangents, jax.tree.unflatten(structure, leaves)
        args = run.segments[0].stepper, run.system, run.integrator, run.state0, self._of_system, directions
        return jvp_kernels.start_jvp(*args)

    def _restart(self, segment: int, tangent: Tree) -> Tree:
        run = self._run
        if segment not in run.before:
            return tangent
        args = run.segments[segment].stepper, run.system, run.integrator, run.before[segment], self._of_system
        return jvp_kernels.restart_jvp(*args, (self._system_tangents, tangent))

    def _steps(self, p: Progress, segment: int, tangent: Tree) -> Tree:
        """Along steps, whose progress is stacked."""
        run, stepper = self._run, self._run.segments[segment].stepper
        begins, ends = jax.tree.map(lambda x: x[:-1], p), jax.tree.map(lambda x: x[1:], p)
        t, h = stepper.last_step(ends._replace(t_before=begins.t))
        begin_carry = run.integrator.with_order(begins.carry, run.integrator.selected_order(ends.carry))
        steps = Step(np.asarray(t), np.broadcast_to(h, len(begins.n)), begin_carry)
        push = jvp_kernels.steps_jvp(run.system, run.integrator, self._of_system, jax.tree.map(lambda x: x[0], steps))
        tangents = push(steps, tangent, self._system_tangents)
        if run.schedule.at is None:
            saved_steps = run.saved_steps
            here = np.flatnonzero((saved_steps > begins.n[0]) & (saved_steps <= ends.n[-1]))
            self._store(here, jax.tree.map(lambda x: x[saved_steps[here] - begins.n[0] - 1], tangents))
        else:
            self._store_instants(steps, ends, tangent, tangents)
        return jax.tree.map(lambda x: x[-1], tangents)

    def _store(self, frames: np.ndarray, rows: Tree) -> None:
        """Stores states and multipliers of stacked carries as those of some frames."""
        jax.tree.map(lambda x, y: x.__setitem__(frames, y), self._states, rows.state)
        self._store_multipliers(frames, rows)

    def _store_multipliers(self, frames: np.ndarray, rows: Tree) -> None:
        if self._multipliers is not None and rows.multipliers is not None:
            self._multipliers[frames] = rows.multipliers

    def _store_instants(self, steps: Step, ends: Progress, tangent: Tree, tangents: Tree) -> None:
        """The same for frames between steps."""
        run, times = self._run, np.asarray(self._run.schedule.at)
        further = differentiable_maps.is_after(times, ends.t[-1], steps.h[-1]) & (ends.n[-1] < run.p.n)
        numbers = np.flatnonzero(self._pending & ~further)
        self._pending[numbers] = False
        if not len(numbers):
            return
        at, s, exact = differentiable_maps.locate(times[numbers], steps, ends)
        self._store(numbers[exact], jax.tree.map(lambda x: x[at[exact]], tangents))
        self._store_multipliers(numbers, jax.tree.map(lambda x: x[at], tangents))
        numbers, at, s = numbers[~exact], at[~exact], s[~exact]
        if not len(numbers):
            return
        begin_tangents = jax.tree.map(lambda first, x: np.concatenate((first[None], x[:-1])), tangent, tangents)
        system_tangents = [np.broadcast_to(x, (len(numbers), *x.shape)) for x in self._system_tangents]
        directions = system_tangents, *(jax.tree.map(lambda x: x[at], tree) for tree in (begin_tangents, tangents))
        instants = Instant(jax.tree.map(lambda x: x[at], steps), s, jax.tree.map(lambda x: x[at], ends.carry))
        examples = jax.tree.map(lambda x: x[0], (instants, directions))
        push = jvp_kernels.interpolation_jvp(run.system, run.integrator, self._of_system, *examples)
        jax.tree.map(lambda x, y: x.__setitem__(numbers, y), self._states, push(instants, directions))

    def _observation(self, of_observer: Sequence[Any]) -> list[Any]:
        """Derivatives of the floating-point leaves of observations, None for others."""
        frames = self._run.frames
        leaves = jax.tree.leaves((frames.outputs, frames.invariants, frames.residuals))
        leaf_numbers = tuple(k for k, x in enumerate(leaves) if x.dtype == float)
        if not leaf_numbers:
            return [None] * len(leaves)
        observer_tangents = [np.broadcast_to(x, (len(frames.t), *np.shape(x))) for x in of_observer]
        rows = (frames.t, frames.state), (observer_tangents, differentiable_maps.floats(self._states))
        push = jvp_kernels.observation_jvp(
            self._run.observer, self._of_observer, leaf_numbers, jax.tree.map(lambda x: x[0], rows)
        )
        tangents = dict(zip(leaf_numbers, push(rows), strict=True))
        return [tangents.get(k) for k in range(len(leaves))]
