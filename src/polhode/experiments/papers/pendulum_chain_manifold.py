"""Whether runs stay on (TS²)^2."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import polhode as ph
from polhode.experiments.papers.pendulum_chain_convergence import METHODS, random_start
from polhode.experiments.registry import Check, Outcome, experiment
from polhode.viewing.style import COLOURS, STYLE

_DURATION, _STEPS = 5.0, 999
_CLASSICAL = {"rk4": "classical RK4", "dopri5": "DOPRI5(4), tolerance 1e-12"}

# The largest deviation that round-off alone may bring about in a thousand steps.
_ROUND_OFF = 1e-13


class _Deviation(NamedTuple):
    """Of one run: times (k,), 1 - q_i·q_i and q_i·ω_i, (k, 2) each."""

    t: np.ndarray
    length: np.ndarray
    tangency: np.ndarray


@experiment("002-4", paper="002", title="Double spherical pendulum: staying on S² (Fig. 6)")
def lengths() -> Outcome:
    """1 - q_i·q_i over 5 s on a grid of 1000 points, from the non-planar start of 002-3.

    ODE45 of the paper is the same pair, DOPRI5(4), with controlled steps in coordinates and absolute tolerance 1e-12.
    """
    runs = _runs()
    measured = {name: float(np.abs(run.length).max()) for name, run in runs.items()}
    checks = _checks("max |1 - q·q|", measured)
    columns = {f"{name} {part}": x for name, run in runs.items() for part, x in (("t", run.t), ("1-qq", run.length))}
    return Outcome(
        checks, {"Deviation from unit length (Fig. 6)": _figure("1 − qᵢ·qᵢ", "length")}, {"deviations": columns}
    )


@experiment("002-5", paper="002", title="Double spherical pendulum: tangency (Fig. 7)")
def tangency() -> Outcome:
    """q_i·ω_i in the runs of 002-4, and in one of RK4 from the planar start of 002-6."""
    runs = _runs()
    measured = {name: float(np.abs(run.tangency).max()) for name, run in runs.items()}
    checks = _checks("max |q·ω|", measured)
    planar = float(np.abs(_run("rk4", ph.problems.get("pendulum-chain", n=2, duration=_DURATION)).tangency).max())
    checks.append(
        Check(
            "max |q·ω| of classical RK4 from the paper's planar start",
            "worse than Lie group methods",
            planar,
            planar == 0.0,
            "Does not hold for every start. The one that the paper prints for its later figures, q = (√2/2, 0, √2/2), "
            "ω = (0, 1, 0), moves in a plane: q has no y component and ω no other, so that q·ω is zero term by term "
            "for any method. Checked is that it is exactly zero; the violation shows in the runs above.",
        )
    )
    columns = {f"{name} {part}": x for name, run in runs.items() for part, x in (("t", run.t), ("qw", run.tangency))}
    return Outcome(checks, {"Deviation from tangency (Fig. 7)": _figure("qᵢ·ωᵢ", "tangency")}, {"deviations": columns})


@functools.cache
def _runs() -> dict[str, _Deviation]:
    q, omega = random_start()
    problem = ph.problems.get("pendulum-chain", n=2, q=q, omega=omega, duration=_DURATION)
    return {name: _run(name, problem) for name in (*METHODS, *_CLASSICAL)}


def _run(name: str, problem: ph.Problem) -> _Deviation:
    system, start = problem.system, problem.state0
    # Only accepted steps are looked at: interpolated points would add deviations of their own.
    how: dict[str, Any] = {"rtol": 0.0, "atol": 1e-12} if name == "dopri5" else {"h": _DURATION / _STEPS}
    run = ph.simulate(system, name, state0=start, t1=_DURATION, **how)
    q, omega = map(np.asarray, run.state)
    return _Deviation(np.asarray(run.t), 1 - np.sum(q * q, axis=2), np.sum(q * omega, axis=2))


def _checks(quantity: str, measured: dict[str, float]) -> list[Check]:
    lie_group = [
        Check(f"{quantity} of {name}", f"< {_ROUND_OFF:g}", measured[name], measured[name] < _ROUND_OFF)
        for name in METHODS
    ]
    worst = max(measured[name] for name in METHODS)
    classical = [
        Check(
            f"{quantity} of {label}",
            f"> 10 × the worst Lie group method, {10 * worst:.2g}",
            measured[name],
            measured[name] > 10 * worst,
        )
        for name, label in _CLASSICAL.items()
    ]
    return lie_group + classical


def _figure(quantity: str, part: str) -> Figure:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.4, 6.4), layout="constrained")
        top, bottom = figure.subplots(2, 2, sharex=True)
        for i, (above, below) in enumerate(zip(top, bottom, strict=True)):
            for k, (name, run) in enumerate(_runs().items()):
                values = getattr(run, part)[:, i]
                above.semilogy(run.t, np.maximum(np.abs(values), 1e-17), color=COLOURS[k], lw=1.0, label=name)
                if name in METHODS:
                    below.plot(run.t, values / 1e-15, color=COLOURS[k], lw=0.8)
            above.set(title=f"mass {i + 1}, all methods", ylabel=f"|{quantity}|", ylim=(1e-17, None))
            below.set(title=f"mass {i + 1}, Lie group methods", ylabel=f"({quantity}) / 10⁻¹⁵", xlabel="t (s)")
            above.margins(x=0)
        figure.legend(*top[0].get_legend_handles_labels(), loc="outside lower center", ncols=8)
    return figure
