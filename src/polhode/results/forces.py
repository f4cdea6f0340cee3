"""Results of a run by the names of forces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxtyping import Array, Float

from polhode.checks import short_repr
from polhode.name_errors import UnknownName, unknown_name
from polhode.results.bodies_and_joints import model_names, value
from polhode.results.by_name import ByName
from polhode.results.protocols import ResultView


class ForceResults:
    """A force in all saved instants of a run, such as a spring, a motor or a load; leading axis n.

    - `force`, `moment` (n, 3): on its second body, or its only one, in the inertial frame; the moment about the
      body's centre of mass. - `forces`, `moments`: the same of all its bodies, by name.
    - `power` (n,): of the force on all bodies, into the mechanism.
    - `length`, `elongation` (n,): of springs from point to point; `deflection`: of springs along a joint coordinate or
      about an axis, from rest; `depth`: of contacts with planes. - `measures`: these by name.
    - `effort` (n,): along the joint coordinate that it acts on, positive if it pushes the second body forward; called
      `torque` as well where that is an angle. - `efforts`: of a `JointControl`, by the name of the joint.
    """

    def __init__(self, run: ResultView, name: str, description: Mapping[str, Any]) -> None:
        self._run, self.name, self._description = run, name, description

    @property
    def kind(self) -> str:
        """The class of the force."""
        return self._description["kind"]

    @property
    def bodies(self) -> tuple[str, ...]:
        """Names of its bodies."""
        return tuple(self._description["bodies"])

    @property
    def names(self) -> list[str]:
        """Names of its efforts."""
        return list(self._description["efforts"])

    @property
    def measured(self) -> list[str]:
        """Names of the lengths or angles that its law is written in."""
        return list(self._description.get("measures", ()))

    @property
    def angles(self) -> list[str]:
        """Names of efforts along angles, and of measures that are angles."""
        return [*self._description["angles"], *(self.measured if self._description.get("measured_angle") else ())]

    @property
    def measures(self) -> dict[str, Array]:
        return {label: self._measure(label) for label in self.measured}

    @property
    def forces(self) -> dict[str, Array]:
        return {body: self._row("force_forces", row) for body, row in self._description["bodies"].items()}

    @property
    def moments(self) -> dict[str, Array]:
        return {body: self._row("force_moments", row) for body, row in self._description["bodies"].items()}

    @property
    def force(self) -> Float[Array, "n 3"]:
        return self._row("force_forces", self._last())

    @property
    def moment(self) -> Float[Array, "n 3"]:
        return self._row("force_moments", self._last())

    @property
    def power(self) -> Float[Array, " n"]:
        return self._of("force_powers")[..., self._description["number"]]

    @property
    def efforts(self) -> dict[str, Array]:
        return {label: self._of("force_efforts")[..., k] for label, k in self._description["efforts"].items()}

    @property
    def effort(self) -> Float[Array, " n"]:
        columns = list(self._description["efforts"].values())
        if len(columns) != 1:
            along = "no joint coordinate" if not columns else f"{len(columns)}; `efforts` has them by joint"
            raise UnknownName(
                f"An effort is along one joint coordinate; force {short_repr(self.name)} acts along {along}."
            )
        return self._of("force_efforts")[..., columns[0]]

    @property
    def torque(self) -> Float[Array, " n"]:
        if len(self._description["angles"]) != 1:
            raise UnknownName(
                f"Force {short_repr(self.name)}, a {self.kind}, does not act along the angle of one joint."
            )
        return self.effort

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self.measured:
            return self._measure(name)
        raise AttributeError(str(unknown_name(f"quantity of force {short_repr(self.name)},", name, dir(self))))

    def __dir__(self) -> list[str]:
        own = {name for name in super().__dir__() if not name.startswith("_")}
        single = {"effort"} if len(self._description["efforts"]) != 1 else set()
        return sorted(
            (own | set(self.measured)) - single - ({"torque"} if len(self._description["angles"]) != 1 else set())
        )

    def __repr__(self) -> str:
        effort = ("effort",) if len(self._description["efforts"]) == 1 else ()
        quantities = ("force", "moment", "power", *effort, *self.measured)
        return f"<force {short_repr(self.name)}, {self.kind} on {' and '.join(self.bodies)}: {', '.join(quantities)}>"

    def _measure(self, label: str) -> Any:
        return self._of("force_measures")[..., self._description["measures"][label]]

    def _last(self) -> int:
        """The row of the second body, or of the only one."""
        rows = list(self._description["bodies"].values())
        if len(rows) > 2:
            raise UnknownName(
                f"Force {short_repr(self.name)} acts on {', '.join(self.bodies)}; `forces` and `moments` have them by "
                "body."
            )
        return rows[-1]

    def _row(self, group: str, row: int) -> Any:
        return self._of(group)[..., row, :]

    def _of(self, group: str) -> Any:
        return value(self._run, group, f"force {short_repr(self.name)}")


def forces(run: ResultView) -> ByName[ForceResults]:
    """The forces of a run that have names."""
    entries = model_names(run).get("forces", {})
    return ByName(
        "force", list(entries), lambda name: ForceResults(run, name, entries[name]), _NO_NAMES, model_names(run)
    )


_NO_NAMES = "the problem is not one of a model, or no force of its model was given a name."
