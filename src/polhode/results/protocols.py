"""Interfaces of runs and single instants from which results by name are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from jaxtyping import Array

from polhode.results.by_name import ByName


class Values(Protocol):
    """Quantities of all bodies, joints or forces that were not saved.

    - `missing`: why nothing can be computed; None if it can.
    """

    missing: Any

    def values(self, frames: Any, name: str) -> Any:
        """A quantity at all instants of `frames`."""
        ...


class Read(Protocol):
    """The saved instants of a run, or a single instant, of which arrays have no axis n.

    - `meta`: with the names of the model. - `saved`: the instants. - `reader`: what computes that which was not saved.
    """

    @property
    def t(self) -> Array: ...
    @property
    def meta(self) -> Mapping[str, Any]: ...
    @property
    def saved(self) -> Any: ...
    @property
    def outputs(self) -> Mapping[str, Any]: ...
    @property
    def reader(self) -> Values | None: ...
    @property
    def bodies(self) -> ByName[Any]: ...
