"""Solutions as labelled data sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from polhode.results.frames import Frames
from polhode.storage import frame_layout
from polhode.storage.attributes import attributes
from polhode.units import unit_of

if TYPE_CHECKING:
    import xarray

    from polhode.results.solution import Solution


def to_xarray(solution: Solution) -> xarray.Dataset:
    """A solution in memory as a data set.

    It has what `xarray.open_zarr` gives of its store, labels of bodies, joints and components included, and units and
    events besides.
    """
    import xarray

    _, leaves = frame_layout.flatten(solution.frames)
    labels = frame_layout.label(leaves, solution.meta.get("dimensions", {}))
    names = solution.meta.get("names", {})
    variables = {name: (labels[name], leaf, unit(name, names.get("units"))) for name, leaf in leaves.items()}
    labels_there = coordinates(names, {name for label in labels.values() for name in label})
    known = attributes(solution.meta, solution.stats)
    return xarray.Dataset({**variables, **_events(solution)}, coords=labels_there, attrs=known)


def unit(name: str, units: Any) -> dict[str, str]:
    """The attribute of a variable that says its unit, where that is known."""
    found = unit_of(name.rsplit(".", 1)[-1], units)
    return {"units": found} if found else {}


def coordinates(names: Mapping[str, Any], there: set[str]) -> dict[str, Any]:
    """Labels of the dimensions of a model's run."""
    if not names:
        return {}
    joints: dict[int, str] = {}
    scalars: dict[int, str] = {}
    for name, told in names["joints"].items():
        if told["load"] is not None:
            joints.setdefault(told["load"], name)
        scalars |= {number: f"{name}.{label}" for label, number in told["coordinates"].items()}
    labels = {
        "body": names["bodies"],
        "joint": [joints[k] for k in sorted(joints)],
        "joint_coordinate": [scalars[k] for k in sorted(scalars)],
        "component": ["x", "y", "z"],
        **_of_forces(names.get("forces", {})),
    }
    return {name: (name, values) for name, values in labels.items() if name in there}


def _of_forces(told: Mapping[str, Any]) -> dict[str, list[str]]:
    """Labels of the forces of a model, in the order of their numbers."""
    return {
        "force": list(told),
        "force_body": [f"{name}.{body}" for name, force in told.items() for body in force["bodies"]],
        "force_effort": [f"{name}.{label}" for name, force in told.items() for label in force["efforts"]],
        "force_measure": [f"{name}.{label}" for name, force in told.items() for label in force.get("measures", ())],
    }


def _events(solution: Solution) -> dict[str, Any]:
    """Times, names and states of events, with dimension `event`; nothing for runs that watched none."""
    if "events" not in solution.stats:
        return {}
    events = solution.events
    found: dict[str, Any] = {"events.time": ("event", events.t), "events.name": ("event", np.array(events.name, str))}
    for part, states in (("before", events.before), ("after", events.after)):
        _, leaves = frame_layout.flatten(Frames(jnp.asarray(events.t), states, {}, {}, {}, None))
        labels = frame_layout.label(leaves, solution.meta.get("dimensions", {}))
        del leaves["time"]
        found |= {f"events.{part}.{name}": (("event", *labels[name][1:]), leaf) for name, leaf in leaves.items()}
    return found
