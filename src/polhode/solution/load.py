"""`load`: reads a stored run as a `Solution` and checks all of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from polhode.checks import short_repr
from polhode.problem import Problem
from polhode.result_codes import Result
from polhode.solution.picture import Picture
from polhode.solution.solution import Solution
from polhode.solution.stored_reader import reader_of_stored
from polhode.storage.errors import StoreError, translate_os_errors
from polhode.storage.store_choice import store_class
from polhode.storage.stored_frames import StoredFrames


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
    store = store_class(place)
    with translate_os_errors(place):
        if salvage:
            root, arrays, damage = store.salvage(place)
            count, more = root.inspect(arrays)
            damage += more
        else:
            root, arrays = store.open(place)
            root.check(arrays)
            count, damage = root.frames, []
        if count == 0:
            why = f"; {damage[0]}" if damage else ": it has only just begun, or was cut off at its start"
            raise StoreError(f"The run `{place}` has no frames that can be read{why}.")
    frames = StoredFrames(root, arrays, count)
    stats: dict[str, Any] = root.stats
    if stats.get("result") is None or damage:
        stats = {"result": Result.interrupted, "t_reached": float(frames.t[-1])}
    if damage:
        stats["damage"] = "; ".join(damage)
    reader = reader_of_stored(root.meta, stats, problem)
    return Solution(frames, stats, root.meta, reader=reader, picture=Picture(root.meta, problem))
