"""Data that every batch of an ensemble needs, in whatever process it is run."""

from __future__ import annotations

import threading
from collections.abc import Callable

from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.simulation.ensembles.batch import Batch
from polhode.simulation.ensembles.compiled_members import MemberRequest, Program
from polhode.simulation.ensembles.device_executor import DeviceExecutor
from polhode.simulation.ensembles.executors import AbstractExecutor, CompiledExecutor, SerialExecutor
from polhode.simulation.ensembles.members import Members
from polhode.simulation.ensembles.store import EnsembleStore


class Job:
    """Runs batches. Its programs are made when the first is run, so that it can be sent to other processes.

    **Arguments:**

    - `request`, `members`: how and which members are run. - `frames`: of every member. - `by`: "lanes" or "devices".
    """

    def __init__(self, request: MemberRequest, members: Members, frames: int, by: str) -> None:
        self._arguments = request, members, frames, by
        self._current_executor: AbstractExecutor | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> tuple[MemberRequest, Members, int, str]:
        return self._arguments

    def __setstate__(self, state: tuple[MemberRequest, Members, int, str]) -> None:
        self.__init__(*state)

    @property
    def executor(self) -> AbstractExecutor:
        """The executor of members. Raises ValueError for what can't be run."""
        with self._lock:
            if self._current_executor is None:
                self._current_executor = _executor(*self._arguments)
            return self._current_executor

    def batch(self, which: slice, store: EnsembleStore | None, keep: bool, is_interrupted: Callable[[], bool]) -> Batch:
        """Some members: from the store if it has them, else run and stored. `keep`: whether to return their frames."""
        result = None if store is None else store.batch(which)
        if result is None:
            if is_interrupted():
                return Batch.interrupted(which.stop - which.start)
            result = self._run(which, is_interrupted)
            if store is not None:
                store.put(which, result)
        return result if keep else result.without_frames()

    def _run(self, which: slice, is_interrupted: Callable[[], bool]) -> Batch:
        try:
            return self.executor.batch(which, is_interrupted)
        except UnsupportedNativeOperation as error:
            # The first and the last members are alike, and one between them is not.
            request, members, frames, _ = self._arguments
            serial = SerialExecutor(request, members, f"lanes can't take it: {error}", frames)
            serial.like(is_interrupted)
            with self._lock:
                self._current_executor = serial
            return serial.batch(which, is_interrupted)


def _executor(request: MemberRequest, members: Members, frames: int, by: str) -> AbstractExecutor:
    if by == "devices":
        return DeviceExecutor(request, members)
    try:
        return CompiledExecutor(Program(request, members), request)
    except UnsupportedNativeOperation as error:
        return SerialExecutor(request, members, f"lanes can't take it: {error}", frames)


class BatchTask:
    """One batch as a task for any process: its members, the store that takes them, and whether to return frames.

    A store is opened where the task is run; one that is another by then is left alone.
    """

    def __init__(self, which: slice, store: EnsembleStore | None, keep: bool) -> None:
        self.which, self._keep = which, keep
        self._place = None if store is None else (store.path, store.run)

    def __call__(self, job: Job) -> Batch:
        store = None
        if self._place is not None:
            path, run = self._place
            store = EnsembleStore.open(path)
            store.check_is(run)
        return job.batch(self.which, store, self._keep, bool)
