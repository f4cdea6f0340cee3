"""Stores of runs on disk: zarr stores that grow during a run and can be read meanwhile."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polhode.frames import Frames
from polhode.storage import constant_arrays, documents, frame_layout
from polhode.storage.attributes import attributes
from polhode.storage.background_writer import Job
from polhode.storage.documents import HIDDEN, RUN, FileDigest
from polhode.storage.errors import DamageError, StoreError, translate_os_errors
from polhode.storage.files import replace
from polhode.storage.labels import coordinates
from polhode.storage.locks import Lock
from polhode.storage.metadata import Root, open_root
from polhode.storage.paths import TOKEN, acquire_lock, check_room, check_there, resolve, staging_folder
from polhode.storage.zarr_arrays import CHECKSUM_BYTES, ArrayFiles, compact, folder_name

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


class Checkpoint(NamedTuple):
    """The state of a method after the last frame of a store: arrays by name, and facts as plain values."""

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]


class _Batch(NamedTuple):
    """A batch to be written: blocks of frames, the checkpoint after them, and the function that made it."""

    blocks: list[dict[str, np.ndarray]]
    checkpoint: Checkpoint | None
    checkpoint_source: Callable[[], Checkpoint] | None

    @property
    def count(self) -> int:
        """The number of frames."""
        return sum(len(block["time"]) for block in self.blocks)


class _WriteResult(NamedTuple):
    """The result of writing a batch: rows of unfinished chunks, checksums of all chunks, and seconds.

    `root_files` are the files that the root refers to.
    """

    batch: _Batch
    tails: dict[str, np.ndarray]
    checksums: dict[str, bytes]
    root_files: _RootFiles
    seconds: float


class _RootFiles(NamedTuple):
    """The files that the root refers to; None before the first publication."""

    checkpoint: FileDigest | None = None
    checksums: FileDigest | None = None


class RunStore:
    """A zarr store that is appended to while a run is going.

    Every leaf of the frames is one array along `time`, so `xarray.open_zarr(path)` gives labelled data. Chunks are
    written first, each with a checksum, then a file with all checksums, which binds chunks to their places, and
    metadata last, by one atomic replacement of the file at the root: whatever happens, readers see complete frames
    only. The folder appears with its first frame, and an earlier run at that place stays until then. While it is
    written, a lock keeps other writers out.

    Blocks of frames are kept in memory and written several times a second, by a thread of its own, so that a run
    doesn't wait for a slow disk; `flush` and `close` write what is pending. When writing fails with `StoreError`,
    which the next call raises, what was appended stays in memory and the call after it tries again.

    Not to be constructed directly: `create` begins a run, `reopen` continues one.
    """

    def __init__(self, path: Path, meta: dict[str, Any], run: str, lock: Lock) -> None:
        self.path = path
        self.meta = meta
        self.length = 0
        self._run, self._lock = run, lock
        self._expected: int | None = None
        self._arrays: dict[str, ArrayFiles] = {}
        self._structure: frame_layout.Structure | None = None
        self._tails: dict[str, np.ndarray] = {}
        self._checksums: dict[str, bytes] = {}
        self._pending: list[dict[str, np.ndarray]] = []
        self._pending_bytes = 0
        self._checkpoint: Callable[[], Checkpoint] | None = None
        self._root_files = _RootFiles()
        self._words: dict[str, Any] = {}
        self._labels: dict[str, str] = {}
        self._job: Job[_WriteResult] | None = None
        self._submitted = self._next = 0.0
        self._is_on_disk = False

    @classmethod
    def create(
        cls, path: str | Path, meta: dict[str, Any], *, overwrite: bool = False, expected: int | None = None
    ) -> RunStore:
        """A new store at `path`. An existing run is replaced only with `overwrite`, anything else never.

        `expected` is the number of frames, as far as that is known.
        """
        path = resolve(path)
        run = uuid.uuid4().hex
        lock = acquire_lock(path, run)
        try:
            with translate_os_errors(path):
                check_room(path, RUN, overwrite)
        except BaseException:
            lock.release()
            raise
        store = cls(path, meta, run, lock)
        store._expected = expected
        return store

    @classmethod
    def reopen(cls, path: str | Path) -> tuple[RunStore, Root]:
        """The store at `path`, to be continued, and its root.

        Raises StoreError, saying what is damaged, unless all of its frames are whole.
        """
        path = resolve(path)
        lock = acquire_lock(path, "")
        try:
            with translate_os_errors(path):
                root, arrays = open_root(path)
                root.check(arrays.values())
                store = cls(path, root.meta, root.run, lock)
                store._structure = root.structure
                store._words = {name: root.arrays[name] for name in root.labels}
                store._labels = root.labels
                store.length = root.frames
                for name, files in arrays.items():
                    store._tails[name] = files.read(root.frames - root.frames % files.rows, root.frames)
                    store._checksums[name] = files.checksums or b""
                store._arrays = arrays
                store._root_files, store._is_on_disk = _RootFiles(root.checkpoint, root.checksums), True
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
            self._settle()
        due = self._pending_bytes > _PENDING_BYTES or time.perf_counter() >= self._next
        if self._job is None and due:
            self._submitted = time.perf_counter()
            self._job = Job(functools.partial(self._write, self.path, self._batch()), "polhode-store")

    @property
    def begun(self) -> bool:
        """Whether there is something on disk."""
        return self._is_on_disk

    @property
    def gone(self) -> bool:
        """Whether the folder on disk has been removed."""
        return self._is_on_disk and not (self.path / HIDDEN).is_dir()

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

    def _finish(self, stats: dict[str, Any] | None) -> None:
        """Write what is pending now. What a thread has failed to write is tried again."""
        with contextlib.suppress(StoreError):
            self._settle()
        batch = self._batch()
        if not self._is_on_disk:
            if batch.blocks:
                with translate_os_errors(self.path):
                    self._begin(batch, stats)
        elif batch.blocks or batch.checkpoint is not None or stats is not None:
            self._take(self._write(self.path, batch, stats))

    def _settle(self) -> None:
        """Wait for the writing thread. Raises its exception if it failed."""
        job = self._job
        if job is not None:
            # Ctrl-C while waiting must not leave two writers.
            job.wait()
            self._job = None
            self._take(job.result())

    def _batch(self) -> _Batch:
        """All that is pending."""
        source = self._checkpoint
        return _Batch(list(self._pending), None if source is None else source(), source)

    def _take(self, result: _WriteResult) -> None:
        """Takes over the result of a publication."""
        batch, self._tails, self._checksums, self._root_files, seconds = result
        self.length += batch.count
        del self._pending[: len(batch.blocks)]
        self._pending_bytes = sum(leaf.nbytes for block in self._pending for leaf in block.values())
        if self._checkpoint is batch.checkpoint_source:
            self._checkpoint = None
        self._next = self._submitted + min(max(_INTERVAL_S, seconds / _SHARE), _LONGEST_WAIT_S)

    def release(self) -> None:
        """Releases the store as it is, after the writing thread has ended."""
        if self._job is not None:
            self._job.wait()
        self._lock.release()

    def move(self, place: str | Path) -> None:
        """Continues in another place, with a copy of what is written so far."""
        with contextlib.suppress(StoreError):
            self._settle()
        target = resolve(place)
        lock = acquire_lock(target, self._run)
        try:
            with translate_os_errors(target):
                check_room(target, RUN, False)
                if self._is_on_disk:
                    shutil.copytree(self.path, target, dirs_exist_ok=True)
        except BaseException:
            lock.release()
            raise
        self._lock.release()
        self.path, self._lock = target, lock
        self._arrays = {name: files._replace(folder=target / files.folder.name) for name, files in self._arrays.items()}

    def _begin(self, batch: _Batch, stats: dict[str, Any] | None) -> None:
        """The first publication, made in a temporary folder that is moved into place."""
        try:
            with staging_folder(self.path, self._run) as aside:
                self._create_arrays(aside)
                result = self._write(aside, batch, stats)
        except BaseException:
            self._arrays, self._tails, self._checksums = {}, {}, {}
            raise
        self._is_on_disk = True
        self._arrays = {
            name: files._replace(folder=self.path / files.folder.name) for name, files in self._arrays.items()
        }
        # The first publication loads libraries and makes folders, so its cost says nothing about the next.
        self._take(result._replace(seconds=0.0))

    def _create_arrays(self, folder: Path) -> None:
        block = self._pending[0]
        labels = frame_layout.label(block, self.meta.get("dimensions", {}))
        for name, values in block.items():
            files = ArrayFiles.for_rows(folder / folder_name(name), values, labels[name], self._expected)
            self._arrays[name] = files
            self._tails[name] = np.zeros((0, *files.shape), files.dtype)
            self._checksums[name] = b""
        there = {axis for axes in labels.values() for axis in axes}
        for name, (axis, words) in coordinates(self.meta.get("names", {}), there).items():
            entry = constant_arrays.write_array(
                folder / folder_name(name), (axis,), np.array(words, str), self._run[:TOKEN]
            )
            self._words[folder_name(name)], self._labels[folder_name(name)] = entry

    def _write(self, folder: Path, batch: _Batch, stats: dict[str, Any] | None = None) -> _WriteResult:
        """Write a batch to `folder` and publish it there; changes nothing of the store in memory."""
        begin, tails, checksums = time.thread_time(), {}, dict(self._checksums)
        with translate_os_errors(self.path):
            if self._is_on_disk:
                check_there(self.path)
            for name, files in self._arrays.items():
                values = np.concatenate((self._tails[name], *(block[name] for block in batch.blocks)))
                if batch.count:
                    first = self.length - len(self._tails[name])
                    before = checksums[name][: CHECKSUM_BYTES * files.chunks(first)]
                    checksums[name] = before + files.write(first, values, self._run[:TOKEN])
                tails[name] = np.array(values[len(values) - len(values) % files.rows :])
            if self._is_on_disk:
                check_there(self.path)
            former = root_files = self._root_files
            if batch.count or former.checksums is None:
                data = b"".join(checksums.values())
                root_files = root_files._replace(
                    checksums=self._keep(folder, "checksums-{}.bin", data, former.checksums)
                )
            if batch.checkpoint is not None:
                data = _pack_checkpoint(batch.checkpoint)
                file = self._keep(folder, "checkpoint-{}.npz", data, former.checkpoint)
                root_files = root_files._replace(checkpoint=file)
            self._publish(folder, self.length + batch.count, root_files, stats)
            if former.checkpoint is not None and former.checkpoint != root_files.checkpoint:
                with contextlib.suppress(OSError):
                    (folder / former.checkpoint.file).unlink(missing_ok=True)
        return _WriteResult(batch, tails, checksums, root_files, time.thread_time() - begin)

    def _keep(self, folder: Path, names: str, data: bytes, former: FileDigest | None) -> FileDigest:
        """Writes a file for the next root, beside the one that the present root refers to."""
        first, second = (f"{HIDDEN}/{names.format(k)}" for k in (0, 1))
        name = second if former is not None and former.file == first else first
        replace(folder / name, [data], self._run[:TOKEN])
        return FileDigest(name, documents.digest(data))

    def _publish(self, folder: Path, count: int, root_files: _RootFiles, stats: dict[str, Any] | None) -> None:
        """Write the metadata at the root, which readers use."""
        arrays = {files.folder.name: files.metadata(count) for files in self._arrays.values()}
        token = self._run[:TOKEN]
        if not self._is_on_disk or stats is not None:
            # The metadata of single arrays have the number of rows at the beginning, or at the end.
            for name, metadata in arrays.items():
                replace(folder / name / "zarr.json", [compact(metadata)], token)
        description = attributes(self.meta, stats or {"result": None})
        files_by_name = {name: None if file is None else file._asdict() for name, file in root_files._asdict().items()}
        own = {"run": self._run, "structure": json.dumps(self._structure), "frames": count, **files_by_name}
        own["labels"] = self._labels
        data = documents.document({**description, **own}, {**arrays, **self._words})
        # A copy, from which frames can be read if the file at the root is damaged.
        replace(folder / RUN.copy, [data], token)
        replace(folder / documents.FILE, [data], token)


def _pack_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The content of the checkpoint file."""
    buffer = io.BytesIO()
    facts = np.frombuffer(json.dumps(checkpoint.facts).encode(), np.uint8)
    np.savez(buffer, **{"facts": facts, **checkpoint.arrays})
    return buffer.getvalue()
