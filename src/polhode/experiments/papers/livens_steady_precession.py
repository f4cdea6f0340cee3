"""Energy–momentum and midpoint methods on the heavy top in steady precession."""

from __future__ import annotations

import functools

import numpy as np

import polhode as ph
from polhode.experiments.papers._livens_steps import SCHEMES, WHICH_MPH, largest_increment
from polhode.experiments.registry import Check, Outcome, experiment
from polhode.viewing import plots

_STEPS = (0.01, 0.005, 0.001, 0.0005)
_FINE = 0.0025

# Relative errors at t = 0.1 by an independent implementation.
_ERRORS = {
    "EML": (0.13895, 0.034296, 1.35685e-3, 3.39075e-4),
    "MPL": (0.068036, 0.0146658, 5.64421e-4, 1.40942e-4),
    "EMH": (0.26309, 0.073002, 3.01183e-3, 7.53666e-4),
    "MPH": (0.14667, 0.045990, 2.01491e-3, 5.05266e-4),
}
# Largest increments of the energy in a step up to t = 2, h = 0.01; of the generalised energy on Livens' equations.
_MIDPOINT = {"MPL": 0.559, "MPH": 3.6e-4}
_ENERGY, _MOMENTUM = 5.6690551906, 0.0710657711

_NOT_LEVEL = (
    "With h = 0.01 the top turns by 1.4 rad a step. For such a step the rate of steady precession differs by O(h²) "
    "from that of the start, and the top nutates: energy and L_z, which are kept, don't fix the height. Checked is "
    "that z leaves its height by O(h²)."
)


@experiment("004-5", paper="004", title="Heavy top in steady precession (Figs. 10–12)")
def steady_precession() -> Outcome:
    """h = 0.01 up to t = 2 with all four schemes, against the motion in closed form, (120) of the paper."""
    runs = {label: _run(name, 0.01) for label, name in SCHEMES.items()}
    checks = [*_start_checks(runs["EML"]), *_energy_checks(runs), *_momentum_checks(runs), *_path_checks()]
    figures = {f"Run, {label} (Figs. 10–12)": plots.run(run) for label, run in runs.items()}
    data = {
        label: {
            "t": np.asarray(run.t),
            "energy": np.asarray(run.invariants["energy"]),
            **{name: np.asarray(run.outputs["centre_of_mass"])[:, k] for k, name in enumerate("xyz")},
        }
        for label, run in runs.items()
    }
    return Outcome(checks, figures, data)


@experiment("004-6", paper="004", title="Heavy top in steady precession: orders (Fig. 13)")
def convergence() -> Outcome:
    """Relative error (121) of the centre of mass at t = 0.1, steps 0.01 to 0.0005."""
    errors = {label: np.array([_error(name, h) for h in _STEPS]) for label, name in SCHEMES.items()}
    others = {name: np.array([_error(name, h) for h in _STEPS]) for name in ("reml", "null-eml")}
    checks = [check for label, values in errors.items() for check in _order_checks(label, values)]
    apart = max(float(np.max(np.abs(values - errors["EML"]))) for values in others.values())
    by_scheme = np.array([errors[label] for label in ("MPL", "EML", "MPH", "EMH")])
    checks += [
        Check("errors of REML and Null-EML less those of EML", "the same solution", apart, apart < 1e-11),
        Check(
            "errors of MPL, EML, MPH, EMH with h = 0.0005",
            "Livens-based lower than Hamiltonian, MPL lowest",
            by_scheme[:, -1],
            bool(np.all(np.diff(by_scheme, axis=0) > 0)),
            f"With all steps. {WHICH_MPH}",
        ),
    ]
    steps = np.array(_STEPS)
    curves = {label: (steps, values) for label, values in errors.items()}
    figure = plots.convergence(curves, "relative error of the centre of mass at t = 0.1")
    return Outcome(checks, {"Errors (Fig. 13)": figure}, {"errors": {"h": steps, **errors}})


@functools.cache
def _problem() -> ph.Problem:
    return ph.problems.get("steady-precession")


@functools.cache
def _run(name: str, h: float) -> ph.Solution:
    return ph.simulate(_problem(), name, h=h)


def _exact(t: np.ndarray) -> np.ndarray:
    """(120): places at the times t, (n, 3)."""
    angle = 10 * t
    s, c = np.sin(np.pi / 3), np.cos(np.pi / 3)
    return 0.075 * np.stack((s * np.sin(angle), -s * np.cos(angle), c + 0 * angle), axis=-1)


def _error(name: str, h: float) -> float:
    run = ph.simulate(_problem(), name, h=h, t1=0.1, save_every=None)
    exact = _exact(np.array(0.1))
    return float(np.linalg.norm(np.asarray(run.outputs["centre_of_mass"])[-1] - exact) / np.linalg.norm(exact))


def _order_checks(label: str, errors: np.ndarray) -> list[Check]:
    slope = float(np.diff(np.log(errors[-2:]))[0] / np.diff(np.log(_STEPS[-2:]))[0])
    return [
        Check(f"{label}: order", 2, slope, abs(slope - 2) < 0.02),
        Check(
            f"{label}: relative errors at t = 0.1, h = 0.01, 0.005, 0.001, 0.0005, computed",
            _ERRORS[label],
            errors,
            bool(np.allclose(errors, _ERRORS[label], rtol=1e-4)),
            WHICH_MPH if label == "MPH" else "",
        ),
    ]


def _start_checks(run: ph.Solution) -> list[Check]:
    energy, momentum = (float(run.invariants[k][0]) for k in ("energy", "vertical_angular_momentum"))
    return [
        Check("energy at the start", _ENERGY, energy, abs(energy - _ENERGY) < 1e-10),
        Check("L_z at the start", _MOMENTUM, momentum, abs(momentum - _MOMENTUM) < 1e-10),
    ]


def _energy_checks(runs: dict[str, ph.Solution]) -> list[Check]:
    steps = {label: largest_increment(run.invariants["energy"]) for label, run in runs.items()}
    midpoint = [steps[label] for label in _MIDPOINT]
    spread = float(np.ptp(runs["EML"].outputs["total_energy"]))
    return [
        Check("EML: largest increment of the generalised energy", "round-off", steps["EML"], steps["EML"] < 1e-13),
        Check("EMH: largest increment of the energy", "round-off", steps["EMH"], steps["EMH"] < 1e-13),
        Check(
            "MPL and MPH: largest increment of the energy",
            f"far worse; {_MIDPOINT['MPL']:g} and {_MIDPOINT['MPH']:g} computed",
            midpoint,
            bool(np.allclose(midpoint, list(_MIDPOINT.values()), rtol=0.02)),
            WHICH_MPH,
        ),
        Check("EML: range of T + V at the nodes", "not conserved", spread, spread > 0.01),
    ]


def _momentum_checks(runs: dict[str, ph.Solution]) -> list[Check]:
    steps = {
        label: np.max(np.abs(np.diff(np.asarray(run.outputs["angular_momentum"]), axis=0)), axis=0)
        for label, run in runs.items()
    }
    vertical = [float(x[2]) for x in steps.values()]
    across = [float(x[:2].min()) for x in steps.values()]
    return [
        Check("largest increment of L_z: EML, MPL, EMH, MPH", "conserved", vertical, max(vertical) < 1e-14),
        Check("largest increments of L_x, L_y, all schemes, at least", "not conserved", across, min(across) > 1e-3),
    ]


def _path_checks() -> list[Check]:
    """Largest distances from the exact path over the length, h = 0.01 and a quarter of it, up to t = 2."""
    height, across = {}, {}
    for label in ("EML", "EMH"):
        gaps = [_gap(_run(SCHEMES[label], h)) for h in (0.01, _FINE)]
        height[label] = [float(np.max(np.abs(gap[:, 2]))) for gap in gaps]
        across[label] = [float(np.max(np.linalg.norm(gap[:, :2], axis=1))) for gap in gaps]
    return [
        Check(
            "largest |z - l cos ϑ|/l: EML and EMH, each with h = 0.01 and 0.0025",
            "z constant",
            list(height.values()),
            all(coarse > 8 * fine and fine < 0.05 for coarse, fine in height.values()),
            _NOT_LEVEL,
        ),
        Check(
            "largest horizontal distance from the exact path, over l: EML and EMH, each with h = 0.01 and 0.0025",
            "better with EML",
            list(across.values()),
            all(a < b for a, b in zip(across["EML"], across["EMH"], strict=True)),
        ),
    ]


def _gap(run: ph.Solution) -> np.ndarray:
    return (np.asarray(run.outputs["centre_of_mass"]) - _exact(np.asarray(run.t))) / 0.075
