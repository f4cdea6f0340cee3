"""The list of named integrators."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from polhode import checks
from polhode.checks import short_repr
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.energy_momentum import EnergyMomentum, LivensMidpoint
from polhode.integrators.energy_momentum.hamiltonian_quaternions import HamiltonianQuaternions
from polhode.integrators.explicit import commutator_free as cf
from polhode.integrators.explicit.classical import ClassicalRungeKutta
from polhode.integrators.explicit.commutator_free import CommutatorFree
from polhode.integrators.explicit.half_explicit import HalfExplicit
from polhode.integrators.explicit.rkmk import RKMK
from polhode.integrators.explicit.rkmk4_two_commutators import RKMK4TwoCommutators
from polhode.integrators.implicit.bdf import BDF
from polhode.integrators.implicit.generalized_alpha import GeneralizedAlpha
from polhode.integrators.implicit.implicit_midpoint import ImplicitMidpoint
from polhode.integrators.nonsmooth.lie_rattle import LieRattle
from polhode.integrators.nonsmooth.moreau import Moreau
from polhode.integrators.nonsmooth.nonsmooth_alpha import NonsmoothGeneralizedAlpha
from polhode.integrators.nonsmooth.sparse_moreau import SparseMoreau
from polhode.integrators.tableaus import runge_kutta as rk
from polhode.integrators.tableaus.half_explicit import select_tableau as half_explicit_tableau
from polhode.integrators.variational.rattle import Rattle, StormerVerlet
from polhode.integrators.variational.rigid_verlet import RigidVerlet
from polhode.integrators.variational.rodrigues import Rodrigues
from polhode.integrators.variational.symmetric_composition import SymmetricComposition
from polhode.integrators.variational.symplectic import SymplecticLieGroup


@dataclasses.dataclass(frozen=True)
class _Entry:
    """Construction of a named integrator.

    - `kind`: its class; `make`: its factory, if not the class itself.
    - `preset`: arguments that the name stands for; options can override plain values among them.
    - `forms`: other classes that `AbstractIntegrator.for_system` gives.
    """

    kind: type[AbstractIntegrator]
    preset: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    make: Callable[..., AbstractIntegrator] | None = None
    forms: tuple[type[AbstractIntegrator], ...] = ()

    def options(self) -> dict[str, Any]:
        """Option name → default."""
        values: dict[str, Any] = {}
        if self.make is not None:
            parameters = inspect.signature(self.make).parameters.values()
            values.update({p.name: p.default for p in parameters if p.kind is not p.VAR_KEYWORD})
        values.update({f.name: f.default for f in dataclasses.fields(self.kind)})
        values.update(self.preset)
        return {name: value for name, value in values.items() if isinstance(value, _OPTION)}

    def kinds(self) -> dict[str, Any]:
        """Option name → annotation."""
        return typing.get_type_hints(self.kind) | (typing.get_type_hints(self.make) if self.make else {})

    def build(self, **options: Any) -> AbstractIntegrator:
        return (self.make or self.kind)(**{**self.preset, **options})


_OPTION = bool | int | float | str | None


def _rkmk(tableau: rk.Tableau, **fixed: Any) -> _Entry:
    return _Entry(RKMK, {"tableau": tableau, **fixed})


def _commutator_free(scheme: cf.Scheme) -> _Entry:
    return _Entry(CommutatorFree, {"scheme": scheme})


def _classical(tableau: rk.Tableau) -> _Entry:
    return _Entry(ClassicalRungeKutta, {"tableau": tableau})


def _half_explicit(order: int, pair: bool = False) -> _Entry:
    def make(family: str = "multiplier-order-p", variant: str | None = None, **options: Any) -> AbstractIntegrator:
        return HalfExplicit(half_explicit_tableau(order, family, variant, pair), **options)

    return _Entry(HalfExplicit, make=make)


def _composition(order: int) -> Callable[..., AbstractIntegrator]:
    def make(**options: Any) -> AbstractIntegrator:
        return SymmetricComposition(SymplecticLieGroup(**options), order)

    return make


_INTEGRATORS: dict[str, _Entry] = {
    "lie-euler": _rkmk(rk.EULER),
    "lie-euler-heun": _rkmk(rk.HEUN, dexpinv="none"),
    "lie-midpoint": _rkmk(rk.MIDPOINT, dexpinv="none"),
    "rkmk3": _rkmk(rk.KUTTA3),
    "rkmk4": _rkmk(rk.RK4),
    "rkmk4-2c": _Entry(RKMK4TwoCommutators),
    "rkmk5": _rkmk(rk.without_pair(rk.DORMAND_PRINCE)),
    "rkmk6": _rkmk(rk.BUTCHER6),
    "rkmk32": _rkmk(rk.BOGACKI_SHAMPINE),
    "rkmk54": _rkmk(rk.DORMAND_PRINCE),
    "cg3": _commutator_free(cf.CG3),
    "cg4": _commutator_free(cf.CG4),
    "cf3": _commutator_free(cf.CF3),
    "cf4": _commutator_free(cf.CF4),
    "cf32a": _commutator_free(cf.CF32A),
    "cf32b": _commutator_free(cf.CF32B),
    "cf43": _commutator_free(cf.CF43),
    "rk4": _classical(rk.RK4),
    "rk6": _classical(rk.BUTCHER6),
    "ode23": _classical(rk.BOGACKI_SHAMPINE),
    "dopri5": _classical(rk.DORMAND_PRINCE),
    "generalized-alpha": _Entry(GeneralizedAlpha, forms=(NonsmoothGeneralizedAlpha,)),
    "bdf": _Entry(BDF),
    **{f"herk{order}": _half_explicit(order) for order in range(1, 6)},
    "herk54": _half_explicit(5, pair=True),
    "implicit-midpoint": _Entry(ImplicitMidpoint),
    "moreau": _Entry(Moreau, forms=(SparseMoreau,)),
    "stormer-verlet": _Entry(StormerVerlet),
    "rattle": _Entry(Rattle, forms=(LieRattle,)),
    "rodrigues": _Entry(Rodrigues),
    "rigid-verlet": _Entry(RigidVerlet),
    "symplectic": _Entry(SymplecticLieGroup),
    "symplectic4": _Entry(SymplecticLieGroup, make=_composition(4)),
    "symplectic6": _Entry(SymplecticLieGroup, make=_composition(6)),
    "eml": _Entry(EnergyMomentum, {"unknowns": "all"}),
    "reml": _Entry(EnergyMomentum, {"unknowns": "reduced"}),
    "null-eml": _Entry(EnergyMomentum, {"unknowns": "null-space"}),
    "mpl": _Entry(LivensMidpoint),
    "emh": _Entry(HamiltonianQuaternions, {"discrete": True}),
    "mph": _Entry(HamiltonianQuaternions, {"discrete": False}),
}


def names() -> list[str]:
    """All integrator names."""
    return list(_INTEGRATORS)


def options(name: str) -> dict[str, Any]:
    """The options of the integrator called `name` with their defaults; its class describes them.

    Raises ValueError for unknown names.
    """
    return _entry(name).options()


def get(name: str, **options: Any) -> AbstractIntegrator:
    """The integrator called `name`, with options of its class.

    Raises ValueError for unknown names and options, naming the known ones, and for values that an option can't have.
    """
    entry = _entry(name)
    defaults, kinds = entry.options(), entry.kinds()
    for option, value in options.items():
        if option not in defaults:
            has = f"It has {', '.join(defaults)}." if defaults else "It has none."
            raise ValueError(f"Integrator `{name}` has no option `{option}`.{checks.nearest(option, defaults)} {has}")
        _check_value(name, option, value, kinds[option])
    return entry.build(**options)


def name_of(method: AbstractIntegrator) -> str | None:
    """The name under which `get` returns this method without options; None if there is none."""
    from polhode.integrators.serialisation import serialise

    method = method.plain
    record = serialise(method)
    if record is None:
        return None
    for name, entry in _INTEGRATORS.items():
        if isinstance(method, entry.kind) or entry.make is not None:
            candidates = (get(name),)
        else:
            candidates = tuple(form() for form in entry.forms if isinstance(method, form))
        if any(serialise(candidate) == record for candidate in candidates):
            return name
    return None


def _entry(name: str) -> _Entry:
    if checks.word("name", name, "of an integrator") not in _INTEGRATORS:
        near = checks.nearest(name, _INTEGRATORS)
        raise ValueError(f"There is no integrator `{name}`.{near} Known: {', '.join(_INTEGRATORS)}.")
    return _INTEGRATORS[name]


def _check_value(name: str, option: str, value: Any, kind: Any) -> None:
    """Raises ValueError unless `value` is of the annotated kind; the class checks its range."""
    kinds = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    if not any(_fits(value, one) for one in kinds):
        alternatives = " or ".join(_describe_kind(one) for one in kinds)
        raise ValueError(f"`{option}` must be {alternatives} for integrator `{name}`, got {short_repr(value)}.")


def _fits(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) is Literal:
        return isinstance(value, str) and value in typing.get_args(kind)
    numbers: dict[Any, Any] = {int: int | np.integer, float: int | float | np.integer | np.floating}
    if kind in numbers:
        return isinstance(value, numbers[kind]) and not isinstance(value, bool)
    return isinstance(value, kind)


def _describe_kind(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return " or ".join(map(repr, typing.get_args(kind)))
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a word", types.NoneType: "None"}
    return words[kind]
