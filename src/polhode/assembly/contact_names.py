"""Contacts of a model by the names of bodies, shapes and rules, as plain values that are stored with runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polhode import checks
from polhode.assembly.compliant_contacts import compliant_contacts
from polhode.assembly.rod_contacts import rod_contact_names
from polhode.contact.distances import slots as points_of
from polhode.contact.shape_contacts import ShapeContacts
from polhode.contact.sparse.listed_contacts import ListedContacts
from polhode.multibody.compliant_friction import CompliantFriction
from polhode.multibody.joint_contacts import JointContacts
from polhode.multibody.system import MultibodySystem

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


def contact_metadata(model: ModelParts, system: MultibodySystem) -> dict[str, Any]:
    """The entry `contacts`: where they are in the multipliers of a run, and what each pair of shapes is called.

    - `joints`: labels of the multipliers of joints, which come first.
    - `count`, `rows`: number of contact points, and of rows of each.
    - `pairs`: bodies, shapes, name of the rule, first point and number of points, and numbers of the law.
    - `grips`: points of compliant contacts with exact friction, which come next: name of the contact, both
      sides, coefficients.
    - `pivots`: friction of joints that turn in several directions, which comes after these: joint in words, and
      name of the part of the model.
    - `along`: stops and dry friction of joints, which come last: the coordinate in words, names of the
      parts of the model, and joint, coordinate and ratio of each term of the coordinate.

    Compliant contacts are forces: the entry `compliant` has their names, with those of bodies; `rod_contacts` the names
    of rods and of what they touch. Without any contacts,
    but with shapes, the entry `untouchable` has the names of bodies with shapes.
    """
    forces = {name: [body.name for body in part.bodies] for name, part in compliant_contacts(model)}
    of_rods = rod_contact_names(model)
    compliant = {"compliant": forces} if forces else {}
    compliant |= {"rod_contacts": of_rods} if of_rods else {}
    everything, contacts = system.contact_set, system.shape_contacts
    if everything is None:
        names = [body.name for body in (model.ground, *model.bodies) if body.shapes]
        return {"untouchable": names} if names and not compliant else compliant
    sizes = {"joints": list(system.labels), "count": everything.count, "rows": everything.law.rows}
    if isinstance(contacts, ListedContacts):
        return {"contacts": {**sizes, "pairs": [], "listed": _lists_of(contacts)}, **compliant}
    pairs = [] if contacts is None else _pairs(contacts)
    along = {} if system.joint_contacts is None else {"along": _along(system.joint_contacts)}
    pivots = {} if system.pivot_contacts is None else {"pivots": [n._asdict() for n in system.pivot_contacts.names]}
    grips = {} if system.compliant_friction is None else {"grips": _grips(system.compliant_friction)}
    return {"contacts": {**sizes, "pairs": pairs, **grips, **pivots, **along}, **compliant}


def _along(contacts: JointContacts) -> list[dict[str, Any]]:
    return [
        {"along": name.along, "parts": list(name.parts), "terms": [list(term) for term in name.terms],
         "is_angle": name.is_angle}
        for name in contacts.names
    ]  # fmt: skip


def _grips(friction: CompliantFriction) -> list[dict[str, Any]]:
    names = [name._asdict() for name in friction.names]
    coefficients = friction.coefficients[:, None] * friction.law.friction
    if not checks.is_concrete(coefficients):
        return names
    each = zip(names, np.asarray(coefficients).tolist(), strict=True)
    return [{**name, "friction": numbers} for name, numbers in each]


def _pairs(contacts: ShapeContacts) -> list[dict[str, Any]]:
    starts = [k for k, pair in enumerate(contacts.pairs) if pair.point == 0]
    ends = [*starts[1:], contacts.count]
    return [_pair(contacts, first, end - first) for first, end in zip(starts, ends, strict=True)]


def _lists_of(contacts: ListedContacts) -> dict[str, Any]:
    """Owners of shapes, their kinds, points of pairs of kinds, and rules by classes of shapes with the same ones."""
    table, law = contacts.table, contacts.law
    rules = np.array(table.rules)
    # A shape and the others of its body have no rule; with that of most others there are fewer classes.
    own = np.array([owner for owner, _ in contacts.shape_names])
    most = np.max(rules, axis=1, initial=-1)
    rules = np.where(own[:, None] == own[None, :], most[:, None], rules)
    rows, classes = np.unique(rules, axis=0, return_inverse=True)
    first = np.unique(classes.reshape(-1), return_index=True)[1]
    slots = np.zeros((len(table.kinds),) * 2, int)
    for kind in table.pair_kinds:
        slots[kind.first, kind.second] = points_of(table.kinds[kind.first], table.kinds[kind.second])
    numbers = {"friction": law.friction, "drilling": law.drilling, "rolling": law.rolling}
    return {
        "owners": [list(owner) for owner in contacts.shape_names],
        "kinds": table.kind_of().tolist(),
        "slots": slots.tolist(),
        "classes": classes.reshape(-1).tolist(),
        "table": rows[:, first].tolist(),
        "rules": [
            {"rule": name, **{k: np.asarray(x)[n].tolist() for k, x in numbers.items() if x is not None}}
            for n, name in enumerate(contacts.rule_names)
        ],
    }


def _pair(contacts: ShapeContacts, first: int, count: int) -> dict[str, Any]:
    pair, law = contacts.pairs[first], contacts.law
    numbers = {"friction": law.friction, "drilling": law.drilling, "rolling": law.rolling}
    if law.stribeck is not None:
        numbers["static_friction"] = law.static_friction
    return {
        "bodies": [pair.first, pair.second],
        "shapes": [pair.first_shape, pair.second_shape],
        "rule": pair.rule,
        "points": [first, count],
        # Numbers that JAX traces are not known.
        **{
            name: np.asarray(values)[first].tolist()
            for name, values in numbers.items()
            if values is not None and checks.is_concrete(values)
        },
    }
