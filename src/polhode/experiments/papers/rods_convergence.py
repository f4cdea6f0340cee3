"""Half-explicit methods on rods without shear: orders of position and multipliers, stability, and drift."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

import polhode as ph
from polhode.experiments.papers._rods_steps import EDGES, rod
from polhode.experiments.registry import Check, Outcome, experiment
from polhode.viewing import plots

ORDERS = (2, 3, 4, 5)
_EXPONENTS = (7, 8, 9, 10, 11)
_REFERENCE = 12
_LONG = 10

# Relative errors of q at t = 1 with h = 2**-7, …, 2**-11, and of λ with the last two, computed once with another
# implementation of these methods; None where it was unstable.
_PEER_ERRORS: dict[str, dict[int, tuple[float | None, ...]]] = {
    "roll-up": {
        2: (2.26e-4, 4.19e-5, 8.32e-6, 1.83e-6, 4.27e-7),
        3: (7.34e-6, 8.29e-7, 9.62e-8, 1.15e-8, 1.39e-9),
        4: (3.32e-7, 1.90e-8, 1.13e-9, 6.88e-11, 4.25e-12),
        5: (5.37e-9, 1.30e-10, 3.48e-12, 1.03e-13, 1.34e-14),
    },
    "flying-spaghetti": {
        2: (None, None, 4.37e-5, 2.57e-7, 6.65e-8),
        3: (None, 1.09e-7, 1.26e-8, 2.56e-9, 3.50e-10),
        4: (3.33e-8, 1.16e-8, 2.26e-9, 1.58e-10, 1.00e-11),
        5: (None, 2.31e-9, 5.52e-11, 1.55e-12, 4.75e-14),
    },
}
_PEER_MULTIPLIERS: dict[str, dict[int, tuple[float, float]]] = {
    "roll-up": {2: (1.69e-3, 4.37e-4), 3: (7.98e-5, 2.04e-5), 4: (4.80e-8, 5.40e-9)},
    "flying-spaghetti": {2: (3.75e-3, 1.03e-3), 3: (2.40e-5, 5.90e-6), 4: (1.26e-7, 8.37e-9)},
}
_FLOOR = 5e-13

# Order 3 on the spaghetti runs up to t = 1 with 2**-8, but errors of the fastest waves grow, from rounding: no figure
# is the same in two implementations there.
_GROWING_CASE = ("flying-spaghetti", 3, 0.5**8)

# (place, kinetic energy, energy of the strains) at t = 1 and 5, computed once as above, h = 2**-13.
_ROLL_UP_TIP = {
    1: ((4.446636931, 0.0, -3.468547040), 323.715914969, 435.687962584),
    5: ((1.728550297, 0.0, -0.608177960), 116.510993308, 1443.665502276),
}
_SPAGHETTI_END = {
    1: ((0.119376245, 7.975109412, -0.017197970), 10.545469321, 16.823075616),
    5: ((11.854946073, 6.838254562, 1.854327898), 873.118328581, 8.596001999),
}

_UNSTABLE = (
    "The rod has no damping, and its stiffest wave, 2√(EA/ρA)/Δs = 320 rad/s, bounds the step of explicit methods: an "
    "error that is not small or a run that fails is taken for unstable. The paper does not say from which step on its "
    "curves begin."
)
_MULTIPLIERS = (
    "Figure 9 shows q only; of the heavy top the paper says order p for λ, too. The conditions that these coefficients "
    "meet give p - 1. Checked is that the order is between p - 1 and p + ½: where the term of order p - 1 is small or "
    "vanishes more is found."
)


class Errors(NamedTuple):
    """At t = 1 with the steps h: relative errors of q and λ and the largest |Γ₁|, |Γ₂| on the way; NaN if unstable."""

    h: np.ndarray
    q: np.ndarray
    multipliers: np.ndarray
    shear: np.ndarray

    def slope(self, values: np.ndarray, floor: float) -> float:
        """From the two smallest steps with errors above round-off."""
        keep = np.flatnonzero(values > floor)[-2:]
        if len(keep) < 2:
            return float("nan")
        return float(np.diff(np.log(values[keep]))[0] / np.diff(np.log(self.h[keep]))[0])


@experiment("000-7", paper="000", title="Roll-up: orders of half-explicit methods (Fig. 9, left)")
def roll_up() -> Outcome:
    """N = 8 edges, damping 50: q (quaternions and places of all nodes) at t = 1, steps 2⁻⁷ to 2⁻¹¹.

    The reference is order 5 with h = 2⁻¹² on the same grid in space. The paper does not give the time of comparison
    nor, in the text that is at hand, the damping: 50 and 100 both occur in the authors' configurations. Up to t = 5
    runs order 5 with h = 2⁻¹⁰.

    As in the authors' model, shear has the stress of the section although it is constrained away
    (`constrained_stress=True`). It is as small as the drift, and methods of order 2 and 3 do drift: without it, as rods
    have it by default, p = 2 has an error of 1.41e-4 instead of 2.26e-4 at h = 2⁻⁷ and λ one of 5.2e-4 instead of
    1.7e-3 at 2⁻¹⁰; orders 4 and 5 are the same.
    """
    return _study("roll-up", _ROLL_UP_TIP)


@experiment("000-8", paper="000", title="Flying spaghetti: orders of half-explicit methods (Fig. 9, right)")
def flying_spaghetti() -> Outcome:
    """As 000-7, with N = 16 edges, both ends free and no damping; q at t = 1."""
    return _study("flying-spaghetti", _SPAGHETTI_END)


def _study(name: str, peer_ends: dict[int, tuple]) -> Outcome:
    results = {p: _errors(name, p) for p in ORDERS}
    checks = [check for p in ORDERS for check in _order_checks(name, p, results[p])]
    checks += _stability_checks(name, results) if name == "flying-spaghetti" else []
    checks += [*_drift_checks(name, results), *_place_checks(name, peer_ends)]
    checks += _momentum_checks() if name == "flying-spaghetti" else []
    panels = {
        "relative error of q at t = 1": {f"p = {p}": (e.h, e.q) for p, e in results.items()},
        "relative error of λ at t = 1": {f"p = {p}": (e.h, e.multipliers) for p, e in results.items()},
    }
    data = {f"p = {p}": e._asdict() for p, e in results.items()}
    return Outcome(checks, {"Errors against step size (Fig. 9)": plots.convergence_panels(panels)}, data)


@functools.cache
def _run(name: str, p: int, exponent: int, t1: float) -> ph.Solution:
    method = ph.integrators.get(f"herk{p}", family="authors")
    problem = rod(name, constrained_stress=True)
    return ph.simulate(problem, method, h=2.0**-exponent, t1=t1, save_every=2 ** (exponent - 6), throw=False)


def _errors(name: str, p: int) -> Errors:
    exact = _end(_run(name, 5, _REFERENCE, 1.0))
    rows = []
    for k in _EXPONENTS:
        run = _run(name, p, k, 1.0)
        gaps = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(_end(run), exact, strict=True)]
        stable = run.stats["result"] == ph.Result.successful and gaps[0] < 0.1
        rows.append([*gaps, _shear(name, run)] if stable else [np.nan] * 3)
    return Errors(2.0 ** -np.array(_EXPONENTS), *np.array(rows).T)


def _end(run: ph.Solution) -> tuple[np.ndarray, np.ndarray]:
    """q as one vector, and λ, at the end."""
    assert run.multipliers is not None
    q = [np.asarray(leaf[-1]).ravel() for leaf in jax.tree.leaves(run.state[0])]
    return np.concatenate(q), np.asarray(run.multipliers[-1])


def _shear(name: str, run: ph.Solution) -> float:
    """Largest |Γ₁|, |Γ₂|; the residual is Δs times that."""
    return float(np.max(run.residuals["position"])) * EDGES[name] / 10


def _order_checks(name: str, p: int, result: Errors) -> list[Check]:
    order, of_multipliers = result.slope(result.q, _FLOOR), result.slope(result.multipliers, 2e-9)
    table = zip(result.h, _PEER_ERRORS[name][p], strict=True)
    peer = {k: e for k, (h, e) in enumerate(table) if e and e > _FLOOR and (name, p, h) != _GROWING_CASE}
    measured = result.q[list(peer)]
    return [
        Check(f"order of q, p = {p}", p, order, abs(order - p) < 0.3),
        Check(f"order of λ, p = {p}", p, of_multipliers, p - 1.2 < of_multipliers < p + 0.7, _MULTIPLIERS),
        Check(
            f"relative errors of q, {_steps(peer)}, p = {p}, computed",
            list(peer.values()),
            measured,
            bool(np.allclose(measured, list(peer.values()), rtol=0.05)),
        ),
        *_multiplier_checks(name, p, result),
    ]


def _multiplier_checks(name: str, p: int, result: Errors) -> list[Check]:
    """Errors of λ; those of order 5 are as small as what rounding does to them."""
    if p not in _PEER_MULTIPLIERS[name]:
        return []
    peer, measured = _PEER_MULTIPLIERS[name][p], result.multipliers[-2:]
    text = f"relative errors of λ, h = 2⁻¹⁰, 2⁻¹¹, p = {p}, computed"
    return [Check(text, peer, measured, bool(np.allclose(measured, peer, rtol=0.05)))]


def _steps(which: Sequence[int] | dict) -> str:
    return "h = " + ", ".join(("2⁻⁷", "2⁻⁸", "2⁻⁹", "2⁻¹⁰", "2⁻¹¹")[k] for k in which)


def _stability_checks(name: str, results: dict[int, Errors]) -> list[Check]:
    checks = []
    for p, errors in results.items():
        peer = [k for k, e in enumerate(_PEER_ERRORS[name][p]) if e is not None]
        stable = np.flatnonzero(np.isfinite(errors.q)).tolist()
        text = "stable steps, p = {}"
        checks.append(Check(text.format(p), _steps(peer), _steps(stable), stable == peer, _UNSTABLE))
    return checks


def _drift_checks(name: str, results: dict[int, Errors]) -> list[Check]:
    long = _run(name, 5, _LONG, 5.0)
    shear = {p: float(e.shear[-1]) for p, e in results.items()}
    rate = float(np.max(long.residuals["velocity"]))
    return [
        Check(
            "largest |Γ₁|, |Γ₂| up to t = 1, h = 2⁻¹¹, p = 2, 3, 4, 5",
            "drift-off does not appear",
            list(shear.values()),
            all(shear[p] < bound for p, bound in ((2, 2e-5), (3, 1e-9), (4, 1e-12), (5, 1e-12))),
            "For p = 2 it is small rather than absent: the position is not imposed, and the error is of the order of "
            "the method. Checked are bounds of 2e-5, 1e-9, 1e-12 and 1e-12.",
        ),
        Check(
            "largest |Γ₁|, |Γ₂| up to t = 5, p = 5, h = 2⁻¹⁰",
            "drift-off does not appear",
            (gap := _shear(name, long)),
            gap < 1e-11,
        ),
        Check("largest |B v| up to t = 5, p = 5, h = 2⁻¹⁰", "round-off", rate, rate < 1e-10),
    ]


def _place_checks(name: str, peer_ends: dict[int, tuple]) -> list[Check]:
    """Ends and energies against another implementation."""
    checks = []
    for t, (place, kinetic, potential) in peer_ends.items():
        run = _run(name, 5, _REFERENCE, 1.0) if t == 1 else _run(name, 5, _LONG, 5.0)
        x = np.asarray(run.outputs["tip"])[-1]
        energies = [float(run.outputs[k][-1]) for k in ("kinetic_energy", "potential_energy")]
        checks += [
            Check(f"tip at t = {t}, computed", place, x, float(np.linalg.norm(x - place)) < 1e-8),
            Check(
                f"kinetic energy and energy of the strains at t = {t}, computed",
                [kinetic, potential],
                energies,
                bool(np.allclose(energies, (kinetic, potential), rtol=1e-9)),
            ),
        ]
    return checks


def _momentum_checks() -> list[Check]:
    """The load of the spaghetti pushes for 5 s: ∫ g/10 = 50 and ∬ g/10 = 125."""
    run = _run("flying-spaghetti", 5, _LONG, 5.0)
    nodes, momentum = (np.asarray(run.outputs[k])[-1] for k in ("nodes", "linear_momentum"))
    weights = np.full(len(nodes), 1 / EDGES["flying-spaghetti"])
    weights[[0, -1]] /= 2
    centre = weights @ nodes
    return [
        Check("momentum at t = 5", (50, 0, 0), momentum, bool(np.allclose(momentum, (50, 0, 0), atol=1e-9))),
        Check("centre of mass at t = 5", (15.5, 4, 0), centre, bool(np.allclose(centre, (15.5, 4, 0), atol=1e-8))),
    ]
