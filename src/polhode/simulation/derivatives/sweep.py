"""Sweep along a run: tangents of its frames in forward direction, cotangents of its arrays in reverse."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from polhode.compiler.numpy.eager import eager_numpy
from polhode.frames import Frames
from polhode.jax_context import relaxed_gc
from polhode.results.observer import Observation
from polhode.simulation.derivatives.checkpointed_run import CheckpointedRun, StepCheckpoint
from polhode.simulation.derivatives.run_maps import Instant, LeafNumbers, Step, Tree, derive_rows, derive_steps, floats
from polhode.simulation.derivatives.saved_frames import SavedFrames, find_frames
from polhode.simulation.stepping.stepper import Progress


def differentiable_part(frames: Frames) -> tuple[Any, Observation, Any]:
    """The parts of frames that have derivatives."""
    return frames.state, Observation(frames.outputs, frames.invariants, frames.residuals), frames.multipliers


def push_forward(run: CheckpointedRun, places: LeafNumbers, tangents: Sequence[Any]) -> list[np.ndarray]:
    """From tangents of some arrays of system, initial state and observer, given by their places among all.

    To those of all floating-point leaves of `differentiable_part`, in order. Raises `UnsupportedNativeOperation` if it
    can't be machine code.
    """
    leaves = jax.tree.leaves(differentiable_part(run.frames))
    frames = {k: np.zeros(x.shape) for k, x in enumerate(leaves) if x.dtype == float}
    _Sweep(run, places, list(map(np.asarray, tangents)), frames, reverse=False)()
    return list(frames.values())


def pull_back(run: CheckpointedRun, places: LeafNumbers, cotangents: dict[int, Any]) -> list[np.ndarray]:
    """From cotangents of some of these leaves, by number, to those of the arrays. Raises as `push_forward` does."""
    leaves = jax.tree.leaves(eqx.filter((run.system, run.state0, run.observer), eqx.is_array))
    arrays = [np.zeros(leaves[k].shape) for k in places]
    _Sweep(run, places, arrays, {k: np.array(x) for k, x in cotangents.items()}, reverse=True)()
    return arrays


class _Parameters(NamedTuple):
    """Some arrays of a model: their places among all of it, and their derivatives."""

    places: LeafNumbers
    derivatives: list[np.ndarray]


class _Sweep:
    """A sweep in one direction; in reverse each operation is the transpose of the one forward.

    **Arguments:**

    - `places`, `arrays`: of system, initial state and observer, with their derivatives.
    - `leaves`: derivatives of leaves of the frames, by number.

    Either `arrays` or `leaves` are the input; the others begin as zeros and are the result.
    """

    def __init__(
        self,
        run: CheckpointedRun,
        places: LeafNumbers,
        arrays: list[np.ndarray],
        leaves: dict[int, np.ndarray],
        reverse: bool,
    ) -> None:
        self._run, self._reverse = run, reverse
        self._system, state0, self._observer = _split(places, arrays, run.system, run.state0, run.observer)
        initial, structure = jax.tree.flatten(jax.tree.map(np.zeros_like, run.state0))
        for k, x in zip(*state0, strict=True):
            initial[k] = x
        self._initial = jax.tree.unflatten(structure, initial)
        like, structure = jax.tree.flatten(differentiable_part(run.frames))
        frames = [leaves[k] if k in leaves else np.zeros(x.shape) for k, x in enumerate(like)]
        self._states, observation, self._multipliers = jax.tree.unflatten(structure, frames)
        first = len(jax.tree.leaves(self._states))
        numbers = range(first, first + len(jax.tree.leaves(observation)))
        self._observed = {k - first: leaves[k] for k in numbers if k in leaves}
        self._carry: Tree = jax.tree.map(np.zeros_like, floats(run.p.carry))

    @relaxed_gc()
    @eager_numpy()
    def __call__(self) -> None:
        chunks = itertools.chain.from_iterable(itertools.starmap(self._chunk, self._run.chunks(self._reverse)))
        for operation in itertools.chain(*self._in_order([[self._start], chunks, [self._observe]])):
            operation()

    def _in_order(self, operations: list[Any]) -> list[Any]:
        return operations[::-1] if self._reverse else operations

    def _chunk(self, checkpoint: StepCheckpoint, p: Progress) -> list[Callable[[], None]]:
        """Operations of the steps after a checkpoint, whose progress is stacked."""
        restarts = [number for number, before in self._run.before.items() if before.n == checkpoint.n]
        steps = functools.partial(self._steps, checkpoint.segment, p)
        return self._in_order([*(functools.partial(self._restart, number) for number in restarts), steps])

    def _start(self) -> None:
        run = self._run
        parts = run.segments[0].stepper, run.system, run.integrator
        if self._reverse:
            (initial,) = self._derive_row("start", parts, run.state0, self._carry)
            _set(self._initial, ..., initial)
        else:
            (self._carry,) = self._derive_row("start", parts, run.state0, self._initial)

    def _restart(self, segment: int) -> None:
        run = self._run
        parts = run.segments[segment].stepper, run.system, run.integrator
        (self._carry,) = self._derive_row("restart", parts, run.before[segment], self._carry)

    def _steps(self, segment: int, p: Progress) -> None:
        run = self._run
        begins, ends = _rows(p, slice(-1)), _rows(p, slice(1, None))
        t, h = run.segments[segment].stepper.last_step(ends._replace(t_before=begins.t))
        begin_carry = run.integrator.with_order(begins.carry, run.integrator.selected_order(ends.carry))
        jumps = run.segments[segment].stepper.is_after_jump(begins)
        steps = Step(np.asarray(t), np.broadcast_to(h, len(begins.n)), begin_carry, jumps)
        saved = find_frames(run, p, steps)
        parts, (places, parameters) = (run.system, run.integrator), self._system
        derive = functools.partial(derive_steps, self._reverse, parts, places, steps, self._carry)
        # Derivatives of the carries at both ends of all steps.
        if self._reverse:
            carries = jax.tree.map(np.zeros_like, floats(p.carry))
            self._save(saved, steps, ends, carries)
            carry, to_parameters = derive(_rows(carries, slice(1, None)))
            _add(parameters, to_parameters)
            self._carry = jax.tree.map(np.add, carry, _rows(carries, 0))
        else:
            carries = jax.tree.map(lambda x, y: np.concatenate((x[None], y)), self._carry, derive(parameters))
            self._save(saved, steps, ends, carries)
            self._carry = _rows(carries, -1)

    def _save(self, saved: SavedFrames, steps: Step, ends: Progress, carries: Tree) -> None:
        """Derivatives of frames from those of carries; in reverse they are added to those of carries."""
        numbers, at, s, inside = saved
        frames = self._states, self._multipliers
        self._copy((carries.state, carries.multipliers), at[~inside], frames, numbers[~inside])
        if not inside.any():
            return
        numbers, at, s = numbers[inside], at[inside], s[inside]
        parts = self._run.system, self._run.integrator
        instants = Instant(_rows(steps, at - 1), s, _rows(ends.carry, at - 1))
        derive = functools.partial(self._derive, "interpolation", self._system, parts, instants)
        if self._reverse:
            begin, end = derive(_rows(frames, numbers))
            _add_rows(carries, at, end)
            _add_rows(carries, at - 1, begin)
        else:
            (rows,) = derive(_rows(carries, at - 1), _rows(carries, at))
            _set(frames, numbers, rows)

    def _copy(self, carries: Tree, at: np.ndarray, frames: Tree, numbers: np.ndarray) -> None:
        """The same for rows of carries that are frames."""
        if self._reverse:
            _add_rows(carries, at, _rows(frames, numbers))
        else:
            _set(frames, numbers, _rows(carries, at))

    def _observe(self) -> None:
        if not self._observed:
            return
        run, values = self._run, list(self._observed.values())
        parts, rows = (run.observer, tuple(self._observed)), (run.frames.t, run.frames.state)
        if self._reverse:
            (to_states,) = self._derive("observation", self._observer, parts, rows, values)
            _add(self._states, to_states)
        else:
            (tangents,) = self._derive("observation", self._observer, parts, rows, self._states)
            _set(values, ..., tangents)

    def _derive_row(self, name: str, parts: Any, row: Any, derivatives: Tree) -> Any:
        """As `_derive`, for a single row."""
        rows = jax.tree.map(lambda x: np.asarray(x)[None], (row, derivatives))
        return _rows(self._derive(name, self._system, parts, *rows), 0)

    def _derive(self, name: str, parameters: _Parameters, parts: Any, rows: Any, *derivatives: Tree) -> Sequence[Tree]:
        """Through a map of stacked rows: from derivatives of its inputs to that of its output.

        In reverse it is the other way round, and those of parameters are added.
        """
        places, values = parameters
        if self._reverse:
            (output,) = derivatives
            to_parameters, *to_inputs = derive_rows(name, True, parts, places, rows, output)
            _add(values, [x.sum(0) for x in to_parameters])
            return to_inputs
        count = len(jax.tree.leaves(rows)[0])
        directions = [np.broadcast_to(x, (count, *x.shape)) for x in values]
        return [derive_rows(name, False, parts, places, rows, (directions, *derivatives))]


def _split(places: LeafNumbers, derivatives: list[np.ndarray], *models: Any) -> Iterator[_Parameters]:
    """Arrays at some places among those of several models, one after the other, as those of each."""
    first = 0
    for model in models:
        last = first + len(jax.tree.leaves(eqx.filter(model, eqx.is_array)))
        here = [j for j, k in enumerate(places) if first <= k < last]
        yield _Parameters(tuple(places[j] - first for j in here), [derivatives[j] for j in here])
        first = last


def _rows(tree: Tree, numbers: Any) -> Tree:
    return jax.tree.map(lambda x: x[numbers], tree)


def _set(tree: Tree, numbers: Any, rows: Tree) -> None:
    jax.tree.map(lambda x, y: x.__setitem__(numbers, y), tree, rows)


def _add(totals: Tree, terms: Tree) -> None:
    jax.tree.map(lambda x, y: np.add(x, y, out=x), totals, terms)


def _add_rows(stacked: Tree, numbers: np.ndarray, rows: Tree) -> None:
    jax.tree.map(lambda x, y: np.add.at(x, numbers, y), stacked, rows)
