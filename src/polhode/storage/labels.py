"""Labels of the dimensions of a run, and units of its arrays, as stores and data sets have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
