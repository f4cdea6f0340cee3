"""Units of variables as FMI defines them: products of powers of kg, m, s and rad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from xml.etree import ElementTree as xml

from polhode.units import unit_of

_POWERS = {
    "time": (0, 0, 1, 0),
    "length": (0, 1, 0, 0),
    "velocity": (0, 1, -1, 0),
    "angle": (0, 0, 0, 1),
    "spin": (0, 0, -1, 1),
    "curvature": (0, -1, 0, 0),
    "force": (1, 1, -2, 0),
    "moment": (1, 2, -2, 0),
    "power": (1, 2, -3, 0),
    "energy": (1, 2, -2, 0),
    "momentum": (1, 1, -1, 0),
    "angular momentum": (1, 2, -1, 0),
}
"""Powers of kg, m, s and rad, by kinds of quantities."""

_IN_SI = {
    "mass": {"kg": 1.0, "g": 1e-3, "t": 1e3},
    "length": {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "km": 1e3},
    "time": {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0},
}
"""Units in those of SI."""


def unit_definitions(kinds: Iterable[str], units: Mapping[str, str] | None) -> xml.Element | None:
    """Definitions of the units of kinds of quantities, in the units of a model; None if it names none.

    Units that have no known relation to those of SI are defined by their name only.
    """
    by_name = {unit_of(kind, units): kind for kind in sorted(set(kinds))}
    by_name.pop("", None)
    if not by_name or units is None:
        return None
    element = xml.Element("UnitDefinitions")
    for name, kind in sorted(by_name.items()):
        unit = xml.SubElement(element, "Unit", name=name)
        base = _base_unit(kind, units)
        if base:
            xml.SubElement(unit, "BaseUnit", base)
    return element


def _base_unit(kind: str, units: Mapping[str, str]) -> dict[str, str]:
    factors = [_IN_SI[what].get(units[what]) for what in ("mass", "length", "time")]
    powers = _POWERS.get(kind)
    if powers is None or any(factor is None for factor, power in zip(factors, powers, strict=False) if power):
        return {}
    scale = 1.0
    for factor, power in zip(factors, powers, strict=False):
        scale *= (factor or 1.0) ** power
    names = zip(("kg", "m", "s", "rad"), powers, strict=True)
    return {name: str(power) for name, power in names if power} | ({} if scale == 1.0 else {"factor": repr(scale)})
