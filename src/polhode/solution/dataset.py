"""Conversion of solutions to labelled data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from polhode.frames import Frames
from polhode.storage import frame_layout
from polhode.storage.attributes import attributes
from polhode.storage.labels import coordinates, unit

if TYPE_CHECKING:
    import xarray

    from polhode.results.protocols import Run


def to_xarray(solution: Run) -> xarray.Dataset:
    """A solution in memory as a data set.

    It has the content that `xarray.open_zarr` gives for its store, including labels of bodies, joints and components,
    and also units and events.
    """
    import xarray

    _, leaves = frame_layout.flatten(solution.frames)
    labels = frame_layout.label(leaves, solution.meta.get("dimensions", {}))
    names = solution.meta.get("names", {})
    variables = {name: (labels[name], leaf, unit(name, names.get("units"))) for name, leaf in leaves.items()}
    labels_there = coordinates(names, {name for label in labels.values() for name in label})
    attrs = attributes(solution.meta, solution.stats)
    return xarray.Dataset({**variables, **_events(solution)}, coords=labels_there, attrs=attrs)


def _events(solution: Run) -> dict[str, Any]:
    """Times, names and states of events, with dimension `event`; nothing for runs that watched none."""
    if "events" not in solution.stats:
        return {}
    events = solution.events
    variables: dict[str, Any] = {
        "events.time": ("event", events.t),
        "events.name": ("event", np.array(events.name, str)),
    }
    for part, states in (("before", events.before), ("after", events.after)):
        _, leaves = frame_layout.flatten(Frames(jnp.asarray(events.t), states, {}, {}, {}, None))
        labels = frame_layout.label(leaves, solution.meta.get("dimensions", {}))
        del leaves["time"]
        variables |= {f"events.{part}.{name}": (("event", *labels[name][1:]), leaf) for name, leaf in leaves.items()}
    return variables
