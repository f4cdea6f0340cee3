"""Stores of runs as folders of zarr arrays."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from polhode.storage import constant_arrays, documents, frame_layout, metadata
from polhode.storage.attributes import attributes
from polhode.storage.batch import Batch
from polhode.storage.documents import HIDDEN, RUN, FileDigest
from polhode.storage.files import replace
from polhode.storage.labels import coordinates
from polhode.storage.metadata import Root
from polhode.storage.paths import TOKEN, check_room, check_there, staging_folder
from polhode.storage.store import AbstractRunStore
from polhode.storage.zarr_arrays import CHECKSUM_BYTES, ArrayFiles, compact, folder_name


class _Words(NamedTuple):
    """Arrays with the words along dimensions: their metadata for the root, and digests, by folder."""

    metadata: dict[str, Any]
    digests: dict[str, str]


class _DiskState(NamedTuple):
    """The state on disk: arrays, rows of unfinished chunks, checksums of all chunks, words, and files of the root.

    The files are None before the first publication.
    """

    arrays: dict[str, ArrayFiles]
    tails: dict[str, np.ndarray]
    checksums: dict[str, bytes]
    words: _Words
    checkpoint_file: FileDigest | None = None
    checksums_file: FileDigest | None = None

    def at(self, folder: Path) -> _DiskState:
        """The same in another folder."""
        return self._replace(
            arrays={name: files._replace(folder=folder / files.folder.name) for name, files in self.arrays.items()}
        )


@final
class RunStore(AbstractRunStore[_DiskState]):
    """A zarr store that is appended to while a run is going; `xarray.open_zarr(path)` gives labelled data.

    Chunks are written first, each with a checksum, then a file with all checksums, which binds chunks to their places,
    and metadata last, by one atomic replacement of the file at the root.
    """

    is_run = staticmethod(metadata.is_run)
    run_at = staticmethod(metadata.run_at)
    read_root = staticmethod(metadata.read_root)
    open = staticmethod(metadata.open_root)
    salvage = staticmethod(metadata.salvage)

    @property
    def is_removed(self) -> bool:
        return self._is_on_disk and not (self.path / HIDDEN).is_dir()

    @staticmethod
    def _check_is_free(path: Path, overwrite: bool) -> None:
        check_room(path, RUN, overwrite)

    def _initial_disk_state(self) -> _DiskState:
        return _DiskState({}, {}, {}, _Words({}, {}))

    def _reopen_disk_state(self, root: Root, arrays: dict[str, ArrayFiles]) -> _DiskState:
        tails = {
            name: files.read(root.frames - root.frames % files.rows, root.frames) for name, files in arrays.items()
        }
        checksums = {name: files.checksums or b"" for name, files in arrays.items()}
        words = _Words({name: root.arrays[name] for name in root.labels}, root.labels)
        return _DiskState(arrays, tails, checksums, words, root.checkpoint, root.checksums)

    def _copy(self, target: Path) -> _DiskState:
        shutil.copytree(self.path, target, dirs_exist_ok=True)
        return self._disk_state.at(target)

    def _close_files(self) -> None:
        return

    def _begin(self, batch: Batch, stats: dict[str, Any] | None) -> _DiskState:
        with staging_folder(self.path, self._run) as aside:
            return self._write_to(aside, self._create_arrays(aside, batch.blocks[0]), batch, stats).at(self.path)

    def _write(self, batch: Batch, stats: dict[str, Any] | None) -> _DiskState:
        check_there(self.path)
        return self._write_to(self.path, self._disk_state, batch, stats)

    def _create_arrays(self, folder: Path, block: dict[str, np.ndarray]) -> _DiskState:
        labels = frame_layout.label(block, self.meta.get("dimensions", {}))
        arrays = {
            name: ArrayFiles.for_rows(folder / folder_name(name), values, labels[name], self._expected)
            for name, values in block.items()
        }
        words = _Words({}, {})
        there = {axis for axes in labels.values() for axis in axes}
        for name, (axis, values) in coordinates(self.meta.get("names", {}), there).items():
            entry = constant_arrays.write_array(
                folder / folder_name(name), (axis,), np.array(values, str), self._run[:TOKEN]
            )
            words.metadata[folder_name(name)], words.digests[folder_name(name)] = entry
        tails = {name: np.zeros((0, *files.shape), files.dtype) for name, files in arrays.items()}
        return _DiskState(arrays, tails, dict.fromkeys(arrays, b""), words)

    def _write_to(self, folder: Path, former: _DiskState, batch: Batch, stats: dict[str, Any] | None) -> _DiskState:
        """Write a batch to `folder` and publish it there."""
        tails, checksums = {}, dict(former.checksums)
        for name, files in former.arrays.items():
            values = np.concatenate((former.tails[name], *(block[name] for block in batch.blocks)))
            if batch.count:
                first = self.length - len(former.tails[name])
                before = checksums[name][: CHECKSUM_BYTES * files.chunks(first)]
                checksums[name] = before + files.write(first, values, self._run[:TOKEN])
            tails[name] = np.array(values[len(values) - len(values) % files.rows :])
        if self._is_on_disk:
            check_there(self.path)
        disk_state = former._replace(tails=tails, checksums=checksums)
        if batch.count or former.checksums_file is None:
            data = b"".join(checksums.values())
            disk_state = disk_state._replace(
                checksums_file=self._keep(folder, "checksums-{}.bin", data, former.checksums_file)
            )
        if batch.checkpoint is not None:
            data = batch.checkpoint.to_bytes()
            file = self._keep(folder, "checkpoint-{}.npz", data, former.checkpoint_file)
            disk_state = disk_state._replace(checkpoint_file=file)
        self._publish(folder, self.length + batch.count, disk_state, stats)
        if former.checkpoint_file is not None and former.checkpoint_file != disk_state.checkpoint_file:
            with contextlib.suppress(OSError):
                (folder / former.checkpoint_file.file).unlink(missing_ok=True)
        return disk_state

    def _keep(self, folder: Path, names: str, data: bytes, former: FileDigest | None) -> FileDigest:
        """Writes a file for the next root, beside the one that the present root refers to."""
        first, second = (f"{HIDDEN}/{names.format(k)}" for k in (0, 1))
        name = second if former is not None and former.file == first else first
        replace(folder / name, [data], self._run[:TOKEN])
        return FileDigest(name, documents.digest(data))

    def _publish(self, folder: Path, count: int, disk_state: _DiskState, stats: dict[str, Any] | None) -> None:
        """Write the metadata at the root, which readers use."""
        arrays = {files.folder.name: files.metadata(count) for files in disk_state.arrays.values()}
        token = self._run[:TOKEN]
        if not self._is_on_disk or stats is not None:
            # The metadata of single arrays have the number of rows at the beginning, or at the end.
            for name, entry in arrays.items():
                replace(folder / name / "zarr.json", [compact(entry)], token)
        description = attributes(self.meta, stats or {"result": None})
        files = {"checkpoint": disk_state.checkpoint_file, "checksums": disk_state.checksums_file}
        files_by_name = {name: None if file is None else file._asdict() for name, file in files.items()}
        own = {"run": self._run, "structure": json.dumps(self._structure), "frames": count, **files_by_name}
        own["labels"] = disk_state.words.digests
        data = documents.document({**description, **own}, {**arrays, **disk_state.words.metadata})
        # A copy, from which frames can be read if the file at the root is damaged.
        replace(folder / RUN.copy, [data], token)
        replace(folder / documents.FILE, [data], token)
