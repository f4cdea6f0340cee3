"""Conversion of solutions to labelled data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from polhode.frames import Frames
from polhode.integrators.nonsmooth.contact_record import WORK_KINDS
from polhode.results.contacts import ContactResults
from polhode.results.quantity import declarations
from polhode.storage import frame_layout
from polhode.storage.attributes import attributes
from polhode.storage.labels import coordinates, unit
from polhode.units import unit_of

if TYPE_CHECKING:
    import xarray

    from polhode.results.protocols import Run


def to_xarray(solution: Run) -> xarray.Dataset:
    """A solution in memory as a data set.

    It has the content that `xarray.open_zarr` gives for its store, including labels of bodies, joints and components,
    and also units, contacts and events.
    """
    import xarray

    _, leaves = frame_layout.flatten(solution.frames)
    labels = frame_layout.label(leaves, solution.meta.get("dimensions", {}))
    names = solution.meta.get("names", {})
    variables = {name: (labels[name], leaf, unit(name, names.get("units"))) for name, leaf in leaves.items()}
    contacts = _contacts(solution)
    labels_there = coordinates(names, {name for label in labels.values() for name in label})
    if contacts:
        labels_there |= {"contact": list(solution.contacts), "dissipation_kind": list(WORK_KINDS)}
        labels_there.setdefault("component", ["x", "y", "z"])
    attrs = attributes(solution.meta, solution.stats)
    return xarray.Dataset({**variables, **contacts, **_events(solution)}, coords=labels_there, attrs=attrs)


def _contacts(solution: Run) -> dict[str, Any]:
    """Contacts, with dimension `contact`, as far as it was saved or can be computed."""
    if "contacts" not in solution.meta.get("names", {}):
        return {}
    things = [thing for thing in solution.contacts.values() if isinstance(thing, ContactResults)]
    if not things:
        return {}
    units, variables = solution.meta["names"].get("units"), {}
    for each in declarations(ContactResults):
        if each.column is None or not all(each.is_readable(thing) for thing in things):
            continue
        parts = [getattr(thing, each.name) for thing in things]
        rows = [np.stack([*part.values()], axis=-1) if each.over else np.asarray(part) for part in parts]
        last = ("dissipation_kind",) if each.over else ("component",) if each.components else ()
        symbol = unit_of(each.kind_of(things[0], ""), units)
        attrs = {"units": symbol} if symbol else {}
        variables[f"contacts.{each.name}"] = (("time", "contact", *last), np.stack(rows, axis=1), attrs)
    return variables


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
