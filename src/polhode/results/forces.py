"""Results of a run by the names of forces."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Array, Float

from polhode.assembly.name_table import NameTable
from polhode.checks import short_repr
from polhode.multibody.measurements.forces import ForceMeasurements
from polhode.multibody.system import MultibodySystem
from polhode.name_errors import UnknownName, unknown_name
from polhode.results.by_name import ByName
from polhode.results.protocols import ResultView
from polhode.results.quantity import AbstractComputation, AbstractNamedResults, Quantity, model_names


class ForceLoads(AbstractComputation):
    """Loads of the named forces."""

    system: MultibodySystem
    readings: ForceMeasurements
    saved_by = "save_loads=True"
    axes: ClassVar = {
        "force_loads.force_forces": ("force_body", "component"),
        "force_loads.force_moments": ("force_body", "component"),
        "force_loads.force_efforts": ("force_effort",),
        "force_loads.force_powers": ("force",),
        "force_loads.force_measures": ("force_measure",),
    }

    @classmethod
    def of(cls, system: MultibodySystem, name_table: NameTable) -> ForceLoads:
        return cls(system, name_table.force_readings)

    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        return self.readings.values(self.system, t, q, v)._asdict()


class ForceResults(AbstractNamedResults):
    """A force in all saved instants of a run, such as a spring, a motor or a load; leading axis n.

    - `length`, `elongation` (n,): of springs from point to point; `deflection`: of springs along a joint coordinate or
      about an axis, from rest; `depth`: of contacts with planes.
    - `effort` (n,): along the only joint coordinate that it acts on; called `torque` as well where that is an angle.
    """

    _what = "force"
    force = Quantity(
        "force", array="force_loads.force_forces", computation=ForceLoads, components="xyz",
        applies=lambda force: len(force.bodies) <= 2,
        doc="(n, 3): on its second body, or its only one, in the inertial frame.",
    )  # fmt: skip
    forces = Quantity(
        "force", array="force_loads.force_forces", computation=ForceLoads, over="bodies", components="xyz",
        column=None, title="force on {label}", applies=lambda force: len(force.bodies) > 2,
        doc="(n, 3): the same on all its bodies, by name.",
    )  # fmt: skip
    moment = Quantity(
        "moment", array="force_loads.force_moments", computation=ForceLoads, components="xyz",
        applies=lambda force: len(force.bodies) <= 2,
        doc="(n, 3): about the centre of mass of the same body, in the inertial frame.",
    )  # fmt: skip
    moments = Quantity(
        "moment", array="force_loads.force_moments", computation=ForceLoads, over="bodies", components="xyz",
        column=None, title="moment on {label}", applies=lambda force: len(force.bodies) > 2,
        doc="(n, 3): the same on all its bodies, by name.",
    )  # fmt: skip
    power = Quantity(
        "power", array="force_loads.force_powers", computation=ForceLoads,
        doc="(n,): of the force on all bodies, into the mechanism.",
    )  # fmt: skip
    efforts = Quantity(
        ("force", "moment"), array="force_loads.force_efforts", computation=ForceLoads, over="efforts",
        column="{label}", title=("{effort}", "effort along {label}"),
        doc="(n,): along joint coordinates, positive if it pushes the second body forward; of a `JointControl` by the "
        "name of the joint.",
    )  # fmt: skip
    measures = Quantity(
        ("length", "angle"), array="force_loads.force_measures", computation=ForceLoads, over="measures",
        column="{label}", title="{label}", doc="(n,): the lengths or angles that its law is written in, by name.",
    )  # fmt: skip

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
        return list(self._labels("measures"))

    @property
    def angles(self) -> list[str]:
        """Names of efforts along angles, and of measures that are angles."""
        return [*self._description["angles"], *(self.measured if self._description.get("measured_angle") else ())]

    @property
    def effort(self) -> Float[Array, " n"]:
        if len(self.names) != 1:
            along = "no joint coordinate" if not self.names else f"{len(self.names)}; `efforts` has them by joint"
            raise UnknownName(
                f"An effort is along one joint coordinate; force {short_repr(self.name)} acts along {along}."
            )
        return ForceResults.efforts.part(self, self.names[0])

    @property
    def torque(self) -> Float[Array, " n"]:
        if len(self._description["angles"]) != 1:
            raise UnknownName(
                f"Force {short_repr(self.name)}, a {self.kind}, does not act along the angle of one joint."
            )
        return self.effort

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self.measured:
            return ForceResults.measures.part(self, name)
        raise AttributeError(str(unknown_name(f"quantity of force {short_repr(self.name)},", name, dir(self))))

    def __dir__(self) -> list[str]:
        own = {name for name in super().__dir__() if not name.startswith("_")}
        single = {"effort"} if len(self._description["efforts"]) != 1 else set()
        return sorted(
            (own | set(self.measured)) - single - ({"torque"} if len(self._description["angles"]) != 1 else set())
        )

    def __repr__(self) -> str:
        effort = ("effort",) if len(self.names) == 1 else ()
        quantities = (*self._quantities, *effort, *self.measured)
        return f"<{self._title}, {self.kind} on {' and '.join(self.bodies)}: {', '.join(quantities)}>"

    def _row(self, quantity: Quantity) -> int:
        """The row of the force, or of vectors that of the load on the second body, or on the only one."""
        if not quantity.components:
            return self._description["number"]
        rows = list(self._description["bodies"].values())
        if len(rows) > 2:
            raise UnknownName(
                f"Force {short_repr(self.name)} acts on {', '.join(self.bodies)}; `forces` and `moments` have them by "
                "body."
            )
        return rows[-1]


def forces(run: ResultView) -> ByName[ForceResults]:
    """The forces of a run that have names."""
    entries = model_names(run).get("forces", {})
    return ByName(
        "force", list(entries), lambda name: run.classes.forces(run, name, entries[name]), _NO_NAMES, model_names(run)
    )


_NO_NAMES = "the problem is not one of a model, or no force of its model was given a name."
