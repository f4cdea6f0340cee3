"""The heavy top of Brüls and Cardona: its exact motion, and errors of runs in absolute coordinates at t = 1."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

import polhode as ph
from polhode.experiments.papers._formulations import place_of
from polhode.integrators.base import AbstractIntegrator

PLACE = np.array((0.17334396409838604, 0.64008859207056879, -0.74849079113358131))
"""Centre of mass at t = 1, from a Taylor series with 40 digits."""

MULTIPLIERS = np.array((58.274563744197, 646.558311914525, 409.441408863465))
"""At t = 1, in the body frame."""

SPIN = np.array((-0.822078101685, 150.0, -5.923291348117))
"""Angular velocity at t = 1, in the body frame."""

VELOCITY = np.array((0.570825303423, -4.588728296336, -3.791955154709))
"""Of the centre of mass at t = 1."""

ENERGY = 5435.696790865547

PLACES = {
    0.2: (0.605550561377, 0.598957681795, -0.523983027430),
    0.5: (-0.702468297057, -0.021165184702, -0.711400257652),
    0.8: (-0.418162424317, 0.907207967947, -0.045977057145),
    1.0: (0.173343964098, 0.640088592070, -0.748490791134),
    2.0: (-0.150416822746, -0.724165591637, -0.673022269560),
    10.0: (-0.370144191565, 0.033503155579, -0.928369977981),
}
"""t → centre of mass. Unit quaternion and body rates, DOP853 with tolerance 3e-14."""

VELOCITIES = {
    0.2: (-0.0401630336102, -3.66782378821, -4.23905329885),
    0.5: (-4.04498189258, 1.77428847936, 3.94140762274),
    0.8: (4.03503968321, 1.77576463839, -1.65983104913),
    1.0: (0.570825303423, -4.588728296336, -3.791955154709),
}
"""t → velocity of the centre of mass, from the same computation."""


def _rotation(w: float, x: float, y: float, z: float) -> np.ndarray:
    v = np.array((x, y, z))
    hat = np.array(((0, -z, y), (z, 0, -x), (-y, x, 0)))
    return (w * w - v @ v) * np.eye(3) + 2 * np.outer(v, v) + 2 * w * hat


ROTATION = _rotation(0.73294398068, -0.278285719338, 0.531824611334, -0.320176142736)
"""At t = 1."""


class Errors(NamedTuple):
    """Of runs with the steps h at t = 1, shape (k,) each; NaN where a run failed.

    Centre of mass, rotation matrix (Frobenius norm), angular velocity, velocity of the centre of mass, multipliers,
    energy, and the largest |Φ| at 64 times in between.
    """

    h: np.ndarray
    place: np.ndarray
    rotation: np.ndarray
    spin: np.ndarray
    velocity: np.ndarray
    multipliers: np.ndarray
    energy: np.ndarray
    drift: np.ndarray

    def at(self, h: float) -> int:
        """Where a step size is."""
        return place_of(h, self.h)


@functools.cache
def top(formulation: str, frame: str = "body") -> ph.Problem:
    """The problem, one object for all experiments: its runs share compiled programs."""
    return ph.problems.get("heavy-top-constrained", formulation=formulation, frame=frame)


def errors(problem: ph.Problem, integrator: AbstractIntegrator | str, steps: np.ndarray) -> Errors:
    """Errors at t = 1."""
    return Errors(np.asarray(steps), *np.array([_errors(problem, integrator, float(h)) for h in steps]).T)


def _errors(problem: ph.Problem, integrator: AbstractIntegrator | str, h: float) -> tuple[float, ...]:
    every = max(1, round(1 / h) // 64)
    run = ph.simulate(problem, integrator, h=h, t1=1.0, save_every=every, throw=False)
    if run.stats["result"] != ph.Result.successful or run.multipliers is None:
        return (np.nan,) * 7
    q, v = jax.tree.map(lambda a: a[-1], run.state)
    system: Any = problem.system
    (x, R), (spin, velocity) = system.pose(q, "top"), system.twist(q, v, "top")
    pairs = (x, PLACE), (R, ROTATION), (spin, SPIN), (velocity, VELOCITY), (run.multipliers[-1][:3], MULTIPLIERS)
    energy = float(run.invariants["energy"][-1])
    return (
        *(float(np.linalg.norm(np.asarray(value) - exact)) for value, exact in pairs),
        abs(energy - ENERGY),
        float(np.max(run.residuals["position"])),
    )
