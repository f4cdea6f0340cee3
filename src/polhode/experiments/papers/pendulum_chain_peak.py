"""Why controlled steps pay off on the double pendulum: one short, violent swing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import minimize_scalar

import polhode as ph
from polhode.experiments.papers._pendulum_chain_reference import PlanarMotion
from polhode.experiments.papers._pendulum_chain_steps import (
    DURATION,
    compare,
    problem,
    reference,
    with_constant_steps,
    with_control,
)
from polhode.experiments.registry import Check, Outcome, experiment
from polhode.viewing.style import COLOURS, STYLE

_GRID = np.linspace(0.0, DURATION, 1201)

# Computed once with other code: directions and angular velocities at t = 3; times and values of the greatest |ω_i^(2)|
# and of the least ω̇_i^(2).
_END = (
    ((0.71399746, 0.0, 0.70014829), (-0.57770641, 0.0, 0.81624463)),
    ((0.0, -0.96588181, 0.0), (0.0, 1.28914769, 0.0)),
)
_SPEEDS = ((2.275, 9.674), (2.274, 12.223))
_ACCELERATIONS = ((2.250, -76.57), (2.299, -103.26))


@experiment("002-7", paper="002", title="Double pendulum in detail: the peak and the steps (Figs. 9 and 11)")
def peak() -> Outcome:
    """The case N = 2 of 002-6: both runs, the exact motion, and the steps of an ambient DOPRI5(4) pair.

    The latter stands for ODE45 with the tolerances of the authors' code, RelTol 1e-6 and AbsTol 1e-12.
    """
    exact, case = reference(2, "unit", "paper"), problem(2, "unit", "paper")
    variable = with_control(case)
    constant = with_constant_steps(case, variable.stats["steps"], save_every=1)
    ambient = ph.simulate(case.system, "dopri5", rtol=1e-6, atol=1e-12, state0=case.state0, t1=DURATION)
    runs = {"RKMK(5,4), controlled steps": variable, "RKMK5, constant steps": constant}
    checks = _end_checks(exact, variable) + _peak_checks(exact) + _step_checks(variable)
    figures = {
        "Components that do not vanish (Fig. 9)": _components(exact, runs),
        "Steps, end of the motion, accelerations (Fig. 11)": _details(exact, runs, ambient),
    }
    data = {
        name: {"t": run.t, "h": np.diff(run.t), "q": run.state[0], "omega": run.state[1]}
        for name, run in (*runs.items(), ("ambient DOPRI5(4)", ambient))
    }
    return Outcome(checks, figures, data)


def _end_checks(exact: PlanarMotion, variable: ph.Solution) -> list[Check]:
    deviation = float(np.max(np.abs(np.array(exact(DURATION)) - _END)))
    q, omega = map(np.asarray, variable.state)
    off_plane = float(max(np.abs(q[:, :, 1]).max(), np.abs(omega[:, :, [0, 2]]).max()))
    both = compare(2, "unit", "paper")
    return [
        Check(
            "q₁, q₂, ω₁, ω₂ at t = 3, greatest deviation from computed values", "< 1e-8", deviation, deviation < 1e-8
        ),
        Check(
            "error at t = 3, constant over controlled steps",
            "relevant improvement by controlled steps",
            both.constant / both.variable,
            both.constant > 100 * both.variable,
        ),
        Check(
            "greatest |q^(2)|, |ω^(1)|, |ω^(3)|",
            "six components a mass are shown",
            off_plane,
            off_plane < 1e-12,
            "Three of the six vanish, since the start moves in a plane; the figure shows the other three.",
        ),
    ]


def _peak_checks(exact: PlanarMotion) -> list[Check]:
    speeds = [_greatest(lambda t, i=i: abs(float(exact(t)[1][i, 1]))) for i in range(2)]
    dips = [_greatest(lambda t, i=i: -float(exact.angular_accelerations(t)[i])) for i in range(2)]
    accelerations = [(t, -value) for t, value in dips]
    times = [t for t, _ in speeds]
    return [
        Check(
            "times of the greatest |ω₁^(2)|, |ω₂^(2)|",
            "t ≈ 2.2",
            times,
            all(2.2 <= t < 2.3 for t in times),
            "The paper's 2.2 is read from its plot; both peaks are at 2.27.",
        ),
        _peak_check("greatest |ω₁^(2)|, |ω₂^(2)|", _SPEEDS, speeds),
        _peak_check("least ω̇₁^(2), ω̇₂^(2)", _ACCELERATIONS, accelerations),
    ]


def _peak_check(name: str, peer: tuple, peaks: list) -> Check:
    """Times within 0.001, values within 0.02 %."""
    agrees = all(
        abs(t - time) < 1e-3 and abs(value - expected) < 2e-4 * abs(expected)
        for (t, value), (time, expected) in zip(peaks, peer, strict=True)
    )
    return Check(f"{name}: (time, value) of each, computed", peer, peaks, agrees)


def _greatest(f: Callable[[float], float]) -> tuple[float, float]:
    """Time and value of the maximum of f(t) over the motion."""
    k = int(np.argmax([f(t) for t in _GRID]))
    around = (_GRID[k - 1], _GRID[k + 1])
    best: Any = minimize_scalar(lambda t: -f(t), bounds=around, method="bounded", options={"xatol": 1e-9})
    return float(best.x), f(best.x)


def _step_checks(variable: ph.Solution) -> list[Check]:
    t = np.asarray(variable.t)
    h = np.diff(t)
    smallest = int(np.argmin(h))
    return [
        Check("accepted steps, computed", 117, len(h), abs(len(h) - 117) <= 2),
        Check(
            "smallest step over the median one",
            "the step is considerably restricted at the peak",
            {"ratio": float(h[smallest] / np.median(h)), "t": float(t[smallest])},
            h[smallest] < np.median(h) / 3 and 2.2 < t[smallest] < 2.35,
        ),
    ]


def _components(exact: PlanarMotion, runs: dict[str, ph.Solution]) -> Figure:
    motion = [exact(t) for t in _GRID]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11.0, 5.6), layout="constrained")
        rows = figure.subplots(2, 3, sharex=True)
        for mass, row in enumerate(rows):
            for axes, (part, component, name) in zip(row, ((0, 0, "q"), (0, 2, "q"), (1, 1, "ω")), strict=True):
                axes.plot(_GRID, [x[part][mass, component] for x in motion], color="#9aa0a8", lw=3, label="exact")
                for (label, run), style, colour in zip(runs.items(), ("o", "x"), COLOURS, strict=False):
                    values = np.asarray(run.state[part])[:, mass, component]
                    axes.plot(run.t, values, style, ms=3, mew=0.9, color=colour, label=label)
                axes.set_title(f"{name}{'₁₂'[mass]}⁽{'¹²³'[component]}⁾")
        for axes in rows[1]:
            axes.set_xlabel("t (s)")
        figure.legend(*rows[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _details(exact: PlanarMotion, runs: dict[str, ph.Solution], ambient: ph.Solution) -> Figure:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.4, 6.8), layout="constrained")
        (steps, accelerations), (end, errors) = figure.subplots(2, 2)
        _draw_steps(steps, {**runs, "ambient DOPRI5(4)": ambient})
        for i in range(2):
            values = [exact.angular_accelerations(t)[i] for t in _GRID]
            accelerations.plot(_GRID, values, color=COLOURS[i + 2], label=f"mass {i + 1}")
        accelerations.set(xlabel="t (s)", title="ω̇⁽²⁾ (rad/s²)")
        accelerations.legend()
        _draw_end(end, exact, runs)
        _draw_errors(errors, exact, runs)
    return figure


def _draw_steps(axes: Axes, runs: dict[str, ph.Solution]) -> None:
    for (label, run), colour in zip(runs.items(), (*COLOURS[:2], COLOURS[4]), strict=True):
        axes.semilogy(run.t[1:], np.diff(run.t), ".-", ms=3, lw=0.8, color=colour, label=label)
    axes.set(xlabel="t (s)", title="step size (s)")
    axes.legend(loc="lower left", fontsize=7.5)


def _draw_end(axes: Axes, exact: PlanarMotion, runs: dict[str, ph.Solution]) -> None:
    grid = _GRID[_GRID >= 2.1]
    for i in range(2):
        axes.plot(grid, [exact(t)[1][i, 1] for t in grid], color="#9aa0a8", lw=3, label=None if i else "exact")
    for (label, run), style, colour in zip(runs.items(), ("o", "x"), COLOURS, strict=False):
        is_late = np.asarray(run.t) >= 2.1
        values = np.asarray(run.state[1])[is_late, :, 1]
        axes.plot(np.asarray(run.t)[is_late], values, style, ms=3, mew=0.9, color=colour, label=[label, None])
    axes.set(xlabel="t (s)", title="ω⁽²⁾ of both masses (rad/s)")
    axes.legend(fontsize=7.5)


def _draw_errors(axes: Axes, exact: PlanarMotion, runs: dict[str, ph.Solution]) -> None:
    for (label, run), colour in zip(runs.items(), COLOURS, strict=False):
        t, omega = np.asarray(run.t), np.asarray(run.state[1])
        errors = [np.linalg.norm(w - exact(s)[1]) for s, w in zip(t[1:], omega[1:], strict=True)]
        axes.semilogy(t[1:], errors, ".-", ms=3, lw=0.8, color=colour, label=label)
    axes.set(xlabel="t (s)", title="error of ω₁ and ω₂ (rad/s)")
    axes.legend(fontsize=7.5)
