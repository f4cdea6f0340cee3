"""Energy–momentum method on the elastic pendulum in spherical coordinates, whose mass matrix isn't constant."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import polhode as ph
from polhode.experiments.registry import Check, Outcome, experiment
from polhode.viewing import plots

_STEPS = (0.02, 0.01, 0.005, 0.0025, 0.00125)
_END = (1.0221519311, 2.3559702621, 1.541399188)
"""q(1) with h = 0.01, by an independent implementation."""
_ERRORS = (7.4e-3, 1.8e-3, 4.6e-4, 1.1e-4, 2.9e-5)
_ERRORS_OF_CODE = (8.2e-3, 2.7e-3, 1.4e-3, 1.1e-3, 1.0e-3)
_DISTANCE = 1.0239908362

_ANOTHER_DERIVATIVE = (
    "The authors' class for this system has r²θ̇² instead of rθ̇² in ∂T/∂r. The discrete gradient corrects it such that "
    "the energy is kept all the same, but the method no longer converges. All else here is with rθ̇²."
)


@experiment("004-2", paper="004", title="Elastic pendulum in spherical coordinates (Figs. 3, 4; Table 3)")
def spring_pendulum() -> Outcome:
    """EML with h = 0.01 up to t = 1; errors of q at t = 1 against the exact motion for other steps."""
    problem = ph.problems.get("spring-pendulum")
    wrong = _with_another_derivative(problem)
    errors, wrong_errors = _errors(problem), _errors(wrong)
    run = _run(problem, 0.01)
    checks = [*_energy_checks(run), *_place_checks(problem, run, errors), *_code_checks(wrong, wrong_errors)]
    curves = {"EML": (np.array(_STEPS), errors), "with r²θ̇² in ∂T/∂r": (np.array(_STEPS), wrong_errors)}
    q = np.asarray(run.outputs["coordinates"])
    energies = {"generalised": np.asarray(run.invariants["energy"]), "total": np.asarray(run.outputs["total_energy"])}
    return Outcome(
        checks,
        {"Run (Figs. 3, 4)": plots.run(run), "Errors": plots.convergence(curves, "error of q at t = 1")},
        {
            "motion": {"t": np.asarray(run.t), "r": q[:, 0], "theta": q[:, 1], "phi": q[:, 2], **energies},
            "errors": {"h": np.array(_STEPS), "EML": errors, "with another derivative": wrong_errors},
        },
    )


def _run(problem: ph.Problem, h: float) -> ph.Solution:
    return ph.simulate(problem, "eml", h=h)


def _errors(problem: ph.Problem) -> np.ndarray:
    exact = ph.problems.get("spring-pendulum").reference["coordinates"]["value"]
    ends = [np.asarray(_run(problem, h).outputs["coordinates"])[-1] for h in _STEPS]
    return np.linalg.norm(np.array(ends) - exact, axis=1)


class _AnotherDerivative(eqx.Module):
    """T with r²θ̇² for rθ̇² in its derivative by r."""

    def __call__(self, q: Array, v: Array) -> Array:
        return _kinetic(q, v)


@jax.custom_jvp
def _kinetic(q: Array, v: Array) -> Array:
    return 0.5 * (v[0] ** 2 + q[0] ** 2 * (v[1] ** 2 + (jnp.sin(q[1]) * v[2]) ** 2))


@_kinetic.defjvp
def _kinetic_derivative(at: tuple[Array, Array], along: tuple[Array, Array]) -> tuple[Array, Array]:
    (q, v), (dq, dv) = at, along
    r, s = q[0], jnp.sin(q[1])
    by_q = jnp.stack((r**2 * v[1] ** 2 + r * (s * v[2]) ** 2, r**2 * s * jnp.cos(q[1]) * v[2] ** 2, 0 * r))
    by_v = jnp.stack((v[0], r**2 * v[1], (r * s) ** 2 * v[2]))
    return _kinetic(q, v), by_q @ dq + by_v @ dv


def _with_another_derivative(problem: ph.Problem) -> ph.Problem:
    where = lambda system: system.kinetic  # noqa: E731
    system = eqx.tree_at(where, problem.system, _AnotherDerivative(), is_leaf=callable)
    invariants = {**system.invariants(), "vertical_angular_momentum": lambda t, state: state.p[2]}
    return ph.Problem(
        "spring-pendulum, other derivative", system, problem.state0, problem.t_span, {}, "",
        system.outputs(), invariants, {}, "eml", 0.01,
    )  # fmt: skip


def _energy_checks(run: ph.Solution) -> list[Check]:
    energy, total = np.asarray(run.invariants["energy"]), np.asarray(run.outputs["total_energy"])
    steps, steps_of_total = (float(np.max(np.abs(np.diff(x)))) for x in (energy, total))
    momentum = float(np.ptp(run.invariants["vertical_angular_momentum"]))
    return [
        Check("energy at the start", 1.496484375, energy[0], abs(energy[0] - 1.496484375) < 1e-14),
        Check("largest increment of the generalised energy in a step", "exact", steps, steps < 2e-14),
        Check(
            "largest increment of T + V in a step; its range",
            "of order 1e-4",
            [steps_of_total, float(np.ptp(total))],
            2e-5 < steps_of_total < 1e-4 and 1e-4 < np.ptp(total) < 5e-4,
            "Computed once before: 4.3e-5 and 2.9e-4.",
        ),
        Check(
            "range of the momentum p_φ",
            "2e-6, computed",
            momentum,
            1e-6 < momentum < 4e-6,
            "Not kept: Gonzalez' discrete gradient of T corrects along Δq, which has a part along φ.",
        ),
    ]


def _place_checks(problem: ph.Problem, run: ph.Solution, errors: np.ndarray) -> list[Check]:
    end, exact = np.asarray(run.outputs["coordinates"])[-1], problem.reference["coordinates"]["value"]
    order = float(np.polyfit(np.log(_STEPS[1:]), np.log(errors[1:]), 1)[0])
    return [
        Check("q(1), h = 0.01, computed", _END, end, bool(np.allclose(end, _END, rtol=0, atol=2e-10))),
        Check("exact r(1), computed", _DISTANCE, exact[0], abs(exact[0] - _DISTANCE) < 1e-10),
        Check("order of q at t = 1", 2, order, abs(order - 2) < 0.05),
        Check(
            "errors of q, h = 0.02 to 0.00125, computed",
            _ERRORS,
            errors,
            bool(np.allclose(errors, _ERRORS, rtol=0.05)),
        ),
    ]


def _code_checks(wrong: ph.Problem, errors: np.ndarray) -> list[Check]:
    run = _run(wrong, 0.01)
    steps = float(np.max(np.abs(np.diff(np.asarray(run.invariants["energy"])))))
    momentum = float(np.ptp(run.invariants["vertical_angular_momentum"]))
    return [
        Check(
            "the same with r²θ̇² in ∂T/∂r: largest increment of the generalised energy",
            "5e-13, computed",
            steps,
            steps < 1e-12,
        ),
        Check(
            "the same with r²θ̇² in ∂T/∂r: errors of q",
            _ERRORS_OF_CODE,
            errors,
            bool(np.allclose(errors, _ERRORS_OF_CODE, rtol=0.1)),
            _ANOTHER_DERIVATIVE,
        ),
        Check(
            "the same with r²θ̇² in ∂T/∂r: range of p_φ", "5.8e-4, computed", momentum, abs(momentum / 5.8e-4 - 1) < 0.05
        ),
    ]
