"""The quantities of all results by name, what they declare about outputs, and those that users add."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from polhode.checks import short_repr
from polhode.results.bodies import BodyResults
from polhode.results.contacts import ContactResults
from polhode.results.forces import ForceResults
from polhode.results.grips import GripResults
from polhode.results.joint_contacts import JointContactResults
from polhode.results.joints import JointResults
from polhode.results.pivots import PivotResults
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

_CLASSES = BodyResults, JointResults, ForceResults, ContactResults, JointContactResults, GripResults, PivotResults

QUANTITIES: tuple[Quantity, ...] = tuple(
    quantity
    for results in (
        BodyResults,
        JointResults,
        ForceResults,
        ContactResults,
        JointContactResults,
        GripResults,
        PivotResults,
    )
    for quantity in declarations(results)
)
"""The quantities of bodies, joints, forces and contacts."""


@functools.cache
def kinds() -> dict[str, str]:
    """Kind of each output whose values are all of one kind, by the last part of its name."""
    own = {
        each.arrays[0].rpartition(".")[2]: each.kind
        for each in QUANTITIES
        if each.arrays and isinstance(each.kind, str)
    }
    return {**_OF_SYSTEMS, **own}


@functools.cache
def axes() -> dict[str, tuple[str, ...]]:
    """Names of the axes of outputs, but for time."""
    computations = dict.fromkeys(each.computation for each in QUANTITIES if each.computation is not None)
    return {name: names for computation in computations for name, names in computation.axes.items()}


class ResultClasses(NamedTuple):
    """The classes of the results of a run, which declare its quantities."""

    bodies: type[BodyResults] = BodyResults
    joints: type[JointResults] = JointResults
    forces: type[ForceResults] = ForceResults
    contacts: type[ContactResults] = ContactResults

    def with_quantities(self, **groups: Mapping[str, Quantity] | None) -> ResultClasses:
        """Classes with more quantities by name. Raises ValueError for names that can't be attributes of theirs."""
        return self._replace(**{name: _extend(getattr(self, name), own) for name, own in groups.items() if own})


def _extend(results: type[Any], quantities: Mapping[str, Quantity]) -> type[Any]:
    for name, quantity in quantities.items():
        if not isinstance(quantity, Quantity):
            raise ValueError(f"{short_repr(name)} must be a `polhode.results.Quantity`, got {short_repr(quantity)}.")
        if not (isinstance(name, str) and name.isidentifier()) or name.startswith("_") or hasattr(results, name):
            raise ValueError(
                f"{short_repr(name)} can't name a quantity of a {results._what}: take a word of Python that names no "
                "other attribute of it."
            )
    # Declarations are bound to their names, so that each class has its own.
    return type(results.__name__, (results,), {name: dataclasses.replace(one) for name, one in quantities.items()})
