"""Energy–momentum method on two masses and springs in redundant coordinates, with a singular mass matrix."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import polhode as ph
from polhode.experiments.registry import Check, Outcome, experiment
from polhode.viewing import plots

_STEPS = (0.1, 0.05, 0.025, 0.0125, 0.00625)
_FACTORS = {"printed": "¼", "code": "½"}

# q(10) with h = 0.1, by an independent implementation.
_ENDS = {
    "printed": (0.1169993183, 1.2169993183, -0.1844696872),
    "code": (0.8698906609, 1.9698906609, 0.3042679834),
}
_ERRORS = {"printed": (3.7e-2, 9.3e-3, 2.3e-3, 5.8e-4, 1.4e-4), "code": (4.6e-2, 1.1e-2, 2.8e-3, 7.0e-4, 1.8e-4)}
_ITERATIONS = 3.15


@experiment("004-1", paper="004", title="Mass–spring system with a singular mass matrix (Figs. 1, 2; Table 2)")
def mass_spring() -> Outcome:
    """EML with h = 0.1 up to t = 10; errors of q at t = 10 against the exact motion for smaller steps.

    The paper prints V = ¼Σk(x² + x⁴); the code of its authors has ½. Both are run, and the figures are those of ¼.
    """
    errors = {name: np.array([_error(name, h) for h in _STEPS]) for name in _FACTORS}
    checks = [*_shape_checks(), *(check for name in _FACTORS for check in _checks(name, errors[name]))]
    curves = {f"V with {c}": (np.array(_STEPS), errors[name]) for name, c in _FACTORS.items()}
    run = _run("printed", 0.1)
    columns = {name: np.asarray(run.outputs["coordinates"])[:, k] for k, name in enumerate(("x1", "q2", "x2"))}
    return Outcome(
        checks,
        {"Run (Figs. 1, 2)": plots.run(run), "Errors": plots.convergence(curves, "error of q at t = 10")},
        {"motion": {"t": np.asarray(run.t), **columns}, "errors": {"h": np.array(_STEPS), **errors}},
    )


@functools.cache
def _problem(potential: str) -> ph.Problem:
    return ph.problems.get("mass-spring", potential=potential)


@functools.cache
def _run(potential: str, h: float) -> ph.Solution:
    return ph.simulate(_problem(potential), "eml", h=h)


def _error(potential: str, h: float) -> float:
    exact = _problem(potential).reference["coordinates"]["value"]
    return float(np.linalg.norm(np.asarray(_run(potential, h).outputs["coordinates"])[-1] - exact))


def _shape_checks() -> list[Check]:
    problem = _problem("printed")
    system: Any = problem.system
    mass = np.asarray(system.kinetic)
    # The matrix of a step at the start: (2/h²) M bordered by the constraint's gradient.
    gradient = 1.1 * np.array([[-1.0, 1.0, 0.0]])
    whole = np.block([[200 * mass, gradient.T], [gradient, np.zeros((1, 1))]])
    singular = np.linalg.svd(mass)[1][-1], np.linalg.svd(whole)[1][-1]
    return [
        Check("mass matrix times (0, 1, -1)", "0: singular", mass @ (0, 1, -1), not np.any(mass @ (0, 1, -1))),
        Check(
            "smallest singular value of the mass matrix, and of a step's matrix [[2M/h², ∇gᵀ], [∇g, 0]]",
            "singular; regular",
            [float(x) for x in singular],
            singular[0] < 1e-14 and singular[1] > 1e-3,
        ),
    ]


def _checks(name: str, errors: np.ndarray) -> list[Check]:
    run, factor = _run(name, 0.1), _FACTORS[name]
    energy, total = np.asarray(run.invariants["energy"]), np.asarray(run.outputs["total_energy"])
    gap, end = float(np.max(run.residuals["position"])), np.asarray(run.outputs["coordinates"])[-1]
    steps, apart = float(np.max(np.abs(np.diff(energy)))), float(np.max(np.abs(energy - total)))
    order = float(np.polyfit(np.log(_STEPS[1:]), np.log(errors[1:]), 1)[0])
    iterations = float(run.stats["newton_iterations"])
    text = f"V with {factor}: "
    return [
        Check(text + "energy at the start", 1.0, energy[0], abs(energy[0] - 1) < 1e-15),
        Check(text + "largest increment of the energy in a step", "round-off", steps, steps < 1e-14),
        Check(text + "largest |g|", "round-off", gap, gap < 1e-14),
        Check(text + "generalised energy less T + V", "0, as the mass matrix is constant", apart, apart < 1e-14),
        Check(
            text + "q(10), h = 0.1, computed", _ENDS[name], end, bool(np.allclose(end, _ENDS[name], rtol=0, atol=2e-10))
        ),
        Check(text + "order of q at t = 10", 2, order, abs(order - 2) < 0.05),
        Check(
            text + "errors of q at t = 10, h = 0.1 to 0.00625, computed",
            _ERRORS[name],
            errors,
            bool(np.allclose(errors, _ERRORS[name], rtol=0.05)),
        ),
        Check(
            text + "Newton iterations a step, h = 0.1",
            f"about {_ITERATIONS}, computed",
            iterations,
            abs(iterations - _ITERATIONS) < 1,
            "They depend on the predictor and on when the iteration ends: here at round-off.",
        ),
    ]
