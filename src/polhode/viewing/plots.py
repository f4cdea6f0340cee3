"""Figures: a run at a glance, and errors against step sizes. Figures are made without display or global state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from polhode.results.columns import column_units, select_columns
from polhode.results.protocols import Run
from polhode.viewing import text_summary
from polhode.viewing.charts.chart_series import Chart, charts
from polhode.viewing.charts.downsample import downsample, shorten
from polhode.viewing.style import COLOURS, DASHES, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE, _NAME = 46, 40
"""Largest number of characters of a title and of a name in a legend."""
_WIDTH, _HANDLE = 58, 7
"""Characters of a row of a legend, and the equivalent width of its line symbol."""
_ROW = 12.5
"""Height of a row of a legend in points."""


def run(solution: Run) -> Figure:
    """Outputs, drifts of invariants, residuals and, for adaptive runs, step sizes over time."""
    panels = charts(solution)
    if not panels:
        raise ValueError("The run has neither outputs nor invariants nor residuals, so there is nothing to draw.")
    across = 1 if len(panels) == 1 else 2 if len(panels) <= 6 else 3
    down = -(-len(panels) // across)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.9 * across, 2.8 * down + 0.5), layout="constrained")
        figure.suptitle(_headline(solution.meta), x=0.01, ha="left", fontsize=11)
        axes = figure.subplots(down, across, squeeze=False)
        for axis, panel in zip(axes.flat, panels, strict=False):
            _draw(axis, panel)
        for axis in axes.flat[len(panels) :]:
            axis.remove()
    return figure


def curves(solution: Run, columns: Sequence[str], against: str, axes: Axes | None) -> Axes:
    """Columns of a run against another one, one curve each; see `Solution.plot`."""
    across = select_columns(solution, against)
    *_, base = across
    if len(across) > 2:
        raise ValueError(f"`against` must be one column, got {against!r}, which is {', '.join([*across][1:])}.")
    values, units = {**select_columns(solution, columns), base: across[base]}, column_units(solution)
    names = [name for name in values if name not in ("time", base)]
    if not names:
        raise ValueError(f"There is nothing to draw against {base!r} but itself; name other columns.")
    with matplotlib.rc_context(STYLE):
        if axes is None:
            axes = Figure(figsize=(6.4, 3.8), layout="constrained").subplots()
        taken = len(axes.get_lines())
        for k, name in enumerate(names, start=taken):
            look = {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k % len(DASHES)]}
            axes.plot(values[base], values[name], label=name, **look)
        of_all = {units.get(name, "") for name in names}
        label = names[0] if len(names) == 1 and not taken else ""
        axes.set(
            xlabel=_with_unit(base, units.get(base, "")),
            ylabel=_with_unit(label, *of_all) if len(of_all) == 1 else label,
        )
        if len(axes.get_lines()) > 1:
            axes.legend(loc="best")
    return axes


def _with_unit(name: str, unit: str) -> str:
    return " in ".join(filter(None, (name, unit)))


Curves = Mapping[str, tuple[Any, Any]]
"""Label → (step sizes, errors), both of shape (n,)."""


def convergence(curves: Curves, quantity: str = "error", xlabel: str = "step size h") -> Figure:
    """Errors of one quantity against step sizes, with a slope triangle for each order that occurs."""
    return convergence_panels({quantity: curves}, xlabel)


def convergence_panels(panels: Mapping[str, Curves], xlabel: str = "step size h") -> Figure:
    """Like `convergence`, with one panel for each quantity."""
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4 if across == 1 else 5.2 * across, 4.4 * down), layout="constrained")
        axes = figure.subplots(down, across, squeeze=False)
        for axis, (quantity, curves) in zip(axes.flat, panels.items(), strict=False):
            _converge(axis, curves)
            axis.set(xlabel=xlabel, ylabel=quantity)
        for axis in axes.flat[len(panels) :]:
            axis.remove()
    return figure


def work_and_precision(curves: Mapping[str, np.ndarray], floor: float, quantity: str, steps: str) -> Figure:
    """Errors against steps and seconds; `curves` have (3, n) of steps, seconds, errors. Hollow up to `floor`."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.4, 4.4), layout="constrained")
        axes = figure.subplots(1, 2, sharey=True)
        for i, (name, (h, seconds, errors)) in enumerate(curves.items()):
            look = {"color": COLOURS[i % len(COLOURS)], "marker": "osD^vP*X"[i // len(COLOURS) % 8]}
            for axis, x in zip(axes, (h, seconds), strict=True):
                counts = errors > floor
                axis.loglog(x[counts], errors[counts], label=name, **look)
                axis.loglog(x[~counts], errors[~counts], linestyle="", markerfacecolor="none", **look)
        axes[0].set(xlabel=steps, ylabel=quantity)
        axes[1].set(xlabel="time, s")
        axes[1].legend(loc="best")
    return figure


def _converge(axis: Axes, curves: Curves) -> None:
    orders: set[int] = set()
    for i, (name, (steps, errors)) in enumerate(curves.items()):
        h, e = np.asarray(steps, dtype=float), np.asarray(errors, dtype=float)
        visible = (e > 0) & np.isfinite(e)
        marker = "osD^vP*X"[i // len(COLOURS) % 8]
        axis.loglog(h[visible], e[visible], marker=marker, color=COLOURS[i % len(COLOURS)], label=name)
        order = _order(h[visible], e[visible])
        if order is not None and order not in orders:
            orders.add(order)
            _triangle(axis, h[visible], e[visible], order)
    axis.legend(loc="best")


def _draw(axis: Axes, chart: Chart) -> None:
    indices = downsample(np.stack(list(chart.curves.values())))
    names = []
    for i, (name, values) in enumerate(chart.curves.items()):
        values_in_range = np.where(values > 0, values, np.nan) if chart.log else values
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        # Zero has no place on a logarithmic axis.
        names.append(shorten(name, _NAME) + (" (zero)" if chart.log and not np.any(values > 0) else ""))
        axis.plot(chart.t[indices], values_in_range[indices], color=colour, linestyle=dash, label=names[-1])
    if chart.log and all(name.endswith(" (zero)") for name in names):
        axis.set(yticks=[], xlim=(min(chart.t), max(chart.t)))
        axis.text(0.5, 0.5, "exactly zero", transform=axis.transAxes, ha="center", va="center", color="#5b616b")
    elif chart.log:
        axis.set_yscale("log")
    has_legend = any(chart.curves)
    # The legend is placed between title and axes, so that it hides neither the title nor a curve.
    across = _columns(names)
    rows = -(-len(chart.curves) // across) if has_legend else 0
    axis.set_title(shorten(_capital(chart.title), _TITLE), pad=4 + _ROW * rows)
    axis.set_xlabel(f"t in {chart.time}" if chart.time else "t")
    if chart.unit:
        axis.set_ylabel(chart.unit)
    axis.margins(x=0.01)
    if has_legend:
        axis.legend(
            ncols=across, loc="lower left", bbox_to_anchor=(0, 0.98), borderaxespad=0.3, handlelength=1.6,
            columnspacing=1.1, borderpad=0,
        )  # fmt: skip


def _columns(names: list[str]) -> int:
    """Entries of a legend that fit beside each other."""
    wide = max(map(len, names), default=0) + _HANDLE
    return max(1, min(len(names), _WIDTH // wide))


def _capital(title: str) -> str:
    """A title with a capital letter; names of parts stay as they are."""
    return title if " · " in title else title[:1].upper() + title[1:]


def _headline(meta: Mapping[str, Any]) -> str:
    return "  ·  ".join(part for part in (str(meta.get("problem") or ""), *text_summary.headline(meta)) if part)


def _order(h: np.ndarray, errors: np.ndarray) -> int | None:
    """The nearest integer to the steepest decade-to-decade slope that two neighbouring pairs agree upon."""
    if len(h) < 3:
        return None
    order_of_h = np.argsort(h)
    slopes = np.diff(np.log(errors[order_of_h])) / np.diff(np.log(h[order_of_h]))
    order = round(float(np.median(np.sort(slopes)[-max(2, len(slopes) // 2) :])))
    return order if order >= 1 else None


def _triangle(axis: Axes, h: np.ndarray, errors: np.ndarray, order: int) -> None:
    # Below the coarse end of the curve, where errors are furthest from round-off.
    top = int(np.argsort(h)[-2])
    end, start = h[top], h[top] / 1.6
    foot = errors[top] / 6
    axis.plot(
        [start, end, end, start], [foot / 1.6**order, foot / 1.6**order, foot, foot / 1.6**order], "#70757d", lw=0.9
    )
    axis.annotate(
        f"{order}", (end, foot / 1.6 ** (order / 2)), (3, 0), textcoords="offset points", va="center", color="#50555d"
    )
