"""Audit of rigid stops, of dry friction of joints and of compliant contacts: what a run keeps of their laws."""

from __future__ import annotations

import numpy as np

from polhode.integrators.nonsmooth.contact_record import ContactRecord
from polhode.results.audit.measure import Measure, over, worst
from polhode.results.contact_laws import grip_record, joint_record, pivot_record, speed_unit
from polhode.results.grips import GripPlaces, grip_modes, grips
from polhode.results.joint_contacts import STICK, JointContactPlaces, coordinate_modes, coordinate_speed_units
from polhode.results.pivots import PivotBounds, pivots, turns
from polhode.results.protocols import Run
from polhode.results.quantity import AbstractComputation, lookup, model_names

_WITHIN = 0.99
"""Part of the bound within which friction is that of sticking in all of a step."""


def joint_measures(run: Run, frames: np.ndarray, t: np.ndarray) -> dict[str, Measure]:
    """Violations at the ends of steps: penetration of stops, friction beyond its bound, creep of what sticks."""
    names = [each["along"].replace("`", "") for each in model_names(run)["contacts"].get("along", ())]
    if not names:
        return {}
    record = ContactRecord._make(np.asarray(part)[frames] for part in joint_record(run))
    gaps, bounds = (_place(run, name, frames) for name in ("stop_gaps", "friction_bounds"))
    measures: dict[str, Measure] = {}
    if gaps is not None:
        depths = np.where(np.isfinite(gaps), np.maximum(-gaps, 0.0), 0.0)
        fault = "the step is too large, or the start is beyond a stop"
        measures["stop_penetration"] = worst(depths, depths, False, fault, names)
    if bounds is not None:
        friction = np.abs(record.forces[..., 1])
        # Means over steps of bounds that change are between those at their ends.
        allowed = np.maximum(bounds, np.concatenate((bounds[:1], bounds[:-1])))
        beyond = np.maximum(friction - allowed, -record.forces[..., 0])
        largest = np.max(allowed, initial=0.0, where=np.isfinite(allowed))
        fault = "the force is beyond the bound of friction, or a stop pulls"
        measures["joint_friction"] = worst(beyond, over(beyond, largest), True, fault, names)
        units = coordinate_speed_units(run)
        words = [coordinate_modes(_of(record, k), bounds[:, k : k + 1], units[k]) for k in range(len(names))]
        sticks = np.stack(words, axis=-1) == STICK
        lasts = sticks & (friction < _WITHIN * bounds)
        lasts = lasts & np.concatenate((lasts[:1], lasts[:-1]))
        steps = np.abs(np.diff(t, prepend=t[:1]))
        paths = np.cumsum(np.where(lasts, np.abs(record.slips[..., 1]), 0.0) * steps[:, None], axis=0)
        measures["held_joints"] = worst(paths, paths, True, "joints that stick creep", names)
    return measures


def pivot_measures(run: Run, frames: np.ndarray, t: np.ndarray) -> dict[str, Measure]:
    """The same of friction of joints that turn in several directions: torques beyond the bound, and creep."""
    names = [each["joint"].replace("`", "") for each in pivots(run).values()]
    if not names:
        return {}
    record = ContactRecord._make(np.asarray(part)[frames] for part in pivot_record(run))
    bounds = _place(run, "pivot_bounds", frames, PivotBounds)
    if bounds is None:
        return {}
    torques, rates = (np.linalg.norm(part[..., 1:4], axis=-1) for part in (record.forces, record.slips))
    allowed = np.maximum(bounds, np.concatenate((bounds[:1], bounds[:-1])))
    beyond = torques - allowed
    lasts = ~turns(record) & (torques < _WITHIN * bounds)
    lasts = lasts & np.concatenate((lasts[:1], lasts[:-1]))
    paths = np.cumsum(np.where(lasts, rates, 0.0) * np.abs(np.diff(t, prepend=t[:1]))[:, None], axis=0)
    largest = np.max(allowed, initial=0.0)
    return {
        "pivot_friction": worst(beyond, over(beyond, largest), True, "the torque is beyond its bound", names),
        "held_pivots": worst(paths, paths, True, "joints that stick creep", names),
    }


def grip_measures(run: Run, frames: np.ndarray, t: np.ndarray) -> dict[str, Measure]:
    """Creep of compliant contacts that stick by exact friction."""
    entries = grips(run)
    if not entries:
        return {}
    record = ContactRecord._make(np.asarray(part)[frames] for part in grip_record(run))
    pushes = _place(run, "grip_places.grip_pushes", frames, GripPlaces)
    if pushes is None:
        return {}
    names = [name for name, own in entries.items() for _ in own["numbers"]]
    order = np.concatenate([own["numbers"] for own in entries.values()])
    every = model_names(run)["contacts"]["grips"]
    coefficients = np.asarray([each.get("friction", [np.nan, np.nan]) for each in every])[order]
    record, pushes = ContactRecord(*(part[:, order] for part in record)), pushes[:, order]
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(record.forces[..., 1:3] != 0, np.abs(record.forces[..., 1:3]) / coefficients, 0.0)
    needed, speeds = (np.linalg.norm(part, axis=-1) for part in (parts, record.slips[..., 1:3]))
    sticks = (grip_modes(record, pushes, speed_unit(run)) == STICK) & (needed < _WITHIN * pushes)
    lasts = sticks & np.concatenate((sticks[:1], sticks[:-1]))
    paths = np.cumsum(np.where(lasts, speeds, 0.0) * np.abs(np.diff(t, prepend=t[:1]))[:, None], axis=0)
    return {"held_grips": worst(paths, paths, True, "compliant contacts that stick creep", names)}


def _of(record: ContactRecord, k: int) -> ContactRecord:
    return ContactRecord(*(part[..., k : k + 1, :] for part in record))


def _place(
    run: Run, name: str, frames: np.ndarray, computation: type[AbstractComputation] = JointContactPlaces
) -> np.ndarray | None:
    values = lookup(run.outputs, name)
    if values is None:
        reader = run.reader
        if reader is None or reader.obstacle is not None:
            return None
        values = reader.values(run.saved, name.rpartition(".")[2], computation)
    return np.asarray(values)[frames]
