"""The root of the store of a run: metadata of its arrays, description and statistics."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from polhode.storage import checkpoint, constant_arrays, frame_layout
from polhode.storage.documents import FILE, RUN, FileDigest, contents, is_store, store_at
from polhode.storage.errors import DamageError, StoreError
from polhode.storage.run_description import PARSE_ERRORS, RunDescription
from polhode.storage.stored_run import AbstractStoredRun
from polhode.storage.zarr_arrays import CHECKSUM_BYTES, ArrayFiles, folder_name


@final
@dataclasses.dataclass(frozen=True)
class Root(AbstractStoredRun):
    """The contents of the root of a zarr store.

    - `arrays`: metadata of all arrays; `checksums`: the file with those of all chunks, array by array.
    - `checkpoint`: the file with the method's checkpoint, if there is one.
    - `labels`: digests of the arrays with the words along dimensions, by folder.
    """

    path: Path
    run: str
    meta: dict[str, Any]
    stats: dict[str, Any]
    structure: frame_layout.Structure
    frames: int
    arrays: dict[str, Any]
    checksums: FileDigest
    checkpoint: FileDigest | None
    labels: dict[str, str]

    def files(self) -> dict[str, ArrayFiles]:
        """The files of all leaves by name, with the checksums of their chunks. Raises StoreError for damage."""
        arrays = self.unbound()
        sizes = [CHECKSUM_BYTES * files.chunks(self.frames) for files in arrays.values()]
        try:
            data = self.checksums.read(self.path)
        except DamageError as error:
            raise RUN.damage_error(self.path, str(error)) from None
        if len(data) != sum(sizes):
            raise RUN.damage_error(self.path, f"`{self.checksums.file}` has {len(data)} bytes instead of {sum(sizes)}")
        at = 0
        for (name, files), size in zip(arrays.items(), sizes, strict=True):
            arrays[name] = files._replace(count=self.frames, checksums=data[at : at + size])
            at += size
        return arrays

    def unbound(self) -> dict[str, ArrayFiles]:
        """The same without checksums: chunks are only compared with their own ones."""
        return {name: self._array(name) for name in frame_layout.names(self.structure)}

    def inspect(self, arrays: Mapping[str, ArrayFiles]) -> tuple[int, list[str]]:
        results = [files.intact(self.frames) for files in arrays.values()]
        problems = [what for _, what in results]
        # What other readers use: the metadata of single arrays, and labels.
        problems += [files.odd_metadata() for files in arrays.values()]
        for name, digest in self.labels.items():
            problems.append(constant_arrays.damage(self.path / name, self.arrays.get(name), digest))
        return min((rows for rows, _ in results), default=self.frames), [what for what in problems if what]

    def _array(self, name: str) -> ArrayFiles:
        """The files of one leaf. Raises StoreError where its metadata don't fit the run."""
        folder = folder_name(name)
        try:
            array = ArrayFiles.from_metadata(self.path / folder, self.arrays[folder])
            if self.arrays[folder]["shape"][0] != self.frames:
                raise DamageError(f"it has {self.arrays[folder]['shape'][0]} rows instead of {self.frames}")
        except KeyError:
            raise RUN.damage_error(self.path, f"the array `{folder}` is missing") from None
        except DamageError as error:
            raise RUN.damage_error(self.path, f"`{folder}`: {error}") from None
        return array

    @property
    def has_checkpoint(self) -> bool:
        return self.checkpoint is not None

    def read_checkpoint(self) -> dict[str, Any]:
        if self.checkpoint is None:
            raise checkpoint.absence_error(self.path)
        try:
            data = self.checkpoint.read(self.path)
        except DamageError as error:
            raise checkpoint.damage_error(self.path, str(error)) from None
        return checkpoint.unpack(data)


def is_run(path: str | Path) -> bool:
    """Whether there is a run of polhode at `path`, of any version and in any state."""
    return is_store(path, RUN)


def run_at(path: Path) -> str | None:
    """The name of the run whose store is at `path`; None where there is none."""
    return store_at(path, RUN)


def open_root(path: Path) -> tuple[Root, dict[str, ArrayFiles]]:
    """The root of the store at `path`, and its arrays with their checksums.

    Raises StoreError where `read_root` does and for damaged checksums.
    """
    root = read_root(path)
    while True:
        try:
            return root, root.files()
        except StoreError:
            again = read_root(path)
            # A run in progress has replaced the root and the checksums in between.
            if again.checksums == root.checksums:
                raise
            root = again


def salvage(path: Path) -> tuple[Root, dict[str, ArrayFiles], list[str]]:
    """The readable part of a store, if necessary by the copy of its root and without checksums, and its damage.

    Raises StoreError if neither root can be read.
    """
    try:
        return *open_root(path), []
    except StoreError as error:
        damage = [str(error)]
    try:
        root = read_root(path)
    except StoreError:
        if not (path / RUN.copy).is_file():
            raise
        root = read_root(path, RUN.copy)
    try:
        return root, root.files(), damage
    except StoreError as error:
        return root, root.unbound(), list(dict.fromkeys((*damage, str(error))))


def read_root(path: Path, file: str = FILE) -> Root:
    """The root of the store at `path`.

    Raises StoreError where it is no run, is damaged, or has another format.
    """
    return _parse_root(path, *contents(path, RUN, file))


def _parse_root(path: Path, attributes: dict[str, Any], arrays: dict[str, Any]) -> Root:
    def shapes(names: list[str]) -> dict[str, Any]:
        return {name: arrays[folder]["shape"] for name in names if (folder := folder_name(name)) in arrays}

    try:
        return Root(
            path,
            *RunDescription.parse(attributes, shapes),
            frames=int(attributes["frames"]),
            arrays=dict(arrays),
            checksums=FileDigest.from_dict(attributes["checksums"]),
            checkpoint=None if attributes["checkpoint"] is None else FileDigest.from_dict(attributes["checkpoint"]),
            labels=constant_arrays.check_digests(attributes.get("labels", {})),
        )
    except PARSE_ERRORS as error:
        raise RUN.damage_error(path, f"`{FILE}` makes no sense ({type(error).__name__}: {error})") from None
