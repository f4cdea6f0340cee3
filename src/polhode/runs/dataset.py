"""Solutions as labelled data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from polhode.frames import Frames
from polhode.runs import layout
from polhode.runs.store import attributes

if TYPE_CHECKING:
    import xarray

    from polhode.solution import Solution


def to_xarray(solution: Solution) -> xarray.Dataset:
    """A solution in memory as the same data set that `xarray.open_zarr` gives of its store, and its events beside."""
    import xarray

    _, leaves = layout.flatten(solution.frames)
    labels = layout.label(leaves, solution.meta.get("dimensions", {}))
    variables = {name: (labels[name], leaf) for name, leaf in leaves.items()}
    return xarray.Dataset({**variables, **_events(solution)}, attrs=attributes(solution.meta, solution.stats))


def _events(solution: Solution) -> dict[str, Any]:
    """Times, names and states of events, with dimension `event`; nothing for runs that watched none."""
    if "events" not in solution.stats:
        return {}
    events = solution.events
    found: dict[str, Any] = {"events.time": ("event", events.t), "events.name": ("event", np.array(events.name, str))}
    for part, states in (("before", events.before), ("after", events.after)):
        _, leaves = layout.flatten(Frames(jnp.asarray(events.t), states, {}, {}, {}, None))
        labels = layout.label(leaves, solution.meta.get("dimensions", {}))
        del leaves["time"]
        found |= {f"events.{part}.{name}": (("event", *labels[name][1:]), leaf) for name, leaf in leaves.items()}
    return found
