"""Frames of a store, read from disk as they are used."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from polhode.frames import Frames
from polhode.name_errors import unknown_name
from polhode.storage import frame_layout, store_choice
from polhode.storage.documents import RUN
from polhode.storage.errors import DamageError, StoreError, translate_os_errors
from polhode.storage.store import AbstractRunStore
from polhode.storage.stored_run import AbstractStoredRun, StoredArrays
from polhode.storage.zarr_arrays import folder_name

_CACHE_BYTES = 64 * 1024 * 1024
"""Largest size of the cache of arrays that were read."""

_BLOCK_BYTES = 16 * 1024 * 1024


def frames_of_store(store: AbstractRunStore[Any], unaccepted: Frames | None) -> StoredFrames | Frames | None:
    """The frames of a run that was just written, with those that could not be written; None without any.

    If the store was removed, only those that were never written are left. `unaccepted` are the last ones, if the
    store did not accept them.
    """
    tails = [frames for frames in (store.unwritten(), unaccepted) if frames is not None]
    tail = jax.tree.map(lambda *x: np.concatenate(x), *tails) if tails else None
    if not store.is_on_disk or store.is_removed:
        return tail
    root, arrays = store.open(store.path)
    return StoredFrames(root, arrays, root.frames, tail)


class StoredFrames:
    """The frames of a store, like `Frames` but read from disk when they are used; with a tail that is not on disk.

    Reading raises `StoreError` where the store was damaged, removed or replaced by another run since.
    """

    def __init__(self, root: AbstractStoredRun, arrays: StoredArrays, count: int, tail: Frames | None = None) -> None:
        self._root, self._arrays, self._on_disk = root, arrays, count
        self._tail = None if tail is None else frame_layout.flatten(tail)[1]
        self._count = count + (0 if tail is None else len(tail.t))
        self._cache: OrderedDict[str, np.ndarray] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    @property
    def path(self) -> Path:
        """Of the store."""
        return self._root.path

    def read_checkpoint(self) -> dict[str, Any] | None:
        """The stored checkpoint after the last frame; None if there is none."""
        if not self._root.has_checkpoint or self._tail is not None:
            return None
        try:
            return self._root.read_checkpoint()
        except OSError:
            # A run can start from the last frame without it.
            return None

    def columns(self) -> dict[str, Column]:
        """All leaves by name, to be read slice by slice."""
        return {name: Column(self, name) for name in self._arrays}

    def _part(self, field: str) -> Any:
        return _view(frame_layout.part(self._root.structure, field), self)

    t = property(lambda self: self._part("t"))
    state = property(lambda self: _whole(self._part("state")))
    outputs = property(lambda self: self._part("outputs"))
    invariants = property(lambda self: self._part("invariants"))
    residuals = property(lambda self: self._part("residuals"))
    multipliers = property(lambda self: _whole(self._part("multipliers")))

    def whole(self) -> Frames:
        """All frames in memory."""
        return self.between(0, self._count)

    def between(self, start: int, stop: int) -> Frames:
        """Some frames in memory."""
        leaves = {name: self.read(name, start, stop) for name in self._arrays}
        return frame_layout.rebuild(self._root.structure, leaves)

    def blocks(self) -> Iterator[Frames]:
        """All frames, a bounded number at a time."""
        row = sum(array.row_bytes for array in self._arrays.values())
        size = max(1, _BLOCK_BYTES // max(row, 1))
        for start in range(0, self._count, size):
            yield self.between(start, min(start + size, self._count))

    def leaf(self, name: str) -> np.ndarray:
        """One whole array; the last ones read stay in memory."""
        if name not in self._cache:
            size = self._count * self._arrays[name].row_bytes
            while self._cache and size + sum(x.nbytes for x in self._cache.values()) > _CACHE_BYTES:
                self._cache.popitem(last=False)
            self._cache[name] = self.read(name, 0, self._count)
        self._cache.move_to_end(name)
        return self._cache[name]

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows of one array."""
        path = self._root.path
        with translate_os_errors(path):
            run = store_choice.store_class(path).run_at(path)
            if run is None and not path.exists():
                raise StoreError(f"The run store `{path}` is gone: it was deleted or renamed since it was opened.")
            if run is None:
                raise StoreError(f"`{path}` is no run of polhode any more: its root is gone or damaged.")
            if run != self._root.run:
                raise StoreError(f"The run store `{path}` has been replaced by another run since; load that one.")
            rest = None
            if self._tail is not None and stop > self._on_disk:
                rest = self._tail[name][max(start - self._on_disk, 0) : stop - self._on_disk]
            room = 0 if rest is None else len(rest)
            try:
                rows = self._arrays[name].read(start, max(start, min(stop, self._on_disk)), room)
            except DamageError as error:
                raise RUN.damage_error(path, f"`{folder_name(name)}`: {error}") from None
        if rest is not None:
            rows[len(rows) - room :] = rest
        rows.flags.writeable = False
        return rows

    def shape(self, name: str) -> tuple[int, ...]:
        """Of one array."""
        return (self._count, *self._arrays[name].shape)


class Column:
    """One leaf of stored frames: its shape, and slices of it."""

    def __init__(self, frames: StoredFrames, name: str) -> None:
        self._frames, self._name = frames, name
        self.shape = frames.shape(name)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(len(self))
        return self._frames.read(self._name, start, stop)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._frames.leaf(self._name), dtype)


class LazyMapping(Mapping[str, Any]):
    """Parts of stored frames by name, read when they are used."""

    def __init__(self, parts: dict[str, Any], frames: StoredFrames) -> None:
        self._parts, self._frames = parts, frames

    def __getitem__(self, name: str) -> Any:
        if name not in self._parts:
            raise unknown_name("output", name, list(self._parts))
        return _whole(_view(self._parts[name], self._frames))

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        return f"{{{', '.join(self._parts)}}}, in {self._frames.path}"


def _from_leaves(names: tuple[str, ...], values: Iterable[Any]) -> Any:
    return dict(zip(names, values, strict=True))


jax.tree_util.register_pytree_with_keys(
    LazyMapping,
    lambda mapping: ([(jax.tree_util.DictKey(name), mapping[name]) for name in mapping], tuple(mapping)),
    _from_leaves,
)


def _view(part: frame_layout.Structure, frames: StoredFrames) -> Any:
    """A part of the frames: arrays, and mappings that read theirs later."""
    ((kind, content),) = part.items()
    match kind:
        case "leaf":
            return frames.leaf(content)
        case "tuple":
            return tuple(_view(each, frames) for each in content)
        case "list":
            return [_view(each, frames) for each in content]
        case "dict":
            return LazyMapping(content, frames)
        case "fields":
            return frame_layout.state_class(tuple(content))(*(_view(each, frames) for each in content.values()))
        case _:
            return None


def _whole(part: Any) -> Any:
    """The same with ordinary dictionaries."""
    if isinstance(part, LazyMapping):
        return {name: part[name] for name in part}
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*map(_whole, part))
    if isinstance(part, tuple | list):
        return type(part)(_whole(each) for each in part)
    return part
