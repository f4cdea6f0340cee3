"""Runs on disk: zarr stores that grow while a run is going and that others can read meanwhile."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from polhode.results import Result
from polhode.runs import layout
from polhode.runs.plain import from_plain, to_plain
from polhode.solution import Frames, Solution

FORMAT = 1
_CHUNK_BYTES = 512 * 1024
_CHUNK_ROWS = 16384
_FLUSH_INTERVAL_S = 0.5
# Writing takes at most this part of the wall time of a long run, however slow the disk.
_FLUSH_SHARE = 0.05

_REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space or choose another place.",
    errno.EDQUOT: "Your disk quota is used up: free some space or choose another place.",
    errno.EFBIG: "The file would exceed the largest size allowed here: save fewer frames or choose another place.",
    errno.EACCES: "You may not write there: choose another place or change its permissions.",
    errno.EPERM: "You may not write there: choose another place or change its permissions.",
    errno.EROFS: "The file system is read-only: choose another place.",
    errno.ENOTDIR: "A part of the path is a file, not a folder: choose another place.",
}


class StoreError(OSError):
    """A store could not be made, written or read. The message names its path, the cause and a remedy."""


class RunStore:
    """A zarr store that is appended to while a run is going.

    Every leaf of the frames is one array along `time`, so `xarray.open_zarr(path)` gives labelled data. An append
    writes the numbers first and publishes the new length of all arrays last, in one atomic replacement of the
    group's metadata: a reader, or a later `load` after a crash, sees complete frames only.

    Blocks of frames are kept in memory and written about twice a second, less often on slow disks; `flush` and
    `close` write what is pending. When writing fails with `StoreError`, what was appended stays in memory and the
    next call tries again.
    """

    def __init__(self, path: Path, group: Any, meta: dict[str, Any]):
        self.path = path
        self._group = group
        self._meta = meta
        self._structure: layout.Structure | None = None
        self._arrays: dict[str, Any] = {}
        self._pending: list[dict[str, np.ndarray]] = []
        self._length = 0
        self._next_flush = 0.0

    @classmethod
    def create(cls, path: str | Path, meta: dict[str, Any], *, overwrite: bool = False) -> RunStore:
        """A new store at `path`. An existing run is replaced only with `overwrite`, anything else never."""
        path = Path(path)
        with _explaining(path):
            _make_room(path, overwrite)
            group = _zarr().open_group(path, mode="w-", zarr_format=3, attributes=attributes(meta, {"result": None}))
        store = cls(path, group, meta)
        with _explaining(path):
            store._publish()
        return store

    def append(self, frames: Frames) -> None:
        """Adds a block of frames; they reach the disk within about half a second of computing, or at `flush`."""
        if layout.rows(frames) == 0:
            return
        structure, leaves = layout.flatten(frames)
        if self._structure is None:
            self._structure = structure
        elif structure != self._structure:
            raise ValueError(f"All frames of a run must have the same structure; got {structure} after others.")
        self._pending.append(leaves)
        if time.perf_counter() >= self._next_flush:
            self.flush()

    def flush(self) -> None:
        """Writes everything appended so far and publishes it to readers."""
        if not self._pending:
            return
        start = time.perf_counter()
        block = {name: np.concatenate([part[name] for part in self._pending]) for name in self._pending[0]}
        with _explaining(self.path):
            self._write(block)
            self._publish()
        self._pending.clear()
        cost = time.perf_counter() - start
        self._next_flush = time.perf_counter() + max(_FLUSH_INTERVAL_S, cost / _FLUSH_SHARE)

    def close(self, stats: dict[str, Any]) -> None:
        """Writes what is pending and how the run ended."""
        self.flush()
        with _explaining(self.path):
            self._group.attrs.update(attributes(self._meta, stats))
            self._publish()

    def _write(self, block: dict[str, np.ndarray]) -> None:
        if not self._arrays:
            self._create_arrays(block)
        end = self._length + len(block["time"])
        # The time axis grows last, for readers that ignore consolidated metadata.
        for name in sorted(block, key=lambda name: name == "time"):
            array = self._arrays[name]
            array.resize((end, *array.shape[1:]))
            array[self._length : end] = block[name]
        self._length = end

    def _create_arrays(self, block: dict[str, np.ndarray]) -> None:
        labels = layout.label(block, self._meta.get("dimensions", {}))
        self._group.attrs["structure"] = json.dumps(self._structure)
        for name, values in block.items():
            shape = values.shape[1:]
            row_bytes = max(values.dtype.itemsize * int(np.prod(shape)), 1)
            rows = int(np.clip(_CHUNK_BYTES // row_bytes, 1, _CHUNK_ROWS))
            self._arrays[name] = self._group.create_array(
                name,
                shape=(0, *shape),
                chunks=(rows, *(max(n, 1) for n in shape)),
                dtype=values.dtype,
                fill_value=np.nan if np.issubdtype(values.dtype, np.inexact) else None,
                dimension_names=labels[name],
                overwrite=True,
            )

    def _publish(self) -> None:
        with warnings.catch_warnings():
            # Zarr 3 warns that consolidated metadata is not yet part of the written specification; all readers of
            # the format accept it.
            warnings.filterwarnings("ignore", message="Consolidated metadata")
            _zarr().consolidate_metadata(self._group.store)


def attributes(meta: dict[str, Any], stats: dict[str, Any]) -> dict[str, Any]:
    """What a store, a data set or a netCDF file says about its run: strings and numbers only."""
    integrator = meta.get("integrator")
    return {
        "title": f"polhode run of {meta.get('problem', 'a system')}",
        "polhode_format": FORMAT,
        "problem": str(meta.get("problem", "")),
        "integrator": str(integrator.get("name", "") if isinstance(integrator, dict) else integrator or ""),
        "meta": json.dumps(to_plain(meta)),
        "stats": json.dumps(to_plain(stats)),
    }


def save(solution: Solution, path: str | Path, *, overwrite: bool = False) -> None:
    """Writes a solution as a run store."""
    store = RunStore.create(path, solution.meta, overwrite=overwrite)
    store.append(solution.frames)
    store.close(solution.stats)


def load(path: str | Path) -> Solution:
    """The solution in the store at `path`, also of a run that is still going or was cut off.

    The stats of such a run say `interrupted` and the time reached.
    """
    path = Path(path)
    if not is_run(path):
        raise StoreError(f"`{path}` is not a run of polhode: there is no folder with a `zarr.json` made by it.")
    with _explaining(path):
        group = _zarr().open_group(path, mode="r")
        found = dict(group.attrs)
        arrays = {name: array for name, array in group.arrays()}
        length = min((array.shape[0] for array in arrays.values()), default=0)
        if "structure" not in found or "time" not in arrays or length == 0:
            raise StoreError(
                f"The run `{path}` has no frames yet: it has only just begun, or was cut off at its start."
            )
        leaves = {name: jnp.asarray(array[:length]) for name, array in arrays.items()}
    frames = layout.rebuild(json.loads(found["structure"]), leaves)
    stats = from_plain(json.loads(found["stats"]))
    if stats.get("result") is None:
        return Solution(frames, _unfinished(frames), json.loads(found["meta"]))
    return Solution(frames, {**stats, "result": Result[stats["result"]]}, json.loads(found["meta"]))


def is_run(path: str | Path) -> bool:
    """Whether there is a store made by polhode at `path`."""
    try:
        content = json.loads((Path(path) / "zarr.json").read_text())
    except (OSError, ValueError):
        return False
    return "polhode_format" in content.get("attributes", {})


def _unfinished(frames: Frames) -> dict[str, Any]:
    return {"result": Result.interrupted, "t_reached": float(frames.t[-1])}


def _make_room(path: Path, overwrite: bool) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not is_run(path):
        raise StoreError(f"`{path}` exists and is not a run of polhode, so it is left alone. Choose another place.")
    if not overwrite:
        raise StoreError(f"There is already a run at `{path}`. Choose another place, or pass `overwrite=True`.")
    shutil.rmtree(path)


@contextlib.contextmanager
def _explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "Check the disk or choose another place.")
        raise StoreError(f"The run store `{path}` failed: {error}. {remedy}") from error


def _zarr() -> Any:
    # Zarr takes a third of a second to import, which runs without a store need not pay.
    import zarr

    return zarr
