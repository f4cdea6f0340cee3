"""Values of bodies and joints by name, from the saved states of a run and the system that it is of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array

from polhode.assembly.name_table import NameTable
from polhode.multibody.coordinates.tree.coordinates import JointTree
from polhode.multibody.measurements.forces import ForceMeasurements, ForceValues
from polhode.multibody.measurements.joints import EFFORTS, JointMeasurements, JointValues
from polhode.multibody.system import MultibodySystem
from polhode.problem import Problem
from polhode.results.observer import BatchedObserver
from polhode.systems.base import AbstractSystem, Converted, State
from polhode.systems.conversion import AbstractConvertedSystem

_ROWS = 256
"""Frames that are looked at together where there is no machine code."""

GROUPS = {
    "motion": ("positions", "rotations", "velocities", "angular_velocities"),
    "coordinates": ("joint_positions", "joint_velocities"),
    "loads": JointValues._fields,
    "forces": ForceValues._fields,
}
"""Quantities that are computed together."""


class Motion(eqx.Module):
    """Poses and twists of all bodies that are somewhere."""

    system: MultibodySystem
    readings: JointMeasurements

    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        del t
        rows = np.array([self.system.names.index(name) for name in self.readings.bodies], dtype=int)
        motion = self.system.motion(q, v)
        poses, twists = motion.poses, motion.twists
        assert twists is not None
        return dict(
            zip(GROUPS["motion"], (poses.x[rows], poses.R[rows], twists.u[rows], twists.omega[rows]), strict=True)
        )


class Coordinates(eqx.Module):
    """Joint coordinates and their rates."""

    system: MultibodySystem
    readings: JointMeasurements

    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        del t
        values = self.readings.positions(self.system, q), self.readings.velocities(self.system, q, v)
        return dict(zip(GROUPS["coordinates"], values, strict=True))


class Loads(eqx.Module):
    """Forces, moments and powers of joints, with the multipliers of a run or without."""

    system: MultibodySystem
    readings: JointMeasurements

    def __call__(self, t: Array, q: Any, v: Array, *multipliers: Array) -> dict[str, Array]:
        return self.readings.values(self.system, t, q, v, *multipliers)._asdict()


class Forces(eqx.Module):
    """Loads of the named forces."""

    system: MultibodySystem
    readings: ForceMeasurements

    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        return self.readings.values(self.system, t, q, v)._asdict()


_OBSERVERS = {"motion": Motion, "coordinates": Coordinates, "loads": Loads, "forces": Forces}


def group_of(name: str) -> str:
    """The group of a quantity."""
    return next(key for key, names in GROUPS.items() if name in names)


def observer_of(group: str, system: MultibodySystem, named: NameTable) -> Motion | Coordinates | Loads | Forces:
    """All quantities of a group as a function of states (q, v) of a system."""
    return _OBSERVERS[group](system, named.force_readings if group == "forces" else named.readings)


class ConvertedObserver(eqx.Module):
    """An observer of states (q, v), for states of the system that a method took."""

    observer: Callable[..., dict[str, Array]]
    convert: Callable[[State], State]

    def __call__(self, t: Array, state: State, *multipliers: Array) -> dict[str, Array]:
        return self.observer(t, *self.convert(state), *multipliers)


class StateConversion(eqx.Module):
    """The way from states of a method to (q, v)."""

    converted: Converted
    source: AbstractSystem

    def __call__(self, state: State) -> State:
        state = self.converted.to_source(state)
        return self.source.to_base(state) if isinstance(self.source, AbstractConvertedSystem) else state


class RunContext(NamedTuple):
    """Parts of the problem of a run: its bodies and joints if they have names, its system, and the same as the method
    took it.
    """

    named: NameTable | None
    source: AbstractSystem
    converted: Converted


class Reader:
    """Quantities that are computed from the states of a run, besides those that were saved.

    **Arguments:**

    - `find`: finds what the run is of, when it is asked for first. Raises ValueError, with the reason, if nobody can.
    """

    def __init__(self, find: Callable[[], RunContext]) -> None:
        self._find = functools.cache(find)
        self._frames: Any = None
        self._cache: dict[str, dict[str, np.ndarray]] = {}

    @functools.cached_property
    def obstacle(self) -> str | None:
        """Why nothing can be read, such as a model file that is gone; None if it can."""
        try:
            self._find()
        except ValueError as error:
            return str(error)
        return None

    def mechanism(self) -> tuple[MultibodySystem, StateConversion] | None:
        """The system whose states are (q, v), and the way to these; None if the run is of no multibody system.

        Raises ValueError, with the reason, if it can't be had.
        """
        _, source, converted = self._find()
        base = source.base if isinstance(source, AbstractConvertedSystem) else source
        return (base, StateConversion(converted, source)) if isinstance(base, MultibodySystem) else None

    def values(self, frames: Any, name: str) -> np.ndarray:
        """A quantity of all bodies or joints at all instants of `frames`, which are those of a run."""
        if self._frames is not frames:
            self._frames, self._cache = frames, {}
        group = group_of(name)
        if group not in self._cache:
            self._cache[group] = self._compute(group, frames)
        return self._cache[group][name]

    def _compute(self, group: str, frames: Any) -> dict[str, np.ndarray]:
        named, source, converted = self._find()
        t, state, multipliers = frames.t, frames.state, frames.multipliers
        system: Any = source.base if isinstance(source, AbstractConvertedSystem) else source
        own = converted.back is None and multipliers is not None and np.shape(multipliers)[1:] == (system.m,)
        assert named is not None
        arguments = (multipliers,) if group == "loads" and own and system.m else ()
        observer = ConvertedObserver(observer_of(group, system, named), StateConversion(converted, source))
        values = BatchedObserver(observer, _ROWS, once=True).observe(t, state, *arguments)
        in_tree = isinstance(system.coordinates, JointTree)
        return values if group != "loads" or (arguments and not in_tree) else _while_open(values, frames.outputs)


def _while_open(loads: dict[str, np.ndarray], outputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Loads of joints where no contact presses, NaN elsewhere: they follow from accelerations without its force."""
    if "contacts" not in outputs:
        return loads
    is_closed = np.any(np.asarray(outputs["contacts"]["closed"]) > 0, axis=-1)
    rows = lambda x: is_closed.reshape(-1, *(1,) * (np.ndim(x) - 1))  # noqa: E731
    return {name: x if name == EFFORTS else np.where(rows(x), np.nan, x) for name, x in loads.items()}


def reader_of(problem: Problem | None, source: AbstractSystem, converted: Converted) -> Reader | None:
    """The reader of a run that was just made; None if it is of no multibody system."""
    named = None if problem is None else problem.named
    base = source.base if isinstance(source, AbstractConvertedSystem) else source
    if named is None and not isinstance(base, MultibodySystem):
        return None
    context = RunContext(named, source, converted)
    return Reader(lambda: context)
