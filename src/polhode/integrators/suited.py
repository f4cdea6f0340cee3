"""Which methods take a system, as which kind of system, or what stands in the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from polhode import checks
from polhode.integrators import registry
from polhode.integrators.base import AbstractIntegrator
from polhode.systems.base import AbstractConversion, AbstractSystem, Converted, State
from polhode.systems.conversion import Conversion


class Written(NamedTuple):
    """A system as a method takes it.

    - `converted`: with maps of states. - `note`: what is to be said of it; empty for the system itself.
    """

    converted: Converted
    note: str


class Unsuited(ValueError):
    """A system that can't be written as a method takes it; the message ends a sentence."""


def ways(system: AbstractSystem) -> tuple[AbstractConversion, ...]:
    """The system itself and what it can be written as."""
    return Conversion(system), *system.conversions()


def suits(method: AbstractIntegrator, system: AbstractSystem, *, plainly: bool = False) -> bool:
    """Whether the method takes the system or a conversion of it, as far as is known before one is made.

    `plainly`: whether of conversions only those count of which nothing is to be said.
    """
    return any(not way.obstacle and not (plainly and way.note) for way in _taken(method, system))


def written(system: AbstractSystem, method: AbstractIntegrator, t: Any, state: State, *, checked: bool) -> Written:
    """The system, or the first conversion of it, that the method takes; `state` is one of the system.

    `checked`: whether the method has to take the state, too. Raises Unsuited with what stands in the way.
    """
    against: list[str] = []
    special: list[str] = []
    for way in _taken(method, system):
        if way.obstacle:
            (special if way.special else against).append(way.obstacle)
            continue
        try:
            converted = way.at(state)
            if checked:
                method.check(converted.system, t, converted.entered(state))
        except ValueError as error:
            against.append(str(error).rstrip("."))
            continue
        return Written(converted, way.note)
    against = against or special
    if not against:
        wanted = " or ".join(f"a {kind.called} (`{kind.__name__}`)" for kind in method.kinds)
        raise Unsuited(f"it takes {wanted}, and this {system.called} can't be written as one")
    raise Unsuited("; ".join(dict.fromkeys(against)))


def _taken(method: AbstractIntegrator, system: AbstractSystem) -> Iterator[AbstractConversion]:
    return (way for way in ways(system) if issubclass(way.kind, method.kinds))


class Suitability(NamedTuple):
    """Whether the method of that name takes a problem, and as what, or why not."""

    name: str
    suited: bool
    reason: str


class Suitabilities(tuple[Suitability, ...]):
    """A row for every method; prints as a table."""

    def __str__(self) -> str:
        width = max(len(row.name) for row in self)
        return "\n".join(
            f"{row.name:{width}}  {'yes' if row.suited else 'no ':3}  {row.reason}".rstrip() for row in self
        )

    __repr__ = __str__


def suited(problem: Any, state0: State = None) -> Suitabilities:
    """For every method, whether it takes a problem, with a reason.

    **Arguments:**

    - `problem`: a `Problem`, or a system with `state0`.

    **Returns** rows (name, suited, reason): the reason says as what kind of system the method takes it where that isn't
    its own, and otherwise what is missing.

    Raises ValueError for a system without a state, and for what is neither, such as a model.
    """
    system = problem if isinstance(problem, AbstractSystem) else getattr(problem, "system", None)
    if not isinstance(system, AbstractSystem):
        raise checks.not_a_problem(problem)
    state = state0 if isinstance(problem, AbstractSystem) else problem.state0 if state0 is None else state0
    if state is None:
        raise ValueError("A bare system needs `state0`, at which methods look at it; a Problem brings its own.")
    t = 0.0 if isinstance(problem, AbstractSystem) else problem.t_span[0]
    return Suitabilities(_row(name, system, t, state) for name in registry.names())


def _row(name: str, system: AbstractSystem, t: float, state: State) -> Suitability:
    method = registry.get(name)
    try:
        return Suitability(name, True, written(system, method, t, state, checked=True).note)
    except Unsuited as error:
        return Suitability(name, False, str(error))
