"""Measurements of the forces of a model, by name and along joint coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from polhode.assembly.compliant_contacts import compliant_contacts
from polhode.forces.coordinate_forces import AbstractEffort
from polhode.forces.joint_control import JointControl
from polhode.forces.joint_forces import AbstractJointForce, is_rigid
from polhode.joints.named_coordinates import Term
from polhode.joints.relative import ReversedCoordinate, is_angle
from polhode.multibody.coordinates.tree.coordinates import JointTree
from polhode.multibody.measurements.forces import ForceAlong, ForceMeasurements, NamedForce
from polhode.multibody.measurements.joints import MeasuredForce
from polhode.multibody.mechanism.angle_references import AngleReference
from polhode.multibody.mechanism.elements import AbstractConstraintElement, AbstractForceElement
from polhode.multibody.parts import AbstractForce, AbstractPart
from polhode.multibody.system import MultibodySystem

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

PlaceFunction = Callable[[AbstractPart], AbstractConstraintElement | AbstractForceElement]


def named_forces(
    model: ModelParts, system: MultibodySystem, element_of: PlaceFunction
) -> tuple[ForceMeasurements, dict[str, Any]]:
    """The forces that a user has named, and plain values about them. `element_of` returns the element of a part.

    Those on nodes of flexible bodies are left out, since results have no rows for these.
    """
    names = {id(part): name for name, part in model.parts}
    tree_coordinates, row_names = _tree_coordinates(system), {"ground", *system.names}
    forces: list[NamedForce] = []
    metadata: dict[str, Any] = {}
    rows, efforts, measures, inside = 0, 0, 0, 0
    for name, part in (*model.parts, *compliant_contacts(model)):
        terms = _terms(part)
        # Rigid stops and dry friction are contacts.
        if not isinstance(part, AbstractForce) or is_rigid(part) or (part.name is None and not terms):
            continue
        element, place = element_of(part), -1
        assert isinstance(element, AbstractForceElement)
        if terms and _takes(part, element) and _counts(tree_coordinates, names, terms):
            place, inside = inside, inside + 1
        bodies = [body.name for body in part.bodies]
        if part.name is None or not row_names.issuperset(bodies):
            continue
        own = list(dict.fromkeys(body.name for body in part.bodies if body.kind != "integral"))
        along = _along(part)
        forces.append(
            NamedForce(
                element,
                tuple(ForceAlong(c, ends) for _, c, ends in along),
                _references(name, part, element, names, system),
                tuple(bodies),
                tuple(rows + own.index(body) if body in own else -1 for body in bodies),
                place,
            )
        )
        metadata[name] = {
            "kind": type(getattr(part, "controller", part)).__name__,
            "bodies": {body: rows + k for k, body in enumerate(own)},
            "efforts": {label: efforts + k for k, (label, _, _) in enumerate(along)},
            "angles": [label for label, c, _ in along if is_angle(c)],
            "number": len(forces) - 1,
            "measures": {label: measures + k for k, label in enumerate(element.measures)},
            "measured_angle": is_angle(getattr(element, "coordinate", None)),
        }
        rows, efforts, measures = rows + len(own), efforts + len(along), measures + len(element.measures)
    return ForceMeasurements(tuple(forces), rows), metadata


def _along(part: Any) -> list[tuple[str, Any, tuple[str, ...]]]:
    """Name, coordinate and bodies of all coordinates along which a force acts."""
    if isinstance(part, JointControl):
        return [
            (getattr(joint, "name", None) or str(k), joint.coordinate(), tuple(body.name for body in joint.bodies))
            for k, joint in enumerate(part.joints)
        ]
    whole = getattr(part, "controller", part)
    if not isinstance(whole, AbstractJointForce):
        return []
    return [(_ONLY, whole.measured, tuple(body.name for body in whole.joint.bodies))]


_ONLY = "effort"
"""Name of the effort of a force along one coordinate."""


def _tree_coordinates(system: MultibodySystem) -> set[tuple[str, str]]:
    """Joints and names of the coordinates of a tree."""
    tree = system.coordinates.joint_tree
    links = tree.links if isinstance(tree, JointTree) else ()
    return {(link.joint, name) for link in links for name in link.motion.names}


def _takes(part: Any, element: Any) -> bool:
    """Whether a tree evaluates a force along its coordinates."""
    along_one = isinstance(part, AbstractJointForce) and isinstance(element, AbstractEffort)
    return along_one or isinstance(part, JointControl)


def forces_along(
    model: ModelParts, system: MultibodySystem, places: Mapping[tuple[int, str], int], element_of: PlaceFunction
) -> tuple[MeasuredForce, ...]:
    """Forces along joint coordinates that act on bodies; the tree reports those along its own coordinates."""
    forces = []
    names = {id(part): name for name, part in model.parts}
    tree_coordinates = _tree_coordinates(system)
    for name, part in model.parts:
        terms = _terms(part)
        if not terms or is_rigid(part):
            continue
        element = element_of(part)
        keys = [(id(term.pair.carrier), term.pair.name_in_carrier(term.name)) for term in terms]
        on_joints = all(key in places for key in keys)
        if (
            on_joints
            and isinstance(element, AbstractForceElement)
            and not (_takes(part, element) and _counts(tree_coordinates, names, terms))
        ):
            references = _references(name, part, element, names, system)
            bodies = tuple(body.name for body in part.bodies)
            forces.append(MeasuredForce(element, references, bodies, tuple(places[k] for k in keys)))
    return tuple(forces)


def _references(
    name: str, part: Any, element: AbstractForceElement, names: Mapping[int, str], system: MultibodySystem
) -> tuple[AngleReference, ...]:
    """Sources of the turns of an element's angles: counters, or coordinates of a tree."""
    numbers = None if system.counter is None else system.counter.angles_of(name)
    if numbers is not None:
        return tuple(AngleReference(0.0, 1.0, number, None, "", ()) for number in numbers)
    terms = [term for term in _terms(part) if term.pair.coordinate(term.name).angles()]
    if len(terms) != len(element.angles()):
        return ()
    references = []
    for term in terms:
        pair, carrier = term.pair, term.pair.carrier
        ends = tuple(body.name for body in (pair if carrier is None else carrier).bodies)
        sign = -1.0 if isinstance(pair.coordinate(term.name), ReversedCoordinate) else 1.0
        origin = names.get(id(carrier)), pair.name_in_carrier(term.name), ends
        references.append(AngleReference(pair.zero_in_carrier(term.name), sign, -1, *origin))
    return tuple(references)


def _terms(part: Any) -> list[Term]:
    """The coordinates along which a force acts; none for other parts."""
    if isinstance(part, JointControl):
        return [term for terms in part.terms() for term in terms]
    whole = getattr(part, "controller", part)
    return list(whole.joint.terms(whole.along)) if isinstance(whole, AbstractJointForce) else []


def _counts(tree_coordinates: set[tuple[str, str]], names: Mapping[int, str], terms: list[Term]) -> bool:
    """Whether a tree has all of the coordinates."""
    return all((names.get(id(t.pair.carrier)), t.pair.name_in_carrier(t.name)) in tree_coordinates for t in terms)
