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
from polhode.results.bodies_and_joints import BodyResults, JointResults, bodies, joints
from polhode.results.by_name import ByName
from polhode.results.derived_quantities import Loads, group_of, observer_of
from polhode.results.forces import ForceResults, forces


@dataclasses.dataclass(frozen=True, eq=False)
class NamedEquilibrium:
    """One equilibrium of the path, with bodies, joints and forces by name; arrays have no axis of frames.

    - `saved`: its time, state, outputs, residuals and multipliers. - `meta`: with the names.
    - `reader`: computes quantities that the outputs don't have; None if it can't.
    """

    saved: Frames
    meta: Mapping[str, Any]
    reader: StepReader | None

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


class EquilibriumReader:
    """Computes quantities of equilibria that their outputs don't have.

    **Arguments:**

    - `name_table`, `system`: the names, and the system at rest.
    """

    def __init__(self, name_table: NameTable, system: MultibodySystem) -> None:
        self._name_table, self._system = name_table, system
        self._cache: dict[tuple[int, str], dict[str, Any]] = {}

    def at(self, step: int, share: float) -> StepReader:
        """The reader of one equilibrium on the way, with a share of the loads in place."""
        return StepReader(self, step, share)

    def values(self, step: int, group: str, frames: Frames) -> dict[str, Any]:
        """All quantities of a group at one equilibrium, which are computed once."""
        if (step, group) not in self._cache:
            multipliers = (frames.multipliers,) if group == "loads" and self._system.m else ()
            instant = jax.tree.map(lambda a: np.asarray(a)[None], (frames.t, *frames.state, *multipliers))
            observer = observer_of(group, self._system, self._name_table)
            observer = dataclasses.replace(observer, at_rest=True) if isinstance(observer, Loads) else observer
            quantities = BatchedFunction(observer, 1, once=True)(*instant)
            self._cache[step, group] = {key: values[0] for key, values in quantities.items()}
        return self._cache[step, group]


class StepReader(NamedTuple):
    """Reads quantities of one equilibrium. - `share`: of the loads that are in place there."""

    of: EquilibriumReader
    step: int
    share: float

    @property
    def obstacle(self) -> None:
        """None: all quantities can be computed."""
        return None

    def values(self, frames: Frames, name: str) -> Any:
        """A quantity of all bodies, joints or forces. Raises UnknownName for joints while loads are held."""
        group = group_of(name)
        if group == "loads" and self.share < 1:
            raise UnknownName(
                f"Forces of joints are those where all loads are in place; here {100 * self.share:.4g} % of them are, "
                "and the rest is held by forces of no joint."
            )
        return self.of.values(self.step, group, frames)[name]
