"""Quantities of bodies, joints and forces that were not saved, computed from the states of a run and its system."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Array

from polhode.assembly.name_table import NameTable
from polhode.contact.sparse.listed_contacts import ListedContacts
from polhode.integrators.nonsmooth.contact_record import record_length
from polhode.modules import Module
from polhode.multibody.measurements.joints import EFFORTS
from polhode.multibody.system import MultibodySystem
from polhode.results.observer import BatchedObserver
from polhode.results.quantity import AbstractComputation
from polhode.systems.base import AbstractSystem, Converted, State
from polhode.systems.conversion import AbstractConvertedSystem

if TYPE_CHECKING:
    from polhode.problem import Problem

_ROWS = 256
"""Frames that are evaluated together where there is no machine code."""


class ConvertedObserver(Module):
    """An observer of states (q, v), applied to states of the system that a method integrates."""

    observer: Callable[..., dict[str, Array]]
    convert: Callable[[State], State]

    def __call__(self, t: Array, state: State, *multipliers: Array) -> dict[str, Array]:
        return self.observer(t, *self.convert(state), *multipliers)


class StateConversion(Module):
    """Conversion of states of a method to (q, v)."""

    conversion: Converted
    source: AbstractSystem

    def __call__(self, state: State) -> State:
        state = self.conversion.to_source(state)
        return self.source.to_base(state) if isinstance(self.source, AbstractConvertedSystem) else state


class RunContext(NamedTuple):
    """The problem of a run: names of its bodies and joints if there are any, its system, and the system that the method
    integrates.
    """

    name_table: NameTable | None
    source: AbstractSystem
    conversion: Converted


class Reader:
    """Computes quantities that were not saved from the states of a run.

    **Arguments:**

    - `find`: returns the context of the run, and is called when it is first used. Raises ValueError, with the reason,
      where there is none.
    """

    def __init__(self, find: Callable[[], RunContext]) -> None:
        self._find = functools.cache(find)
        self._frames: Any = None
        self._cache: dict[type[AbstractComputation], dict[str, np.ndarray]] = {}

    @functools.cached_property
    def obstacle(self) -> str | None:
        """Why nothing can be computed, such as a missing model file; None if it can."""
        try:
            self._find()
        except ValueError as error:
            return str(error)
        return None

    def mechanism(self) -> tuple[MultibodySystem, StateConversion] | None:
        """The system whose states are (q, v), and the conversion to these; None if it is no multibody system.

        Raises ValueError, with the reason, if the problem can't be rebuilt.
        """
        _, source, conversion = self._find()
        base = source.base if isinstance(source, AbstractConvertedSystem) else source
        return (base, StateConversion(conversion, source)) if isinstance(base, MultibodySystem) else None

    def values(self, frames: Any, name: str, computation: type[AbstractComputation]) -> np.ndarray:
        """An array of all bodies, joints or forces at all instants of `frames`, those of the run."""
        if self._frames is not frames:
            self._frames, self._cache = frames, {}
        if computation not in self._cache:
            self._cache[computation] = self._compute(computation, frames)
        return self._cache[computation][name]

    def _compute(self, computation: type[AbstractComputation], frames: Any) -> dict[str, np.ndarray]:
        name_table, source, conversion = self._find()
        t, state, multipliers = frames.t, frames.state, frames.multipliers
        system: Any = source.base if isinstance(source, AbstractConvertedSystem) else source
        assert name_table is not None
        takes = computation.takes_multipliers and _count(system) > 0
        own = conversion.back is None and multipliers is not None and np.shape(multipliers)[1:] == (_count(system),)
        if takes and system.has_contacts and not own:
            raise ValueError("The run has no multipliers of its contacts, without which loads of joints are unknown.")
        arguments = (multipliers,) if takes and own else ()
        if computation.reads_contacts:
            system = with_fixed_slots(system, multipliers)
        system = system.in_loops()
        observer = ConvertedObserver(computation.of(system, name_table), StateConversion(conversion, source))
        values = BatchedObserver(observer, _ROWS, once=True).observe(t, state, *arguments)
        in_tree = system.coordinates.joint_tree is not None
        complete = not computation.takes_multipliers or (arguments and not in_tree)
        return values if complete else _while_open(values, frames.outputs)


def with_fixed_slots(system: MultibodySystem, multipliers: Any) -> MultibodySystem:
    """The system with contacts in fixed slots: of lists, the pairs that the multipliers of a run name."""
    contacts = system.shape_contacts
    if contacts is None or not contacts.is_listed:
        return system
    assert isinstance(contacts, ListedContacts)
    numbers = np.asarray(multipliers)[..., : contacts.room]
    return dataclasses.replace(system, shape_contacts=contacts.of_numbers(numbers))


def _count(system: MultibodySystem) -> int:
    """The multipliers of a run: those of joints, and what contacts leave behind."""
    return system.m + record_length(system)


def _while_open(loads: dict[str, np.ndarray], outputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Loads of joints, NaN where a contact is closed: they are computed without its force."""
    if "contacts" not in outputs:
        return loads
    is_closed = np.any(np.asarray(outputs["contacts"]["closed"]) > 0, axis=-1)
    rows = lambda x: is_closed.reshape(-1, *(1,) * (np.ndim(x) - 1))  # noqa: E731
    return {name: x if name == EFFORTS else np.where(rows(x), np.nan, x) for name, x in loads.items()}


def reader_of(problem: Problem | None, source: AbstractSystem, conversion: Converted) -> Reader | None:
    """The reader of a run in memory; None if its system is no multibody system."""
    name_table = None if problem is None else problem.named
    base = source.base if isinstance(source, AbstractConvertedSystem) else source
    if name_table is None and not isinstance(base, MultibodySystem):
        return None
    context = RunContext(name_table, source, conversion)
    return Reader(lambda: context)
