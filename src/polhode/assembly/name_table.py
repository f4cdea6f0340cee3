"""Names of the bodies and joints of a model, with the measurements of their values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polhode import checks
from polhode.assembly.contact_names import contact_metadata
from polhode.assembly.force_names import forces_along, named_forces
from polhode.joints._pair import AbstractPairJoint
from polhode.joints.named_coordinates import AbstractMeasuredPair
from polhode.joints.relative import is_angle
from polhode.multibody.measurements.forces import ForceMeasurements
from polhode.multibody.measurements.joints import JointMeasurements, MeasuredCoordinate, MeasuredJoint
from polhode.multibody.parts import AbstractJoint, AbstractPart
from polhode.multibody.system import MultibodySystem
from polhode.rods.edge import EdgeConstraint

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


_CENTRE: Any = np.zeros(3)


@dataclasses.dataclass(frozen=True, eq=False)
class NameTable:
    """Bodies, joints and forces of a model by name.

    - `readings`, `force_readings`: how values of joints, and of forces with names, are read from states.
    - `metadata`: plain values that are stored with runs: names of `bodies` in the order of rows of outputs, `joints`
      and `forces` by name with their coordinates, `contacts` by the names of what touches, and `units`.
    - `outputs`: whether outputs of a problem have rows for these bodies and joints, as those of a user's model.
    """

    readings: JointMeasurements
    force_readings: ForceMeasurements
    metadata: Mapping[str, Any]
    outputs: bool = False


def build_name_table(
    model: ModelParts,
    system: MultibodySystem,
    joints: Mapping[str, AbstractMeasuredPair] | None = None,
    bodies: Sequence[str] | None = None,
) -> NameTable:
    """The name table of a model and its assembled system.

    `joints` are those of a model file, by the names that they have there. `bodies` are those of the rows of outputs.
    """
    names = {id(part): name for name, part in model.parts}
    elements: dict[int, Any] = {}

    def element_of(part: AbstractPart) -> Any:
        # Cached: it takes long in models with thousands of parts.
        if id(part) not in elements:
            elements[id(part)] = part.initial_element()
        return elements[id(part)]

    pairs: dict[str, Any] = {
        name: part
        for name, part in model.parts
        if isinstance(part, AbstractJoint) and len(part.bodies) == 2 and not isinstance(part, EdgeConstraint)
    }
    joint_rows: dict[str, MeasuredJoint] = {name: _joint_measurement(name, part) for name, part in pairs.items()}
    numbers = {name: number for number, name in enumerate(joint_rows)}
    if joints is not None:
        # Several joints of a file may be one joint of the model, which has their loads.
        carriers = {id(joint.carrier) for joint in joints.values()}
        others = {k: v for k, v in pairs.items() if id(v) not in carriers and k not in joints}
        pairs = {**joints, **others}
    coordinates: list[MeasuredCoordinate] = []
    metadata: dict[str, Any] = {}
    places: dict[tuple[int, str], int] = {}
    for name, pair in pairs.items():
        part = pair.carrier if isinstance(pair, AbstractMeasuredPair) else pair
        model_name = names.get(id(part))
        read_of = joints is None or name in joints
        own = _coordinates(pair, model_name or "", numbers.get(model_name or "", -1)) if read_of else {}
        for coordinate in own.values():
            places[id(part), coordinate.name] = len(coordinates)
            coordinates.append(coordinate)
        last = len(coordinates)
        metadata[name] = {
            "kind": getattr(pair, "kind", type(pair).__name__),
            "bodies": [body.name for body in pair.bodies],
            "coordinates": {label: last - len(own) + k for k, label in enumerate(own)},
            "angles": [label for label, c in own.items() if is_angle(c.coordinate)],
            "load": numbers.get(model_name or ""),
            **_point_metadata(joint_rows.get(model_name or "")),
            **_limit_metadata(pair),
        }
    shown_bodies = tuple(system.shown if bodies is None else bodies)
    readings = JointMeasurements(
        tuple(coordinates), tuple(joint_rows.values()), forces_along(model, system, places, element_of), shown_bodies
    )
    force_measurements, force_metadata = named_forces(model, system, element_of)
    whole = {"bodies": list(shown_bodies), "joints": metadata, "forces": force_metadata}
    whole |= contact_metadata(model, system)
    _link_contacts(whole)
    return NameTable(readings, force_measurements, whole | ({"units": model.units} if model.units else {}))


def _link_contacts(names: dict[str, Any]) -> None:
    """Adds numbers of stops and dry friction to their joints, by coordinates: those along one coordinate alone."""
    for number, each in enumerate(names.get("contacts", {}).get("along", ())):
        if len(each["terms"]) == 1:
            ((joint, coordinate, _),) = each["terms"]
            if coordinate in names["joints"].get(joint, {}).get("coordinates", ()):
                names["joints"][joint].setdefault("resisted", {}).setdefault(coordinate, []).append(number)


def _joint_measurement(name: str, part: AbstractJoint) -> MeasuredJoint:
    first, second = part.bodies
    points = part.initial_element().points()
    return MeasuredJoint(points[1] if len(points) == 2 else _CENTRE, name, first.name, second.name)


def _point_metadata(joint: MeasuredJoint | None) -> dict[str, Any]:
    """The reference point of moments in the frame of the second body, if it is concrete."""
    concrete = joint is not None and checks.is_concrete(joint.point)
    return {"point": np.asarray(joint.point).tolist()} if joint is not None and concrete else {}


def _limit_metadata(pair: Any) -> dict[str, Any]:
    """The velocity limit, if there is one."""
    has_limit = isinstance(pair, AbstractMeasuredPair) and np.isfinite(pair.velocity_limit)
    return {"velocity_limit": float(pair.velocity_limit)} if has_limit else {}


def _coordinates(pair: Any, model_name: str, number: int) -> dict[str, MeasuredCoordinate]:
    """The coordinates of a joint by name, free ones first."""
    if not isinstance(pair, AbstractMeasuredPair):
        return {}
    ends = tuple(body.name for body in pair.bodies)
    assert len(ends) == 2
    itself = str(getattr(pair, "name", None) or model_name)

    def measurement(name: str, coordinate: Any, is_driven: bool) -> MeasuredCoordinate:
        zero: Any = np.zeros(()) if is_driven else _start(pair, name)
        within = name if is_driven else pair.name_in_carrier(name)
        return MeasuredCoordinate(coordinate, zero, ends, model_name, within, number, is_driven, (itself, name))

    free = {name: measurement(name, c, False) for name, c in pair.coordinates().items()}
    return {**free, **{name: measurement(name, c, True) for name, c in pair.driven_coordinates().items()}}


def _start(pair: AbstractMeasuredPair, name: str) -> Any:
    """The zero of a coordinate: those of a model count from the start."""
    return np.zeros(()) if isinstance(pair, AbstractPairJoint) else pair.initial(name)
