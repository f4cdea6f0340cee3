"""Orders of convergence on (TS²)^2."""

from __future__ import annotations

import numpy as np

import polhode as ph
from polhode.experiments.papers._pendulum_chain_reference import chain, spatial_end
from polhode.experiments.registry import Check, Outcome, experiment
from polhode.viewing import plots

METHODS = {"lie-euler": 1, "lie-euler-heun": 2, "rkmk3": 3, "rkmk4": 4, "cf4": 4, "rkmk4-2c": 4}
"""Name → order that the paper claims."""

_SEED = 2022

# Errors at t = 1 from the paper's planar start, computed once with other code against solutions of 24 digits; with
# 512 steps, Lie–Euler with 2048.
_PUBLISHED_START = {
    "lie-euler": 6.0e-2,
    "lie-euler-heun": 4.1e-4,
    "rkmk3": 7.8e-6,
    "rkmk4": 1.1e-8,
    "cf4": 8.9e-9,
    "rkmk4-2c": 1.1e-8,
}


def random_start() -> tuple[np.ndarray, np.ndarray]:
    """Directions and angular velocities, (2, 3) each, drawn as the authors' code does; the motion is not planar."""
    rng = np.random.default_rng(_SEED)
    q = rng.uniform(size=(2, 3))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    return q, np.cross(q, rng.uniform(size=(2, 3)))


@experiment("002-3", paper="002", title="Double spherical pendulum: orders of convergence (Fig. 5)")
def convergence() -> Outcome:
    """Six Lie group integrators on (TS²)² over 0.1 s with grids of 20, 40, 80 and 160 points, unit masses and lengths.

    The error is the Euclidean norm in R¹² at the end, against DOP853 on the dense equations in (q, ω). The start is
    drawn as in the authors' code, which gives no seed; here it is fixed. The last six checks hold the errors over 1 s
    from the paper's planar start against values computed independently.
    """
    q, omega = random_start()
    problem = ph.problems.get("pendulum-chain", n=2, q=q, omega=omega, duration=0.1)
    steps = [0.1 / (points - 1) for points in (20, 40, 80, 160)]
    exact = spatial_end(chain(2), q, omega, 0.1)
    curves = {name: _errors(problem, name, steps, exact) for name in METHODS}
    slopes = {name: ph.studies.observed_order(h, e, 1e-13) for name, (h, e) in curves.items()}
    checks = [
        Check(f"order of {name}", order, slopes[name], abs(slopes[name] - order) < 0.15)
        for name, order in METHODS.items()
    ]
    checks += _planar_errors()
    columns = {"h": next(iter(curves.values()))[0], **{name: e for name, (_, e) in curves.items()}}
    figure = plots.convergence(curves, "error in R¹² at t = 0.1")
    return Outcome(checks, {"Errors against step size (Fig. 5)": figure}, {"errors": columns})


def _planar_errors() -> list[Check]:
    problem = ph.problems.get("pendulum-chain", n=2, duration=1.0)
    q, omega = map(np.asarray, problem.state0)
    exact = spatial_end(chain(2), q, omega, 1.0)
    checks = []
    for name, published in _PUBLISHED_START.items():
        finest = 2048 if name == "lie-euler" else 512
        error = _errors(problem, name, [2 / finest, 1 / finest], exact)[1][-1]
        agrees = abs(error - published) < 0.05 * published
        checks.append(Check(f"error of {name} at t = 1, {finest} steps, planar start", published, error, agrees))
    return checks


def _errors(
    problem: ph.Problem, name: str, steps: list[float], exact: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Steps and errors in R^{6n}."""
    reference: dict[str, np.ndarray] = {"directions": exact[0], "angular_velocities": exact[1]}
    study = ph.studies.convergence(problem, name, steps, outputs=tuple(reference), reference=reference, chaos=False)
    return study.steps, np.hypot(*(study.errors[output] for output in reference))
