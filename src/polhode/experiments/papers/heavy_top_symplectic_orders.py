"""Symplectic methods on the heavy top: orders."""

from __future__ import annotations

import functools
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import polhode as ph
from polhode.experiments.papers._heavy_top_symplectic import THETAS, gravity_curve, method, top
from polhode.experiments.registry import Check, Outcome, experiment
from polhode.viewing import plots
from polhode.viewing.style import COLOURS, STYLE

_ORDERS = {"θ = 0": 1, "θ = ½": 2, "θ = 1": 1}

# Errors of Q of θ = 0, ½, 1 at t = 0.1 with 1,280 and 640 steps; computed once with another
# implementation of these methods.
_KNOWN_ERRORS = {"A": (1280, (3.0e-4, 7.0e-7, 3.0e-4)), "C": (640, (1.1e-4, 4.0e-5, 1.1e-4))}

_CROSSOVER = "Errors of Q have a part in h² that is the larger one at larger steps; the slope is that of the smallest."


@experiment("002-1", paper="002", title="Heavy top: orders of symplectic methods (Fig. 2)")
def orders() -> Outcome:
    """θ = 0, ½ and 1 on T*SO(3) ("SLGI") and on T*(SO(3)×R³) with the quadratic Hamiltonian ("SLGIKK").

    Errors of the attitude Q and of the momentum π, in the Frobenius norm, against order 6 with 100,000 steps. Printed
    data taken literally, at t = 1 and 0.1, and the same top with its inertia about the fixed point and l = 1, at 0.1.
    The paper shows SLGIKK for θ = ½ only, and does not give the step of its curves; here it is 1e-3.
    """
    cases = {("A", 1.0): _errors("A", 1.0), ("A", 0.1): _errors("A", 0.1), ("C", 0.1): _errors("C", 0.1)}
    checks = [check for (data, t), case in cases.items() for check in _order_checks(f"data {data}, t = {t:g}", case)]
    checks += [_peer_error_check(data, cases[data, 0.1]) for data in _KNOWN_ERRORS]
    checks += [_same_motion(label) for label in THETAS]
    curves, on_groups = _motion()
    checks.append(Check("largest |QᵀQ - 1|, θ = ½, h = 1e-3", "round-off", on_groups, on_groups < 1e-12))
    panels = {
        f"error of {name} at t = 1": {label: (e.h, getattr(e, part)) for label, e in cases["A", 1.0].items()}
        for name, part in (("Q", "attitude"), ("π", "momentum"))
    }
    figures = {"Motion (Fig. 2, left and centre)": curves, "Errors (Fig. 2, right)": plots.convergence_panels(panels)}
    columns = {f"{data}, t = {t:g}, {k}": e._asdict() for (data, t), case in cases.items() for k, e in case.items()}
    return Outcome(checks, figures, columns)


class _Errors(NamedTuple):
    """Of attitude and momentum by step size, and how many steps there were."""

    h: np.ndarray
    attitude: np.ndarray
    momentum: np.ndarray
    steps: np.ndarray


@functools.cache
def _end(data: str, formulation: str, label: str, steps: int, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Q and π at the end."""
    run = ph.simulate(top(data, formulation), method(label), h=t / steps, t1=t, save_every=None)
    point, momentum = run.state
    return np.asarray((point if formulation == "cotangent" else point[0])[-1]), np.asarray(momentum[-1, :3])


def _errors(data: str, t: float) -> dict[str, _Errors]:
    exact = _end(data, "cotangent", "rkmk6", 100_000, t)
    counts = np.array([round(n * t) for n in (1600, 3200, 6400, 12800, 25600)])
    cases = {f"SLGI, {label}": ("cotangent", label) for label in THETAS} | {"SLGIKK, θ = ½": ("quadratic", "θ = ½")}
    errors = {}
    for name, case in cases.items():
        ends = (_end(data, *case, int(n), t) for n in counts)
        gaps = np.array([[np.linalg.norm(a - b) for a, b in zip(end, exact, strict=True)] for end in ends])
        errors[name] = _Errors(t / counts, gaps[:, 0], gaps[:, 1], counts)
    return errors


def _order_checks(where: str, case: dict[str, _Errors]) -> list[Check]:
    checks = []
    for name, e in case.items():
        order = _ORDERS[name.split(", ")[1]]
        for quantity, errors in (("Q", e.attitude), ("π", e.momentum)):
            slope = float(np.log2(errors[-2] / errors[-1]))
            explanation = _CROSSOVER if quantity == "Q" and order == 1 and "C" in where else ""
            text = f"order of {quantity}, {name}, {where}"
            checks.append(Check(text, order, slope, abs(slope - order) < 0.1, explanation))
    return checks


def _peer_error_check(data: str, case: dict[str, _Errors]) -> Check:
    steps, peer = _KNOWN_ERRORS[data]
    measured = [float(e.attitude[e.steps == steps][0]) for e in (case[f"SLGI, {label}"] for label in THETAS)]
    # The figures have two digits.
    same = bool(np.allclose(measured, peer, rtol=0.05))
    return Check(f"errors of Q at t = 0.1, {steps} steps, θ = 0, ½, 1, data {data}, computed", peer, measured, same)


def _same_motion(label: str) -> Check:
    ends = [_end("A", formulation, label, 1_000, 1.0) for formulation in ("cotangent", "quadratic")]
    gaps = [float(np.max(np.abs(a - b))) for a, b in zip(*ends, strict=True)]
    return Check(
        f"SLGI and SLGIKK, {label}, 1,000 steps: largest difference of Q, of π",
        "different methods in the figure",
        gaps,
        gaps[0] < 1e-11 and gaps[1] < 1e-10,
        "On the direct product the R³ parts of (15)–(17) are sums: p stays, and (Q, π) moves exactly as on SO(3). "
        "Checked is that they differ by round-off; the paper's curves may be of two solvers, or of another product.",
    )


def _motion() -> tuple[Figure, float]:
    """Fig. 2, left and centre, and the largest |QᵀQ - 1|."""
    run = ph.simulate(top("A"), method("θ = ½"), h=1e-3, t1=1.0)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.4, 4.2), layout="constrained")
        gravity_curve(figure, 121, run, "Mℓ QᵀΓ₀")
        axis = figure.add_subplot(122)
        for k, name in enumerate("xyz"):
            axis.plot(run.t, np.asarray(run.outputs["axis"])[:, k], color=COLOURS[k], label=name)
        axis.set(title="Qχ", xlabel="t (s)")
        axis.legend()
    return figure, float(np.max(run.residuals["manifold"]))
