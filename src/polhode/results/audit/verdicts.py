"""Verdicts of an audit, by the rules in `polhode.results.audit`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polhode.checks import short_repr
from polhode.results.audit.balances import COARSE, BalancedQuantity, balances
from polhode.results.audit.block_statistics import (
    BLOCKS,
    SeriesStatistics,
    is_drifting,
    is_growing,
    series_statistics,
    span,
    swings,
)
from polhode.results.audit.contacts import contact_audit
from polhode.results.audit.event_jumps import WithoutJumps
from polhode.results.audit.kinks import kink_remarks
from polhode.results.audit.model_limits import limit_remarks
from polhode.results.audit.spins import spin_remarks
from polhode.results.audit.step_ends import step_end_test
from polhode.results.audit.table import Accuracy, Audit, Row, Verdict

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_NEWTON_TOLERANCE = 1e-8
"""Default for solutions that were not made by `simulate` and have no tolerance."""

_WRONG = 1e-2
"""Relative drift above which a run counts as wrong."""

_LEAST_EXCHANGE = 0.01
"""Fraction of the kinetic energy below which an exchange is neglected: steady motions exchange no energy."""

_LEAST_SIZE = 0.1
"""Fraction of the state below which the size of an invariant is neglected: many start near zero."""

_MOMENTA = ("linear_momentum", "angular_momentum")


def audit(solution: Run) -> Audit:
    """Compares every residual and invariant of a run with `meta["promises"]`.

    Raises ValueError for several runs in one solution, as `jax.vmap` returns them.
    """
    if np.ndim(solution.t) != 1:
        raise ValueError(
            f"`solution` holds several runs (its times have shape {np.shape(solution.t)}), and an audit is of one. "
            "Audit each case: jax.tree.map(lambda x: x[k], solution).audit()."
        )
    auditor = _Auditor(solution)
    joints = auditor.meta.get("names", {}).get("joints", {})
    contact_rows, contact_remarks = contact_audit(solution)
    rows = (*auditor.rows(), *contact_rows)
    spins, limits = spin_remarks(solution, auditor.columns, rows), limit_remarks(joints, auditor.columns)
    return Audit(rows, (*spins, *kink_remarks(solution), *limits, *contact_remarks))


class _Auditor:
    """State of one audit: the run, its columns and scales."""

    def __init__(self, solution: Run) -> None:
        self.meta, self.columns = solution.meta, solution.columns()
        self.time = self.columns["time"]
        self.steps = int(solution.stats.get("steps", max(len(self.time) - 1, 1)))
        self.is_step_end = step_end_test(self.meta)
        self.events = solution.stats.get("events", {})
        self.balances = balances(solution, self.columns)
        self.at_steps = bool(self.meta.get("promises_at_steps", False))
        self.states = [column for name, column in self.columns.items() if name.partition(".")[0] == "state"]

    def rows(self) -> list[Row]:
        rows = []
        for name, column in self.columns.items():
            section, _, quantity = name.partition(".")
            if section in ("residuals", "invariants"):
                rows.append(self._row(section, quantity, column))
        return rows + [self._balance_row(name, one) for name, one in self.balances.items()]

    def _balance_row(self, quantity: str, one: BalancedQuantity) -> Row:
        """The row of a quantity minus the gain from loads; no method makes promises about it."""
        m = series_statistics(self.time, one.column, False, self.is_step_end)
        is_rounding = m.finite and m.largest <= min(
            self._allowance("invariants", one.scale)["bounded"], COARSE * one.scale
        )
        relative = 0.0 if is_rounding else _ratio(float(np.max(one.beyond)), one.size)
        accuracy = _accuracy(relative)
        slope = float(m.slopes[np.argmax(np.abs(m.slopes))])
        remark = self._remark("invariants", quantity, relative, accuracy, "not promised")
        return Row(quantity, None, m.largest, m.end, slope, None, "not promised", relative, accuracy, remark)

    def _row(self, section: str, quantity: str, column: Any) -> Row:
        jumps = self.events.get("jumps", {}).get(f"{section}.{quantity}")
        if jumps is not None:
            column = WithoutJumps(column, self.time, np.asarray(self.events["t"]), np.asarray(jumps, float))
        m = series_statistics(self.time, column, section == "residuals", self.is_step_end)
        scale = self._scale(section, quantity, m)
        allowed = self._allowance(section, scale)
        promise = _promise(self.meta, quantity)
        verdict = self._verdict(promise, m, allowed)
        is_rounding = m.finite and m.largest <= min(allowed["bounded"], COARSE * scale)
        relative = 0.0 if is_rounding else _ratio(m.largest, self._measure(section, quantity, m, scale))
        accuracy = _accuracy(relative)
        return Row(
            quantity=quantity,
            promise=promise,
            max_drift=m.largest,
            end_drift=m.end,
            slope=float(m.slopes[np.argmax(np.abs(m.slopes))]) if len(m.slopes) else 0.0,
            allowed=allowed.get(promise or "") if promise != "bounded" else None,
            verdict=verdict,
            relative=relative,
            accuracy=accuracy,
            remark=self._remark(section, quantity, relative, accuracy, verdict),
        )

    def _remark(self, section: str, quantity: str, relative: float, accuracy: Accuracy, verdict: Verdict) -> str:
        """The remark on a drift beyond `COARSE`."""
        if accuracy == "accurate":
            return ""
        of_exchange = quantity == "energy" and self._is_moving
        by = f"{100 * relative:.2g} %" if relative < 1 else f"{100 * relative:.0f} %"
        by = f"by {by}{' of what is exchanged' if of_exchange else ''}"
        if relative >= 10:
            by = f"by {relative:.2g} times {'what is exchanged' if of_exchange else 'its size'}"
        by = by if np.isfinite(relative) else "beyond all numbers"
        label = quantity.replace("_", " ")
        too = "the tolerances are too loose" if "rtol" in self.meta else "the step is too large"
        judgement = too if accuracy == "wrong" else "coarse"
        if section == "residuals":
            return f"{label} is off {by} of the size of the system: {judgement}"
        if verdict == "kept":
            return f"{label} oscillates {by}, without a drift: {'for accuracy ' if judgement == too else ''}{judgement}"
        return f"{label} drifted {by}: {judgement}"

    def _verdict(self, promise: str | None, m: SeriesStatistics, allowed: Mapping[str, float]) -> Verdict:
        if promise is None:
            return "not promised"
        if promise not in allowed:
            raise ValueError(f"A promise must be one of {', '.join(allowed)}; got {short_repr(promise)}.")
        if not m.finite:
            return "broken"
        if m.largest <= allowed[promise]:
            return "kept"
        if (promise == "newton" or self.at_steps) and m.at_step_ends <= allowed[promise]:
            return "between steps"
        if promise != "bounded":
            return "broken"
        if m.count < 2 * BLOCKS:
            return "undecided"
        if is_growing(m).any():
            return "broken"
        if not is_drifting(m).any():
            return "kept"
        return "broken" if self.swings else "undecided"

    @functools.cached_property
    def swings(self) -> bool:
        """Whether the motion oscillates, so that a bounded oscillation of an invariant would be visible."""
        return any(swings(column) for column in self.states)

    def _allowance(self, section: str, scale: float) -> dict[str, float]:
        """The largest drift allowed by each promise; for "bounded" the round-off allowance."""
        tolerance = float(self.meta.get("newton_tolerance", _NEWTON_TOLERANCE))
        round_off = scale * self.epsilon * (100 + 8 * self.steps)
        newton = scale * tolerance * (10 if section == "residuals" else 10 + self.steps)
        return {"round-off": round_off, "newton": max(newton, round_off), "bounded": round_off}

    @functools.cached_property
    def epsilon(self) -> float:
        """Machine epsilon of the least precise number type in the state."""
        kinds = {np.asarray(column[0:1]).dtype for column in self.states}
        floats = (float(np.finfo(kind).eps) for kind in kinds if kind.kind == "f")
        return max(floats, default=float(np.finfo(float).eps))

    @functools.cached_property
    def state(self) -> float:
        """The largest magnitude in the first state."""
        firsts = [np.abs(np.asarray(column[0:1], dtype=float)) for column in self.states]
        return max((float(np.max(first)) for first in firsts if first.size), default=1.0)

    @functools.cached_property
    def fastest(self) -> float:
        """The largest magnitude of a velocity in any frame, of states (q, v)."""
        speeds = (
            np.max(np.abs(span(c)), initial=0.0) for n, c in self.columns.items() if f"{n}.".startswith("state.1.")
        )
        return float(max(speeds, default=0.0))

    def _scale(self, section: str, quantity: str, m: SeriesStatistics) -> float:
        scales = self.meta.get("scales", {})
        if quantity in scales:
            return float(scales[quantity])
        if quantity == "manifold":
            return 1.0
        if section == "residuals":
            return max(self.state, 1.0)
        start = float(np.max(np.abs(m.first), initial=0.0))
        parts = np.max(np.abs(list(self.parts.values())), initial=0.0)
        if quantity == "energy" and parts > 0:
            # Their sum may start near zero, depending on the zero of the potential.
            return float(max(start, parts))
        return start if start > 1e-6 * (self.state or 1.0) else max(self.state, 1.0)

    @functools.cached_property
    def parts(self) -> dict[str, tuple[float, float]]:
        """Least and largest kinetic and potential energy, where the run reports them."""
        parts = {}
        for name in ("kinetic_energy", "potential_energy"):
            if f"outputs.{name}" in self.columns:
                low, high = span(self.columns[f"outputs.{name}"])
                parts[name] = float(np.min(low)), float(np.max(high))
        return parts

    @property
    def _is_moving(self) -> bool:
        """Whether a kinetic energy is reported that isn't zero."""
        return "kinetic_energy" in self.parts and self.parts["kinetic_energy"][1] != 0

    def _measure(self, section: str, quantity: str, m: SeriesStatistics, scale: float) -> float:
        """The scale of a drift by which the accuracy of a run is judged."""
        if quantity in self.meta.get("scales", {}):
            return scale
        if section == "residuals":
            return max(scale, self.fastest) if quantity == "velocity" else scale
        kinetic = self.parts.get("kinetic_energy", (0.0, 0.0))[1]
        if quantity == "energy" and self._is_moving:
            # None of these depends on the zero of the potential.
            return float(np.max([*(high - low for low, high in self.parts.values()), _LEAST_EXCHANGE * kinetic]))
        start = float(np.max(np.abs(m.first), initial=0.0))
        if quantity in _MOMENTA and self._is_moving and self.state > 0:
            first = float(np.sum(np.asarray(self.columns["outputs.kinetic_energy"][0:1], dtype=float)))
            if first >= _LEAST_EXCHANGE * kinetic:
                # Σ |p| ≥ 2T / max |v|: the momentum of all bodies together may start at zero.
                return max(start, 2 * first / self.state)
        return max(start, _LEAST_SIZE * (self.state or 1.0))


def _accuracy(relative: float) -> Accuracy:
    return "accurate" if relative <= COARSE else "coarse" if relative <= _WRONG else "wrong"


def _ratio(drift: float, size: float) -> float:
    """Infinite or NaN for a size of zero."""
    with np.errstate(all="ignore"):
        return float(np.divide(drift, size))


def _promise(meta: Mapping[str, Any], quantity: str) -> str | None:
    promises = meta.get("promises", {})
    return promises.get(quantity, promises.get(quantity.split(".", 1)[0]))
