"""Joints of a run by name: what charts and arrows show of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from polhode.results.protocols import Run

MOST = 64
"""Largest number of joints, or forces, drawn as arrows."""


class Quantity(NamedTuple):
    """Something of a joint or a force.

    - `of`, `name`: whose and what. - `values`: (n,) or (n, 3). - `kind`: "angle", "force", …, or empty.
    - `first`: whether it is shown initially.
    """

    of: str
    name: str
    values: np.ndarray
    kind: str
    first: bool = False


def quantities(solution: Run) -> Iterator[Quantity]:
    """Coordinates, rates, efforts and transmitted loads of all joints, where the run has them."""
    descriptions = solution.meta.get("names", {}).get("joints", {})
    for name, joint in solution.joints.items():
        angles = descriptions[name]["angles"]
        few = len(descriptions[name]["coordinates"]) == 1
        for label, values in get_or_empty(joint, "coordinates").items():
            yield Quantity(name, label, np.asarray(values), "angle" if label in angles else "length", few)
        for label, values in get_or_empty(joint, "rates").items():
            title = "rate" if few else f"rate of {label}"
            yield Quantity(name, title, np.asarray(values), "spin" if label in angles else "velocity")
        for label, values in get_or_empty(joint, "efforts").items():
            title = ("torque" if label in angles else "effort") if few else f"effort along {label}"
            yield Quantity(name, title, np.asarray(values), "moment" if label in angles else "force")
        for what, kind in (("force", "force"), ("moment", "moment"), ("power", "power")):
            values = get_or_empty(joint, what)
            if len(values):
                yield Quantity(name, what, np.asarray(values), kind)


def forces(solution: Run, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Points and forces of all joints at some frames, (k, joints, 3) each; None where not known, or too many."""
    feet, vectors = [], []
    for joint in solution.joints.values() if len(solution.joints) <= MOST else ():
        point, force = get_or_empty(joint, "point"), get_or_empty(joint, "force")
        if len(point) and len(force):
            feet.append(np.asarray(point)[rows])
            vectors.append(np.asarray(force)[rows])
    return (np.stack(feet, axis=1), np.stack(vectors, axis=1)) if feet else None


def get_or_empty(thing: Any, name: str) -> Any:
    """A quantity of a joint or a force; empty if the run doesn't have it."""
    with contextlib.suppress(KeyError):
        return getattr(thing, name)
    return {}
