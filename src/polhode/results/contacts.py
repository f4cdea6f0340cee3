"""Results of a run by the names of contacts."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.results.bodies_and_joints import model_names
from polhode.results.by_name import ByName
from polhode.results.protocols import ResultView

_NO_NAMES = "contacts are those of `events.impact` and `events.stop` in this run, without `rests_below`."


class ContactResults:
    """A unilateral constraint in all saved instants of a run, such as a stop of a joint; leading axis n.

    - `gap` (n,): in its own unit, positive while open. - `closed` (n,): whether it is held at zero.
    - `force` (n,): the multiplier, positive where it presses, so that `force` times the rate of the gap is a power.
    - `impulses` (i,): of the impacts at it, in order of time.
    """

    def __init__(self, run: Any, name: str, row: int) -> None:
        self._run, self.name, self._row = run, name, row

    @property
    def gap(self) -> Float[Array, " n"]:
        return self._of("gap")

    @property
    def force(self) -> Float[Array, " n"]:
        return self._of("force")

    @property
    def closed(self) -> Bool[Array, " n"]:
        return self._of("closed") > 0

    @property
    def impulses(self) -> Float[np.ndarray, " i"]:
        events, names = self._run.stats["events"], [event["name"] for event in self._run.meta["events"]]
        own = [names[k] == self.name for k in np.asarray(events["number"], int)]
        return np.asarray(events["impulse"], float)[np.array(own, bool)]

    def __repr__(self) -> str:
        return f"contact {self.name}: gap, force, closed, impulses"

    def _of(self, quantity: str) -> Array:
        return self._run.outputs["contacts"][quantity][..., self._row]


def contacts(run: ResultView) -> ByName[ContactResults]:
    """Contacts of a run by name."""
    names = list(run.meta.get("contacts", ()))
    return ByName(
        "contact", names, lambda name: ContactResults(run, name, names.index(name)), _NO_NAMES, model_names(run)
    )
