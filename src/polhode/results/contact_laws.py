"""The record of contacts in the multipliers of a run, measured against the laws of contact and friction."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from polhode.integrators.nonsmooth.contact_record import ContactRecord, unpack
from polhode.name_errors import UnknownName
from polhode.results.listed_contacts import describe_pairs, listed_record, slot_record
from polhode.results.protocols import ResultView
from polhode.results.quantity import model_names

OPEN, STICK, SLIDE = "open", "stick", "slide"
"""Modes of contacts."""

_PRESSES = 1e-12
"""Normal force, relative to the largest in the run, from which a point counts as pressed."""

_SLIPS = 1e-9
"""Speed, relative to the largest in the run or to `speed_unit` if that is more, from which a pressed point may count as
sliding."""

_ON_CONE = 1e-6
"""Distance from the friction cone, relative to the normal force, within which a force is that of sliding."""


def whole_record(run: ResultView) -> ContactRecord:
    """The record of all contacts of a run at all of its instants. Raises UnknownName where there is nothing."""
    sizes, multipliers = model_names(run).get("contacts"), run.saved.multipliers
    if sizes is None or multipliers is None:
        raise UnknownName("Forces of contacts are in the multipliers of a run, and this one has none.")
    if "listed" in sizes:
        return slot_record(sizes, multipliers)
    return unpack(multipliers, len(sizes["joints"]), sizes["count"], sizes["rows"])[1]


def energy_taken(run: ResultView) -> Any:
    """Energy that all contacts have taken since the start of the run, by kinds, shape (n, 3)."""
    sizes = model_names(run).get("contacts")
    if sizes is not None and "listed" in sizes and run.saved.multipliers is not None:
        return listed_record(sizes, run.saved.multipliers).taken
    return whole_record(run).dissipation.sum(axis=-2)


def coarse_steps(run: ResultView) -> tuple[int, float] | None:
    """How many steps of many bodies were solved to an accepted residual instead of the tolerance, and the largest.

    None for runs whose steps are all solved to the tolerance.
    """
    sizes, multipliers = model_names(run).get("contacts"), run.saved.multipliers
    if sizes is None or "listed" not in sizes or multipliers is None:
        return None
    count, largest = np.asarray(listed_record(sizes, multipliers).coarse)[-1]
    return int(count), float(largest)


def contact_pairs(run: ResultView) -> list[dict[str, Any]]:
    """Pairs of shapes with contacts, as the names of the model describe them; of many bodies those that were near."""
    sizes, multipliers = model_names(run).get("contacts", {}), run.saved.multipliers
    if "listed" in sizes and multipliers is not None:
        return describe_pairs(sizes, multipliers)
    return sizes.get("pairs", [])


def contact_record(run: ResultView) -> ContactRecord:
    """That of contacts of shapes, which come first."""
    return _part(run, "points")


def grip_record(run: ResultView) -> ContactRecord:
    """That of exact friction of compliant contacts."""
    return _part(run, "grips")


def pivot_record(run: ResultView) -> ContactRecord:
    """That of friction of joints that turn in several directions."""
    return _part(run, "pivots")


def joint_record(run: ResultView) -> ContactRecord:
    """That of stops and dry friction along coordinates of joints."""
    return _part(run, "along")


def _part(run: ResultView, kind: str) -> ContactRecord:
    """The record of contacts of a kind, which are in this order."""
    record, kinds = whole_record(run), ("grips", "pivots", "along")
    counts = [len(model_names(run).get("contacts", {}).get(name, ())) for name in kinds]
    ends = record.forces.shape[-2] - np.cumsum([0, *reversed(counts)])[::-1]
    first, last = (0, ends[0]) if kind == "points" else ends[kinds.index(kind) :][:2]
    return ContactRecord(*(part[..., first:last, :] for part in record))


def law_numbers(run: ResultView, name: str, default: Any) -> np.ndarray:
    """Numbers of the laws of all contact points, such as "friction"; `default` where JAX traced them."""
    pairs = contact_pairs(run)
    return np.concatenate([np.tile(pair.get(name, default), (pair["points"][1], 1)) for pair in pairs])


def static_friction(run: ResultView) -> Float[np.ndarray, "p 2"]:
    """Coefficients of friction at rest of all contact points, those of the largest friction."""
    unknown = [np.nan, np.nan]
    numbers = [pair.get("static_friction", pair.get("friction", unknown)) for pair in contact_pairs(run)]
    counts = [pair["points"][1] for pair in contact_pairs(run)]
    return np.repeat(np.asarray(numbers, float).reshape(-1, 2), counts, axis=0)


def needed_normal_forces(record: ContactRecord, friction: Float[np.ndarray, "p 2"]) -> Float[np.ndarray, "n p"]:
    """The least normal forces with which friction may be as large as it is; infinite where there is no friction."""
    along = np.abs(np.asarray(record.forces)[..., 1:3])
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(along > 0, along / friction, 0.0)
    return np.hypot(parts[..., 0], parts[..., 1])


def find_pressed(record: ContactRecord) -> np.ndarray:
    """Which points press, shape (n, p)."""
    normal = np.asarray(record.forces)[..., 0]
    return normal > _PRESSES * np.max(normal, initial=0.0)


def slips_above(speed: np.ndarray, unit: float) -> np.ndarray:
    """Which speeds are more than round-off, of the largest of them or of this unit."""
    return speed > _SLIPS * np.max(speed, initial=unit)


def speeds(record: ContactRecord) -> np.ndarray:
    """Speeds along the surfaces, shape (n, p)."""
    slips = np.asarray(record.slips)
    return np.hypot(slips[..., 1], slips[..., 2])


def speed_unit(run: ResultView) -> float:
    """The largest distance of a body from the origin over the time of a run: nothing is as slow that comes anywhere.

    Of a single instant over its time. 1 without bodies, or without such a time.
    """
    t, positions = np.asarray(run.t), run.outputs.get("positions")
    time = float(np.ptp(t)) if t.size > 1 else float(np.max(np.abs(t), initial=0.0))
    if positions is None or time == 0:
        return 1.0
    distances = np.abs(np.asarray(positions))
    return float(np.max(distances, initial=0.0, where=np.isfinite(distances))) / time


def modes(record: ContactRecord, friction: Float[np.ndarray, "p 2"], unit: float) -> np.ndarray:
    """Whether points are open, stick or slide, as words, shape (n, p).

    A point slides if it is pressed and moves along the surface under a force on the friction cone. Where it has just
    begun to move, or turns, means of the force over a step may lie within the cone.

    - `unit`: `speed_unit` of the run.
    """
    moves = slips_above(speeds(record), float(np.max(np.abs(record.slips), initial=unit)))
    is_pressed = find_pressed(record)
    normal = np.asarray(record.forces)[..., 0]
    needed = needed_normal_forces(record, friction)
    on_cone = needed >= (1 - _ON_CONE) * normal - _turns(record, moves) * normal
    slides = moves & (on_cone | np.all(friction == 0, axis=-1) | np.isnan(friction).any(axis=-1))
    return np.where(is_pressed, np.where(slides, SLIDE, STICK), OPEN)


def _turns(record: ContactRecord, moves: np.ndarray) -> np.ndarray:
    """1 - cos of the angle between slips now and in the frame before, at most 1; also 1 where one of them rests."""
    slips = np.asarray(record.slips)[..., 1:3]
    if slips.ndim < 3 or slips.shape[-3] < 2:
        return np.ones(slips.shape[:-1])
    before = np.concatenate((slips[..., :1, :, :], slips[..., :-1, :, :]), axis=-3)
    moved = np.concatenate((moves[..., :1, :], moves[..., :-1, :]), axis=-2) & moves
    sizes = np.linalg.norm(slips, axis=-1) * np.linalg.norm(before, axis=-1)
    cosines = np.sum(slips * before, axis=-1) / np.where(moved, sizes, 1.0)
    return np.where(moved, 1 - np.clip(cosines, 0.0, 1.0), 1.0)
