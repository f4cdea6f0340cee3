"""Units of quantities in pages and figures, for runs with units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polhode.units import unit_of

_ENDINGS = (
    (("angular velocity", "angular velocities"), "angular_velocities"),
    (("angular momentum",), "angular_momentum"),
    (("momentum",), "linear_momentum"),
    (("velocity", "velocities"), "velocities"),
    (("position", "positions", "centre of mass", "nodes"), "positions"),
    (("energy",), "energy"),
)
_KINDS = {
    "force": "joint_forces",
    "moment": "joint_moments",
    "momentum": "linear_momentum",
    "angular momentum": "angular_momentum",
    "velocity": "velocities",
    "angle": "angle",
    "spin": "angular_velocities",
    "length": "length",
    "power": "joint_powers",
}


def time(meta: Mapping[str, Any]) -> str:
    """Unit of time; empty if it is unknown."""
    return unit_of("time", _units(meta))


def of(title: str, meta: Mapping[str, Any]) -> str:
    """Unit of the quantity of a chart; empty if it is unknown."""
    plain = title.lower().partition(",")[0].partition(" of ")[0]
    quantity = next((quantity for endings, quantity in _ENDINGS if plain.endswith(endings)), "")
    return unit_of(quantity, _units(meta))


def of_kind(kind: str, meta: Mapping[str, Any]) -> str:
    """Unit of a kind of vectors, tints or joint quantities; empty if it is unknown."""
    units = _units(meta)
    if kind == "curvature":
        return f"1/{units['length']}" if units else ""
    return unit_of(_KINDS.get(kind, ""), units)


def _units(meta: Mapping[str, Any]) -> Mapping[str, str] | None:
    return meta.get("names", {}).get("units")
