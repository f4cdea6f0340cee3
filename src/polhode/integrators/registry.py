"""The list of named integrators."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from polhode.integrators import commutator_free as cf
from polhode.integrators import tableaus as rk
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.classical import ClassicalRungeKutta
from polhode.integrators.commutator_free import CommutatorFree
from polhode.integrators.generalized_alpha import GeneralizedAlpha
from polhode.integrators.half_explicit import HalfExplicit
from polhode.integrators.half_explicit_tableaus import named as half_explicit_tableau
from polhode.integrators.rkmk import RKMK
from polhode.integrators.rkmk4_two_commutators import RKMK4TwoCommutators


def _rkmk(tableau: rk.Tableau, **fixed: Any) -> Callable[..., AbstractIntegrator]:
    return lambda **options: RKMK(tableau, **{**fixed, **options})


def _free(scheme: cf.Scheme) -> Callable[..., AbstractIntegrator]:
    return lambda **options: CommutatorFree(scheme, **options)


def _classical(tableau: rk.Tableau) -> Callable[..., AbstractIntegrator]:
    return lambda **options: ClassicalRungeKutta(tableau, **options)


def _half_explicit(order: int, pair: bool = False) -> Callable[..., AbstractIntegrator]:
    def make(family: str = "multiplier-order-p", variant: str | None = None, **options: Any) -> AbstractIntegrator:
        return HalfExplicit(half_explicit_tableau(order, family, variant, pair), **options)

    return make


_INTEGRATORS: dict[str, Callable[..., AbstractIntegrator]] = {
    "lie-euler": _rkmk(rk.EULER),
    "lie-euler-heun": _rkmk(rk.HEUN, dexpinv="none"),
    "lie-midpoint": _rkmk(rk.MIDPOINT, dexpinv="none"),
    "rkmk3": _rkmk(rk.KUTTA3),
    "rkmk4": _rkmk(rk.RK4),
    "rkmk4-2c": RKMK4TwoCommutators,
    "rkmk5": _rkmk(rk.without_pair(rk.DORMAND_PRINCE)),
    "rkmk6": _rkmk(rk.BUTCHER6),
    "rkmk32": _rkmk(rk.BOGACKI_SHAMPINE),
    "rkmk54": _rkmk(rk.DORMAND_PRINCE),
    "cg3": _free(cf.CG3),
    "cg4": _free(cf.CG4),
    "cf3": _free(cf.CF3),
    "cf4": _free(cf.CF4),
    "cf32a": _free(cf.CF32A),
    "cf32b": _free(cf.CF32B),
    "cf43": _free(cf.CF43),
    "rk4": _classical(rk.RK4),
    "rk6": _classical(rk.BUTCHER6),
    "ode23": _classical(rk.BOGACKI_SHAMPINE),
    "dopri5": _classical(rk.DORMAND_PRINCE),
    "generalized-alpha": GeneralizedAlpha,
    **{f"herk{order}": _half_explicit(order) for order in range(1, 6)},
    "herk54": _half_explicit(5, pair=True),
}


def names() -> list[str]:
    """All integrator names."""
    return list(_INTEGRATORS)


def get(name: str, **options: Any) -> AbstractIntegrator:
    """The integrator called `name`, with options of its class.

    Raises ValueError for unknown names and options, naming the known ones.
    """
    if name not in _INTEGRATORS:
        near = get_close_matches(name, _INTEGRATORS, n=1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        raise ValueError(f"There is no integrator `{name}`.{hint} Known: {', '.join(_INTEGRATORS)}.")
    try:
        return _INTEGRATORS[name](**options)
    except TypeError as error:
        raise ValueError(f"Integrator `{name}` does not take the options {sorted(options)}: {error}.") from error
