"""Named relative coordinates of bodies, for controllers, springs, rotors and outputs."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.numpy.eager import eager_numpy
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists
from polhode.multibody.parts import AbstractJoint
from polhode.multibody.system import split_state
from polhode.systems.base import State
from polhode.systems.conversion import AbstractConvertedSystem


class Term(NamedTuple):
    """A term of a combination: `ratio` times the coordinate of that name of a pair."""

    ratio: Float[Array, ""]
    pair: AbstractMeasured
    name: str | None


class AbstractMeasured(abc.ABC):
    """Bodies and their relative coordinates by name: "angle", "displacement", …"""

    force_limits: tuple[float, float] = (-np.inf, np.inf)
    """(lower, upper), default limits of controllers for the force along the coordinate."""
    velocity_limit: float = np.inf
    """Largest intended magnitude of the rate; audits report where a run exceeds it."""

    @property
    @abc.abstractmethod
    def bodies(self) -> tuple[Body, ...]:
        """The bodies, in the order in which the coordinates take their poses."""

    @abc.abstractmethod
    def initial(self, name: str | None = None) -> Float[Array, ""]:
        """A relative coordinate at the start, turns included."""

    @abc.abstractmethod
    def terms(self, name: str | None = None) -> tuple[Term, ...]:
        """The coordinates that a coordinate is a sum of, up to a constant: those of pairs, or itself."""

    @property
    def carrier(self) -> AbstractJoint | None:
        """The joint with the same coordinates, up to constants, in a model; None if there is none."""
        return None

    def zero_in_carrier(self, name: str | None) -> Any:
        """Value of a coordinate where that of the carrier is zero."""
        del name
        return 0.0

    def name_in_carrier(self, name: str | None) -> str:
        """The name that `carrier` has for a relative coordinate; the name may be left out if there is only one."""
        return next(iter(self.coordinates())) if name is None else name

    def at_start(self, name: str, t0: Any) -> Any:
        """A coordinate at the start of a model whose time is then t0, turns included."""
        del t0
        return self.initial(name)

    def coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        """Relative coordinates that the joint leaves free, by name: "angle", "displacement", …"""
        return {}

    def coordinate(self, name: str | None = None) -> AbstractRelativeCoordinate:
        """One of `coordinates`; the name may be left out if there is only one. Raises ValueError otherwise."""
        coordinates = self.coordinates()
        if not coordinates:
            raise ValueError(f"{type(self).__name__} has no relative coordinate of its own.")
        if name is None and len(coordinates) > 1:
            raise ValueError(f"{type(self).__name__} has the coordinates {', '.join(coordinates)}; name one of them.")
        return coordinates[next(iter(coordinates)) if name is None else checks.choice("coordinate", name, coordinates)]

    def value(self, system: Any, t: Any, state: State, name: str | None = None) -> Float[Array, "..."]:
        """A relative coordinate in a state of an assembled system; angles are real numbers that count turns.

        0 at the start for joints of a model, and where the file has its zero for joints of a file.

        Systems that a conversion made of an assembled one, such as those of Livens' principle, are accepted too.

        `state` may be that of a run, `solution.state`; then the result has its leading axis. Turns of joints outside
        the model aren't counted: their angles are in (-π, π].
        """
        del t
        coordinate = self.coordinate(name)

        def read(whole: Any, one: State) -> Array:
            with_turns = self.joint_coordinate(whole, one[0], name)
            return coordinate.value(self._poses(whole, one)) if with_turns is None else with_turns

        return _measure_each(read, system, state)

    def turns_are_known(self, system: Any, state: State, name: str | None = None) -> bool:
        """Whether `value` has the turns of angles, which are not counted for joints outside the model."""
        if not self.coordinate(name).angles():
            return True
        while isinstance(system, AbstractConvertedSystem):
            system, state = system.base, system.to_base(state)
        return self.joint_coordinate(system, split_state(state)[0], name) is not None

    def joint_coordinate(self, system: Any, q: Any, name: str | None = None) -> Float[Array, ""] | None:
        """A coordinate as the positions of the system have it, turns included; None if they don't."""
        del system, q, name
        return None

    def joint_rate(self, system: Any, v: Any, name: str | None = None) -> Float[Array, ""] | None:
        """The time derivative of a coordinate if it is among the velocities of the system; None otherwise."""
        del system, v, name
        return None

    def rate(self, system: Any, t: Any, state: State, name: str | None = None) -> Float[Array, "..."]:
        """Time derivative of a relative coordinate, of a state or of a run as in `value`."""
        del t
        coordinate = self.coordinate(name)

        def read(whole: Any, one: State) -> Array:
            own = self.joint_rate(whole, one[1], name)
            return coordinate.rate(self._poses(whole, one), self._twists(whole, one)) if own is None else own

        return _measure_each(read, system, state)

    def _poses(self, system: Any, state: State) -> Poses:
        still = Pose(jnp.zeros(3), jnp.eye(3))
        return tuple(still if body.kind == "ground" else system.pose_in(state, body) for body in self.bodies)

    def _twists(self, system: Any, state: State) -> Twists:
        still = Twist(jnp.zeros(3), jnp.zeros(3))
        return tuple(still if body.kind == "ground" else system.twist_in(state, body) for body in self.bodies)


class AbstractMeasuredPair(AbstractMeasured):
    """Two bodies, the first one and the second one, and their relative coordinates."""

    @property
    @abc.abstractmethod
    def carrier(self) -> AbstractJoint | None:
        """The joint with the same coordinates, up to constants, in a model; None if there is none."""

    def driven_coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        """Relative coordinates that the joint moves as a function of time, by name; none unless overridden."""
        return {}

    def joint_coordinate(self, system: Any, q: Any, name: str | None = None) -> Float[Array, ""] | None:
        part = self.carrier
        if part is not None:
            ends = tuple(body.name for body in part.bodies)
            value = system.joint_coordinate(q, part.name, self.name_in_carrier(name), ends)
            if value is not None:
                return value + self.zero_in_carrier(name)
        coordinate_name = next(iter(self.coordinates())) if name is None else name
        ends = tuple(body.name for body in self.bodies)
        return system.joint_coordinate(q, getattr(self, "name", None), coordinate_name, ends)

    def joint_rate(self, system: Any, v: Any, name: str | None = None) -> Float[Array, ""] | None:
        part = self.carrier
        if part is None or part.name is None:
            return None
        return system.coordinates.joint_rates(v).get((part.name, self.name_in_carrier(name)))

    def terms(self, name: str | None = None) -> tuple[Term, ...]:
        return (Term(jnp.ones(()), self, name),)

    def force(self, system: Any, t: Any, state: State, name: str | None = None) -> Float[Array, "..."]:
        """Sum of the forces along a coordinate, torques for an angle, of a state or of a run as in `value`.

        They are those of `JointSpring`, `JointStops`, `JointFriction`, `Actuator`, `PD`, `JointControl`, and of
        such elements of files. **Raises** ValueError unless the joint has a name and carries a body in joint
        coordinates.
        """
        self.coordinate(name)
        which = self.name_in_carrier(name)

        def read(whole: Any, one: Any) -> Array:
            (q, v), time = one
            part = self.carrier
            total = None
            if part is not None and part.name is not None:
                total = whole.coordinates.force_along(jnp.asarray(time, float), q, v, part.name, which)
            if total is None:
                raise ValueError(
                    "Forces along a joint are known if it has a name and carries a body in joint coordinates "
                    "(formulation 'minimal'). `system.joint_multipliers` has what constraints exert."
                )
            return total

        return _measure_each(read, system, state, t)


def _measure_each(measure: Callable[[Any, Any], Array], system: Any, state: State, *times: Any) -> Array:
    """Measurements at one state, or all states of a run, in the assembled system that was converted.

    With `times`, `measure` takes pairs (state, time).
    """

    def one(state: State, *time: Any) -> Array:
        whole = system
        while isinstance(whole, AbstractConvertedSystem):
            whole, state = whole.base, whole.to_base(state)
        if not hasattr(whole, "pose"):
            raise ValueError(
                f"Joints are read from states of a system that a model was assembled to, not of {type(whole).__name__}."
            )
        state = split_state(state)
        return measure(whole, (state, *time) if time else state)

    _, v, *_ = state
    is_run = jnp.ndim(v) == 2
    with eager_numpy():
        return jax.vmap(one)(state, *map(jnp.asarray, times)) if is_run else one(state, *times)
