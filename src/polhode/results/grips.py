"""Results of compliant contacts with exact friction, of bodies and of rods."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Float

from polhode.assembly.name_table import NameTable
from polhode.checks import is_concrete
from polhode.integrators.nonsmooth.contact_record import ContactRecord
from polhode.multibody.system import MultibodySystem
from polhode.name_errors import UnknownName
from polhode.results.contact_laws import OPEN, SLIDE, STICK, grip_record, slips_above, speed_unit
from polhode.results.protocols import ResultView
from polhode.results.quantity import AbstractComputation, AbstractNamedResults, Quantity, model_names
from polhode.results.quaternion_series import library


class GripPlaces(AbstractComputation):
    """Normal forces, places and directions of points with exact friction."""

    system: MultibodySystem
    readings: None
    axes: ClassVar = {
        "grip_places.grip_pushes": ("grip",),
        "grip_places.grip_points": ("grip", "component"),
        "grip_places.grip_directions": ("grip", "contact_direction", "component"),
    }
    saved_by = "save=[polhode.results.GripResults.points]"

    @classmethod
    def of(cls, system: MultibodySystem, name_table: NameTable) -> GripPlaces:
        del name_table
        return cls(system, None)

    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        del t, v
        friction = self.system.compliant_friction
        assert friction is not None
        grips = friction.grips(self.system.motion(q))
        directions = library(grips.push).concatenate((grips.normal[:, None], grips.tangents), axis=1)
        return {"grip_pushes": grips.push, "grip_points": grips.point, "grip_directions": directions}


def grip_modes(record: ContactRecord, pushes: Float[np.ndarray, "n p"], unit: float) -> np.ndarray:
    """Whether points are open, stick or slide, as words, shape (n, p); `unit`: `speed_unit` of the run."""
    speeds = np.linalg.norm(np.asarray(record.slips)[..., 1:3], axis=-1)
    slides = slips_above(speeds, unit)
    return np.where(np.asarray(pushes) > 0, np.where(slides, SLIDE, STICK), OPEN)


def _own(grip: GripResults) -> ContactRecord:
    return ContactRecord(*(part[..., grip._numbers, :] for part in grip_record(grip._run)))


def _place(grip: GripResults, name: str) -> Any:
    values, axis = grip._array(f"grip_places.{name}", GripPlaces), np.ndim(grip._run.t)
    return values[(slice(None),) * axis + (grip._numbers,)]


def _forces(grip: GripResults) -> Float[Array, "n p 3"]:
    own = _own(grip).forces
    xp = library(own)
    parts = xp.concatenate((_place(grip, "grip_pushes")[..., None], own[..., 1:3]), axis=-1)
    return xp.einsum("...pi,...pij->...pj", parts, _place(grip, "grip_directions"))


def _friction(grip: GripResults) -> Float[Array, "n 3"]:
    own = _own(grip).forces
    return library(own).einsum("...pi,...pij->...j", own[..., 1:3], _place(grip, "grip_directions")[..., 1:, :])


def _slips(grip: GripResults) -> Float[Array, "n p"]:
    slips = _own(grip).slips
    return library(slips).hypot(slips[..., 1], slips[..., 2])


def _slip(grip: GripResults) -> Float[Array, " n"]:
    slips = _slips(grip)
    return library(slips).where(_place(grip, "grip_pushes") > 0, slips, 0.0).max(axis=-1)


def _modes(grip: GripResults) -> np.ndarray:
    own, pushes = _own(grip), _place(grip, "grip_pushes")
    if not is_concrete(own, pushes):
        raise UnknownName(f"Modes of {grip._title} are words, which JAX can't trace. Under tracing compare `slips`.")
    return grip_modes(own, np.asarray(pushes), speed_unit(grip._run))


def _mode(grip: GripResults) -> np.ndarray:
    each = _modes(grip)
    return np.where(np.any(each == SLIDE, axis=-1), SLIDE, np.where(np.any(each == STICK, axis=-1), STICK, OPEN))


class GripResults(AbstractNamedResults):
    """A compliant contact with exact friction in all saved instants of a run; leading axis n, then p for its points.

    Normal forces are the elastic ones of an instant, friction is the mean over the step that ends there. Both act on
    the second body, or on the rod.
    """

    _what = "contact"
    force = Quantity(
        "force", lambda grip: grip.forces.sum(axis=-2), components="xyz",
        doc="(n, 3): elastic and friction, in the inertial frame.",
    )  # fmt: skip
    normal_force = Quantity("force", lambda grip: _place(grip, "grip_pushes").sum(axis=-1), doc="(n,): of all points.")
    friction_force = Quantity(
        "force", lambda grip: library(_friction(grip)).linalg.norm(_friction(grip), axis=-1),
        doc="(n,): magnitude of the sum.",
    )  # fmt: skip
    slip = Quantity("velocity", _slip, doc="(n,): the largest speed along the surface of its pressed points.")
    mode = Quantity(
        "", _mode, title=None, doc='(n,): "open", "stick", or "slide" where any of its points slides.'
    )  # fmt: skip
    dissipation = Quantity(
        "energy", lambda grip: _own(grip).dissipation.sum(axis=(-1, -2)),
        doc="(n,): energy taken by friction since the start of the run.",
    )  # fmt: skip
    forces = Quantity("force", _forces, column=None, title=None, doc="(n, p, 3): `force` of each point.")
    points = Quantity(
        "length", lambda grip: _place(grip, "grip_points"), array="grip_places.grip_points", computation=GripPlaces,
        column=None, title=None, doc="(n, p, 3): where they are.",
    )  # fmt: skip
    slips = Quantity("velocity", _slips, column=None, title=None, doc="(n, p): speeds along the surface.")
    modes = Quantity("", _modes, column=None, title=None, doc="(n, p): of each point.")

    @property
    def _numbers(self) -> np.ndarray:
        return self._description["numbers"]

    @property
    def bodies(self) -> tuple[str, str]:
        """The first and the second name."""
        return self._description["first"], self._description["second"]

    def __repr__(self) -> str:
        first, second = self.bodies
        return f"<{self._title}, of {first} and {second}, {len(self._numbers)} points: {', '.join(self._quantities)}>"


def grips(run: ResultView) -> dict[str, dict[str, Any]]:
    """Descriptions of compliant contacts with exact friction, by their names."""
    contacts: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(model_names(run).get("contacts", {}).get("grips", ())):
        own = contacts.setdefault(name["contact"], {"first": name["first"], "second": name["second"], "numbers": []})
        own["numbers"].append(number)
    return {name: {**own, "numbers": np.array(own["numbers"])} for name, own in contacts.items()}
