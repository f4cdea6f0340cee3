"""Orders of convergence on the quadrotors' phase space."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp

import polhode as ph
from polhode.experiments.registry import Check, Outcome, experiment
from polhode.viewing import plots

_DURATION = 0.5
_COUNTS = (25, 50, 100, 200, 400)

# Order that the paper claims, and slopes between neighbouring step sizes computed once with other code.
_METHODS = {
    "lie-euler": (1, (1.02, 1.01, 1.00, 1.00)),
    "lie-euler-heun": (2, (2.01, 2.01, 2.00, 2.00)),
    "rkmk3": (3, (2.99, 2.99, 3.00, 3.00)),
    "rkmk4": (4, (4.05, 4.03, 4.01, 4.01)),
}


@experiment("002-9", paper="002", title="Two quadrotors with a load: orders of convergence (Fig. 13)")
def convergence() -> Outcome:
    """Four RKMK methods on R⁶ × (SO(3) × R³)² × (TS²)² under the tracking control of 002-10.

    Error: Euclidean norm over all numbers of the state after 0.5 s, against DOP853 in these coordinates. The paper
    tells neither the steps nor the end of its plot. Over the 5 s of 002-10 the constant moments spin the quadrotors up
    to 60 rad/s, which steps as large as the largest ones here would not resolve.
    """
    problem = ph.problems.get("quadrotors")
    exact = _reference(problem)
    steps = np.array([_DURATION / count for count in _COUNTS])
    curves = {name: (steps, np.array([_error(problem, name, h, exact) for h in steps])) for name in _METHODS}
    checks = []
    for name, (order, peer) in _METHODS.items():
        errors = curves[name][1]
        slope = ph.studies.observed_order(steps, errors, 1e-12)
        slopes = np.log2(errors[:-1] / errors[1:])
        agrees = bool(np.all(np.abs(slopes - peer) < 0.05))
        checks += [
            Check(f"order of {name}", order, slope, abs(slope - order) < 0.15),
            Check(f"slopes of {name}, computed", peer, slopes, agrees),
        ]
    columns = {"h": steps, **{name: errors for name, (_, errors) in curves.items()}}
    figure = plots.convergence(curves, "error of the state at t = 0.5")
    return Outcome(checks, {"Errors against step size (Fig. 13)": figure}, {"errors": columns})


def _reference(problem: ph.Problem) -> np.ndarray:
    system: Any = problem.system
    start, restore = ravel_pytree(problem.state0)
    rate = jax.jit(lambda t, y: ravel_pytree(system.derivative(t, restore(y)))[0])
    solution = solve_ivp(
        lambda t, y: np.asarray(rate(t, y)),
        (0.0, _DURATION),
        np.asarray(start),
        method="DOP853",
        rtol=1e-13,
        atol=1e-13,
    )
    if not solution.success:
        raise RuntimeError(f"The reference solution failed: {solution.message}")
    return solution.y[:, -1]


def _error(problem: ph.Problem, name: str, h: float, exact: np.ndarray) -> float:
    run = ph.simulate(problem.system, name, h=float(h), state0=problem.state0, t1=_DURATION, save_every=None)
    end = ravel_pytree(jax.tree.map(lambda x: x[-1], run.state))[0]
    return float(np.linalg.norm(np.asarray(end) - exact))
