"""Results of a run by the names of bodies and joints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jaxtyping import Array, Float

from polhode.checks import short_repr
from polhode.name_errors import UnknownName, unknown_name
from polhode.results.by_name import ByName
from polhode.results.protocols import ResultView
from polhode.results.quaternion_series import library, matrices, quaternions, without_jumps


@jax.tree_util.register_pytree_with_keys_class
class Outputs(dict[str, Any]):
    """Outputs by name, a pytree like a dictionary; the error for an unknown name lists close matches."""

    def __missing__(self, name: Any) -> Any:
        raise unknown_name("output", name, list(self))

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        names = tuple(sorted(self))
        return [(jax.tree_util.DictKey(name), self[name]) for name in names], names

    def tree_flatten(self) -> tuple[list[Any], tuple[str, ...]]:
        names = tuple(sorted(self))
        return [self[name] for name in names], names

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], values: Any) -> Outputs:
        return cls(zip(names, values, strict=True))


class BodyResults:
    """A body in all saved instants of a run; leading axis n. Everything in the inertial frame unless it says otherwise.

    - `position` (n, 3): of the centre of mass. - `velocity` (n, 3).
    - `orientation` (n, 4): unit quaternion (w, x, y, z) from the body frame to the inertial one, without jumps of sign.
    - `rotation` (n, 3, 3): the same as a matrix.
    - `angular_velocity` (n, 3): body-fixed, as everywhere in polhode. - `spatial_angular_velocity` (n, 3): inertial.
    - `x`, `y`, `z` (n,): components of the position. - `speed` (n,): magnitude of the velocity.
    """

    def __init__(self, run: ResultView, name: str, row: int) -> None:
        self._run, self.name, self._row = run, name, row

    @property
    def position(self) -> Float[Array, "n 3"]:
        return value(self._run, "positions", f"body {short_repr(self.name)}")[..., self._row, :]

    @property
    def velocity(self) -> Float[Array, "n 3"]:
        return value(self._run, "velocities", f"body {short_repr(self.name)}")[..., self._row, :]

    @property
    def angular_velocity(self) -> Float[Array, "n 3"]:
        return value(self._run, "angular_velocities", f"body {short_repr(self.name)}")[..., self._row, :]

    @property
    def spatial_angular_velocity(self) -> Float[Array, "n 3"]:
        xp = library(self.rotation)
        return xp.einsum("...ij,...j->...i", self.rotation, self.angular_velocity)

    @property
    def rotation(self) -> Float[Array, "n 3 3"]:
        if "rotations" not in self._run.outputs and "quaternions" in self._run.outputs:
            return matrices(self._run.outputs["quaternions"][..., self._row, :])
        return value(self._run, "rotations", f"body {short_repr(self.name)}")[..., self._row, :, :]

    @property
    def orientation(self) -> Float[Array, "n 4"]:
        if "quaternions" in self._run.outputs:
            return without_jumps(self._run.outputs["quaternions"][..., self._row, :])
        return without_jumps(quaternions(self.rotation))

    quaternion = orientation

    x = property(lambda self: self.position[..., 0], doc="First component of the position.")
    y = property(lambda self: self.position[..., 1], doc="Second component of the position.")
    z = property(lambda self: self.position[..., 2], doc="Third component of the position.")

    @property
    def speed(self) -> Float[Array, " n"]:
        return library(self.velocity).linalg.norm(self.velocity, axis=-1)

    def __repr__(self) -> str:
        return f"<body {short_repr(self.name)}: position, orientation, rotation, velocity, angular_velocity>"


class JointResults:
    """A joint in all saved instants of a run; leading axis n.

    - `coordinates`, `rates`, `efforts`: by name of the coordinate, (n,). Angles count turns.
    - `angle`, `displacement` and other names of coordinates: these. - `rate`: of the only coordinate.
    - `torque`, `effort`: along the only coordinate: the sum of what motors, actuators, controllers, springs, stops and
      friction do there, on the second body; of a `PrescribedRotation` or `PrescribedTranslation` what drives it.
    - `force`, `moment` (n, 3): of the joint's constraints on its second body, in the inertial frame; the moment about
      the joint's point. What acts along free coordinates is not among them.
    - `power` (n,): of all forces along the coordinates, and of drives, into the mechanism.
    - `point` (n, 3): where it is.
    - `velocity_limit`: the largest magnitude of its rate by the model file, infinite without one.
    """

    def __init__(self, run: ResultView, name: str, description: Mapping[str, Any]) -> None:
        self._run, self.name, self._description = run, name, description

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

    @property
    def coordinates(self) -> dict[str, Array]:
        return {name: self.coordinate(name) for name in self._description["coordinates"]}

    @property
    def rates(self) -> dict[str, Array]:
        return {name: self._of("joint_velocities", name) for name in self._description["coordinates"]}

    @property
    def efforts(self) -> dict[str, Array]:
        return {name: self._of("joint_efforts", name) for name in self._description["coordinates"]}

    def coordinate(self, name: str | None = None) -> Float[Array, " n"]:
        """One coordinate; the name may be left out if there is only one. Raises UnknownName, with what there is."""
        return self._of("joint_positions", self._only(name))

    @property
    def rate(self) -> Float[Array, " n"]:
        return self._of("joint_velocities", self._only(None))

    @property
    def effort(self) -> Float[Array, " n"]:
        return self._of("joint_efforts", self._only(None))

    @property
    def torque(self) -> Float[Array, " n"]:
        angles = [name for name in self._description["coordinates"] if name in self._description["angles"]]
        if len(angles) != 1:
            raise UnknownName(
                f"Joint {short_repr(self.name)} has {len(angles)} angles; `efforts` has forces by coordinate."
            )
        return self._of("joint_efforts", angles[0])

    @property
    def force(self) -> Float[Array, "n 3"]:
        return self._load("joint_forces")

    @property
    def moment(self) -> Float[Array, "n 3"]:
        return self._load("joint_moments")

    @property
    def power(self) -> Float[Array, " n"]:
        return self._load("joint_powers")

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
        coordinates = list(self._description["coordinates"])
        single = () if len(coordinates) == 1 else ("rate", "effort", "torque")
        return sorted({*own, *coordinates} - set(single))

    def __repr__(self) -> str:
        quantities = (*self._description["coordinates"], "rate", "effort", "force", "moment", "power")
        return f"<joint {short_repr(self.name)}, {self.kind} of {' and '.join(self.bodies)}: {', '.join(quantities)}>"

    def _only(self, name: str | None) -> str:
        names = list(self._description["coordinates"])
        if name is None and len(names) != 1:
            has = f"the coordinates {', '.join(names)}; name one of them" if names else "no coordinate"
            raise UnknownName(f"Joint {short_repr(self.name)}, a {self.kind}, has {has}.")
        if name is not None and name not in names:
            raise unknown_name(f"coordinate of joint {short_repr(self.name)}", name, names)
        return names[0] if name is None else name

    def _of(self, group: str, name: str) -> Any:
        return value(self._run, group, f"joint {short_repr(self.name)}")[..., self._description["coordinates"][name]]

    def _load(self, group: str) -> Any:
        number = self._description["load"]
        if number is None:
            raise UnknownName(f"Joint {short_repr(self.name)}, a {self.kind}, holds nothing, so it transmits no force.")
        values = value(self._run, group, f"joint {short_repr(self.name)}")
        return values[..., number] if group == "joint_powers" else values[..., number, :]


def bodies(run: ResultView) -> ByName[BodyResults]:
    """The bodies of a run."""
    names = list(model_names(run).get("bodies", ()))
    rows = {name: row for row, name in enumerate(names)}
    return ByName("body", names, lambda name: BodyResults(run, name, rows[name]), NO_MODEL, model_names(run))


def joints(run: ResultView) -> ByName[JointResults]:
    """The joints of a run."""
    entries = model_names(run).get("joints", {})
    return ByName(
        "joint", list(entries), lambda name: JointResults(run, name, entries[name]), NO_MODEL, model_names(run)
    )


NO_MODEL = "the problem is not one of a model, or its model has none."
"""The reason for a run without names, for messages."""


def model_names(run: ResultView) -> Mapping[str, Any]:
    """Descriptions of the bodies, joints and forces of its model by name, as they are stored with the run."""
    return run.meta.get("names", {})


def value(run: ResultView, name: str, of: str) -> Any:
    """A quantity of all bodies, joints or forces: saved, or computed from the saved states."""
    if name in run.saved.outputs:
        return run.saved.outputs[name]
    for group in ("joint_loads", "force_loads"):
        loads = run.saved.outputs.get(group)
        if loads is not None and name in loads:
            return loads[name]
    reader = run.reader
    if reader is None:
        raise UnknownName(
            f"`{name}` of {of} was not saved, and the problem is not at hand to compute it from the states. Give it, "
            "`polhode.load(path, problem=problem)`, or save it with every frame: "
            "`model.problem(…, save_loads=True)`."
        )
    if reader.obstacle is not None:
        raise UnknownName(
            f"`{name}` of {of} was not saved, and can't be computed from the states: {reader.obstacle} "
            "Give the problem, `polhode.load(path, problem=problem)`."
        )
    return reader.values(run.saved, name)
