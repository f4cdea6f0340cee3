"""Controlled against constant steps on chains of 2 to 20 pendulums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from polhode.experiments.papers._pendulum_chain_steps import DURATION, SIZES, Comparison, compare, problem
from polhode.experiments.registry import Check, Outcome, experiment
from polhode.viewing.style import COLOURS, STYLE

_QUICK = 2, 4, 6, 20
"""Numbers of pendulums in a short version."""


class _PeerResults(NamedTuple):
    """Computed once with other code, for N = 2, 4, …, 20: accepted steps, errors of controlled and constant steps."""

    steps: tuple[int, ...]
    variable: tuple[float, ...]
    constant: tuple[float, ...]


_UNIT = _PeerResults(
    (117, 156, 162, 198, 234, 265, 294, 319, 342, 362),
    (1.05e-05, 8.90e-05, 2.59e-06, 3.76e-06, 5.24e-06, 7.79e-06, 9.63e-06, 1.20e-05, 1.14e-05, 1.47e-05),
    (3.74e-03, 3.33e-04, 2.71e-05, 2.39e-05, 2.57e-05, 2.74e-05, 2.80e-05, 2.77e-05, 2.36e-05, 3.00e-05),
)
_LEVEL = _PeerResults(
    (52, 114, 181, 248, 316, 385, 446, 508, 594, 675),
    (7.88e-06, 6.68e-06, 1.88e-05, 2.31e-05, 2.22e-05, 2.16e-05, 1.91e-05, 9.81e-06, 1.93e-05, 3.48e-05),
    (2.07e-05, 2.75e-05, 8.77e-05, 1.11e-04, 9.25e-05, 8.88e-05, 8.43e-05, 7.71e-05, 8.78e-05, 1.39e-04),
)
_PAPER = _PeerResults(
    (60, 123, 186, 253, 348, 432, 527, 594, 681, 795),
    (4.56e-06, 1.11e-05, 5.79e-06, 7.52e-06, 1.93e-05, 2.77e-05, 8.71e-05, 1.46e-04, 2.28e-04, 6.82e-05),
    (3.70e-06, 1.27e-04, 9.40e-05, 8.45e-05, 4.08e-04, 6.27e-03, 2.00e-02, 1.68e-03, 5.68e-03, 1.35e-01),
)
_ENERGIES = {2: 23.310153, 4: 84.367175, 10: 574.019464, 20: 2891.711}


@experiment(
    "002-6",
    paper="002",
    title="Chains of pendulums of length 1: controlled and constant steps (Fig. 8)",
    quick=lambda: _unit_lengths(_QUICK),
)
def unit_lengths() -> Outcome:
    """RKMK(5,4) with tolerance 1e-6 against RKMK5 with as many constant steps, N = 2, 4, …, 20, over 3 s.

    q_i = (√2/2, 0, √2/2), ω_i = (0, 1, 0), unit masses. Step control as in the authors' code. Errors in the Euclidean
    norm of R^{6N} at the end, against DOP853 on Lagrange's equations of the planar motion in angles.
    """
    return _unit_lengths(SIZES)


def _unit_lengths(sizes: Sequence[int]) -> Outcome:
    results = [compare(n, "unit", "paper") for n in sizes]
    gain = {c.n: c.constant / c.variable for c in results}
    checks = [
        Check("error of constant steps over that of controlled ones, N = 2", "> 1, clearly", gain[2], gain[2] > 100),
        Check(
            "the same, N = 20",
            "no relevant improvement",
            gain[20],
            1 < gain[20] < 3,
            "Controlled steps halve the error, which is little against the factor of several hundred at N = 2.",
        ),
        _growth(results),
        Check(
            "error of constant steps: N = 2, N = 20",
            "RKMK5 seems to improve as N grows",
            [results[0].constant, results[-1].constant],
            results[-1].constant < 0.1 * results[0].constant,
        ),
        *_peer_checks(results, _UNIT),
        *(_energy(n, value) for n, value in _ENERGIES.items() if n in sizes),
    ]
    return Outcome(checks, {"Accuracy at t = 3 and steps for N = 20 (Fig. 8)": _figure(results)}, _data(results, ""))


@experiment(
    "002-8",
    paper="002",
    title="Chains of pendulums of total length 5: controlled and constant steps (Fig. 10)",
    quick=lambda: _fixed_total_length(_QUICK),
)
def fixed_total_length() -> Outcome:
    """As 002-6, with rods of length 5/N.

    The paper does not say from which start; so both are run, that of 002-6 and the one in the authors' code, all rods
    level, q_i = (1, 0, 0), and at rest.
    """
    return _fixed_total_length(SIZES)


def _fixed_total_length(sizes: Sequence[int]) -> Outcome:
    level = [compare(n, "fixed-total", "level") for n in sizes]
    paper = [compare(n, "fixed-total", "paper") for n in sizes]
    checks = [
        Check(
            "smallest error ratio constant / controlled, level start, all N",
            "step adaptivity improves the results",
            min(c.constant / c.variable for c in level),
            all(c.constant > c.variable for c in level),
        ),
        Check(
            "smallest error ratio constant / controlled, start of 002-6, N ≥ 4",
            "step adaptivity improves the results",
            min(c.constant / c.variable for c in paper[1:]),
            all(c.constant > c.variable for c in paper[1:]),
        ),
        Check(
            "error ratio constant / controlled, start of 002-6, N = 2",
            "step adaptivity improves the results",
            paper[0].constant / paper[0].variable,
            0.5 < paper[0].constant / paper[0].variable < 2,
            "Does not hold for N = 2 from this start: two rods of 2.5 m move slowly and smoothly for 3 s, and 60 equal "
            "steps are as good as 60 chosen ones. Checked is that neither is better by a factor of two.",
        ),
        _growth(level, "level start"),
        _growth(paper, "start of 002-6"),
        *_peer_checks(level, _LEVEL, "level start"),
        *_peer_checks(paper, _PAPER, "start of 002-6"),
    ]
    figures = {
        "Accuracy at t = 3 and steps for N = 20, level start (Fig. 10)": _figure(level),
        "Accuracy at t = 3 and steps for N = 20, start of 002-6 (Fig. 10)": _figure(paper),
    }
    return Outcome(checks, figures, _data(level, "level start, ") | _data(paper, "start of 002-6, "))


def _growth(results: list[Comparison], start: str = "") -> Check:
    steps = [c.steps for c in results]
    return Check(_check_name("accepted steps", start), "grow with N", steps, all(np.diff(steps) > 0))


def _peer_checks(results: list[Comparison], peer: _PeerResults, start: str = "") -> list[Check]:
    """Steps within 2 % and errors within 5 %: the same method and control, so little more than rounding may differ."""
    steps, at = [c.steps for c in results], [SIZES.index(c.n) for c in results]
    variable, constant = (tuple(column[k] for k in at) for column in (peer.variable, peer.constant))
    peer = _PeerResults(tuple(peer.steps[k] for k in at), variable, constant)
    checks = [Check(_check_name("accepted steps, computed", start), peer.steps, steps, _close(steps, peer.steps, 0.02))]
    for kind in ("variable", "constant"):
        errors, expected = [getattr(c, kind) for c in results], getattr(peer, kind)
        name = _check_name(f"errors with {'controlled' if kind == 'variable' else kind} steps, computed", start)
        checks.append(Check(name, expected, errors, _close(errors, expected, 0.05)))
    return checks


def _close(measured: list, expected: tuple, within: float) -> bool:
    return bool(np.all(np.abs(np.array(measured) - expected) <= within * np.array(expected)))


def _check_name(name: str, start: str) -> str:
    return f"{name}, {start}" if start else name


def _energy(n: int, expected: float) -> Check:
    case = problem(n, "unit", "paper")
    energy = float(case.invariants["energy"](jnp.zeros(()), case.state0))
    return Check(f"energy of the start, N = {n}, computed", expected, energy, abs(energy - expected) < 1e-6 * expected)


def _data(results: list[Comparison], prefix: str) -> dict:
    summary = {
        "N": [c.n for c in results],
        "steps": [c.steps for c in results],
        "rejected": [c.rejected for c in results],
        "error controlled": [c.variable for c in results],
        "error constant": [c.constant for c in results],
    }
    steps = {"t": results[-1].t[1:], "h": np.diff(results[-1].t)}
    return {f"{prefix}accuracy": summary, f"{prefix}steps for N = 20": steps}


def _figure(results: list[Comparison]) -> Figure:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.4, 4.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_accuracy(left, results)
        _draw_steps(right, results[-1])
    return figure


def _draw_accuracy(axes: Axes, results: list[Comparison]) -> None:
    sizes = [c.n for c in results]
    axes.semilogy(sizes, [c.constant for c in results], "s-", color=COLOURS[1], label="RKMK5, constant steps")
    axes.semilogy(sizes, [c.variable for c in results], "o-", color=COLOURS[0], label="RKMK(5,4), controlled steps")
    for c in results:
        axes.annotate(
            f"{c.steps}",
            (c.n, c.variable),
            (0, -13),
            textcoords="offset points",
            ha="center",
            fontsize=7.5,
            color="#5b616b",
        )
    axes.set(xlabel="N (below the points: steps)", ylabel="error in R⁶ᴺ at t = 3", xticks=sizes)
    axes.margins(y=0.15)
    axes.legend()


def _draw_steps(axes: Axes, run: Comparison) -> None:
    axes.semilogy(run.t[1:], np.diff(run.t), ".", ms=3, color=COLOURS[0], label="RKMK(5,4), controlled steps")
    axes.axhline(DURATION / run.steps, color=COLOURS[1], label="RKMK5, constant steps")
    axes.set(xlabel="t (s)", ylabel="step size (s)", title=f"N = {run.n}")
    axes.legend()
