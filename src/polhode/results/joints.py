"""Results of a run by the names of joints."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from polhode.checks import short_repr
from polhode.integrators.nonsmooth.contact_record import size_of, unpack
from polhode.multibody.measurements.joints import JointMeasurements
from polhode.multibody.system import MultibodySystem
from polhode.name_errors import UnknownName, unknown_name
from polhode.results.by_name import ByName
from polhode.results.joint_contacts import AlongCoordinate
from polhode.results.protocols import ResultView
from polhode.results.quantity import NO_MODEL, AbstractComputation, AbstractNamedResults, Quantity, model_names
from polhode.results.quaternion_series import library


class JointMotion(AbstractComputation):
    """Joint coordinates and their rates."""

    system: MultibodySystem
    readings: JointMeasurements
    axes: ClassVar = {"joint_positions": ("joint_coordinate",), "joint_velocities": ("joint_coordinate",)}

    def __call__(self, t: Array, q: Any, v: Array) -> dict[str, Array]:
        del t
        values = self.readings.positions(self.system, q), self.readings.velocities(self.system, q, v)
        return dict(zip(self.axes, values, strict=True))


class JointLoads(AbstractComputation):
    """Forces, moments and powers of joints, with the multipliers of a run or without.

    - `equilibrium`: whether nothing accelerates, whatever drives do before and after.
    """

    system: MultibodySystem
    readings: JointMeasurements
    equilibrium: bool = eqx.field(static=True, default=False)
    takes_multipliers = True
    saved_by = "save_loads=True"
    axes: ClassVar = {
        "joint_loads.joint_efforts": ("joint_coordinate",),
        "joint_loads.joint_forces": ("joint", "component"),
        "joint_loads.joint_moments": ("joint", "component"),
        "joint_loads.joint_powers": ("joint",),
    }

    def at_rest(self) -> JointLoads:
        return JointLoads(self.system, self.readings, equilibrium=True)

    def __call__(self, t: Array, q: Any, v: Array, *multipliers: Array) -> dict[str, Array]:
        if self.system.has_contacts and multipliers:
            joints, record = unpack(multipliers[0], self.system.m, *size_of(self.system))
            multipliers = joints, record.forces
        return self.readings.values(self.system, t, q, v, *multipliers, at_rest=self.equilibrium)._asdict()


class JointResults(AbstractNamedResults):
    """A joint in all saved instants of a run; leading axis n.

    - `angle`, `displacement` and other names of coordinates: these. - `rate`: of the only coordinate.
    - `torque`, `effort`: along the only coordinate. - `friction`, `stop_force`, `mode`, `dissipation`: the same of
      rigid stops and dry friction.
    - `point` (n, 3): where it is.
    - `velocity_limit`: the largest magnitude of its rate by the model file, infinite without one.
    """

    _what = "joint"
    coordinates = Quantity(
        ("length", "angle"), array="joint_positions", computation=JointMotion, over="coordinates",
        column="{label}", title="{label}", first=True, doc="(n,): by name. Angles count turns.",
    )  # fmt: skip
    rates = Quantity(
        ("velocity", "spin"), array="joint_velocities", computation=JointMotion, over="coordinates",
        column=("rate", "{label}_rate"), title=("rate", "rate of {label}"), doc="(n,): by name of the coordinate.",
    )  # fmt: skip
    efforts = Quantity(
        ("force", "moment"), array="joint_loads.joint_efforts", computation=JointLoads, over="coordinates",
        column=("{effort}", "{label}_effort"), title=("{effort}", "effort along {label}"),
        doc="(n,): by name of the coordinate: the sum of what motors, actuators, controllers, springs, stops and "
        "friction do there, on the second body; of a `PrescribedRotation` or `PrescribedTranslation` what drives it.",
    )  # fmt: skip
    force = Quantity(
        "force", array="joint_loads.joint_forces", computation=JointLoads, components="xyz",
        applies=lambda joint: joint.holds,
        doc="(n, 3): of the joint's constraints on its second body, in the inertial frame. What acts along free "
        "coordinates is not in it.",
    )  # fmt: skip
    moment = Quantity(
        "moment", array="joint_loads.joint_moments", computation=JointLoads, components="xyz",
        applies=lambda joint: joint.holds, doc="(n, 3): the same about the joint's point.",
    )  # fmt: skip
    frictions = Quantity(
        ("force", "moment"), lambda joint: joint._along("friction"), over="resisted",
        column=("friction", "{label}_friction"), title=("dry friction", "dry friction along {label}"),
        doc="(n,): by name of the coordinate: dry friction that sticks, mean over the step that ends at an instant; it "
        "is part of the effort.",
    )  # fmt: skip
    stop_forces = Quantity(
        ("force", "moment"), lambda joint: joint._along("stop_force"), over="resisted",
        column=("stop_force", "{label}_stop_force"), title=("force of stops", "force of stops along {label}"),
        doc="(n,): the same of rigid stops.",
    )  # fmt: skip
    modes = Quantity(
        "", lambda joint: joint._along("mode"), over="resisted", column=("mode", "{label}_mode"), title=None,
        doc='(n,): by name of the coordinate, under rigid stops and dry friction: "free", "stick", "slide" or "stop".',
    )  # fmt: skip
    dissipations = Quantity(
        "energy", lambda joint: {k: sum(x.values()) for k, x in joint._along("dissipation").items()}, over="resisted",
        column=("dissipation", "{label}_dissipation"), title=("dissipation", "dissipation along {label}"),
        doc="(n,): energy taken by dry friction and by impacts at rigid stops since the start of the run.",
    )  # fmt: skip
    power = Quantity(
        "power", array="joint_loads.joint_powers", computation=JointLoads, applies=lambda joint: joint.holds,
        doc="(n,): of all forces along the coordinates, and of drives, into the mechanism.",
    )  # fmt: skip

    @property
    def kind(self) -> str:
        """The class of the joint, or its kind in a file."""
        return self._description["kind"]

    @property
    def bodies(self) -> tuple[str, str]:
        """Names of the first and the second body."""
        first, second = self._description["bodies"]
        return first, second

    @property
    def names(self) -> list[str]:
        """Names of the coordinates."""
        return list(self._description["coordinates"])

    @property
    def angles(self) -> list[str]:
        """Names of those that are angles."""
        return list(self._description["angles"])

    @property
    def velocity_limit(self) -> float:
        return self._description.get("velocity_limit", float("inf"))

    @property
    def holds(self) -> bool:
        """Whether it has constraint forces."""
        return self._description["load"] is not None

    def coordinate(self, name: str | None = None) -> Float[Array, " n"]:
        """One coordinate; the name may be left out if there is only one. Raises UnknownName, with what there is."""
        return JointResults.coordinates.part(self, self._only(name))

    @property
    def rate(self) -> Float[Array, " n"]:
        return JointResults.rates.part(self, self._only(None))

    @property
    def effort(self) -> Float[Array, " n"]:
        return JointResults.efforts.part(self, self._only(None))

    @property
    def friction(self) -> Float[Array, " n"]:
        return JointResults.frictions.part(self, self._only(None))

    @property
    def stop_force(self) -> Float[Array, " n"]:
        return JointResults.stop_forces.part(self, self._only(None))

    @property
    def mode(self) -> Any:
        return JointResults.modes.part(self, self._only(None))

    @property
    def dissipation(self) -> Float[Array, " n"]:
        return JointResults.dissipations.part(self, self._only(None))

    def _along(self, quantity: str) -> dict[str, Any]:
        """A quantity of its stops and dry friction, by coordinates. Raises UnknownName without any."""
        resisted = self._description.get("resisted", {})
        if not resisted:
            raise UnknownName(
                f"Joint {short_repr(self.name)} has neither rigid stops nor dry friction that sticks: add "
                "`forces.JointStops(joint, limits)` or `forces.JointFriction(joint, friction)`."
            )
        return {name: getattr(AlongCoordinate(self, own), quantity) for name, own in resisted.items()}

    @property
    def torque(self) -> Float[Array, " n"]:
        angles = [name for name in self.names if name in self.angles]
        if len(angles) != 1:
            raise UnknownName(
                f"Joint {short_repr(self.name)} has {len(angles)} angles; `efforts` has forces by coordinate."
            )
        return JointResults.efforts.part(self, angles[0])

    @property
    def point(self) -> Float[Array, "n 3"]:
        if "point" not in self._description:
            raise UnknownName(
                f"The point of joint {short_repr(self.name)} is not known: its numbers were traced by JAX."
            )
        second = self.bodies[1]
        xp = library(self._run.t)
        point = xp.asarray(self._description["point"])
        if second == "ground":
            return xp.broadcast_to(point, (*self._run.t.shape, 3))
        body = self._run.bodies[second]
        return body.position + body.rotation @ point

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._description["coordinates"]:
            return self.coordinate(name)
        raise AttributeError(str(unknown_name(f"quantity of joint {short_repr(self.name)},", name, dir(self))))

    def __dir__(self) -> list[str]:
        own = [name for name in super().__dir__() if not name.startswith("_")]
        single = () if len(self.names) == 1 else ("rate", "effort", "torque")
        resisted = ("friction", "stop_force", "mode", "dissipation")
        unresisted = (*resisted, "frictions", "stop_forces", "modes", "dissipations")
        absent = (*single, *(resisted if single else ())) if "resisted" in self._description else (*single, *unresisted)
        return sorted({*own, *self.names} - set(absent))

    def __repr__(self) -> str:
        quantities = (*self.names, "rate", "effort", *self._quantities)
        return f"<{self._title}, {self.kind} of {' and '.join(self.bodies)}: {', '.join(quantities)}>"

    def _only(self, name: str | None) -> str:
        names = self.names
        if name is None and len(names) != 1:
            has = f"the coordinates {', '.join(names)}; name one of them" if names else "no coordinate"
            raise UnknownName(f"Joint {short_repr(self.name)}, a {self.kind}, has {has}.")
        if name is not None and name not in names:
            raise unknown_name(f"coordinate of joint {short_repr(self.name)}", name, names)
        return names[0] if name is None else name

    def _row(self, quantity: Quantity) -> int:
        if not self.holds:
            raise UnknownName(f"Joint {short_repr(self.name)}, a {self.kind}, holds nothing, so it transmits no force.")
        return self._description["load"]


def joints(run: ResultView) -> ByName[JointResults]:
    """The joints of a run."""
    entries = model_names(run).get("joints", {})
    return ByName(
        "joint", list(entries), lambda name: run.classes.joints(run, name, entries[name]), NO_MODEL, model_names(run)
    )
