"""Joint coordinates that depend on others by linear equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from polhode.multibody.coordinates.tree.joint_forces import CoordinateIndex

_NOTHING = 1e-12
"""Size of a term, relative to the largest of its equation, below which it counts as round-off."""


class DependentCoordinate(NamedTuple):
    """A coordinate as `offset` + Σ `ratios` · leaders."""

    ratios: dict[CoordinateIndex, float]
    offset: float


class LinearCoordinateConstraints:
    """Linear equations between coordinates, solved for dependent ones in terms of independent ones.

    - `may_follow`: whether a coordinate may be eliminated.
    """

    def __init__(self, may_follow: Callable[[CoordinateIndex], bool]) -> None:
        self.dependents: dict[CoordinateIndex, DependentCoordinate] = {}
        self._may_follow = may_follow

    def add(self, terms: Mapping[CoordinateIndex, float], value: float) -> bool:
        """Adds the equation Σ terms = value; returns False, and changes nothing, if no coordinate may be eliminated.

        The first coordinate that may follow is eliminated.
        """
        size = max(map(abs, terms.values()), default=0.0)
        independent, rest = self._without_followers(terms, value)
        independent = {place: ratio for place, ratio in independent.items() if abs(ratio) > _NOTHING * size}
        pivot = next((place for place in independent if self._may_follow(place)), None)
        if pivot is None:
            return False
        own = independent.pop(pivot)
        dependent = DependentCoordinate({place: -ratio / own for place, ratio in independent.items()}, rest / own)
        self.dependents = {place: _substitute(other, pivot, dependent) for place, other in self.dependents.items()}
        self.dependents[pivot] = dependent
        return True

    def violations(self, values: np.ndarray, *, constant: bool = True) -> dict[CoordinateIndex, float]:
        """Residuals of dependent coordinates, from values in the order of velocities; `constant`: with offsets."""
        return {
            place: float(values[place.velocity])
            - sum(ratio * float(values[leader.velocity]) for leader, ratio in each.ratios.items())
            - constant * each.offset
            for place, each in self.dependents.items()
        }

    def _without_followers(
        self, terms: Mapping[CoordinateIndex, float], value: float
    ) -> tuple[dict[CoordinateIndex, float], float]:
        whole = DependentCoordinate({}, 0.0)
        for place, ratio in terms.items():
            own = self.dependents.get(place, DependentCoordinate({place: 1.0}, 0.0))
            whole = _sum(whole, own, ratio)
        return whole.ratios, value - whole.offset


def _substitute(each: DependentCoordinate, place: CoordinateIndex, by: DependentCoordinate) -> DependentCoordinate:
    ratio = each.ratios.get(place)
    if ratio is None:
        return each
    others = {leader: r for leader, r in each.ratios.items() if leader != place}
    return _sum(DependentCoordinate(others, each.offset), by, ratio)


def _sum(first: DependentCoordinate, second: DependentCoordinate, factor: float) -> DependentCoordinate:
    ratios = dict(first.ratios)
    for place, ratio in second.ratios.items():
        ratios[place] = ratios.get(place, 0.0) + factor * ratio
    return DependentCoordinate(ratios, first.offset + factor * second.offset)
