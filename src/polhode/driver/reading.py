"""Values of bodies and joints by name, from the saved states of a run and the system that it is of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from polhode.driver.observing import Watch
from polhode.model.naming import Named
from polhode.multibody.readings import Readings
from polhode.multibody.system import MultibodySystem
from polhode.problems.base import Problem
from polhode.systems.base import AbstractSystem, State
from polhode.systems.conversion import AbstractWritten, Converted

_ROWS = 256
"""Frames that are looked at together where there is no machine code."""

GROUPS = {
    "motion": ("positions", "rotations", "velocities", "angular_velocities"),
    "coordinates": ("joint_positions", "joint_velocities"),
    "loads": ("joint_efforts", "joint_forces", "joint_moments", "joint_powers"),
}
"""What is computed together."""


class Motion(eqx.Module):
    """Poses and twists of all bodies that are somewhere."""

    system: MultibodySystem
    readings: Readings

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
    readings: Readings

    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        del t
        found = self.readings.positions(self.system, q), self.readings.velocities(self.system, q, v)
        return dict(zip(GROUPS["coordinates"], found, strict=True))


class Loads(eqx.Module):
    """What joints transmit, with the multipliers of a run or without."""

    system: MultibodySystem
    readings: Readings

    def __call__(self, t: Array, q: Any, v: Array, *multipliers: Array) -> dict[str, Array]:
        return dict(zip(GROUPS["loads"], self.readings.values(self.system, t, q, v, *multipliers), strict=True))


_READ = {"motion": Motion, "coordinates": Coordinates, "loads": Loads}


class Left(eqx.Module):
    """An observer of states (q, v), for states of the system that a method took."""

    inner: Callable[..., dict[str, Array]]
    left: Callable[[State], State]

    def __call__(self, t: Array, state: State, *multipliers: Array) -> dict[str, Array]:
        return self.inner(t, *self.left(state), *multipliers)


class Chain(eqx.Module):
    """The way from states of a method to (q, v)."""

    converted: Converted
    source: AbstractSystem

    def __call__(self, state: State) -> State:
        state = self.converted.left(state)
        return self.source.left(state) if isinstance(self.source, AbstractWritten) else state


class Reader:
    """What can be read from the states of runs of a problem.

    **Arguments:**

    - `named`: bodies and joints. - `source`: the system of the problem. - `converted`: as the method took it.
    """

    def __init__(self, named: Named, source: AbstractSystem, converted: Converted) -> None:
        self._named, self._source, self._converted = named, source, converted
        self._frames: Any = None
        self._found: dict[str, dict[str, np.ndarray]] = {}

    def values(self, frames: Any, name: str) -> np.ndarray:
        """A quantity of all bodies or joints at all instants of `frames`, which are those of a run."""
        if self._frames is not frames:
            self._frames, self._found = frames, {}
        group = next(key for key, names in GROUPS.items() if name in names)
        if group not in self._found:
            self._found[group] = self._read(group, frames.t, frames.state, frames.multipliers)
        return self._found[group][name]

    def _read(self, group: str, t: Any, state: State, multipliers: Any) -> dict[str, np.ndarray]:
        whole: Any = self._source
        system = whole.base if isinstance(whole, AbstractWritten) else whole
        own = self._converted.back is None and multipliers is not None and np.shape(multipliers)[1:] == (system.m,)
        given = (multipliers,) if group == "loads" and own and system.m else ()
        observer = Left(_READ[group](system, self._named.readings), Chain(self._converted, whole))
        return Watch(observer, _ROWS, once=True).seen(t, state, *given)


def reader_of(problem: Problem | None, source: AbstractSystem, converted: Converted) -> Reader | None:
    """The reader of a run; None if its problem names no bodies."""
    return None if problem is None or problem.named is None else Reader(problem.named, source, converted)
