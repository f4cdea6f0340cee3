"""The abstract store of a run: frames are kept in memory for a moment, and written by a thread of its own."""

from __future__ import annotations

import abc
import contextlib
import functools
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Self

import numpy as np

from polhode.frames import Frames
from polhode.storage import frame_layout
from polhode.storage.background_writer import Job
from polhode.storage.batch import Batch, DiskState, WriteResult
from polhode.storage.checkpoint import Checkpoint
from polhode.storage.documents import RUN
from polhode.storage.errors import DamageError, StoreError, translate_os_errors
from polhode.storage.locks import Lock
from polhode.storage.paths import acquire_lock, resolve
from polhode.storage.stored_run import AbstractStoredRun, StoredArrays

_INTERVAL_S = 0.1
"""Seconds between publications; blocks of steps take about as long, so that less than half a second is lost."""

_SHARE = 0.08
"""Largest fraction of a processor's time for writing, unless single publications take long."""

_LONGEST_WAIT_S = 0.2
"""Longest time between publications, whatever they cost: pending frames are lost with the process."""

_PENDING_BYTES = 4 * 1024 * 1024
"""Size of pending frames in memory above which they are written at once."""

_LONGEST_QUEUE = 6
"""Multiple of `_PENDING_BYTES` above which a run waits for its disk."""


class AbstractRunStore(abc.ABC, Generic[DiskState]):
    """A store that is appended to while a run is going, and read by others meanwhile.

    Every leaf of the frames is one array along `time`. The store appears with its first frame, and an earlier run at
    that place stays until then. Whatever happens, readers see complete frames only. While it is written, a lock keeps
    other writers out.

    Blocks of frames are kept in memory and written several times a second, by a thread of its own, so that a run
    doesn't wait for a slow disk; `flush` and `close` write what is pending. When writing fails with `StoreError`,
    which the next call raises, what was appended stays in memory and the call after it tries again.

    Not to be constructed directly: `create` begins a run, `reopen` continues one; `is_run`, `run_at`, `read_root`,
    `open` and `salvage` read what is at a path. `storage/store_choice.py` has the classes by suffix.
    """

    def __init__(self, path: Path, meta: dict[str, Any], run: str, lock: Lock, expected: int | None) -> None:
        self.path = path
        self.meta = meta
        self.length = 0
        self._run, self._lock = run, lock
        self._expected = expected
        self._structure: frame_layout.Structure | None = None
        self._disk_state: DiskState = self._initial_disk_state()
        self._pending: list[dict[str, np.ndarray]] = []
        self._pending_bytes = 0
        self._checkpoint: Callable[[], Checkpoint] | None = None
        self._job: Job[WriteResult[DiskState]] | None = None
        self._submitted = self._next = 0.0
        self._is_on_disk = False

    @staticmethod
    @abc.abstractmethod
    def is_run(path: Path) -> bool:
        """Whether there is a run of polhode at `path`, of any version and in any state."""

    @staticmethod
    @abc.abstractmethod
    def run_at(path: Path) -> str | None:
        """The name of the run whose store is at `path`; None where there is none."""

    @staticmethod
    @abc.abstractmethod
    def read_root(path: Path) -> AbstractStoredRun:
        """The root of the store at `path`. Raises StoreError where it is no run, is damaged, or has another format."""

    @staticmethod
    @abc.abstractmethod
    def open(path: Path) -> tuple[AbstractStoredRun, StoredArrays]:
        """The root of the store at `path`, and its arrays. Raises StoreError where `read_root` does."""

    @staticmethod
    @abc.abstractmethod
    def salvage(path: Path) -> tuple[AbstractStoredRun, StoredArrays, list[str]]:
        """The same of a damaged store as far as they can be read, and the damage. StoreError if they can't at all."""

    @classmethod
    def create(
        cls, path: str | Path, meta: dict[str, Any], *, overwrite: bool = False, expected: int | None = None
    ) -> Self:
        """A new store at `path`. An existing run is replaced only with `overwrite`, anything else never.

        `expected` is the number of frames, as far as that is known.
        """
        path = resolve(path)
        run = uuid.uuid4().hex
        lock = acquire_lock(path, run)
        try:
            with translate_os_errors(path):
                cls._check_is_free(path, overwrite)
        except BaseException:
            lock.release()
            raise
        return cls(path, meta, run, lock, expected)

    @classmethod
    def reopen(cls, path: str | Path) -> tuple[Self, AbstractStoredRun]:
        """The store at `path`, to be continued, and its root.

        Raises StoreError, saying what is damaged, unless all of its frames are whole.
        """
        path = resolve(path)
        lock = acquire_lock(path, "")
        try:
            with translate_os_errors(path):
                root, arrays = cls.open(path)
                root.check(arrays)
                store = cls(path, root.meta, root.run, lock, None)
                store._structure, store.length = root.structure, root.frames
                store._disk_state = store._reopen_disk_state(root, arrays)
                store._is_on_disk = True
        except DamageError as error:
            lock.release()
            raise RUN.damage_error(path, str(error)) from None
        except BaseException:
            lock.release()
            raise
        return store, root

    def append(self, frames: Frames, checkpoint: Callable[[], Checkpoint] | None = None) -> None:
        """Adds a block of frames; `checkpoint` returns the checkpoint after the last one, and is called on writing."""
        if frame_layout.rows(frames) or not (self._is_on_disk or self._pending):
            structure, leaves = frame_layout.flatten(frames)
            if self._structure is None:
                self._structure = structure
            elif structure != self._structure:
                raise ValueError(f"All frames of a run must have the same structure; got {structure} after others.")
            self._pending.append(leaves)
            self._pending_bytes += sum(leaf.nbytes for leaf in leaves.values())
        if checkpoint is not None:
            self._checkpoint = checkpoint
        if not self._is_on_disk:
            self.flush()
            return
        if self._pending_bytes > _LONGEST_QUEUE * _PENDING_BYTES or (self._job is not None and self._job.is_done()):
            self._finish_job()
        due = self._pending_bytes > _PENDING_BYTES or time.perf_counter() >= self._next
        if self._job is None and due:
            self._submitted = time.perf_counter()
            self._job = Job(functools.partial(self._write_batch, self._batch(), None), "polhode-store")

    @property
    def is_on_disk(self) -> bool:
        """Whether there is something on disk."""
        return self._is_on_disk

    @property
    @abc.abstractmethod
    def is_removed(self) -> bool:
        """Whether what is on disk has been removed."""

    def unwritten(self) -> Frames | None:
        """Frames that are not on disk yet."""
        if self._structure is None or not self._pending:
            return None
        leaves = {name: np.concatenate([block[name] for block in self._pending]) for name in self._pending[0]}
        return frame_layout.rebuild(self._structure, leaves)

    @property
    def pending(self) -> int:
        """Frames that are not on disk yet."""
        return sum(len(block["time"]) for block in self._pending)

    def flush(self) -> None:
        """Writes everything appended so far and publishes it to readers."""
        self._finish(None)

    def close(self, stats: dict[str, Any]) -> None:
        """Writes what is pending and the statistics of the run, and releases the store."""
        if self._is_on_disk or self._pending:
            self._finish(stats)
        self.release()

    def release(self) -> None:
        """Releases the store as it is, after the writing thread has ended."""
        if self._job is not None:
            self._job.wait()
        self._close_files()
        self._lock.release()

    def move(self, place: str | Path) -> None:
        """Continues in another place, with a copy of what is written so far."""
        with contextlib.suppress(StoreError):
            self._finish_job()
        target = resolve(place)
        lock = acquire_lock(target, self._run)
        try:
            with translate_os_errors(target):
                self._check_is_free(target, False)
                if self._is_on_disk:
                    self._disk_state = self._copy(target)
        except BaseException:
            lock.release()
            raise
        self._lock.release()
        self.path, self._lock = target, lock

    def _finish(self, stats: dict[str, Any] | None) -> None:
        """Write what is pending now. What a thread has failed to write is tried again."""
        with contextlib.suppress(StoreError):
            self._finish_job()
        batch = self._batch()
        if not self._is_on_disk:
            if batch.blocks:
                with translate_os_errors(self.path):
                    disk_state = self._begin(batch, stats)
                self._is_on_disk = True
                # The first publication loads libraries and makes files, so its cost says nothing about the next.
                self._record(WriteResult(batch, disk_state, 0.0))
        elif batch.blocks or batch.checkpoint is not None or stats is not None:
            self._record(self._write_batch(batch, stats))

    def _finish_job(self) -> None:
        """Wait for the writing thread. Raises its exception if it failed."""
        job = self._job
        if job is not None:
            # Ctrl-C while waiting must not leave two writers.
            job.wait()
            self._job = None
            self._record(job.result())

    def _batch(self) -> Batch:
        """All that is pending."""
        source = self._checkpoint
        return Batch(list(self._pending), None if source is None else source(), source)

    def _write_batch(self, batch: Batch, stats: dict[str, Any] | None) -> WriteResult[DiskState]:
        begin = time.thread_time()
        with translate_os_errors(self.path):
            try:
                disk_state = self._write(batch, stats)
            except DamageError as error:
                raise RUN.damage_error(self.path, str(error)) from None
        return WriteResult(batch, disk_state, time.thread_time() - begin)

    def _record(self, result: WriteResult[DiskState]) -> None:
        """Takes over the result of a publication."""
        batch, self._disk_state, seconds = result
        self.length += batch.count
        del self._pending[: len(batch.blocks)]
        self._pending_bytes = sum(leaf.nbytes for block in self._pending for leaf in block.values())
        if self._checkpoint is batch.checkpoint_source:
            self._checkpoint = None
        self._next = self._submitted + min(max(_INTERVAL_S, seconds / _SHARE), _LONGEST_WAIT_S)

    @staticmethod
    @abc.abstractmethod
    def _check_is_free(path: Path, overwrite: bool) -> None:
        """Raises OccupiedError unless a path is free, or holds only a run that may be replaced."""

    @abc.abstractmethod
    def _initial_disk_state(self) -> DiskState:
        """The bookkeeping before anything is written."""

    @abc.abstractmethod
    def _begin(self, batch: Batch, stats: dict[str, Any] | None) -> DiskState:
        """Write the first batch aside, and put it in place at once."""

    @abc.abstractmethod
    def _write(self, batch: Batch, stats: dict[str, Any] | None) -> DiskState:
        """Write another batch and publish it; changes nothing of the store in memory, so that it can be repeated."""

    @abc.abstractmethod
    def _reopen_disk_state(self, root: Any, arrays: Any) -> DiskState:
        """The bookkeeping of a store that is reopened; `root` and `arrays` are those of `open`."""

    @abc.abstractmethod
    def _close_files(self) -> None:
        """Close files that are kept open; is called again."""

    @abc.abstractmethod
    def _copy(self, target: Path) -> DiskState:
        """Copy what is on disk to another place. Returns what is remembered of it."""
