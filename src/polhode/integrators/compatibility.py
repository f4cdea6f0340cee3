"""Compatibility of methods with systems and their conversions."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, NamedTuple

from polhode import checks, summary
from polhode.integrators import registry
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.ranking import Default, Tier, merits, tier_of
from polhode.systems.base import AbstractConversion, AbstractSystem, Converted, State
from polhode.systems.conversion import Conversion


class ConvertedSystem(NamedTuple):
    """A system in the form that a method takes.

    - `converted`: the system with maps of states. - `note`: on the conversion, for users; empty for the system itself.
    """

    converted: Converted
    note: str


class IncompatibleSystem(ValueError):
    """A system has no form that a method takes; the message completes a sentence."""


def conversions(system: AbstractSystem) -> tuple[AbstractConversion, ...]:
    """The system itself and its conversions to other kinds."""
    return Conversion(system), *system.conversions()


def accepts(method: AbstractIntegrator, system: AbstractSystem, *, without_note: bool = False) -> bool:
    """Whether the method takes the system or a conversion of it, as far as is known without converting.

    `without_note`: whether only conversions without a note count.
    """
    ways = _candidates(method.for_system(system), system)
    return any(not way.obstacle and not (without_note and way.note) for way in ways)


def convert_for(
    system: AbstractSystem, method: AbstractIntegrator, t: Any, state: State, *, check_state: bool
) -> ConvertedSystem:
    """The system, or its first conversion, that the method takes; `state` is one of the system.

    `check_state`: whether to check the state, too. Raises IncompatibleSystem with the reasons.
    """
    method = method.for_system(system)
    against_contacts = _against_contacts(method, system)
    if against_contacts:
        raise IncompatibleSystem(against_contacts)
    against: list[str] = []
    special: list[str] = []
    for way in _candidates(method, system):
        if way.obstacle:
            (special if way.special else against).append(way.obstacle)
            continue
        try:
            converted = way.at(state)
            if check_state:
                method.check(converted.system, t, converted.to_system(state))
        except ValueError as error:
            against.append(str(error).rstrip("."))
            continue
        return ConvertedSystem(converted, way.note)
    against = against or special
    if not against:
        kinds = " or ".join(f"a {kind.kind_name} (`{kind.__name__}`)" for kind in method.kinds)
        raise IncompatibleSystem(f"it takes {kinds}, and this {system.kind_name} can't be written as one")
    raise IncompatibleSystem("; ".join(dict.fromkeys(against)))


def _against_contacts(method: AbstractIntegrator, system: AbstractSystem) -> str:
    """Why a method doesn't take the contacts of a system, or their absence; empty if it does."""
    if system.has_contacts and not method.takes_contacts:
        return (
            "bodies of it touch each other with friction that sticks, or joints have rigid stops or dry friction, and "
            "the method has no contacts with friction"
        )
    if system.has_holds and not method.takes_holds:
        return "joints of it have rigid stops or dry friction, and the method takes contacts of shapes alone"
    if system.has_poisson_impacts and not method.locates_contacts:
        return "restitution of its contacts is Poisson's, which methods that locate impacts take, such as `rkmk54`"
    if system.has_grips and not method.takes_grips:
        return (
            "friction of its compliant contacts is exact, and the method takes regularised friction, with a "
            "`slip_speed`"
        )
    if system.has_bearings and not method.takes_bearings:
        return "friction of its joints grows with their forces (`load_factor`), which `moreau` alone takes"
    if method.needs_contacts and not system.has_contacts:
        return "nothing in it touches anything, and the method is for contacts; shapes touch by `model.contacts(…)`"
    return ""


def _candidates(method: AbstractIntegrator, system: AbstractSystem) -> Iterator[AbstractConversion]:
    if _against_contacts(method, system):
        return iter(())
    return (way for way in conversions(system) if issubclass(way.kind, method.kinds))


class Suitability(NamedTuple):
    """Whether the method of that name takes a problem, and as which kind of system, or why not.

    `why`: reasons for a method that does.
    """

    name: str
    suited: bool
    reason: str
    why: str = ""


class Suitabilities(tuple[Suitability, ...]):
    """A row for every method, those first that one would try first; prints as a table."""

    def __str__(self) -> str:
        notes = ("; ".join(filter(None, (row.why, row.reason))) for row in self)
        rows = [(row.name, "yes" if row.suited else "no", text) for row, text in zip(self, notes, strict=True)]
        return "\n".join(summary.lines(rows))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(row.name, "yes" if row.suited else "no", row.why, row.reason) for row in self]
        return summary.html_table("Methods", [("method", "takes it", "what speaks for it", "as, or why not"), *rows])


def suited(problem: Any, state0: State = None) -> Suitabilities:
    """For every method, whether it takes a problem, with a reason; in the order in which one would try them.

    The method that the problem takes by default comes first. Then come those that take the system as it is and are
    implicit or explicit as the default is, those that keep the energy over long times, others that take it as it is,
    those that take it as a system of another kind, those that promise nothing, not even to stay on its space, and
    finally those that don't take it.
    Within each: with error control first, then of high order, then with few evaluations a step.

    **Arguments:**

    - `problem`: a `Problem`, or a system with `state0`.

    **Returns** rows (name, suited, reason, why): the reason names the kind of system that the method takes it as where
    that isn't its own, and otherwise what is missing; `why` has reasons for the method.

    Raises ValueError for a system without a state, and for other objects, such as a model.
    """
    system = problem if isinstance(problem, AbstractSystem) else getattr(problem, "system", None)
    if not isinstance(system, AbstractSystem):
        raise checks.not_a_problem(problem)
    bare = isinstance(problem, AbstractSystem)
    state = state0 if bare else problem.state0 if state0 is None else state0
    if state is None:
        raise ValueError("A bare system needs `state0`, at which methods look at it; a Problem brings its own.")
    t = 0.0 if bare else problem.t_span[0]
    default = None if bare else Default(problem.integrator, problem.choice.method)
    invariants = set(system.invariants() if bare else problem.invariants)
    return Suitabilities(
        row for _, row in sorted(_rank_methods(system, t, state, default, invariants), key=lambda pair: pair[0])
    )


def _rank_methods(
    system: AbstractSystem, t: float, state: State, default: Default | None, invariants: Container[str]
) -> Iterator[tuple[tuple[int, ...], Suitability]]:
    """Every method with its sort key; `invariants` are those of the motion."""
    implicit = default is not None and registry.get(default.name).implicit
    for number, name in enumerate(registry.names()):
        method = registry.get(name).for_system(system)
        try:
            conversion = convert_for(system, method, t, state, check_state=True)
        except IncompatibleSystem as error:
            yield (len(Tier), number), Suitability(name, False, str(error))
            continue
        promises = method.promises_for(conversion.converted.system, conversion.converted.to_system(state))
        if "energy" not in invariants:
            promises.pop("energy", None)
        tier = tier_of(name, method, promises, conversion.note, default, implicit)
        order = tier, method.error_order is None, -method.order, method.evaluations, number
        yield order, Suitability(name, True, conversion.note, merits(name, method, promises, default))
