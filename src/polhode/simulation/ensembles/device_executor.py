"""Executor of batches of members as one XLA program, for accelerators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from polhode.compiler.cache.program_cache import xla_jit
from polhode.compiler.placement import device_array
from polhode.result_codes import Result
from polhode.simulation.ensembles.batch import Batch
from polhode.simulation.ensembles.compiled_members import CHECK_LIMIT, UNTRACEABLE, MemberRequest, Recipe
from polhode.simulation.ensembles.executors import AbstractExecutor, fill_missing, run_member
from polhode.simulation.ensembles.members import Members
from polhode.storage import frame_layout

_SHARE = 16
"""Frames of a batch take up to this part of a device's memory; a step needs some, and another batch may be run
meanwhile."""
_LARGEST_BATCH = 1 << 20


class DeviceExecutor(AbstractExecutor):
    """All members of a batch at once, by the default device of JAX.

    That is the one that `jax.default_device` names, or else JAX's own choice. All take as many turns as the one with
    most steps. Batches are filled up to powers of two, so that few programs are compiled.

    **Arguments:**

    - `request`, `members`: how and which members are run.

    Raises ValueError for members at the ends that can't be run, since a program of XLA checks none.
    """

    def __init__(self, request: MemberRequest, members: Members) -> None:
        self._request, self._members = request, members
        self._device: Any = device_array(np.zeros(())).device
        for k in members.extremes()[:CHECK_LIMIT]:
            try:
                request.prepare(*members.of_members(k))
            except ValueError as error:
                raise ValueError(f"Member {k}: {error}") from None

    def report(self) -> dict[str, Any]:
        return {"by": "devices", "device": self._device.device_kind}

    def room(self) -> tuple[int, int] | None:
        memory = self._device.memory_stats()
        return None if memory is None else (memory["bytes_limit"] // _SHARE, _LARGEST_BATCH)

    def like(self, is_interrupted: Callable[[], bool]) -> Batch:
        del is_interrupted
        # Traced, not compiled.
        shapes = self._call(_shapes, np.arange(1))
        return _batch(*jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes))

    def batch(self, which: slice, is_interrupted: Callable[[], bool]) -> Batch:
        count = which.stop - which.start
        if is_interrupted():
            return Batch.interrupted(count)
        whole = 1 << (count - 1).bit_length()
        rows = np.minimum(np.arange(which.start, which.start + whole), which.stop - 1)
        return _batch(*jax.tree.map(lambda x: np.asarray(x)[:count], self._call(xla_jit(_run_members), rows)))

    def _call(self, function: Callable[..., Any], rows: np.ndarray) -> Any:
        """`function`, which is or compiles `_of_all`, of some members."""
        try:
            with jax.default_device(self._device):
                return function(Recipe(self._request), *self._members.of_members(rows))
        except UNTRACEABLE as error:
            raise ValueError(
                f"Members of problem `{self._request.problem.name}` can't be made and run inside `jax.jit`, as "
                f'`by="devices"` needs it: {error} Take `by="lanes"`.'
            ) from error


def _run_members(recipe: Recipe, parameters: dict[str, Any], states: Any) -> tuple[Any, ...]:
    """Frames of members, their results, numbers of steps, and instants that they reached."""

    def one(parameters: dict[str, Any], state: Any) -> tuple[Any, ...]:
        solution = run_member(recipe.request, parameters, state)
        return solution.frames, *(solution.stats[name] for name in ("result", "steps", "t_reached"))

    return jax.vmap(one)(parameters, states)


def _shapes(recipe: Recipe, *members: Any) -> Any:
    return jax.eval_shape(functools.partial(_run_members, recipe), *members)


def _batch(frames: Any, result: np.ndarray, steps: np.ndarray, t_reached: np.ndarray) -> Batch:
    """A batch, with NaN where members didn't come to."""
    n = frames.t.shape
    _, leaves = frame_layout.flatten(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), frames))
    has_failed = (result != int(Result.successful))[:, None]
    is_missing = (has_failed & _beyond_end(frames.t, t_reached[:, None])).reshape(-1)
    arrays = {name: fill_missing(x, is_missing).reshape(*n, *x.shape[1:]) for name, x in leaves.items()}
    return Batch(arrays, result.astype(np.int32), steps, t_reached)


def _beyond_end(t: np.ndarray, t_reached: np.ndarray) -> np.ndarray:
    """Which frames a run has not come to that ended early: times are beyond, or say where it ended once more."""
    ahead = np.sign(t[:, -1:] - t[:, :1])
    again = np.concatenate([np.zeros_like(t[:, :1], bool), np.diff(t) == 0], axis=1)
    return again | ~((t - t_reached) * ahead <= 0)
