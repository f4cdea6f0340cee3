"""What the quantities of all results by name declare about outputs: kinds and axes."""

from __future__ import annotations

import functools

from polhode.results.bodies import BodyResults
from polhode.results.forces import ForceResults
from polhode.results.joints import JointResults
from polhode.results.quantity import Quantity, declarations

_OF_SYSTEMS = {
    "time": "time",
    "length": "length",
    "angle": "angle",
    "kinetic_energy": "energy",
    "potential_energy": "energy",
    "energy": "energy",
    "linear_momentum": "momentum",
    "angular_momentum": "angular momentum",
}
"""Kinds of outputs and invariants of whole systems, and of times."""

QUANTITIES: tuple[Quantity, ...] = tuple(
    quantity for results in (BodyResults, JointResults, ForceResults) for quantity in declarations(results)
)
"""The quantities of bodies, joints and forces."""


@functools.cache
def kinds() -> dict[str, str]:
    """Kind of each output whose values are all of one kind, by the last part of its name."""
    own = {each.arrays[0].rpartition(".")[2]: each.kind for each in QUANTITIES if isinstance(each.kind, str)}
    return {**_OF_SYSTEMS, **own}


@functools.cache
def axes() -> dict[str, tuple[str, ...]]:
    """Names of the axes of outputs, but for time."""
    computations = dict.fromkeys(each.computation for each in QUANTITIES if each.computation is not None)
    return {name: names for computation in computations for name, names in computation.axes.items()}
