"""Interfaces of runs and single instants from which results by name are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from jaxtyping import Array

from polhode.events.table import Events
from polhode.results.by_name import ByName


class Values(Protocol):
    """Computes quantities of all bodies, joints or forces that were not saved.

    - `obstacle`: why nothing can be computed; None if it can.
    """

    @property
    def obstacle(self) -> Any: ...

    def values(self, frames: Any, name: str, computation: Any) -> Any:
        """An array that a computation has, at all instants of `frames`."""
        ...


class ResultView(Protocol):
    """The saved instants of a run, or a single instant, of which arrays have no axis n.

    - `meta`: with the names of the model. - `saved`: the instants. - `reader`: computes what was not saved.
    - `classes`: of results by name, which declare their quantities.
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
    def classes(self) -> Any: ...
    @property
    def bodies(self) -> ByName[Any]: ...


class Run(ResultView, Protocol):
    """A whole run, as the audit and pictures read it: `polhode.Solution`, in memory or in a store."""

    @property
    def reader(self) -> Any: ...
    @property
    def picture(self) -> Any: ...
    def __getitem__(self, k: int) -> Run:
        """One frame as a run."""
        ...

    @property
    def stats(self) -> dict[str, Any]: ...
    @property
    def frames(self) -> Any: ...
    @property
    def state(self) -> Any: ...
    @property
    def invariants(self) -> Mapping[str, Any]: ...
    @property
    def residuals(self) -> Mapping[str, Any]: ...
    @property
    def multipliers(self) -> Array | None: ...
    @property
    def events(self) -> Events: ...
    @property
    def joints(self) -> ByName[Any]: ...
    @property
    def forces(self) -> ByName[Any]: ...
    @property
    def contacts(self) -> Mapping[Any, Any]: ...
    def columns(self) -> Mapping[str, Any]:
        """Every array of the frames by its flat name, to be read slice by slice."""
        ...

    def blocks(self) -> Iterator[Any]:
        """All frames in blocks that fit into memory, one after the other."""
        ...

    def audit(self) -> Any:
        """The promises of the method against measured drifts."""
        ...
