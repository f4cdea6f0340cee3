"""Units of what a run holds, where it says that it is in SI units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ENDINGS = (
    (("angular velocity", "angular velocities", "crank speed", "spin rate"), "rad/s"),
    (("angular momentum",), "kg m²/s"),
    (("momentum",), "kg m/s"),
    (("velocity", "velocities"), "m/s"),
    (("position", "positions", "centre of mass", "nodes"), "m"),
    (("energy",), "J"),
    (("power",), "W"),
    (("moment", "torque"), "N m"),
    (("force",), "N"),
    (("angle",), "rad"),
)
_KINDS = {
    "force": "N",
    "moment": "N m",
    "momentum": "kg m/s",
    "angular momentum": "kg m²/s",
    "velocity": "m/s",
    "curvature": "1/m",
    "strain": "",
    "angle": "rad",
    "spin": "rad/s",
    "length": "m",
    "power": "W",
}


def known(meta: Mapping[str, Any]) -> bool:
    """Whether the numbers of a run are in SI units: it says so, or a model file was read, whose units are SI."""
    told = meta.get("units") or meta.get("names", {}).get("units")
    return told == "SI" or (told is None and meta.get("origin") == "file")


def time(meta: Mapping[str, Any]) -> str:
    """Of time; empty where nobody knows."""
    return "s" if known(meta) else ""


def of(title: str, meta: Mapping[str, Any]) -> str:
    """Of the quantity of a chart; empty where nobody knows."""
    if not known(meta):
        return ""
    plain = title.lower().partition(",")[0]
    return next((unit for endings, unit in _ENDINGS if plain.endswith(endings)), "")


def of_kind(kind: str, meta: Mapping[str, Any]) -> str:
    """Of vectors and tints of a scene, likewise."""
    return _KINDS[kind] if known(meta) else ""
