"""Runs in stores, read again as they grow."""

from __future__ import annotations

from pathlib import Path

from polhode.solution.load import load
from polhode.solution.show import scene_of
from polhode.solution.solution import Solution
from polhode.storage import locks, metadata
from polhode.viewing.scene.scene import Scene


class StoredRun:
    """A run in a store, read again when it has grown.

    - `path`: of the store.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._scene: Scene | None = None
        self._scene_run: str | None = None

    def look(self) -> tuple[str, bool]:
        """A word for what is in the store, and whether the run still goes on."""
        # Asked first: a run may end in between, and then its result is read.
        is_locked = locks.is_locked(self.path)
        root = metadata.read_root(self.path)
        result = root.stats.get("result")
        live = result is None and is_locked
        return f"{root.run} {root.frames} {result} {live}", live

    def read(self) -> tuple[Solution, Scene | None]:
        """The run as far as it has come, and its scene, which is made once a run."""
        solution, run = load(self.path), metadata.run_at(self.path)
        if self._scene_run is None or self._scene_run != run:
            self._scene, self._scene_run = scene_of(solution), run
        return solution, self._scene
