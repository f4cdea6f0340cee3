"""Balances of momenta and energy of a run with the impulse and the work of its loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from polhode.multibody.measurements.balances import Balance, balance
from polhode.multibody.system import MultibodySystem
from polhode.results.audit.broken_loads import BrokenIntervals, broken_intervals
from polhode.results.audit.event_jumps import WithoutJumps, are_of_user
from polhode.results.audit.quadrature import Integral, integral, is_integrable
from polhode.results.audit.resolved_intervals import doubtful_rows, resolved_intervals
from polhode.results.audit.step_count import step_count
from polhode.results.audit.step_ends import last_step_ends
from polhode.results.contact_laws import energy_taken
from polhode.results.derived_quantities import ConvertedObserver, StateConversion
from polhode.results.observer import BatchedObserver
from polhode.spaces.base import Point, Vector

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_ROWS = 256
"""Frames that are evaluated together where there is no machine code."""

_LARGEST_DOUBT = 3e-2
"""Largest uncertainty of an impulse or of work, relative to the size of the quantity, for a row in the audit."""

_WRONG = 1e-2
"""Drift beyond uncertainty, relative to the same size, that is reported in any case."""

_SPARSE = 2.0
"""Steps per frame above which frames may miss brief loads."""

_RATES = ("force", "moment", "power")
"""Rates that are integrated."""

COARSE = 1e-3
"""Relative drift above which a run counts as coarse, and brief work is resolved."""

_SHARE = 1e-2
"""Part of such a drift in an interval that is resolved."""

_LEAST_RELATIVE = 0.01
"""Fraction of the momenta of all bodies below which those relative to the centre of mass are neglected."""

_LEAST_EXCHANGE = 0.01
"""Fraction of the kinetic energy below which an exchange is neglected: steady motions exchange no energy."""


class BalancedQuantity(NamedTuple):
    """A quantity minus its gain from loads, which is constant for the exact motion.

    - `column`: shape (n, k). - `doubt`: error bound, since loads are sampled in the frames only, shape (n,).
    - `size`: scale of relative drifts. - `scale`: the largest magnitude, for the round-off allowance.
    """

    column: Float[np.ndarray, "n k"]
    doubt: Float[np.ndarray, " n"]
    size: float
    scale: float

    @property
    def is_conclusive(self) -> bool:
        """Whether the error bound is small enough, or the drift exceeds it."""
        return bool(np.max(self.doubt) <= _LARGEST_DOUBT * self.size or np.max(self.beyond) > _WRONG * self.size)

    @property
    def beyond(self) -> Float[np.ndarray, " n"]:
        """Drift beyond the error bound."""
        drift = np.max(np.abs(self.column - self.column[:1]), axis=1)
        return np.maximum(drift - self.doubt, 0.0) if np.isfinite(drift).all() else drift


def balances(solution: Run, columns: Mapping[str, Any]) -> Mapping[str, BalancedQuantity]:
    """Balances of a multibody run: momenta of unconstrained systems, and energy where loads do work."""
    reader = solution.reader
    if len(solution.t) < 2 or reader is None or reader.obstacle is not None or _has_changed(solution):
        return {}
    mechanism = reader.mechanism()
    if mechanism is None:
        return {}
    system, conversion = mechanism
    return _RunBalances(solution, columns, system.in_loops(), conversion).balances()


def _has_changed(solution: Run) -> bool:
    """Whether events have changed the system, so that the system at earlier frames is unknown."""
    events = solution.stats.get("events", {})
    return bool(len(events.get("number", ()))) and "jumps" not in events


class _Energy(eqx.Module):
    """Kinetic plus potential energy."""

    system: MultibodySystem

    def __call__(self, t: Array, q: Point, v: Vector) -> dict[str, Array]:
        return {"energy": self.system.energy(t, q, v)}


class _RunBalances:
    """Computes the balances of one run."""

    def __init__(
        self, solution: Run, columns: Mapping[str, Any], system: MultibodySystem, conversion: StateConversion
    ) -> None:
        self._solution, self._columns, self._system, self._conversion = solution, columns, system, conversion
        self._t = np.asarray(columns["time"][0 : len(columns["time"])], dtype=float)

    def balances(self) -> dict[str, BalancedQuantity]:
        ends = [self._solution[k] for k in (0, -1)]
        rule = balance(self._system, [(frame.t[0], self._conversion(_first(frame.state))) for frame in ends])
        names = self._quantities(rule)
        if not names:
            return {}
        observer = BatchedObserver(ConvertedObserver(rule, self._conversion), _ROWS, once=True)
        blocks = self._solution.blocks() if rule.free or rule.outer or rule.works else ()
        series = _concatenate([observer.observe(frames.t, frames.state) for frames in blocks])
        if not all(np.isfinite(values).all() for values in series.values()):
            return {}
        self._broken = self._broken_intervals(observer, [name for name in _RATES if name in series])
        quantities: dict[str, BalancedQuantity] = {}
        for name in ("linear", "angular"):
            if f"{name}_momentum" in names:
                quantities[f"{name}_momentum"] = self._momentum(name, series, observer)
        if "energy" in names:
            quantities["energy"] = self._energy(series, rule)
        return {name: one for name, one in quantities.items() if one.is_conclusive}

    def _quantities(self, rule: Balance) -> set[str]:
        """Names of quantities to balance: no invariants, and with loads that the frames resolve."""
        dense = step_count(self._solution) <= _SPARSE * (len(self._t) - 1)
        names: set[str] = set()
        if rule.free and (dense or not rule.brief_impulse):
            names |= {"linear_momentum", "angular_momentum"}
        energies = {"outputs.kinetic_energy", "outputs.potential_energy"}
        works = (rule.works or self._system.has_contacts) and not self._moves_contacts()
        if works and energies <= set(self._columns) and (dense or not (rule.works and rule.brief_work)):
            names.add("energy")
        return {name for name in names if f"invariants.{name}" not in self._columns}

    def _broken_intervals(self, observer: BatchedObserver, rates: list[str]) -> dict[str, BrokenIntervals]:
        """Where loads have kinks or jumps at instants that they or the user name."""
        instants = np.array([*self._system.breakpoints(), *self._solution.meta.get("breakpoints", ())], dtype=float)
        if not rates or not len(instants) or not is_integrable(self._t):
            return {}
        return broken_intervals(self._t, np.unique(instants), self._solution.blocks(), observer.observe, rates)

    def _moves_contacts(self) -> bool:
        """Whether drives or belts work against contacts, which no function of the state alone tells."""
        contacts = self._system.shape_contacts
        belts = getattr(contacts, "surface_velocity", None) is not None
        return belts or (self._system.has_contacts and self._system.mechanism.driven)

    def _integral(self, series: Mapping[str, np.ndarray], rate: str) -> Integral | None:
        if rate not in series:
            return None
        values = series[rate]
        return integral(self._t, values if values.ndim > 1 else values[:, None], self._broken.get(rate))

    def _momentum(self, name: str, series: Mapping[str, np.ndarray], observer: BatchedObserver) -> BalancedQuantity:
        column = self._without_jumps(series[name], observer, name)
        size, scale = float(np.max(series[f"{name}_size"])), float(np.max(series[f"{name}_scale"]))
        if name == "linear":
            column = column - np.outer(self._t - self._t[0], series["weight"][0])
            size = max(size, _LEAST_RELATIVE * scale)
        load = {"linear": "force", "angular": "moment"}[name]
        return _less(column, self._integral(series, load), size, scale)

    def _energy(self, series: Mapping[str, np.ndarray], rule: Balance) -> BalancedQuantity:
        names = (f"outputs.{part}_energy" for part in ("kinetic", "potential"))
        T, V = (np.asarray(self._columns[name][0 : len(self._t)], dtype=float) for name in names)
        work = self._integral(series, "power")
        observer = BatchedObserver(ConvertedObserver(_Energy(self._system), self._conversion), 1, once=True)
        energy = self._without_jumps((T + V)[:, None], observer, "energy")
        exchange = float(max(np.ptp(T), np.ptp(V), _LEAST_EXCHANGE * np.max(T)))
        if self._system.has_contacts:
            taken = energy_taken(self._solution).sum(axis=-1)
            # Contacts take energy in whole steps.
            energy = (energy + taken[:, None])[last_step_ends(self._t, self._solution.meta)]
            exchange = float(max(exchange, np.ptp(taken)))
        scale = float(max(np.max(T), np.max(np.abs(V))))
        sampled = _less(energy, work, exchange, scale)
        resolved = self._with_brief_work(series, rule, sampled)
        return sampled if resolved is None else _less(energy, resolved, exchange, scale)

    def _with_brief_work(
        self, series: Mapping[str, np.ndarray], rule: Balance, sampled: BalancedQuantity
    ) -> Integral | None:
        """The work, resolved where stops act between frames, if the balance of samples is open; None otherwise."""
        system, drift = self._system, np.ptp(sampled.column)
        takes_steps = not (system.m or system.counts or system.has_contacts)
        if not (takes_steps and system.has_onsets and drift > COARSE * sampled.size and is_integrable(self._t)):
            return None
        gains = np.where(self._has_jump(), 0.0, np.diff(sampled.column[:, 0]))
        rows = doubtful_rows(gains, _SHARE * COARSE * sampled.size)
        if not len(rows):
            return None
        brief = resolved_intervals(rule, self._conversion, self._t, _rows_of(self._solution, rows), rows, gains[rows])
        others = self._broken.get("power")
        self._broken["power"] = brief if others is None else brief.before_others(others)
        return self._integral(series, "power")

    def _has_jump(self) -> np.ndarray:
        """Which intervals between frames have events in them, after which the motion is another one."""
        sign = np.sign(self._t[-1] - self._t[0])
        events = np.asarray(self._solution.stats.get("events", {}).get("t", ()), dtype=float)
        before, after = (np.searchsorted(sign * self._t, sign * events, side=side) for side in ("left", "right"))
        has = np.zeros(len(self._t) + 1, bool)
        has[before] = has[after] = True
        return has[1:-1]

    def _without_jumps(self, column: np.ndarray, observer: BatchedObserver, name: str) -> np.ndarray:
        """The column minus the jumps at events."""
        counts = are_of_user(self._solution)
        if not counts.any():
            return column
        events = self._solution.events
        before, after = (
            np.asarray(observer.observe(events.t, states)[name]) for states in (events.before, events.after)
        )
        jumps = (after - before).reshape(len(events), *column.shape[1:]) * counts.reshape(-1, *(1,) * (column.ndim - 1))
        return WithoutJumps(column, self._t, np.asarray(events.t), jumps)[0 : len(column)]


def _less(column: np.ndarray, gain: Integral | None, size: float, scale: float) -> BalancedQuantity:
    if gain is None:
        return BalancedQuantity(column, np.zeros(len(column)), size, scale)
    return BalancedQuantity(column - gain.value, gain.doubt, max(size, float(np.max(np.abs(gain.value)))), scale)


def _rows_of(solution: Run, rows: np.ndarray) -> Any:
    """States of these frames."""
    parts, start = [], 0
    for frames in solution.blocks():
        own = rows[(rows >= start) & (rows < start + len(frames.t))] - start
        parts.append(jax.tree.map(lambda x, own=own: np.asarray(x)[own], frames.state))
        start += len(frames.t)
    return jax.tree.map(lambda *x: np.concatenate(x), *parts)


def _first(state: Any) -> Any:
    return jax.tree.map(lambda x: np.asarray(x)[0], state)


def _concatenate(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    names = parts[0] if parts else ()
    return {name: np.concatenate([np.asarray(part[name], dtype=float) for part in parts]) for name in names}
