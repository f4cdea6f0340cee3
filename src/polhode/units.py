"""Units of results, for labels. Nothing is converted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polhode import checks
from polhode.checks import short_repr

_BASE = ("length", "mass", "time", "force")
_SI = {"length": "m", "mass": "kg", "time": "s", "force": "N"}


def check_units(units: Any) -> dict[str, str] | None:
    """Names of units by quantity, as `polhode.Model` takes them; None for none.

    Raises ValueError for anything but "SI" or a mapping with length, mass and time.
    """
    if units is None:
        return None
    if units == "SI":
        return dict(_SI)
    if not isinstance(units, Mapping) or not {"length", "mass", "time"} <= set(units) <= set(_BASE):
        raise ValueError(
            f"`units` must be 'SI', or name those of length, mass and time, and of force if it has a name of its own, "
            f"such as {{'length': 'mm', 'mass': 't', 'time': 's', 'force': 'N'}}; got {short_repr(units)}."
        )
    return {what: checks.word(f"units[{what!r}]", units[what], "name of a unit") for what in _BASE if what in units}


def unit_of(kind: str, units: Mapping[str, str] | None) -> str:
    """The unit of a kind of quantities, such as "velocity" or "moment"; "" if it is not known."""
    if not units:
        return ""
    length, mass, time = units["length"], units["mass"], units["time"]
    force = units.get("force", f"{mass} {length}/{time}²")
    moment = f"{force} {length}"
    energy, power = ("J", "W") if units == _SI else (moment, f"{moment}/{time}")
    unit_names = {
        "time": time,
        "length": length,
        "velocity": f"{length}/{time}",
        "angle": "rad",
        "spin": f"rad/{time}",
        "curvature": f"1/{length}",
        "force": force,
        "moment": moment,
        "power": power,
        "energy": energy,
        "momentum": f"{mass} {length}/{time}",
        "angular momentum": f"{mass} {length}²/{time}",
    }
    return unit_names.get(kind, "")
