"""Results of a run by the names of contacts."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.results.by_name import ByName
from polhode.results.protocols import ResultView
from polhode.results.quantity import AbstractNamedResults, Quantity, model_names

_NO_NAMES = "contacts are those of `events.impact` and `events.stop` in this run, without `rests_below`."


def _closed(contact: ContactResults) -> Bool[Array, " n"]:
    return contact._array("contacts.closed", None)[..., contact._description["row"]] > 0


class ContactResults(AbstractNamedResults):
    """A unilateral constraint in all saved instants of a run, such as a stop of a joint; leading axis n.

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


def contacts(run: ResultView) -> ByName[ContactResults]:
    """Contacts of a run by name."""
    names = {name: {"row": row} for row, name in enumerate(run.meta.get("contacts", ()))}
    return ByName(
        "contact", list(names), lambda name: ContactResults(run, name, names[name]), _NO_NAMES, model_names(run)
    )
