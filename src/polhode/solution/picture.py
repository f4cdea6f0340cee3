"""How to draw a run whose metadata have no scene."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polhode.problem import Problem
from polhode.problems.rebuild import rebuild


class Picture:
    """Returns the scene of the problem of a run: of this one, or of that which its metadata describe."""

    def __init__(self, meta: Mapping[str, Any], problem: Problem | None = None) -> None:
        self._meta, self._problem = meta, problem

    def __call__(self) -> Any:
        """The scene, or None. Raises ValueError for a problem that can't be rebuilt, such as of a file that is gone."""
        problem = rebuild(self._meta) if self._problem is None else self._problem
        return None if problem is None else problem.scene

    def __reduce__(self) -> Any:
        # Problems hold functions of their makers, which other processes need not have.
        return Picture, (self._meta,)
