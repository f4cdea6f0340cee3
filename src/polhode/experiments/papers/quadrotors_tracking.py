"""Two quadrotors take a load along a parabola."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import polhode as ph
from polhode.experiments.registry import Check, Outcome, experiment
from polhode.viewing.style import COLOURS, STYLE

# Computed once with DOP853 and other code from the authors' data; the link is the first.
_LOAD_END = (2.5000041929, 0.0000028430, -0.7500509328)
_LINK_END = (-3.1353e-6, -0.5000000092, 0.8660253985)
_DEVIATIONS = {0.0: 0.901, 0.5: 2.93, 1.0: 1.206, 2.0: 9.55e-2, 3.0: 3.45e-3, 4.0: 2.37e-4, 5.0: 5.12e-5}
_LINK_ERRORS = {0.0: 0.83, 1.0: 2e-3, 2.0: 1.4e-5, 3.0: 8e-8, 4.0: 5e-10, 5.0: 3e-12}


@experiment("002-10", paper="002", title="Two quadrotors with a load: tracking a parabola (Figs. 14 to 18)")
def load_tracking() -> Outcome:
    """RKMK4 over 5 s with 2000 steps, data and control law of the authors' code.

    The third axis points along gravity, as the paper's equations have it; the figures show it downwards. The links'
    directions q_i point from quadrotor i to the load.
    """
    problem = ph.problems.get("quadrotors")
    run = ph.simulate(problem, "rkmk4", h=2.5e-3)
    quantities = _measure(run)
    checks = _load_checks(run, quantities) + _link_checks(run, quantities)
    figures = {
        "Snapshots (Fig. 14)": _snapshots(problem, run),
        "Load and target (Fig. 15), deviations (Figs. 16 and 17), norms (Fig. 18)": _histories(run, quantities),
    }
    columns = {"load": run.outputs["load"], "target": run.outputs["load_target"], "links": run.outputs["links"]}
    return Outcome(checks, figures, {"run": {"t": run.t, **columns, **quantities}})


def _measure(run: ph.Solution) -> dict[str, np.ndarray]:
    """Over the saved times: deviation of the load, direction errors 1 - q_id·q_i and 1 - q_i·q_i of the links."""
    q, targets = np.asarray(run.outputs["links"]), np.asarray(run.outputs["link_targets"])
    return {
        "load deviation": np.asarray(run.outputs["tracking_error"]),
        "direction error": 1 - np.sum(q * targets, axis=2),
        "norm deviation": 1 - np.sum(q * q, axis=2),
    }


def _load_checks(run: ph.Solution, quantities: dict[str, np.ndarray]) -> list[Check]:
    end = np.asarray(run.outputs["load"])[-1]
    deviation = quantities["load deviation"]
    measured = _at(run, deviation, _DEVIATIONS)
    second_by_second = _at(run, deviation, (1.0, 2.0, 3.0, 4.0, 5.0))
    return [
        Check(
            "deviation of the load from its target at t = 1, 2, 3, 4, 5",
            "tends to zero",
            second_by_second,
            bool(np.all(np.diff(second_by_second) < 0) and second_by_second[-1] < 1e-4),
        ),
        Check(
            "the same at t = 0, 0.5, 1, 2, …, 5, computed",
            list(_DEVIATIONS.values()),
            measured,
            _agree(measured, _DEVIATIONS),
        ),
        Check("load at t = 5, computed", _LOAD_END, end, float(np.abs(end - _LOAD_END).max()) < 1e-8),
    ]


def _link_checks(run: ph.Solution, quantities: dict[str, np.ndarray]) -> list[Check]:
    error = quantities["direction error"]
    measured = _at(run, error[:, 0], _LINK_ERRORS)
    link = np.asarray(run.outputs["links"])[-1, 0]
    norm, manifold = float(np.abs(quantities["norm deviation"]).max()), float(np.max(run.residuals["manifold"]))
    return [
        Check(
            "direction errors 1 - q_d·q of links 1 and 2 at t = 5", "tend to zero", error[-1], error[-1].max() < 1e-11
        ),
        Check(
            "the same of link 1 at t = 0, 1, …, 5, computed",
            list(_LINK_ERRORS.values()),
            measured,
            _agree(measured, _LINK_ERRORS),
        ),
        Check("q₁ at t = 5, computed", _LINK_END, link, float(np.abs(link - _LINK_END).max()) < 1e-8),
        Check("max |1 - q·q|", "kept to round-off", norm, norm < 1e-13),
        Check(
            "greatest distance from the phase space, attitudes and tangency included",
            "< 1e-13",
            manifold,
            manifold < 1e-13,
        ),
    ]


def _at(run: ph.Solution, values: np.ndarray, times: Any) -> np.ndarray:
    return values[np.searchsorted(np.asarray(run.t), np.array(list(times)) - 1e-9)]


def _agree(measured: np.ndarray, peer: dict[float, float]) -> bool:
    """Within a digit of the last one given, and 1e-12 for what is near round-off."""
    expected = np.array(list(peer.values()))
    digits = np.array([len(f"{x:.3g}".split("e")[0].replace(".", "").strip("0")) for x in expected])
    unit = 10.0 ** (np.floor(np.log10(expected)) - digits + 1)
    return bool(np.all(np.abs(measured - expected) <= unit + 1e-12))


def _snapshots(problem: ph.Problem, run: ph.Solution) -> Figure:
    lengths = np.asarray(problem.parameters["lengths"])
    target = np.asarray(run.outputs["load_target"])
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.4, 5.2), layout="constrained")
        axes: Any = figure.add_subplot(projection="3d")
        axes.plot(*target.T, color=COLOURS[1], lw=1, label="target")
        axes.plot(*np.asarray(run.outputs["load"]).T, color=COLOURS[0], lw=1, label="load")
        for k in np.linspace(0, len(run.t) - 1, 11).astype(int):
            load, q = np.asarray(run.outputs["load"])[k], np.asarray(run.outputs["links"])[k]
            craft = load - lengths[:, None] * q
            axes.plot(*np.stack((craft[0], load, craft[1])).T, color="#8a8f98", lw=1)
            axes.scatter(*craft.T, color=COLOURS[2], marker="s", s=16)
            axes.scatter(*load, color=COLOURS[0], s=14)
            axes.text(load[0] + 0.15, load[1], load[2], f"{float(run.t[k]):g} s", fontsize=7, color="#5b616b")
        axes.invert_zaxis()
        axes.set(
            xlabel="x (m)",
            ylabel="y (m)",
            zlabel="z, downwards (m)",
            box_aspect=(1.4, 0.6, 1.0),
            ylim=(-1.5, 1.5),
            yticks=(-1, 0, 1),
        )
        axes.view_init(elev=12, azim=-68)
        axes.legend(loc="upper left")
    return figure


def _histories(run: ph.Solution, quantities: dict[str, np.ndarray]) -> Figure:
    t, load, target = (np.asarray(x) for x in (run.t, run.outputs["load"], run.outputs["load_target"]))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11.0, 5.6), layout="constrained")
        rows = figure.subplots(2, 3, sharex=True)
        for i, axes in enumerate(rows[0]):
            axes.plot(t, target[:, i], color=COLOURS[1], label="target")
            axes.plot(t, load[:, i], color=COLOURS[0], label="load")
            axes.set_title(f"load, {'xyz'[i]} (m)")
        rows[0, 0].legend()
        _logarithmic(rows[1, 0], t, quantities["load deviation"][:, None], "deviation of the load (m)", ("load",))
        _logarithmic(rows[1, 1], t, quantities["direction error"], "direction error 1 − q_d·q", ("link 1", "link 2"))
        for i in range(2):
            rows[1, 2].plot(
                t, quantities["norm deviation"][:, i] / 1e-15, color=COLOURS[i], lw=0.8, label=f"link {i + 1}"
            )
        rows[1, 2].set(title="(1 − q·q) / 10⁻¹⁵", xlabel="t (s)")
        rows[1, 2].legend()
    return figure


def _logarithmic(axes: Axes, t: np.ndarray, values: np.ndarray, title: str, labels: tuple[str, ...]) -> None:
    for i, label in enumerate(labels):
        axes.semilogy(t, np.maximum(np.abs(values[:, i]), 1e-16), color=COLOURS[i], label=label)
    axes.set(title=title, xlabel="t (s)")
    if len(labels) > 1:
        axes.legend()
