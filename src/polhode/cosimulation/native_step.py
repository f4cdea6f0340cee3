"""An exported step in the machine code of this process."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.free_numbers import Values
from polhode.compiler.loops.packed_layout import Layout
from polhode.result_codes import Result
from polhode.simulation.loops import native

_BLOCKS = 1000
"""Events for each step, above which steps end with `events_accumulate`."""


class NativeStep:
    """The functions of an exported step, as those of the file in C, on the carry in slots."""

    def __init__(self, step: ExportedStep) -> None:
        self._step = step
        pattern = native.pattern_of((step.numbers,))
        self._block = step.steps.build(lambda code, function: code.compile(function), pattern)
        calls = {"initial": step.initial, "observe": step.observe, "restart": step.restart, "change": step.leaves}
        self._calls = {
            key: (call.build(lambda code, function: code.compile(function)), call.result.size)
            for key, call in calls.items()
            if call is not None
        }
        self._numbers = Layout(step.numbers).pack(step.numbers)
        self._row = np.empty((1, step.steps.layouts[2].size), np.int64)
        self._carry = Layout(step.begin)
        # What `change` returns: arrays of the model, then those of the initial state.
        self._now = step.steps.layouts[1].size - self._carry.size

    def _call(self, key: str, *arguments: np.ndarray) -> np.ndarray:
        function, size = self._calls[key]
        results = np.empty(size, np.int64)
        function(*arguments, results)
        return results

    def _values(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        parameters, inputs = (Layout(x).pack(x) for x in values)
        return parameters, inputs

    def _free_arrays(self, values: Values) -> np.ndarray:
        """Arrays of the model and of the initial state for these values."""
        return self._call("change", *self._values(values)) if "change" in self._calls else np.empty(0, np.int64)

    def start(self, values: Values) -> np.ndarray:
        """The carry at the start of the run."""
        step, changed = self._step, self._free_arrays(values)
        leaves, structure = jax.tree.flatten(step.task.state0)
        state, at = [np.asarray(x) for x in leaves], self._now
        for k in step.free_state:
            size = state[k].size
            state[k] = changed[at : at + size].view(np.float64).reshape(state[k].shape)
            at += size
        packed = Layout(step.task.state0).pack(structure.unflatten(state))
        time = np.array([step.task.t0], np.float64).view(np.int64)
        return self._call("initial", self._numbers, changed, packed, time)

    def jump(self, carry: np.ndarray, values: Values) -> np.ndarray:
        """The carry after inputs have jumped."""
        return self._call("restart", self._numbers, np.concatenate((self._free_arrays(values)[: self._now], carry)))

    def advance(self, carry: np.ndarray, values: Values, count: int) -> tuple[np.ndarray, Result]:
        """The carry after some steps, and a code that isn't 0 if they have failed before."""
        now = np.concatenate((self._free_arrays(values)[: self._now], carry))
        last, target = self._progress(now).n + count, np.zeros(1)
        control = np.array([last, np.iinfo(np.int64).max, 0, 0, 0, 1], np.int64)
        # Every block ends at its last step or at an event.
        for _ in range(_BLOCKS * count):
            progress = self._progress(now)
            if progress.result != 0 or progress.n >= last:
                return now[self._now :], Result(int(progress.result))
            self._block(self._numbers, now, control, target, self._row)
        return now[self._now :], Result.events_accumulate

    def read(self, carry: np.ndarray, values: Values) -> np.ndarray:
        """Outputs, one after the other."""
        return self._call("observe", *self._values(values), carry).view(np.float64)

    def state(self, carry: np.ndarray) -> Any:
        """The state, as the method has it."""
        return self._carry.unpack(carry).progress.carry.state

    def time(self, carry: np.ndarray) -> float:
        return float(self._carry.unpack(carry).progress.t)

    def _progress(self, now: np.ndarray) -> Any:
        return self._carry.unpack(now[self._now :]).progress
