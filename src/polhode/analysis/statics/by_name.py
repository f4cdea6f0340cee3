"""Equilibria by the names of bodies, joints and forces."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from polhode.assembly.name_table import NameTable
from polhode.compiler.batched_function import BatchedFunction
from polhode.frames import Frames
from polhode.multibody.system import MultibodySystem
from polhode.name_errors import UnknownName
from polhode.results.bodies import BodyResults, bodies
from polhode.results.by_name import ByName
from polhode.results.contact_names import Contacts
from polhode.results.declarations import ResultClasses
from polhode.results.forces import ForceResults, forces
from polhode.results.joints import JointResults, joints
from polhode.results.quantity import AbstractComputation


@dataclasses.dataclass(frozen=True, eq=False)
class NamedEquilibrium:
    """One equilibrium of the path, with bodies, joints and forces by name; arrays have no axis of frames.

    - `saved`: its time, state, outputs, residuals and multipliers. - `meta`: with the names.
    - `reader`: computes quantities that the outputs don't have; None if it can't.
    - `classes`: of results by name.
    """

    saved: Frames
    meta: Mapping[str, Any]
    reader: StepReader | None
    classes: ResultClasses = dataclasses.field(default_factory=ResultClasses)

    @property
    def t(self) -> Array:
        """The time that loads were taken at."""
        return self.saved.t

    @property
    def outputs(self) -> Mapping[str, Any]:
        """The outputs of the problem."""
        return self.saved.outputs

    @property
    def bodies(self) -> ByName[BodyResults]:
        """Bodies by name, with `position`, `rotation` and more."""
        return bodies(self)

    @property
    def joints(self) -> ByName[JointResults]:
        """Joints by name, with `angle`, `force`, `moment`, `torque` and more."""
        return joints(self)

    @property
    def forces(self) -> ByName[ForceResults]:
        """Forces that were given a name, with `force`, `moment`, `effort`, `elongation` and more."""
        return forces(self)

    @property
    def contacts(self) -> Contacts:
        """Contacts by names of bodies, shapes or rules, with `force`, `normal_forces`, `points` and more."""
        return Contacts(self)


class EquilibriumReader:
    """Computes quantities of equilibria that their outputs don't have.

    **Arguments:**

    - `name_table`, `system`: the names, and the system at rest.
    """

    def __init__(self, name_table: NameTable, system: MultibodySystem) -> None:
        self._name_table, self._system = name_table, system
        self._cache: dict[tuple[int, type[AbstractComputation]], dict[str, Any]] = {}

    def at(self, step: int, share: float) -> StepReader:
        """The reader of one equilibrium on the way, with a share of the loads in place."""
        return StepReader(self, step, share)

    def values(self, step: int, computation: type[AbstractComputation], frames: Frames) -> dict[str, Any]:
        """All arrays of a computation at one equilibrium, which are computed once."""
        key = step, computation
        if key not in self._cache:
            has_any = self._system.m or self._system.has_contacts
            multipliers = (frames.multipliers,) if computation.takes_multipliers and has_any else ()
            instant = jax.tree.map(lambda a: np.asarray(a)[None], (frames.t, *frames.state, *multipliers))
            resting = computation.of(self._system, self._name_table).at_rest()
            arrays = BatchedFunction(resting, 1, once=True)(*instant)
            self._cache[key] = {name: values[0] for name, values in arrays.items()}
        return self._cache[key]


class StepReader(NamedTuple):
    """Reads quantities of one equilibrium. - `share`: of the loads that are in place there."""

    of: EquilibriumReader
    step: int
    share: float

    @property
    def obstacle(self) -> None:
        """None: all quantities can be computed."""
        return None

    def values(self, frames: Frames, name: str, computation: type[AbstractComputation]) -> Any:
        """An array of all bodies, joints or forces. Raises UnknownName for joints while loads are held."""
        if computation.takes_multipliers and self.share < 1:
            raise UnknownName(
                f"Forces of joints are those where all loads are in place; here {100 * self.share:.4g} % of them are, "
                "and the rest is held by forces of no joint."
            )
        return self.of.values(self.step, computation, frames)[name]
