"""Results of a run by the names of impacts and stops that may stay closed."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.results.protocols import ResultView
from polhode.results.quantity import AbstractNamedResults, Quantity


def _closed(contact: StopResults) -> Bool[Array, " n"]:
    return contact._array("contacts.closed", None)[..., contact._description["row"]] > 0


class StopResults(AbstractNamedResults):
    """A unilateral constraint of an event in all saved instants of a run, such as a stop of a joint; leading axis n.

    - `impulses` (i,): of the impacts at it, in order of time.
    """

    _what = "contact"
    gap = Quantity(array="contacts.gap", doc="(n,): in its own unit, positive while open.")
    force = Quantity(
        array="contacts.force",
        doc="(n,): the multiplier, positive where it presses, so that `force` times the rate of the gap is a power.",
    )
    closed = Quantity("", _closed, array="contacts.closed", doc="(n,): whether it is held at zero.")

    @property
    def impulses(self) -> Float[np.ndarray, " i"]:
        run: Any = self._run
        events, names = run.stats["events"], [event["name"] for event in run.meta["events"]]
        own = [names[k] == self.name for k in np.asarray(events["number"], int)]
        return np.asarray(events["impulse"], float)[np.array(own, bool)]

    def __repr__(self) -> str:
        return f"contact {self.name}: {', '.join(self._quantities)}, impulses"


def stops(run: ResultView) -> dict[str, StopResults]:
    """Those of `events.impact` and `events.stop`, without `rests_below`, by name."""
    return {name: StopResults(run, name, {"row": row}) for row, name in enumerate(run.meta.get("contacts", ()))}
