"""Sink of frames into a store, which may fail."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from polhode.checks import short_repr
from polhode.frames import Frames
from polhode.result_codes import Result
from polhode.simulation import run_types
from polhode.simulation.checkpoint.checkpoint import CheckpointWriter
from polhode.simulation.run_plan import PlannedRun
from polhode.simulation.save_schedule import frame_count
from polhode.storage.checkpoint import Checkpoint
from polhode.storage.errors import FULL, StoreError
from polhode.storage.store import AbstractRunStore
from polhode.storage.store_choice import store_class
from polhode.storage.stored_frames import StoredFrames, frames_of_store

_RETRY_S = 1.0


class StoreSink:
    """Writes frames to a store, and turns its failure into a result code.

    - `error`, `reason`: what failed, and in words what is on disk and what is not.
    """

    def __init__(self, store: AbstractRunStore[Any], checkpoints: CheckpointWriter, when_full: str | Path) -> None:
        if when_full not in ("fail", "wait") and store_class(when_full) is not type(store):
            raise ValueError(f"`when_full` names a store of another kind than `{store.path}`; give the same suffix.")
        self.store, self._checkpoints, self._when_full = store, checkpoints, when_full
        self._refused_frames: Frames | None = None
        self.error: Exception | None = None
        self.reason = ""

    def append(self, frames: Frames, checkpoint: run_types.Checkpoint, should_stop: Callable[[], bool]) -> Result:
        target = self._frame_count + len(frames.t)

        def write() -> None:
            # The store takes frames before it writes them: a second attempt only writes.
            if self._frame_count < target:
                self.store.append(frames, lambda: self._checkpoint(checkpoint))
            else:
                self.store.flush()

        code = self._try_write(write, should_stop)
        if self._frame_count < target:
            self._refused_frames = frames
        return code

    @property
    def _frame_count(self) -> int:
        """Frames that the store has, on disk or in memory."""
        return self.store.length + self.store.pending

    def close(self, stats: dict[str, Any]) -> Result:
        """The run's result, or `store_failed` if the last rows could not be written."""
        if self.reason:
            self.store.release()
            return Result.store_failed
        code = self._try_write(lambda: self.store.close(stats), lambda: False)
        if code != Result.successful:
            self.store.release()
            return code
        return stats["result"]

    def frames(self) -> StoredFrames | Frames | None:
        """All frames of the run: those on disk, and after them those that could not be written; None without any."""
        return frames_of_store(self.store, self._refused_frames)

    def _checkpoint(self, checkpoint: run_types.Checkpoint) -> Checkpoint:
        return Checkpoint(self._checkpoints.arrays(checkpoint), self._checkpoints.facts)

    def _try_write(self, write: Callable[[], None], should_stop: Callable[[], bool]) -> Result:
        try:
            self._with_space(write, should_stop)
        except Exception as error:
            self.error = error
            message = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}."
            self.reason = f"{message} {self._describe_locations()}"
            return Result.store_failed
        return Result.successful

    def _with_space(self, write: Callable[[], None], should_stop: Callable[[], bool]) -> None:
        """Calls a function that needs space on disk; waits for space or moves the store, depending on `when_full`."""
        announced = False
        while True:
            try:
                write()
                return
            except StoreError as error:
                if error.errno not in FULL or self._when_full == "fail":
                    raise
                if self._when_full != "wait":
                    self.store.move(self._when_full)
                    print(f"polhode: {error} The run goes on in `{self.store.path}`.", file=sys.stderr, flush=True)
                    self._when_full = "fail"
                    continue
                if not announced:
                    print(f"polhode: {error} The run waits for space.", file=sys.stderr, flush=True)
                announced = True
                if should_stop():
                    raise
                time.sleep(_RETRY_S)

    def _describe_locations(self) -> str:
        store = self.store
        if store.is_removed:
            return f"What was on disk is where the store went; {store.pending} later frames are in `error.solution`."
        if not store.length:
            return f"Nothing is on disk; {store.pending} frames are in memory only, in `error.solution`."
        on_disk = f"`{store.path}` holds the first {store.length} frames"
        if not store.pending:
            return f"{on_disk}."
        return (
            f"{on_disk}; {store.pending} later ones are in memory only and end with this process, unless "
            "`error.solution.save(…)` writes them elsewhere. With space there, `polhode.resume` makes them again."
        )


def check_when_full(value: Any) -> None:
    """Raises ValueError for an invalid `when_full`."""
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"`when_full` must be 'fail', 'wait' or the path of another place, got {short_repr(value)}.")


@contextlib.contextmanager
def open_sink(
    path: str | Path | None, run: PlannedRun, overwrite: bool, when_full: str | Path
) -> Generator[StoreSink | None]:
    """A sink into a new store at `path`; None without one."""
    if path is None:
        yield None
        return
    count = frame_count(run.plan.segments, run.plan.schedule)
    expected = None if count is None else count + 1
    store = store_class(path).create(path, run.metadata, overwrite=overwrite, expected=expected)
    try:
        yield StoreSink(store, run.checkpoint_writer, when_full)
    finally:
        store.release()
