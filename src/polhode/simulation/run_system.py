"""The system of a run: as the user gave it and as the method takes it, with outputs and invariants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from polhode.results.observer import Observer
from polhode.systems.base import AbstractSystem, Converted


@dataclasses.dataclass(frozen=True, eq=False)
class RunSystem:
    """The system of a run.

    - `source`: the user's system. - `conversion`: the same as the method takes it.
    - `outputs`, `invariants`: of states of `source`. - `has_problem_outputs`: whether they are those of a problem, and
      not the system's own.
    """

    source: AbstractSystem
    conversion: Converted
    outputs: dict[str, Callable]
    invariants: dict[str, Callable]
    has_problem_outputs: bool

    @property
    def system(self) -> AbstractSystem:
        """The system as the method takes it."""
        return self.conversion.system

    @property
    def observer(self) -> Observer:
        """The observer of states of `system`: outputs, invariants and residuals."""
        convert = self.conversion.convert_observable
        outputs, invariants = ({k: convert(f) for k, f in part.items()} for part in (self.outputs, self.invariants))
        if self.conversion.back is None:
            return Observer(self.source, outputs, invariants)
        # A system of another kind may have invariants of its own: its momenta need not follow from the velocities.
        own = {name: f for name, f in self.system.invariants().items() if name in invariants}
        return Observer(self.system, outputs, {**invariants, **own}, convert(self.source.residuals))

    def replace(self, source: AbstractSystem, conversion: Converted) -> RunSystem:
        """The same with other numbers in the system, whose own outputs hold them too."""
        own = {} if self.has_problem_outputs else {"outputs": source.outputs(), "invariants": source.invariants()}
        return dataclasses.replace(self, source=source, conversion=conversion, **own)
