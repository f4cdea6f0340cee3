"""Runs in HDF5 files, as they are read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, final

import numpy as np

from polhode.checks import short_repr
from polhode.storage import checkpoint, frame_layout, hdf5_layout
from polhode.storage.commits import MAGIC, newest_commit, open_regular
from polhode.storage.documents import RUN
from polhode.storage.errors import DamageError, StoreError
from polhode.storage.hdf5_layout import HDF5File
from polhode.storage.journaled_file import VerifiedFile
from polhode.storage.paged_file import page_count
from polhode.storage.run_description import PARSE_ERRORS, RunDescription
from polhode.storage.stored_run import AbstractStoredRun
from polhode.storage.zarr_arrays import folder_name

T = TypeVar("T")


class HDF5Array(NamedTuple):
    """One array of the frames in an HDF5 file: its name there, and type and shape of a row."""

    path: Path
    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    chunk_rows: int

    @property
    def row_bytes(self) -> int:
        """Size of one row."""
        return self.dtype.itemsize * math.prod(self.shape)

    def read(self, start: int, stop: int, room: int = 0) -> np.ndarray:
        """Rows from `start` to `stop`, then `room` uninitialised ones. Raises DamageError."""

        def rows(file: HDF5File) -> np.ndarray:
            array = file[self.name]
            if array.dtype != self.dtype or array.shape[1:] != self.shape or len(array) < stop:
                raise DamageError(f"`{self.name}` is another array than it was")
            values = np.empty((stop - start + room, *self.shape), self.dtype)
            if stop > start and self.row_bytes:
                array.read_direct(values, np.s_[start:stop], np.s_[: stop - start])
            return values

        return read(self.path, rows)

    def intact(self, count: int) -> int:
        """How many of `count` rows can be read."""
        for start in range(0, count, self.chunk_rows):
            try:
                self.read(start, min(start + self.chunk_rows, count))
            except DamageError:
                return start
        return count


@final
@dataclasses.dataclass(frozen=True)
class HDF5Run(AbstractStoredRun):
    """The root of a run in an HDF5 file.

    - `checkpoint_bytes`: size of the method's checkpoint; 0 without one.
    """

    path: Path
    run: str
    meta: dict[str, Any]
    stats: dict[str, Any]
    structure: frame_layout.Structure
    frames: int
    checkpoint_bytes: int

    @property
    def has_checkpoint(self) -> bool:
        return self.checkpoint_bytes > 0

    def inspect(self, arrays: Mapping[str, HDF5Array]) -> tuple[int, list[str]]:
        problems = []
        with VerifiedFile(self.path) as file:
            for number in range(page_count(file.size)):
                try:
                    file.page(number)
                except DamageError as error:
                    problems.append(str(error))
        if not problems:
            return self.frames, []
        return min((array.intact(self.frames) for array in arrays.values()), default=self.frames), problems

    def read_checkpoint(self) -> dict[str, Any]:
        if not self.has_checkpoint:
            raise checkpoint.absence_error(self.path)
        try:
            return checkpoint.unpack(read(self.path, hdf5_layout.read_checkpoint))
        except DamageError as error:
            raise checkpoint.damage_error(self.path, f"is in a damaged file: {error}") from None


def is_run(path: Path) -> bool:
    """Whether there is a run of polhode at `path`, of any version and in any state."""
    try:
        with open(open_regular(path), "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError, TypeError):
        return False


def run_at(path: Path) -> str | None:
    """The name of the run whose store is at `path`; None where there is none."""
    try:
        with open(open_regular(path), "rb") as file:
            return newest_commit(file.fileno()).run
    except (OSError, DamageError):
        return None


def open_run(path: Path) -> tuple[HDF5Run, dict[str, HDF5Array]]:
    """The root of the store at `path`, and its arrays. Raises StoreError where it is no run, or is damaged."""
    _check_kind(path)
    try:
        return read(path, lambda file: _parse(path, file))
    except DamageError as error:
        what = f"{error}. Without these bytes no frame can be read, not even with `salvage=True`; a copy is needed."
        raise StoreError(f"The run store `{path}` is damaged: {what}") from None


def read_root(path: Path) -> HDF5Run:
    """The root of the store at `path`."""
    return open_run(path)[0]


def salvage(path: Path) -> tuple[HDF5Run, dict[str, HDF5Array], list[str]]:
    """The same as `open_run`: what a file says of its run is needed for reading frames."""
    return *open_run(path), []


def read(path: Path, act: Callable[[HDF5File], T]) -> T:
    """The result of a function that reads the file as of the last commit. Raises DamageError for damage of any kind."""
    with VerifiedFile(path) as content:
        while True:
            commit = content.state.commit
            try:
                with hdf5_layout.open_file(content, "r") as file:
                    return act(file)
            except (StoreError, MemoryError):
                raise
            except Exception as error:
                problem = str(error) if isinstance(error, DamageError) else f"{type(error).__name__}: {error}"
            if content.damage or content.state.commit == commit:
                raise DamageError(content.damage or problem)
            # A run in progress has made another commit in between.


def _parse(path: Path, file: HDF5File) -> tuple[HDF5Run, dict[str, HDF5Array]]:
    attributes = dict(file.attrs)
    if (version := attributes.get(RUN.key)) != RUN.format:
        raise StoreError(
            f"`{path}` has the format {short_repr(version)}, and this version of polhode reads {RUN.format}. Read it "
            "with the version that wrote it."
        )

    def shapes(names: list[str]) -> dict[str, tuple[int, ...]]:
        return {name: file[folder_name(name)].shape for name in names}

    try:
        description = RunDescription.parse(attributes, shapes)
        names = frame_layout.names(description.structure)
        arrays = {name: _array(path, file[folder_name(name)]) for name in names}
        (count,) = {len(file[array.name]) for array in arrays.values()}
    except PARSE_ERRORS as error:
        raise DamageError(f"its description makes no sense ({type(error).__name__}: {error})") from None
    return HDF5Run(path, *description, count, hdf5_layout.checkpoint_bytes(file)), arrays


def _array(path: Path, array: Any) -> HDF5Array:
    """One array. Raises ValueError for types that runs don't have."""
    if array.dtype.kind not in "biufc" or not array.shape or not array.chunks:
        raise ValueError(f"`{array.name}` is no array of frames")
    return HDF5Array(path, array.name.lstrip("/"), array.dtype, array.shape[1:], array.chunks[0])


def _check_kind(path: Path) -> None:
    """Raises StoreError unless there is a run."""
    if is_run(path):
        return
    if path.is_dir():
        there = "is a folder"
    elif not path.exists():
        there = "does not exist"
    else:
        there = "is a file of another kind, or its beginning is damaged"
    raise StoreError(
        f"`{path}` is not {RUN.article} {RUN.noun} of polhode in HDF5: it {there}. Such a run is a file that "
        "`store=` has made."
    )
