"""Results of dry friction of joints that turn in several directions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array

from polhode.assembly.name_table import NameTable
from polhode.integrators.nonsmooth.contact_record import ContactRecord
from polhode.multibody.system import MultibodySystem
from polhode.results.contact_laws import SLIDE, STICK, pivot_record
from polhode.results.joint_contacts import FREE
from polhode.results.protocols import ResultView
from polhode.results.quantity import AbstractComputation, AbstractNamedResults, Quantity, model_names
from polhode.results.quaternion_series import library

_SLIDES = 1e-9
"""Angular velocity, relative to the largest in the run or to one if that is more, from which a joint turns."""


class PivotBounds(AbstractComputation):
    """The largest torques of friction."""

    system: MultibodySystem
    readings: None
    axes: ClassVar = {"pivot_bounds": ("pivot",)}
    saved_by = "save=[polhode.results.PivotResults.bound]"

    @classmethod
    def of(cls, system: MultibodySystem, name_table: NameTable) -> PivotBounds:
        del name_table
        return cls(system, None)

    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        del q, v
        contacts = self.system.pivot_contacts
        assert contacts is not None
        return {"pivot_bounds": contacts.hold(t)}


def _own(results: AbstractNamedResults) -> ContactRecord:
    number = results._description["number"]
    return ContactRecord(*(part[..., number, :] for part in pivot_record(results._run)))


def turns(record: ContactRecord) -> np.ndarray:
    """Whether joints turn."""
    rates = np.linalg.norm(np.asarray(record.slips)[..., 1:4], axis=-1)
    return rates > _SLIDES * np.max(rates, initial=1.0)


class PivotResults(AbstractNamedResults):
    """Dry friction of a ball joint in all saved instants of a run; leading axis n."""

    _what = "contact"
    torque = Quantity(
        "moment", lambda pivot: _own(pivot).forces[..., 1:4], components="xyz",
        doc="(n, 3): on the second body, in the inertial frame, mean over the step that ends at an instant.",
    )  # fmt: skip
    bound = Quantity(
        "moment", lambda pivot: pivot._array("pivot_bounds", PivotBounds)[..., pivot._description["number"]],
        array="pivot_bounds", computation=PivotBounds, doc="(n,): the largest torque.",
    )  # fmt: skip
    slip = Quantity(
        "spin", lambda pivot: library(_own(pivot).slips).linalg.norm(_own(pivot).slips[..., 1:4], axis=-1),
        doc="(n,): relative angular velocity.",
    )  # fmt: skip
    mode = Quantity(
        "", lambda pivot: np.where(np.asarray(pivot.bound) > 0, np.where(turns(_own(pivot)), SLIDE, STICK), FREE),
        title=None, doc='(n,): "stick", "slide", or "free" where the largest torque is zero.',
    )  # fmt: skip
    dissipation = Quantity(
        "energy",
        lambda pivot: _own(pivot).dissipation.sum(axis=-1),
        doc="(n,): energy taken since the start of the run.",
    )

    def __repr__(self) -> str:
        return f"<{self._title}, friction of {self._description['joint']}: {', '.join(self._quantities)}>"


def pivots(run: ResultView) -> dict[str, dict[str, Any]]:
    """Descriptions of the friction of joints that turn in several directions, by the names of the parts."""
    entries = model_names(run).get("contacts", {}).get("pivots", ())
    return {each["part"]: {"number": number, **each} for number, each in enumerate(entries)}
