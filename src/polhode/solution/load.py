"""`load`: reads a stored run as a `Solution` and checks all of it."""

from __future__ import annotations

import os
from pathlib import Path

from polhode.checks import short_repr
from polhode.problem import Problem
from polhode.result_codes import Result
from polhode.solution.solution import Solution
from polhode.solution.stored_reader import reader_of_stored
from polhode.storage import metadata
from polhode.storage.documents import RUN
from polhode.storage.errors import StoreError, translate_os_errors
from polhode.storage.stored_frames import StoredFrames
from polhode.storage.zarr_arrays import ArrayFiles


def load(path: str | Path, *, salvage: bool = False, problem: Problem | None = None) -> Solution:
    """The solution in the store at `path`, also of a run that is in progress or was interrupted.

    The stats of such a run say `interrupted` and the time reached. All checksums are compared; frames are read from
    disk when they are used.

    **Arguments:**

    - `path`: of a store.
    - `salvage`: read the frames before the first damage instead of refusing a damaged store; `stats["damage"]` says
      what is damaged.

    **Raises** `StoreError`, saying what is damaged and where, if the store does not have the bytes that were written;
    if it has no frames, is of another format, or is no run.
    """
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"`path` must be that of a run store, got {short_repr(path)}.")
    place = Path(path)
    with translate_os_errors(place):
        if salvage:
            root, arrays, damage = _salvage(place)
            count, more = metadata.whole(arrays.values(), root.frames)
            damage += [*more, *root.odd_metadata(arrays.values())]
        else:
            root, arrays = metadata.open_root(place)
            root.check(arrays.values())
            count, damage = root.frames, []
        if count == 0:
            why = f"; {damage[0]}" if damage else ": it has only just begun, or was cut off at its start"
            raise StoreError(f"The run `{place}` has no frames that can be read{why}.")
    frames = StoredFrames(root, arrays, count)
    stats = root.stats
    if stats.get("result") is None or damage:
        stats = {"result": Result.interrupted, "t_reached": float(frames.t[-1])}
    if damage:
        stats["damage"] = "; ".join(damage)
    return Solution(frames, stats, root.meta, reader=reader_of_stored(root.meta, stats, problem))


def _salvage(place: Path) -> tuple[metadata.Root, dict[str, ArrayFiles], list[str]]:
    """The readable part of a store, if necessary by the copy of its root and without checksums, and its damage.

    Raises StoreError if neither root can be read.
    """
    try:
        return *metadata.open_root(place), []
    except StoreError as error:
        damage = [str(error)]
    try:
        root = metadata.read_root(place)
    except StoreError:
        if not (place / RUN.copy).is_file():
            raise
        root = metadata.read_root(place, RUN.copy)
    try:
        return root, root.files(), damage
    except StoreError as error:
        return root, root.unbound(), list(dict.fromkeys((*damage, str(error))))
