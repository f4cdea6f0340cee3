"""A run in a store, read again when it has grown."""

from __future__ import annotations

from pathlib import Path

from polhode.solution.load import load
from polhode.solution.show import scene_of
from polhode.solution.solution import Solution
from polhode.storage import locks
from polhode.storage.store_choice import store_class
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
        """A word that identifies the content of the store, and whether the run is in progress."""
        # The lock is read first: if the run ends in between, its result is read.
        is_locked = locks.is_locked(self.path)
        root = store_class(self.path).read_root(self.path)
        result = root.stats.get("result")
        live = result is None and is_locked
        return f"{root.run} {root.frames} {result} {live}", live

    def read(self) -> tuple[Solution, Scene | None]:
        """The run up to now, and its scene, which is built once for each run."""
        solution, run = load(self.path), store_class(self.path).run_at(self.path)
        if self._scene_run is None or self._scene_run != run:
            self._scene, self._scene_run = scene_of(solution), run
        return solution, self._scene
