"""Units of quantities in pages and figures, for runs with units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polhode.units import unit_of

_ENDINGS = (
    (("angular velocity", "angular velocities"), "spin"),
    (("angular momentum",), "angular momentum"),
    (("momentum",), "momentum"),
    (("velocity", "velocities"), "velocity"),
    (("position", "positions", "centre of mass", "nodes"), "length"),
    (("energy",), "energy"),
)
"""Ends of titles of charts, with the kind of what they show."""


def time(meta: Mapping[str, Any]) -> str:
    """Unit of time; empty if it is unknown."""
    return of_kind("time", meta)


def of(title: str, meta: Mapping[str, Any]) -> str:
    """Unit of the quantity of a chart; empty if it is unknown."""
    plain = title.lower().partition(",")[0].partition(" of ")[0]
    return of_kind(next((kind for endings, kind in _ENDINGS if plain.endswith(endings)), ""), meta)


def of_kind(kind: str, meta: Mapping[str, Any]) -> str:
    """Unit of a kind of quantities; empty if it is unknown."""
    return unit_of(kind, meta.get("names", {}).get("units"))
