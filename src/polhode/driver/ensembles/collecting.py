"""Where the frames of an ensemble go: arrays in memory, or a zarr store that batches write in parallel."""

from __future__ import annotations

import abc
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from polhode.driver.ensembles.running import Batch
from polhode.results import Result

_PENDING = -1
"""The result of a member that has not been run."""


class AbstractCollector(abc.ABC):
    """Takes batches, each from any thread."""

    @abc.abstractmethod
    def put(self, which: slice, batch: Batch) -> None:
        """The members of a batch."""

    @abc.abstractmethod
    def has(self, which: slice) -> bool:
        """Whether these members have been run before."""


class InMemory(AbstractCollector):
    """Arrays of all members.

    - `frames`: name → (count, …); empty unless they are kept. - `ends`: the same of results.
    """

    def __init__(self, count: int, like: Batch, keep: bool) -> None:
        self.frames = {
            name: np.full((count, *x.shape[1:]), np.nan if x.dtype.kind == "f" else 0, x.dtype)
            for name, x in (like.frames.items() if keep else ())
        }
        self.ends: dict[str, np.ndarray] = {
            "result": np.full(count, _PENDING, np.int32),
            "steps": np.zeros(count, np.int64),
            "t_reached": np.full(count, np.nan),
        }

    def put(self, which: slice, batch: Batch) -> None:
        for name, target in self.frames.items():
            target[which] = batch.frames[name]
        for name, target in self.ends.items():
            target[which] = getattr(batch, name)

    def has(self, which: slice) -> bool:
        return False


class InStore(AbstractCollector):
    """Arrays of a zarr store, in chunks of one batch with checksums (CRC32C).

    The results of a batch are written behind everything else of it, so a member that has one is whole.

    **Arguments:**

    - `path`: of the store. - `told`: what it is of; a store goes on with the same only.
    - `count`, `batch`: members in all, and in a batch. - `like`: a batch.
    - `labels`: dimensions of the frames of a member. - `coordinates`: name → dimensions and values.

    Raises ValueError for a path where something else is.
    """

    def __init__(
        self,
        path: Path,
        told: dict[str, Any],
        count: int,
        batch: int,
        like: Batch,
        labels: dict[str, tuple[str, ...]],
        coordinates: dict[str, tuple[tuple[str, ...], np.ndarray]],
        resume: bool,
        overwrite: bool,
    ) -> None:
        import zarr

        self.path, said = path, json.dumps(told, sort_keys=True)
        if path.exists() and not resume:
            if not (overwrite and (path / "zarr.json").exists()):
                raise ValueError(f"There is something at {path} already. Go on with it by `resume`, or `overwrite` it.")
            shutil.rmtree(path)
        if path.exists():
            group = zarr.open_group(path, mode="r+")
            if group.attrs.get("ensemble") != said:
                raise ValueError(f"The store {path} is of another ensemble. Give that one, or another path.")
            self._arrays = dict(group.arrays())
            return
        group = zarr.create_group(
            path, attributes={"ensemble": said, "title": f"polhode ensemble of {told['problem']}"}
        )
        shapes = {name: (x.shape[1:], x.dtype, labels[name]) for name, x in like.frames.items() if name != "time"}
        ends = {"steps": ((), np.int64, ()), "t_reached": ((), np.float64, ()), "result": ((), np.int32, ())}
        self._arrays = {}
        for name, (shape, dtype, dims) in {**shapes, **ends}.items():
            empty = _PENDING if name == "result" else np.nan if np.dtype(dtype).kind == "f" else 0
            self._arrays[name] = _array(group, name, (count, *shape), (batch, *shape), dtype, ("member", *dims), empty)
        for name, (dims, values) in coordinates.items():
            _array(group, name, values.shape, values.shape, values.dtype, dims, 0)[...] = values

    def put(self, which: slice, batch: Batch) -> None:
        for name, x in batch.frames.items():
            if name in self._arrays and name != "time":
                self._arrays[name][which] = x
        for name in ("steps", "t_reached", "result"):
            values = getattr(batch, name)
            if name == "result":
                # What was interrupted is run again.
                values = np.where(values == Result.interrupted, _PENDING, values)
            self._arrays[name][which] = values

    def has(self, which: slice) -> bool:
        return bool((np.asarray(self._arrays["result"][which]) != _PENDING).all())

    def batch(self, which: slice) -> Batch:
        """Members that have been run before."""
        ends = [np.asarray(self._arrays[name][which]) for name in ("result", "steps", "t_reached")]
        names = set(self._arrays) - {"result", "steps", "t_reached"}
        found = {name: np.asarray(self._arrays[name][which]) for name in names if _of_members(self._arrays[name])}
        return Batch(found, *ends)


def _of_members(array: Any) -> bool:
    return array.metadata.dimension_names[:2] == ("member", "time")


def _array(group: Any, name: str, shape: Any, chunks: Any, dtype: Any, dims: tuple[str, ...], empty: Any) -> Any:
    from zarr.codecs import Crc32cCodec, ZstdCodec

    return group.create_array(
        name,
        shape=shape,
        chunks=tuple(max(1, n) for n in chunks),
        dtype=dtype,
        compressors=[ZstdCodec(level=1), Crc32cCodec()],
        fill_value=empty,
        dimension_names=dims,
    )
