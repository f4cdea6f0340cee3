"""Results of rigid stops and dry friction along joint coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.assembly.name_table import NameTable
from polhode.integrators.nonsmooth.contact_record import WORK_KINDS, ContactRecord
from polhode.multibody.system import MultibodySystem
from polhode.results.contact_laws import joint_record, slips_above, speed_unit
from polhode.results.protocols import ResultView
from polhode.results.quantity import AbstractComputation, AbstractNamedResults, Quantity, model_names

FREE, STICK, SLIDE, STOP = "free", "stick", "slide", "stop"
"""Modes of a coordinate: a stop presses, or it rests or moves under dry friction, or nothing resists it."""


class JointContactPlaces(AbstractComputation):
    """Ways of coordinates to their nearer stops, signs of the forces of these, and the largest friction forces."""

    system: MultibodySystem
    readings: None
    axes: ClassVar = dict.fromkeys(("stop_gaps", "stop_signs", "friction_bounds"), ("joint_contact",))
    saved_by = "save=[polhode.results.JointContactResults.gap]"

    @classmethod
    def of(cls, system: MultibodySystem, name_table: NameTable) -> JointContactPlaces:
        del name_table
        return cls(system, None)

    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        del v
        contacts = self.system.joint_contacts
        assert contacts is not None
        gap, signs = contacts.nearer_stops(self.system, q)
        hold = contacts.hold(t)
        if contacts.bearings is not None:
            # Bounds that grow with forces of joints aren't known from a state.
            hold = hold.at[np.array(contacts.bearings.contacts)].set(jnp.inf)
        return {"stop_gaps": gap, "stop_signs": signs, "friction_bounds": hold}


class AlongCoordinate:
    """Contacts along a coordinate in all saved instants: values of all with these numbers, added up."""

    def __init__(self, results: AbstractNamedResults, numbers: Sequence[int]) -> None:
        self._results, self._numbers = results, np.array(numbers, int)

    @property
    def _record(self) -> ContactRecord:
        return ContactRecord(*(part[..., self._numbers, :] for part in joint_record(self._results._run)))

    def _place(self, name: str) -> Any:
        return self._results._array(name, JointContactPlaces)[..., self._numbers]

    @property
    def gap(self) -> Float[Array, " n"]:
        return self._place("stop_gaps").min(axis=-1)

    @property
    def friction(self) -> Float[Array, " n"]:
        return self._record.forces[..., 1].sum(axis=-1)

    @property
    def rate(self) -> Float[Array, " n"]:
        return self._record.slips[..., 0, 1]

    @property
    def stop_force(self) -> Float[Array, " n"]:
        return (self._place("stop_signs") * self._record.forces[..., 0]).sum(axis=-1)

    @property
    def dissipation(self) -> dict[str, Float[Array, " n"]]:
        """Energy taken by impacts at stops, and by friction."""
        taken = self._record.dissipation.sum(axis=-2)
        return {kind: taken[..., k] for k, kind in enumerate(WORK_KINDS[:2])}

    @property
    def mode(self) -> np.ndarray:
        record = self._record
        bounds = np.asarray(self._place("friction_bounds"))
        unit = coordinate_speed_units(self._results._run)[self._numbers[0]]
        return np.asarray(coordinate_modes(record, bounds, unit))


def coordinate_speed_units(run: ResultView) -> list[float]:
    """The unit of the rate of each coordinate with contacts, 1 of angles."""
    along = model_names(run)["contacts"]["along"]
    return [1.0 if each["is_angle"] else speed_unit(run) for each in along]


def coordinate_modes(record: ContactRecord, bounds: Float[np.ndarray, "... k"], unit: float) -> np.ndarray:
    """The mode of each coordinate, as words, from all its contacts; `unit`: of its rate."""
    forces, slips = np.asarray(record.forces), np.asarray(record.slips)
    slides = slips_above(np.abs(slips[..., 1]), unit)
    each = np.where(bounds > 0, np.where(slides, SLIDE, STICK), FREE)
    each = np.where(forces[..., 0] > 0, STOP, each)
    result = np.full(each.shape[:-1], FREE, dtype=each.dtype)
    for word in (SLIDE, STICK, STOP):
        result = np.where(np.any(each == word, axis=-1), word, result)
    return result


def _own(results: AbstractNamedResults) -> AlongCoordinate:
    return AlongCoordinate(results, results._description["numbers"])


class JointContactResults(AbstractNamedResults):
    """Rigid stops and dry friction of a model by name, in all saved instants of a run; leading axis n."""

    _what = "contact"
    friction = Quantity(
        ("force", "moment"), lambda contact: _own(contact).friction,
        doc="(n,): along the coordinate, on the second body, mean over the step that ends at an instant.",
    )  # fmt: skip
    stop_force = Quantity(
        ("force", "moment"), lambda contact: _own(contact).stop_force, doc="(n,): of the stops, the same."
    )
    gap = Quantity(
        ("length", "angle"), lambda contact: _own(contact).gap, array="stop_gaps", computation=JointContactPlaces,
        doc="(n,): the way to the nearer stop.",
    )  # fmt: skip
    slip = Quantity(("velocity", "spin"), lambda contact: _own(contact).rate, doc="(n,): rate of the coordinate.")
    mode = Quantity(
        "", lambda contact: _own(contact).mode, title=None, doc='(n,): "free", "stick", "slide", or "stop" at a stop.'
    )
    dissipation = Quantity(
        "energy", lambda contact: _own(contact).dissipation, over="kinds", column="{label}_dissipation",
        title="dissipation by {label}", doc='(n,): energy taken since the start of the run, by "impact" and "sliding".',
    )  # fmt: skip

    @property
    def angles(self) -> tuple[str, ...]:
        """The only label, "", where the coordinate is an angle."""
        return ("",) if self._description["is_angle"] else ()

    def __repr__(self) -> str:
        return f"<{self._title}, along {self._description['along']}: {', '.join(self._quantities)}, dissipation>"


def joint_contacts(run: ResultView) -> dict[str, dict[str, Any]]:
    """Descriptions of the rigid stops and dry friction of a run by the names of the parts."""
    descriptions: dict[str, dict[str, Any]] = {}
    for number, each in enumerate(model_names(run).get("contacts", {}).get("along", ())):
        kinds = {kind: k for k, kind in enumerate(WORK_KINDS[:2])}
        for name in each["parts"]:
            descriptions[name] = {"numbers": [number], "kinds": kinds, **each}
    return descriptions
