"""The root of the store of a run: metadata of its arrays, description and statistics."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polhode.json_values import from_plain
from polhode.result_codes import Result
from polhode.storage import constant_arrays, frame_layout
from polhode.storage.description import check_description
from polhode.storage.documents import FILE, RUN, FileDigest, contents, is_store, store_at
from polhode.storage.errors import DamageError, StoreError
from polhode.storage.labels import coordinates
from polhode.storage.zarr_arrays import CHECKSUM_BYTES, ArrayFiles, folder_name


class Root(NamedTuple):
    """The contents of the root of a store.

    - `path`: of the store; `run`: the run that wrote it, a name that no other run has.
    - `frames`: number of published frames; `structure`: that of their pytree.
    - `arrays`: metadata of all arrays; `checksums`: the file with those of all chunks, array by array.
    - `checkpoint`: the file with the method's checkpoint, if there is one.
    - `labels`: digests of the arrays with the words along dimensions, by folder.
    """

    path: Path
    run: str
    meta: dict[str, Any]
    stats: dict[str, Any]
    frames: int
    structure: frame_layout.Structure
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

    def check(self, arrays: Iterable[ArrayFiles]) -> None:
        """Compares all checksums. Raises StoreError, which says what is damaged."""
        arrays = list(arrays)
        count, problems = whole(arrays, self.frames)
        problems += self.odd_metadata(arrays)
        if problems:
            raise RUN.damage_error(self.path, f"{problems[0]}. Its first {count} frames are whole")

    def odd_metadata(self, arrays: Iterable[ArrayFiles]) -> list[str]:
        """Damage to what other readers use: the metadata of single arrays, and labels."""
        problems = [files.odd_metadata() for files in arrays]
        for name, digest in self.labels.items():
            problems.append(constant_arrays.damage(self.path / name, self.arrays.get(name), digest))
        return [what for what in problems if what]

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

    def read_checkpoint(self) -> dict[str, Any]:
        """The checkpoint: arrays by name, and "facts". Raises StoreError without one, or for a damaged one."""
        if self.checkpoint is None:
            raise StoreError(
                f"The run `{self.path}` has no checkpoint, so it can't be gone on with: it was written by "
                "`solution.save`, or cut off before its first step."
            )
        try:
            data = self.checkpoint.read(self.path)
        except DamageError as error:
            raise StoreError(
                f"The run `{self.path}` can't be gone on with as it was: its checkpoint {error}. Its frames are not "
                "concerned: `polhode.simulate(…, initial=polhode.load(path))` begins anew in the last one."
            ) from None
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return {**arrays, "facts": json.loads(arrays["facts"].tobytes())}


def whole(arrays: Iterable[ArrayFiles], count: int) -> tuple[int, list[str]]:
    """The number of the first `count` frames that can be read, and the first damage of each damaged array."""
    results = [files.intact(count) for files in arrays]
    return min((rows for rows, _ in results), default=count), [what for _, what in results if what]


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


def read_root(path: Path, file: str = FILE) -> Root:
    """The root of the store at `path`.

    Raises StoreError where it is no run, is damaged, or has another format.
    """
    return _parse_root(path, *contents(path, RUN, file))


def _check_labels(names: dict[str, Any], axes: dict[str, tuple[str, ...]], shapes: dict[str, Any]) -> None:
    """Raises ValueError unless a model's parts have as many labels as its arrays have rows for them."""
    labels = coordinates(names, {axis for each in axes.values() for axis in each})
    for name, each in axes.items():
        for axis, length in zip(each, shapes[name], strict=True):
            if axis in labels and len(labels[axis][1]) != length:
                raise ValueError(
                    f"`meta.names` has {len(labels[axis][1])} labels for the {length} of `{axis}` in `{name}`"
                )


def _parse_root(path: Path, attributes: dict[str, Any], arrays: dict[str, Any]) -> Root:
    try:
        meta, stats = (from_plain(json.loads(attributes[name])) for name in ("meta", "stats"))
        structure = frame_layout.check_structure(json.loads(attributes["structure"]))
        shapes = {
            name: arrays[folder]["shape"]
            for name in frame_layout.names(structure)
            if (folder := folder_name(name)) in arrays
        }
        axes = {
            name: frame_layout.dimensions(name, len(shape), shape[-1], meta.get("dimensions") or {})
            for name, shape in shapes.items()
        }
        states = frame_layout.names(frame_layout.part(structure, "state"))
        check_description(meta, stats, [tuple(shapes[name][1:]) for name in states if name in shapes])
        _check_labels(meta.get("names") or {}, axes, shapes)
        result = stats.get("result")
        return Root(
            path=path,
            run=str(attributes["run"]),
            meta=meta,
            stats={**stats, "result": None if result is None else Result[result]},
            frames=int(attributes["frames"]),
            structure=structure,
            arrays=dict(arrays),
            checksums=FileDigest.from_dict(attributes["checksums"]),
            checkpoint=None if attributes["checkpoint"] is None else FileDigest.from_dict(attributes["checkpoint"]),
            labels=constant_arrays.check_digests(attributes.get("labels", {})),
        )
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise RUN.damage_error(path, f"`{FILE}` makes no sense ({type(error).__name__}: {error})") from None
