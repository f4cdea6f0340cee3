"""Labels of the dimensions of a run, and units of its arrays, as stores and data sets have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polhode.integrators.nonsmooth.contact_record import WORK_KINDS
from polhode.results.declarations import kinds
from polhode.units import unit_of


def unit(name: str, units: Any) -> dict[str, str]:
    """The attribute of a variable with its unit, where that is known."""
    symbol = unit_of(kinds().get(name.rsplit(".", 1)[-1], ""), units)
    return {"units": symbol} if symbol else {}


def coordinates(names: Mapping[str, Any], dimensions: set[str]) -> dict[str, Any]:
    """Labels of those `dimensions` of a model's run that have names."""
    if not names:
        return {}
    joints: dict[int, str] = {}
    scalars: dict[int, str] = {}
    for name, joint in names["joints"].items():
        if joint["load"] is not None:
            joints.setdefault(joint["load"], name)
        scalars |= {number: f"{name}.{label}" for label, number in joint["coordinates"].items()}
    labels = {
        "body": names["bodies"],
        "joint": [joints[k] for k in sorted(joints)],
        "joint_coordinate": [scalars[k] for k in sorted(scalars)],
        "component": ["x", "y", "z"],
        **_of_forces(names.get("forces", {})),
        **_of_contacts(names.get("contacts", {})),
    }
    return {name: (name, values) for name, values in labels.items() if name in dimensions}


def _of_forces(forces: Mapping[str, Any]) -> dict[str, list[str]]:
    """Labels of the forces of a model, in the order of their numbers."""
    return {
        "force": list(forces),
        "force_body": [f"{name}.{body}" for name, force in forces.items() for body in force["bodies"]],
        "force_effort": [f"{name}.{label}" for name, force in forces.items() for label in force["efforts"]],
        "force_measure": [f"{name}.{label}" for name, force in forces.items() for label in force.get("measures", ())],
    }


_PARTS = ("normal", "tangent", "second tangent", "drilling", "rolling", "second rolling")
"""Rows of contacts: along normal and tangents, and about these."""


def _of_contacts(contacts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Labels of the contact points of a model, in the order of their numbers, and of the multipliers of its runs."""
    if not contacts:
        return {}
    points = [
        f"{pair['rule'] or '/'.join(pair['bodies'])}.{k}"
        for pair in contacts["pairs"]
        for k in range(pair["points"][1])
    ]
    along = ["+".join(each["parts"]) for each in contacts.get("along", ())]
    pivots = [each["part"] for each in contacts.get("pivots", ())]
    names = [*points, *pivots, *along]
    # Ball joints have three directions, and no contact drills beside them.
    parts = (*_PARTS[:3], "third tangent") if contacts["rows"] == 4 else _PARTS[: contacts["rows"]]
    if "listed" in contacts:
        slots = [f"contact {k}" for k in range(contacts["count"])]
        records = [f"{name} {kind} {part}" for kind in ("force", "slip") for name in slots for part in parts]
        return {"multiplier": [*(f"{name} number" for name in slots), *records, *(f"all {k}" for k in WORK_KINDS)]}
    records = [
        f"{name} {kind} {part}"
        for kind, labels in (("force", parts), ("slip", parts), ("dissipation", WORK_KINDS))
        for name in names
        for part in labels
    ]
    return {
        "contact_point": points,
        "joint_contact": along,
        "pivot": pivots,
        "contact_direction": list(_PARTS[:3]),
        "multiplier": [*_number_labels(contacts["joints"]), *records],
    }


def _number_labels(labels: Sequence[str]) -> list[str]:
    """Names of joints with the numbers of their constraints."""
    counts: dict[str, int] = {}
    numbered = []
    for label in labels:
        numbered.append(f"{label}.{counts.get(label, 0)}")
        counts[label] = counts.get(label, 0) + 1
    return numbered
