"""Audits: what a method promised to keep against what a run measured.

The rules, so that a verdict can be checked by hand; n is the number of steps, ε = 2.2e-16, and drift is the largest
absolute change of an invariant since the first frame, or a residual itself:

- "round-off" is kept while drift ≤ s·ε·(100 + 8n). Rounding errors of a step are a few units in the last place. They
  usually add up like √n, but on steady motions every step repeats the same error and they add up like n, so 8 units a
  step is the smallest allowance that is never wrong. A method that leaves a sphere by 1e-8 in less than five
  million steps is found out.
- "newton" is kept while a residual is ≤ 10·s·τ and the drift of an invariant ≤ s·τ·(10 + n), with the tolerance τ of
  the nonlinear solve: constraints are solved anew in each step, errors of invariants add up. The equations are solved
  at the ends of steps. Where `save_at` asked for times between, more than that is the error of interpolation there:
  the verdict is "between steps", unless frames that do lie on steps break the promise. The same
  goes for every promise of methods on Livens' principle, whose interpolation keeps nothing exactly.
- "bounded" is kept unless the drift exceeds the round-off allowance and one of three things happens. (a) *It wanders
  one way*: the run is cut into 16 blocks, the means of consecutive blocks always move in the same direction, and the
  whole move is larger than the half range within a typical block. A random walk, whose moves have random signs, is
  called broken less than once in a thousand runs, and so would be a bounded oscillation of which the run sees half a
  period or less: so where no component of the state crosses the middle of its range three times, by a tenth of that
  range, the verdict is "undecided" instead.
  (b) *It swings ever wider*: the range within a block grows from each block to the next and at least doubles.
  (c) *It explodes*: the last quarter is more than 20 times as far off as the first half.

The scale s is 1 for "manifold"; for other residuals the largest magnitude in the first state, or 1 where that is less
(joint coordinates at rest are 0); and for an invariant the largest magnitude that it starts with (of an energy
also that of the outputs kinetic_energy and potential_energy), or where it starts at
zero (to 1e-6 of the largest magnitude in the state), what residuals have. `meta["scales"]` (quantity → s) says better
where the state has mixed or unusual units.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from polhode.runs import layout
from polhode.solution import Solution

if TYPE_CHECKING:
    from rich.table import Table

Verdict = Literal["kept", "broken", "undecided", "between steps", "not promised"]

_NEWTON_TOLERANCE = 1e-8
_BLOCKS = 16
_HEADINGS = ("quantity", "promise", "max drift", "at the end", "slope", "verdict")


@dataclasses.dataclass(frozen=True)
class Row:
    """One audited quantity.

    - `max_drift`, `end_drift`: max-norm of the change since the first frame (for residuals: the residual).
    - `slope`: of a straight line fitted to the drift, per unit of time; the steepest component of a vector.
    - `allowed`: the largest drift that a numeric promise leaves, None for "bounded" and without a promise.
    - `verdict`: "undecided" where fewer than 32 frames, or a motion that hardly swings, can't tell a drift from
      an oscillation; "between steps" where
      a promise for the ends of steps is exceeded by frames between them only.
    """

    quantity: str
    promise: str | None
    max_drift: float
    end_drift: float
    slope: float
    allowed: float | None
    verdict: Verdict


@dataclasses.dataclass(frozen=True)
class Audit:
    """A table of promises and measurements; `str`, rich, dict and notebook representations."""

    rows: tuple[Row, ...]

    @property
    def kept(self) -> bool:
        """Whether no promise was found broken."""
        return all(row.verdict != "broken" for row in self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, quantity: str) -> Row:
        for row in self.rows:
            if row.quantity == quantity:
                return row
        raise KeyError(f"The audit has no `{quantity}`; it has {', '.join(row.quantity for row in self.rows)}.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values: `kept` and the rows."""
        return {"kept": self.kept, "rows": [dataclasses.asdict(row) for row in self.rows]}

    def cells(self) -> list[tuple[str, ...]]:
        """The table as text, headings first."""
        return [_HEADINGS, *(_cells(row) for row in self.rows)]

    def to_rich(self) -> Table:
        """A table for `rich`."""
        from rich.table import Table

        table = Table(title="Audit", title_justify="left", title_style="bold")
        for heading in _HEADINGS:
            table.add_column(heading, justify="right" if heading in _HEADINGS[2:5] else "left")
        styles = {
            "kept": "green",
            "broken": "bold red",
            "undecided": "yellow",
            "between steps": "yellow",
            "not promised": "dim",
        }
        for row in self.rows:
            *cells, verdict = _cells(row)
            table.add_row(*cells, f"[{styles[row.verdict]}]{verdict}[/]")
        return table

    def __str__(self) -> str:
        lines = self.cells()
        widths = [max(len(line[i]) for line in lines) for i in range(len(_HEADINGS))]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines
        )

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
        body = "".join(
            f'<tr class="{row.verdict.replace(" ", "-")}">'
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row))
            + "</tr>"
            for row in self.rows
        )
        return f'<table class="audit"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def audit(solution: Solution) -> Audit:
    """Compares every residual and invariant of a run with `meta["promises"]`."""
    t = np.asarray(solution.t, dtype=float)
    _, leaves = layout.flatten(solution.frames)
    steps = int(solution.stats.get("steps", max(len(t) - 1, 1)))
    solved, swings = _solved(solution.meta, t), _swings(solution)
    at_steps = bool(solution.meta.get("promises_at_steps", False))
    rows = []
    for name, values in leaves.items():
        section, _, quantity = name.partition(".")
        if section in ("residuals", "invariants"):
            series = np.asarray(values, dtype=float).reshape(len(t), -1)
            drift = series if section == "residuals" else series - series[:1]
            allowed = _allowance(solution, section, quantity, series, steps)
            rows.append(_row(quantity, _promise(solution.meta, quantity), t, drift, allowed, solved, swings, at_steps))
    return Audit(tuple(rows))


def _solved(meta: Mapping[str, Any], t: np.ndarray) -> np.ndarray:
    """Which frames are ends of steps, where the method solves its equations; the others are interpolated."""
    if not meta.get("between_steps", False):
        return np.ones(len(t), bool)
    t0, t1 = meta["t0"], meta["t1"]
    if "h" not in meta:
        # The ends of controlled steps aren't known afterwards, but for the first and the last.
        return (t == t0) | (t == t1)
    steps = (t - t0) / meta["h"]
    return np.abs(steps - np.round(steps)) < 1e-9


def _row(
    quantity: str,
    promise: str | None,
    t: np.ndarray,
    drift: np.ndarray,
    allowed: Mapping[str, float],
    solved: np.ndarray,
    swings: bool,
    at_steps: bool,
) -> Row:
    size = np.max(np.abs(drift), axis=1)
    slopes = _slopes(t, drift)
    numeric = allowed.get(promise or "")
    return Row(
        quantity=quantity,
        promise=promise,
        max_drift=float(np.max(size)),
        end_drift=float(size[-1]),
        slope=float(slopes[np.argmax(np.abs(slopes))]),
        allowed=numeric if promise != "bounded" else None,
        verdict=_verdict(promise, drift, size, allowed, solved, swings, at_steps),
    )


def _verdict(
    promise: str | None,
    drift: np.ndarray,
    size: np.ndarray,
    allowed: Mapping[str, float],
    solved: np.ndarray,
    swings: bool,
    at_steps: bool,
) -> Verdict:
    if promise is None:
        return "not promised"
    if promise not in allowed:
        raise ValueError(f"A promise must be one of {', '.join(allowed)}; got {promise!r}.")
    if not np.isfinite(size).all():
        return "broken"
    if np.max(size) <= allowed[promise]:
        return "kept"
    if (promise == "newton" or at_steps) and np.max(size[solved], initial=0.0) <= allowed[promise]:
        return "between steps"
    if promise != "bounded":
        return "broken"
    if len(drift) < 2 * _BLOCKS:
        return "undecided"
    if any(swells(component) for component in drift.T):
        return "broken"
    if not any(wanders(component) for component in drift.T):
        return "kept"
    return "broken" if swings else "undecided"


def wanders(series: np.ndarray) -> bool:
    """Whether a series of shape (n,), n ≥ 32, wanders one way (see the module)."""
    blocks = np.array_split(series, _BLOCKS)
    means = np.array([np.mean(block) for block in blocks])
    ranges = np.array([np.ptp(block) for block in blocks])
    moves = np.diff(means)
    one_way = bool(np.all(moves > 0) or np.all(moves < 0))
    return one_way and bool(abs(means[-1] - means[0]) > 0.5 * np.median(ranges))


def swells(series: np.ndarray) -> bool:
    """Whether a series of shape (n,), n ≥ 32, swings ever wider or explodes (see the module)."""
    ranges = np.array([np.ptp(block) for block in np.array_split(series, _BLOCKS)])
    widens = bool(np.all(np.diff(ranges) > 0)) and ranges[-1] > 2 * ranges[0]
    off = np.abs(series - series[0])
    half, last = len(series) // 2, -(len(series) // 4)
    return widens or bool(np.max(off[last:]) > 20 * np.max(off[:half]))


def _swings(solution: Solution) -> bool:
    """Whether the motion goes to and fro, so that a bounded oscillation of an invariant would have shown itself."""
    for leaf in jax.tree.leaves(solution.state):
        values = np.asarray(leaf, dtype=float)
        for series in values.reshape(len(values), -1).T:
            low, high = np.min(series), np.max(series)
            if high - low > 1e-9 * max(abs(low), abs(high)):
                level = (series - low) / (high - low)
                side = np.sign(level[np.abs(level - 0.5) > 0.1] - 0.5)
                if np.count_nonzero(np.diff(side)) >= 3:
                    return True
    return False


def _allowance(solution: Solution, section: str, quantity: str, series: np.ndarray, steps: int) -> dict[str, float]:
    """The largest drift allowed by each promise; for "bounded" what is put down to rounding in any case."""
    scale = _scale(solution, section, quantity, series)
    tolerance = float(solution.meta.get("newton_tolerance", _NEWTON_TOLERANCE))
    rounding = scale * _epsilon(solution) * (100 + 8 * steps)
    newton = scale * tolerance * (10 if section == "residuals" else 10 + steps)
    return {"round-off": rounding, "newton": max(newton, rounding), "bounded": rounding}


def _epsilon(solution: Solution) -> float:
    """Of the least exact numbers that states are made of."""
    kinds = {np.asarray(leaf).dtype for leaf in jax.tree.leaves(solution.state)}
    return max((float(np.finfo(kind).eps) for kind in kinds if kind.kind == "f"), default=float(np.finfo(float).eps))


def _scale(solution: Solution, section: str, quantity: str, series: np.ndarray) -> float:
    declared = solution.meta.get("scales", {})
    if quantity in declared:
        return float(declared[quantity])
    if quantity == "manifold":
        return 1.0
    state = max(
        (float(np.max(np.abs(leaf[0]))) for leaf in jax.tree.leaves(solution.state) if np.size(leaf)), default=1.0
    )
    if section == "residuals":
        return max(state, 1.0)
    start = float(np.max(np.abs(series[0])))
    if quantity == "energy":
        # Its parts: their sum may start near zero because of where potentials have theirs.
        start = max([start, *(_largest(solution.outputs.get(f"{part}_energy")) for part in ("kinetic", "potential"))])
    return start if start > 1e-6 * (state or 1.0) else max(state, 1.0)


def _largest(values: Any) -> float:
    return 0.0 if values is None else float(np.max(np.abs(np.asarray(values, dtype=float)), initial=0.0))


def _promise(meta: Mapping[str, Any], quantity: str) -> str | None:
    promises = meta.get("promises", {})
    return promises.get(quantity, promises.get(quantity.split(".", 1)[0]))


def _slopes(t: np.ndarray, drift: np.ndarray) -> np.ndarray:
    centred = t - np.mean(t)
    spread = float(centred @ centred)
    return centred @ drift / spread if spread > 0 else np.zeros(drift.shape[1])


def _cells(row: Row) -> tuple[str, ...]:
    numbers = (f"{row.max_drift:.2e}", f"{row.end_drift:.2e}", f"{row.slope:+.1e}")
    return (row.quantity.replace("_", " "), row.promise or "–", *numbers, row.verdict)
