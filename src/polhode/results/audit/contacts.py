"""Audit of contacts: what a run keeps of the laws of contact, impact and friction."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from polhode.contact.distances import ContactPoints
from polhode.integrators.nonsmooth.contact_record import ContactRecord
from polhode.result_codes import Result
from polhode.results.audit.determinacy import find_indeterminacy
from polhode.results.audit.event_jumps import are_of_user
from polhode.results.audit.friction_locks import find_locks
from polhode.results.audit.joint_contacts import grip_measures, joint_measures, pivot_measures
from polhode.results.audit.measure import Measure, over, worst
from polhode.results.audit.step_ends import step_end_test
from polhode.results.audit.table import Accuracy, Row, Verdict
from polhode.results.contact_laws import (
    STICK,
    coarse_steps,
    contact_pairs,
    contact_record,
    energy_taken,
    find_pressed,
    law_numbers,
    modes,
    needed_normal_forces,
    speed_unit,
    speeds,
    static_friction,
    whole_record,
)
from polhode.results.contact_places import ContactPlaces
from polhode.results.quantity import lookup, model_names

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_LAW = 1e-8
"""Largest violation of what the equations of a step impose, relative to its size: they are solved to 1e-10."""

_COARSE, _WRONG = 1e-3, 1e-2

_LEAST_EXCHANGE = 0.01
"""Fraction of the kinetic energy below which an exchange is neglected."""

_STICKS = 0.8
"""Part of the cone within which a force is that of sticking: one of a slide that turns is a mean of two on the cone,
less than 60° apart, at least 0.87 of it."""

_ROUNDING = 1e-13
"""Rounding of energies, relative to these."""

_RESTS = 1e-9
"""Speed along the normal, relative to the largest slip, up to which a point doesn't move along it."""

_GAIN = "contacts add energy: the step is too large, or Newton's restitution does, in impacts with friction"


def contact_audit(run: Run) -> tuple[list[Row], list[str]]:
    """Rows and remarks on the contacts of a run; none without any."""
    if "contacts" not in model_names(run) or run.multipliers is None:
        return [], []
    contacts = _Contacts(run)
    measures = {**contacts.measures(), **joint_measures(run, contacts.frames, contacts.t)}
    measures |= pivot_measures(run, contacts.frames, contacts.t)
    measures |= grip_measures(run, contacts.frames, contacts.t)
    rows = [_row(name, measure, contacts.t) for name, measure in measures.items()]
    unsolved = int(run.stats.get("result", 0) == Result.contact_unsolved)
    verdict: Verdict = "broken" if unsolved else "kept"
    fault = f"the laws of contact were not solved at t = {run.stats.get('t_reached', np.nan):.6g}" if unsolved else ""
    rows.append(
        Row("unsolved_steps", "newton", unsolved, unsolved, 0.0, 0.0, verdict, unsolved, _accuracy(unsolved), fault)
    )
    coarse, remarks = coarse_steps(run), []
    if coarse is not None:
        many, largest = coarse
        rows.append(Row("coarse_steps", None, many, many, 0.0, None, "not promised", 0.0, "accurate", ""))
        if many:
            remarks.append(f"contact laws hold to {largest:.1g} of the largest impulse in {many} steps, not to 1e-8")
    if not contacts.touch:
        return rows, remarks
    count, remark = find_indeterminacy(run, contacts.frames, contacts.presses, contacts.points)
    if count is not None:
        rows.append(Row("undetermined_forces", None, count, count, 0.0, None, "not promised", 0.0, "accurate", ""))
    lock = find_locks(run, contacts.frames, contacts.presses, contacts.slips, contacts.points)
    return rows, [*remarks, *(text for text in (lock, remark) if text)]


def _row(name: str, measure: Measure, t: np.ndarray) -> Row:
    values, relative = np.maximum(measure.values, 0.0), np.maximum(measure.relative, 0.0)
    finite = bool(np.isfinite(relative).all())
    worst = int(np.argmax(np.where(np.isfinite(relative), relative, np.inf))) if len(relative) else 0
    largest, most = (float(x[worst]) if len(x) else 0.0 for x in (values, relative))
    promise, verdict = ("newton", "kept") if measure.imposed else (None, "not promised")
    is_broken = not finite or (measure.imposed and most > _LAW)
    accuracy = "wrong" if is_broken else _accuracy(most)
    remark = ""
    if accuracy != "accurate":
        of = f" of {measure.where[worst]}" if measure.where is not None else ""
        remark = f"{name.replace('_', ' ')}{of} is {largest:.2g} at t = {t[worst]:.6g}: {measure.fault}"
    if measure.imposed and is_broken:
        verdict = "broken"
    slope = float(np.polyfit(t - t[0], values, 1)[0]) if len(t) > 1 and finite else 0.0
    end = float(values[-1]) if len(values) else 0.0
    # An allowance in the unit of the violation.
    size = largest / most if most > 0 else 0.0
    return Row(
        name, promise, largest, end, slope, _LAW * size if measure.imposed else None, verdict, most, accuracy, remark
    )


def _accuracy(relative: float) -> Accuracy:
    return "accurate" if relative <= _COARSE else "coarse" if relative <= _WRONG else "wrong"


class _Contacts:
    """The contacts of a run at the ends of its steps."""

    def __init__(self, run: Run) -> None:
        self._run = run
        every = np.asarray(run.t, float)
        self._at = step_end_test(run.meta)(every)
        self.t, self.frames = every[self._at], np.flatnonzero(self._at)
        self._record = ContactRecord._make(np.asarray(part)[self._at] for part in contact_record(run))
        self._whole = ContactRecord._make(np.asarray(part)[self._at] for part in whole_record(run))
        self.presses = find_pressed(self._record)
        pairs = contact_pairs(run)
        self.touch = bool(pairs)
        self._pairs = [pair["rule"] or "/".join(pair["bodies"]) for pair in pairs for _ in range(pair["points"][1])]
        self._ends = [pair["bodies"] for pair in pairs for _ in range(pair["points"][1])]

    @functools.cached_property
    def _friction(self) -> np.ndarray:
        return law_numbers(self._run, "friction", [np.nan, np.nan])

    @functools.cached_property
    def _at_rest(self) -> np.ndarray:
        """Coefficients of what sticks, the largest."""
        return static_friction(self._run)

    @property
    def slips(self) -> np.ndarray:
        """Sliding speeds of all points."""
        return np.asarray(speeds(self._record))

    def points(self, k: int, numbers: np.ndarray) -> ContactPoints:
        """The points of these numbers at the end of a step."""
        names = ("contact_gaps", "contact_points", "contact_directions")
        gaps, points, frames = (None if x is None else x[k, numbers] for x in map(self._place, names))
        assert frames is not None
        return ContactPoints._make((gaps, points, frames[:, 0], frames[:, 1], np.zeros(len(numbers), np.int32)))

    def measures(self) -> dict[str, Measure]:
        if not self.touch:
            return dict(self._energies())
        return {
            **dict(self._energies()),
            **dict(self._distances()),
            "friction_cone": self._cone(),
            "sticking": self._creep(),
        }

    def _energies(self) -> Iterator[tuple[str, Measure]]:
        """Gains from contacts, and the rises of the energy, from frame to frame."""
        taken = np.asarray(energy_taken(self._run))[self._at].sum(axis=-1)
        parts = [x for x in map(self._output, ("kinetic_energy", "potential_energy")) if x is not None]
        ranges = [np.ptp(taken), *map(np.ptp, parts), *(_LEAST_EXCHANGE * np.max(np.abs(x)) for x in parts[:1])]
        # What rounding leaves of differences of these is no gain.
        rounding = _ROUNDING * (sum(np.max(np.abs(x)) for x in (taken, *parts)) + self._strength)
        gain = np.append(0.0, np.maximum(-np.diff(taken) - rounding, 0.0))
        size = max(*ranges, rounding)
        is_promised = "contact_work" in self._run.meta.get("promises", {})
        yield "contact_work", Measure(gain, over(gain, size), is_promised, _GAIN)
        is_alone = not are_of_user(self._run).any() and not self._has_loads
        if len(parts) == 2 and is_alone:
            rise = np.append(0.0, np.maximum(np.diff(sum(parts)) - rounding, 0.0))
            yield "energy_rise", Measure(rise, over(rise, size), False, "the energy grows: the step is too large")

    @property
    def _strength(self) -> float:
        """The largest sum of normal forces times the size of a body: an energy where everything rests."""
        if not self.touch:
            return float(np.max(np.sum(np.abs(self._whole.forces[..., :2]), axis=(-2, -1)), initial=0.0))
        size = 1.0 if self._gaps is None else float(np.min(self._arms))
        return float(np.max(np.sum(self._record.forces[..., 0], axis=-1), initial=0.0)) * size

    def _distances(self) -> Iterator[tuple[str, Measure]]:
        """Penetrations, and gaps of points that press all the time; nothing where states can't be read."""
        if self._gaps is None:
            return
        gaps, arms = self._gaps, self._arms
        depths = np.where(np.isfinite(gaps), np.maximum(-gaps, 0.0), 0.0)
        yield (
            "penetration",
            worst(depths, depths / arms, False, "the step is too large, or the start overlaps", self._pairs),
        )
        normal = np.asarray(self._record.forces)[..., 0]
        totals = np.sum(normal, axis=-1, keepdims=True)
        lasting = self.presses & np.concatenate((self.presses[:1], self.presses[:-1]))
        # Between frames that are steps apart points may open and close again.
        lasting = lasting & (self._follows | ~self._impacts)
        apart = np.where(lasting & np.isfinite(gaps), np.maximum(gaps, 0.0), 0.0)
        parts = np.minimum(apart / arms, over(normal, totals))
        yield "complementarity", worst(parts, parts, False, "points press without touching", self._pairs)

    def _cone(self) -> Measure:
        """Forces beyond the cones of friction, and those that pull; relative to the largest normal force."""
        normal = self._record.forces[..., 0]
        pressed = np.maximum(normal, 0.0)
        unknown = np.isnan(self._friction).any(axis=-1)
        needed = np.where(unknown, 0.0, needed_normal_forces(self._record, self._at_rest))
        for name, columns in (("drilling", slice(3, 4)), ("rolling", slice(4, 6))):
            moments = np.linalg.norm(self._record.forces[..., columns], axis=-1)
            lengths = law_numbers(self._run, name, np.nan)[:, 0]
            with np.errstate(divide="ignore", invalid="ignore"):
                least = np.where(moments > 0, moments / lengths, 0.0)
            needed = np.fmax(needed, least)
        # Impacts may last two steps: friction of the second may undo that of the first, as the law holds for the sum.
        needed = np.where(self._impacts & ~self._follows, 0.0, needed)
        earlier = self._follows & _before(self._impacts)
        needed = needed - np.where(earlier, 2 * _before(pressed), 0.0)
        beyond = np.maximum(needed - pressed, -normal)
        largest = np.max(np.abs(normal), initial=0.0)
        return worst(beyond, over(beyond, largest), True, "the force is outside of the cone of friction", self._pairs)

    def _creep(self) -> Measure:
        """Paths of points that stick, relative to the sizes of bodies, since the start."""
        normal = self._record.forces[..., 0]
        inside = needed_normal_forces(self._record, self._at_rest) < _STICKS * normal
        # What turns, or begins to move, slides on under a mean force inside of the cone; not for two frames.
        lasts = inside & np.concatenate((inside[:1], inside[:-1]))
        stick = lasts & (modes(self._record, self._friction, speed_unit(self._run)) == STICK)
        steps = np.abs(np.diff(self.t, prepend=self.t[:1]))
        paths = np.cumsum(np.where(stick, speeds(self._record), 0.0) * steps[:, None], axis=0)
        sizes = np.ones(paths.shape[1]) if self._gaps is None else np.nanmin(self._arms, axis=0)
        coarse = coarse_steps(self._run)
        is_exact = coarse is None or coarse[0] == 0
        return worst(paths, paths / sizes, is_exact, "contacts that stick creep", self._pairs)

    @functools.cached_property
    def _follows(self) -> np.ndarray:
        """Whether a frame is the end of the step after that of the frame before, shape (n, 1)."""
        steps = [h for _, h, _ in self._run.meta.get("legs", ())] or [self._run.meta.get("h", 0.0)]
        return (np.abs(np.diff(self.t, prepend=np.inf)) < 1.5 * np.min(np.abs(steps)))[:, None]

    @functools.cached_property
    def _impacts(self) -> np.ndarray:
        """Whether points have taken energy along their normals, as in impacts, since the frame before, shape (n, p)."""
        taken = self._record.dissipation[..., 0]
        if np.isnan(taken).any():
            # Of many bodies: points that begin to press, or that still move along their normals.
            begins = self.presses & ~_before(self.presses)
            return begins | (np.abs(self._record.slips[..., 0]) > _RESTS * np.max(np.abs(self._record.slips)))
        change = np.abs(np.diff(taken, axis=0, prepend=0 * taken[:1]))
        return change > _ROUNDING * np.max(np.abs(self._record.dissipation), initial=0.0)

    def _output(self, name: str) -> np.ndarray | None:
        values = lookup(self._run.outputs, name)
        return None if values is None else np.asarray(values, float)[self._at]

    @functools.cached_property
    def _has_loads(self) -> bool:
        """Whether loads, or belts, may do work besides those with a potential; True where that is unknown."""
        reader = self._run.reader
        mechanism = None if reader is None or reader.obstacle is not None else reader.mechanism()
        if mechanism is None or not mechanism[0].conservative:
            return True
        contacts = mechanism[0].shape_contacts
        return getattr(contacts, "surface_velocity", None) is not None

    @functools.cached_property
    def _gaps(self) -> np.ndarray | None:
        return self._place("contact_gaps")

    @functools.cached_property
    def _arms(self) -> np.ndarray:
        """Distances of points from the centres of their bodies, the smaller one: sizes of what touches."""
        arms = self._place("contact_arms")
        assert arms is not None
        lengths = np.linalg.norm(arms, axis=-1)
        grounded = np.array([[name == "ground" for name in ends] for ends in self._ends])
        sizes = np.min(np.where(grounded, np.inf, lengths), axis=-1)
        return np.where(sizes > 0, sizes, np.inf)

    def _place(self, name: str) -> np.ndarray | None:
        values = lookup(self._run.outputs, f"contact_places.{name}")
        if values is None:
            reader = self._run.reader
            if reader is None or reader.obstacle is not None:
                return None
            values = reader.values(self._run.saved, name, ContactPlaces)
        return np.asarray(values)[self._at]


def _before(values: np.ndarray) -> np.ndarray:
    """The values of the frame before; zeros for the first."""
    return np.concatenate((np.zeros_like(values[:1]), values[:-1]))
