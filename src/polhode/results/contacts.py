"""Results of contacts between shapes: forces, places, modes and dissipation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from polhode.checks import is_concrete
from polhode.integrators.nonsmooth.contact_record import WORK_KINDS, ContactRecord
from polhode.name_errors import NameDict, UnknownName
from polhode.results.contact_laws import OPEN, SLIDE, STICK, contact_record, law_numbers, modes, speed_unit
from polhode.results.contact_places import ContactPlaces
from polhode.results.quantity import AbstractNamedResults, Quantity, model_names
from polhode.results.quaternion_series import library


class ContactPoints(NamedTuple):
    """The points of a contact among those of a run.

    - `numbers`: of the points. - `signs`: 1 where the second body is that on which forces are given, else -1.
    - `first`, `second`: what touches, for messages.
    """

    numbers: np.ndarray
    signs: np.ndarray
    first: str
    second: str


def _own(contact: ContactResults) -> ContactRecord:
    """The part of the record that is of its points."""
    return ContactRecord(*(part[..., contact._points.numbers, :] for part in contact_record(contact._run)))


def _place(contact: ContactResults, name: str) -> Any:
    """An array of all contact points, of its points."""
    values, axis = contact._array(f"contact_places.{name}", ContactPlaces), np.ndim(contact._run.t)
    return values[(slice(None),) * axis + (contact._points.numbers,)]


def _along(contact: ContactResults, parts: Any) -> Any:
    """Vectors with parts along normal and tangents, of its second body, in the inertial frame."""
    directions = _place(contact, "contact_directions")[..., : parts.shape[-1], :]
    vectors = library(parts).einsum("...pi,...pij->...pj", parts, directions)
    return vectors * contact._points.signs[:, None]


def _forces(contact: ContactResults) -> Float[Array, "n p 3"]:
    return _along(contact, _own(contact).forces[..., :3])


def _moment(contact: ContactResults) -> Float[Array, "n 3"]:
    forces, ends = _forces(contact), (contact._points.signs > 0).astype(int)
    arms = _place(contact, "contact_arms")[..., np.arange(len(ends)), ends, :]
    moments = _along(contact, _own(contact).forces[..., 3:])
    return (library(forces).cross(arms, forces) + moments).sum(axis=-2)


def _friction_force(contact: ContactResults) -> Float[Array, " n"]:
    parts = _own(contact).forces[..., :3]
    xp = library(parts)
    return xp.linalg.norm(
        _along(contact, xp.concatenate((0 * parts[..., :1], parts[..., 1:]), axis=-1)).sum(-2), axis=-1
    )


def _slips(contact: ContactResults) -> Float[Array, "n p"]:
    slips = _own(contact).slips
    return library(slips).hypot(slips[..., 1], slips[..., 2])


def _slip(contact: ContactResults) -> Float[Array, " n"]:
    slips, normal = _slips(contact), contact.normal_forces
    return library(slips).where(normal > 0, slips, 0.0).max(axis=-1)


def _modes(contact: ContactResults) -> np.ndarray:
    record = contact_record(contact._run)
    if not is_concrete(*record):
        raise UnknownName(
            f"Modes of {contact._title} are words, which JAX can't trace. Under tracing compare `normal_forces` and "
            "`slips`."
        )
    friction = law_numbers(contact._run, "friction", [np.nan, np.nan])
    return modes(record, friction, speed_unit(contact._run))[..., contact._points.numbers]


def _mode(contact: ContactResults) -> np.ndarray:
    each = _modes(contact)
    return np.where(np.any(each == SLIDE, axis=-1), SLIDE, np.where(np.any(each == STICK, axis=-1), STICK, OPEN))


def _dissipation(contact: ContactResults) -> dict[str, Float[Array, " n"]]:
    if "listed" in model_names(contact._run).get("contacts", {}):
        raise UnknownName(
            f"What {contact._title} has dissipated is not recorded of many bodies: `run.dissipated` has sums."
        )
    taken = _own(contact).dissipation.sum(axis=-2)
    return NameDict("energy taken by", {kind: taken[..., k] for k, kind in enumerate(WORK_KINDS)})


class ContactResults(AbstractNamedResults):
    """A contact in all saved instants of a run; leading axis n, then p for its points, of all its shapes.

    Forces are means over the step that ends at an instant, on the second body, or on the only one that is named.
    """

    _what = "contact"
    force = Quantity(
        "force", lambda contact: contact.forces.sum(axis=-2), components="xyz",
        doc="(n, 3): on its second body, or the only named one, in the inertial frame.",
    )  # fmt: skip
    moment = Quantity(
        "moment", _moment, components="xyz",
        doc="(n, 3): about the centre of mass of the same body, in the inertial frame.",
    )  # fmt: skip
    normal_force = Quantity(
        "force", lambda contact: contact.normal_forces.sum(axis=-1),
        doc="(n,): sum over the points, along their normals.",
    )  # fmt: skip
    friction_force = Quantity("force", _friction_force, doc="(n,): magnitude of the sum along the surfaces.")
    gap = Quantity(
        "length", lambda contact: contact.gaps.min(axis=-1), first=True,
        doc="(n,): the least distance, negative where shapes overlap.",
    )  # fmt: skip
    slip = Quantity("velocity", _slip, doc="(n,): the largest speed along the surface of its pressed points.")
    mode = Quantity(
        "", _mode, title=None, doc='(n,): "open", "stick", or "slide" where any of its points slides.'
    )  # fmt: skip
    dissipation = Quantity(
        "energy", _dissipation, over="kinds", column="{label}_dissipation", title="dissipation by {label}",
        doc='(n,): energy taken since the start of the run, by "impact", "sliding" and "rolling".',
    )  # fmt: skip
    forces = Quantity("force", _forces, column=None, title=None, doc="(n, p, 3): `force` of each point.")
    normal_forces = Quantity(
        "force", lambda contact: _own(contact).forces[..., 0], column=None, title=None, doc="(n, p): of each point."
    )  # fmt: skip
    points = Quantity(
        "length", lambda contact: _place(contact, "contact_points"), array="contact_places.contact_points",
        computation=ContactPlaces, column=None, title=None,
        doc="(n, p, 3): where they are, in the middle between both surfaces; NaN where a shape has no such point.",
    )  # fmt: skip
    normals = Quantity(
        "", lambda contact: _along(contact, np.array([[1.0]])), column=None, title=None,
        doc="(n, p, 3): unit vectors along the surface normals, towards the body on which forces are given.",
    )  # fmt: skip
    tangents = Quantity(
        "", lambda contact: np.stack([_along(contact, along) for along in np.eye(3)[1:, None]], axis=-2),
        column=None, title=None,
        doc="(n, p, 2, 3): unit vectors along the surface, in whose directions friction has its two coefficients.",
    )  # fmt: skip
    gaps = Quantity("length", lambda contact: _place(contact, "contact_gaps"), column=None, title=None, doc="(n, p).")
    slips = Quantity("velocity", _slips, column=None, title=None, doc="(n, p): speeds along the surface.")
    modes = Quantity("", _modes, column=None, title=None, doc="(n, p): of each point.")

    angles = ()
    """Labels of quantities that are angles: none."""

    @property
    def friction(self) -> Float[np.ndarray, "p 2"]:
        """Coefficients along both `tangents` of each point; NaN where JAX traced them."""
        return law_numbers(self._run, "friction", [np.nan, np.nan])[self._points.numbers]

    @property
    def _points(self) -> ContactPoints:
        return self._description["points"]

    @property
    def bodies(self) -> tuple[str, str]:
        """The first and the second name."""
        return self._points.first, self._points.second

    def __repr__(self) -> str:
        first, second = self.bodies
        labels = ", ".join((*self._quantities, "dissipation"))
        return f"<{self._title}, of {first} and {second}, {len(self._points.numbers)} points: {labels}>"
