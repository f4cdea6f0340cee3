"""Ranking of the methods that take a problem, by their declared properties."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from polhode.integrators.base import AbstractIntegrator


class Default(NamedTuple):
    """The default method of a problem, and the reason if the library chose it."""

    name: str
    reason: str


class Tier(enum.IntEnum):
    """Ranks, in the order in which methods should be tried."""

    DEFAULT = 0
    LIKE_THE_DEFAULT = 1
    KEEPS_ENERGY = 2
    AS_IT_IS = 3
    AS_ANOTHER_KIND = 4
    PROMISES_NOTHING = 5


_LONG = {"round-off": "energy to round-off", "newton": "energy to the tolerance", "bounded": "energy without drift"}


def tier_of(
    name: str,
    method: AbstractIntegrator,
    promises: Mapping[str, str],
    note: str,
    default: Default | None,
    implicit: bool,
) -> Tier:
    """The tier of a method that takes a problem.

    - `promises`: of the method for it; `note`: of its conversion, empty without one.
    - `implicit`: whether the default is.
    """
    if default is not None and name == default.name:
        return Tier.DEFAULT
    if "energy" in promises:
        return Tier.KEEPS_ENERGY
    if not promises:
        return Tier.PROMISES_NOTHING
    if note:
        return Tier.AS_ANOTHER_KIND
    return Tier.LIKE_THE_DEFAULT if method.implicit == implicit else Tier.AS_IT_IS


def merits(name: str, method: AbstractIntegrator, promises: Mapping[str, str], default: Default | None) -> str:
    """Reasons for a method, in words."""
    reasons = ["implicit" if method.implicit else "explicit", f"order {method.order}"]
    if method.error_order is not None:
        reasons.append("error control")
    if "energy" in promises:
        reasons.append(_LONG[promises["energy"]])
    text = ", ".join(reasons)
    if default is None or name != default.name:
        return text
    reason = default.reason.partition(": ")[2]
    return f"the default: {reason or text}"
