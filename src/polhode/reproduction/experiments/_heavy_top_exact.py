"""The heavy top of Brüls and Cardona at t = 1, and what runs in absolute coordinates are compared with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import polhode as ph
from polhode.integrators.base import AbstractIntegrator

PLACE = np.array((0.17334396409838604, 0.64008859207056879, -0.74849079113358131))
"""Centre of mass, from a Taylor series with 40 digits."""

MULTIPLIERS = np.array((58.274563744197, 646.558311914525, 409.441408863465))
"""In the body frame."""


class Errors(NamedTuple):
    """Of runs with the steps h: centre of mass at t = 1, velocity and multipliers there, largest |Φ| over all steps
    looked at, and mean Newton iterations a step; shape (k,) each. NaN where a run failed."""

    h: np.ndarray
    place: np.ndarray
    velocity: np.ndarray
    multipliers: np.ndarray
    drift: np.ndarray
    iterations: np.ndarray


def top(formulation: str, duration: float = 1.0) -> ph.Problem:
    """The problem; all runs with one and the same object share compiled programs."""
    return ph.problems.get("heavy-top-constrained", formulation=formulation, duration=duration)


def errors(problem: ph.Problem, integrator: AbstractIntegrator | str, steps: np.ndarray) -> Errors:
    """Errors at t = 1."""
    return Errors(np.asarray(steps), *np.array([_errors(problem, integrator, float(h)) for h in steps]).T)


def _errors(problem: ph.Problem, integrator: AbstractIntegrator | str, h: float) -> tuple[float, ...]:
    every = max(1, round(1 / h) // 64)
    run = ph.simulate(problem, integrator, h=h, t1=1.0, save_every=every, throw=False)
    if run.stats["result"] != ph.Result.successful or run.multipliers is None:
        return (np.nan,) * 5
    omega = np.asarray(problem.reference["angular_velocity"]["value"])
    return (
        float(np.linalg.norm(run.outputs["centre_of_mass"][-1] - PLACE)),
        float(np.linalg.norm(run.outputs["angular_velocity"][-1] - omega)),
        float(np.linalg.norm(run.multipliers[-1][:3] - MULTIPLIERS)),
        float(np.max(run.residuals["position"])),
        float(run.stats["newton_iterations"]),
    )
