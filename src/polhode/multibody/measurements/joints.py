"""Coordinates, rates and loads of the joints of a model, by name, as functions of states of its system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.known_places import add_entries, set_entries, take
from polhode.modules import Module
from polhode.multibody.coordinates.tree.coordinates import JointTree
from polhode.multibody.measurements.body_kinematics import NodesByName, load_strength, stack_or_empty
from polhode.multibody.measurements.contact_loads import contact_efforts, contact_wrenches, joint_efforts
from polhode.multibody.measurements.joint_loads import Load, constraint_loads, transmitted_loads
from polhode.multibody.mechanism.angle_references import AngleReference
from polhode.multibody.mechanism.angles import near
from polhode.multibody.mechanism.batches import in_order, vmap_alike
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point, Vector, cross
from polhode.systems.base import Observable, State

if TYPE_CHECKING:
    from polhode.multibody.mechanism.coordinate_forces import AbstractRelativeCoordinate

LOADS, EFFORTS = "joint_loads", "joint_efforts"
"""Names of the output of joint loads, and of the part that is independent of contact forces."""

_MAX_SAVED = 100
"""Largest number of coordinates that are saved with every frame: observers of more take long to compile."""


class MeasuredCoordinate(Module):
    """A measured relative coordinate.

    - `coordinate`: the coordinate, of the bodies `ends`. - `offset`: its value at zero of the tree's coordinate.
    - `joint`: name of its joint in the model; `name`: of the coordinate in that joint.
    - `own`: names of the joint itself and its coordinate, where the joint of the model consists of several.
    - `joint_number`: of its `MeasuredJoint`; -1 for none.
    - `driven`: whether its joint prescribes it as a function of time.
    """

    coordinate: AbstractRelativeCoordinate
    offset: Float[Array, ""]
    ends: tuple[str, str] = eqx.field(static=True)
    joint: str = eqx.field(static=True)
    name: str = eqx.field(static=True)
    joint_number: int = eqx.field(static=True)
    driven: bool = eqx.field(static=True)
    own: tuple[str, str] = eqx.field(static=True)

    def among(self, values: Mapping[tuple[str, str], Array]) -> Float[Array, ""] | None:
        """The coordinate from those of a system, turns included; None if it is not among them."""
        value = values.get((self.joint, self.name))
        return values.get(self.own) if value is None else value + self.offset


class MeasuredJoint(Module):
    """A joint with measured loads.

    - `part`: its name in the model. - `first`, `second`: names of its bodies.
    - `point`: in the frame of the second body, about which moments are taken, shape (3,).
    """

    point: Float[Array, "3"]
    part: str = eqx.field(static=True)
    first: str = eqx.field(static=True)
    second: str = eqx.field(static=True)


class MeasuredForce(Module):
    """A force along coordinates of joints.

    - `element`: the force on `bodies`, two of them for each of the coordinates with the numbers `along`.
    - `references`: sources of the turns of its angles.
    """

    element: AbstractForceElement
    references: tuple[AngleReference, ...]
    bodies: tuple[str, ...] = eqx.field(static=True)
    along: tuple[int, ...] = eqx.field(static=True)


class JointValues(NamedTuple):
    """Values of all coordinates, shape (k,), and of all joints, leading axis j; loads on the second bodies."""

    joint_efforts: Float[Array, " k"]
    joint_forces: Float[Array, "j 3"]
    joint_moments: Float[Array, "j 3"]
    joint_powers: Float[Array, " j"]


class JointMeasurements(Module):
    """Measured coordinates and loads of the joints of a model.

    - `coordinates`, `joints`, `forces`: all of them. - `bodies`: names of all bodies in results.
    """

    coordinates: tuple[MeasuredCoordinate, ...]
    joints: tuple[MeasuredJoint, ...]
    forces: tuple[MeasuredForce, ...]
    bodies: tuple[str, ...] = eqx.field(static=True)

    def observables(self, system: MultibodySystem, *, loads: bool) -> dict[str, Observable]:
        """Coordinates and rates, and with `loads` all `values`, as functions of states (q, v); without empty ones."""
        functions: dict[str, Observable] = {}
        if 0 < len(self.coordinates) <= _MAX_SAVED:
            functions["joint_positions"] = lambda t, state: self.positions_in(system, state)
            functions["joint_velocities"] = lambda t, state: self.velocities(system, *state)
        if loads and self.joints:
            loads_of: Any = lambda t, state: self.values(system, t, *state)._asdict()  # noqa: E731
            functions[LOADS] = loads_of
        return functions

    def loads_at_rest(self, system: MultibodySystem) -> Observable:
        """`values` of equilibria as a function of states (q, v)."""
        loads_of: Any = lambda t, state: self.values(system, t, *state, at_rest=True)._asdict()  # noqa: E731
        return loads_of

    def positions(self, system: MultibodySystem, q: Point) -> Float[Array, " k"]:
        """All coordinates, turns included."""
        values = self._each(NodesByName(system, system.motion(q)), lambda c, poses: c.value(poses))
        own = system.joint_coordinates(q)
        candidates = [(k, c.among(own)) for k, c in enumerate(self.coordinates)]
        direct = [(k, value) for k, value in candidates if value is not None]
        if not direct:
            return values
        return set_entries(values, jnp.stack([value for _, value in direct]), np.array([k for k, _ in direct]))

    def positions_in(self, system: MultibodySystem, state: State) -> Float[Array, " k"]:
        """`positions` of a state, (q, v)."""
        q, _ = state
        return self.positions(system, q)

    def velocities(self, system: MultibodySystem, q: Point, v: Vector) -> Float[Array, " k"]:
        """Their time derivatives."""
        return self._each(NodesByName(system, system.motion(q, v)), lambda c, poses, twists: c.rate(poses, twists))

    def values(
        self,
        system: MultibodySystem,
        t: Array,
        q: Point,
        v: Vector,
        multipliers: Array | None = None,
        contact_forces: Float[Array, "contacts rows"] | None = None,
        *,
        at_rest: bool = False,
    ) -> JointValues:
        """Forces along all coordinates, and loads that all joints transmit.

        Multipliers are those of a run, if any. In joint coordinates, and without them, they follow from the
        accelerations in this state, under the forces of contacts where there are any. `at_rest`: nothing accelerates,
        whatever drives do before and after.
        """
        system = system.near(q)
        motion = system.motion(q, v)
        where = NodesByName(system, motion)
        tree = system.coordinates.joint_tree
        vdot = None
        if at_rest:
            vdot = jnp.zeros(system.n)
            multipliers = system.resting_multipliers(t, q) if multipliers is None else multipliers
        elif tree is not None or multipliers is None:
            effort = None if contact_forces is None else contact_efforts(system, t, q, contact_forces)
            vdot, multipliers = (
                system.accelerations(t, q, v) if effort is None else system.accelerations_under(t, q, v, effort)
            )
        assert multipliers is not None
        whole, all_multipliers = system.with_redundant(t, q, multipliers)
        whole = whole.near(q)
        numbers = {joint.part: k for k, joint in enumerate(self.joints)}
        loads = constraint_loads(whole, t, motion, all_multipliers, numbers)
        efforts = self._efforts(where, t, q, v)
        if system.joint_contacts is not None and contact_forces is not None:
            efforts = efforts + self._reactions(system, q, contact_forces)
        if tree is not None and vdot is not None:
            touch = None
            if system.contact_set is not None and contact_forces is not None:
                touch = contact_wrenches(system, q, motion, contact_forces)
            link_loads = transmitted_loads(whole, t, q, v, motion, vdot, all_multipliers, touch)
            loads = self._with_carried(loads, where, link_loads)
        points = self._points(where)
        moments = loads.moment - jnp.cross(points, loads.force)
        return self._with_drives(where, efforts, Load(loads.force, moments, loads.power), points)

    def _each(self, where: NodesByName, function: Callable[..., Array]) -> Float[Array, " k"]:
        """A function of each coordinate and of the poses, and twists if any, of its bodies."""
        if not self.coordinates:
            return jnp.zeros(0)
        motion = lambda members: where.batch([self.coordinates[k].ends for k in members])  # noqa: E731
        results = vmap_alike(lambda c, *at: function(c, *at)[None], [c.coordinate for c in self.coordinates], motion)
        return in_order([(members, values) for members, values in results])

    def _efforts(self, where: NodesByName, t: Array, q: Point, v: Vector) -> Float[Array, " k"]:
        """Sums of the forces along all coordinates, without those of constraints."""
        coordinates = where.system.coordinates
        tree = coordinates.joint_tree
        along = tree.all_forces_along(t, *coordinates.in_joint_tree(q, v)) if isinstance(tree, JointTree) else {}
        efforts = stack_or_empty([along.get((c.joint, c.name), jnp.zeros(())) for c in self.coordinates])
        if not self.forces:
            return efforts

        def strengths(part: tuple[AbstractForceElement, Any], poses: Poses, twists: Twists) -> Float[Array, " n"]:
            element, along = part
            wrenches = element.wrenches(t, poses, twists)
            ends = [slice(2 * k, 2 * k + 2) for k in range(len(along))]
            return stack_or_empty(
                [load_strength(wrenches[i], c.wrenches(poses[i], 1.0)) for c, i in zip(along, ends, strict=True)]
            )

        elements = [near(f.element, [r.value(where.system, q) for r in f.references]) for f in self.forces]
        coordinates = [tuple(self.coordinates[k].coordinate for k in force.along) for force in self.forces]
        parts = list(zip(elements, coordinates, strict=True))
        results = vmap_alike(strengths, parts, lambda members: where.batch([self.forces[k].bodies for k in members]))
        numbers = np.array([k for force in self.forces for k in force.along], dtype=int)
        return add_entries(efforts, in_order([(members, values) for members, values in results]), numbers)

    def _reactions(self, system: MultibodySystem, q: Point, contact_forces: Array) -> Float[Array, " k"]:
        """Forces of rigid stops and dry friction along all coordinates."""
        assert system.joint_contacts is not None
        numbers = {own: k for k, c in enumerate(self.coordinates) for own in (c.own, (c.joint, c.name))}
        efforts, sums = joint_efforts(system, q, contact_forces), jnp.zeros(len(self.coordinates))
        for number, name in enumerate(system.joint_contacts.names):
            for joint, coordinate, ratio in name.terms:
                if (joint, coordinate) in numbers:
                    sums = add_entries(sums, ratio * efforts[number], numbers[joint, coordinate])
        return sums

    def _with_carried(
        self,
        loads: Load,
        where: NodesByName,
        link_loads: tuple[Float[Array, "n 3"], Float[Array, "n 3"], Vector],
    ) -> Load:
        """Loads plus those of the joints that carry links, without forces along their coordinates."""
        tree = where.system.coordinates.joint_tree
        assert isinstance(tree, JointTree)
        links = {link.joint: number for number, link in enumerate(tree.links)}
        forces, moments, along = link_loads
        corrections: dict[int, tuple[Array, Array]] = {}
        for number, joint in enumerate(self.joints):
            i = links.get(joint.part)
            if i is None or tree.links[i].name not in (joint.first, joint.second):
                continue
            sign = 1.0 if tree.links[i].name == joint.second else -1.0
            f, m = sign * forces[i], sign * moments[i]
            for c in self.coordinates:
                if c.joint != joint.part or c.name not in tree.links[i].motion.names:
                    continue
                strength = along[tree.links[i].first + tree.links[i].motion.names.index(c.name)]
                second = c.coordinate.wrenches(where.poses(c.ends), strength)[1]
                own = where.pose(c.ends[1])
                f = f - second.force
                m = m - own.R @ second.torque - cross(own.x, second.force)
            corrections[number] = f, m
        if not corrections:
            return loads
        places = np.array(list(corrections))
        forces, moments = map(jnp.stack, zip(*corrections.values(), strict=True))
        return Load(set_entries(loads.force, forces, places), set_entries(loads.moment, moments, places), loads.power)

    def _points(self, where: NodesByName) -> Float[Array, "j 3"]:
        """Reference points of moments."""
        if not self.joints:
            return jnp.zeros((0, 3))
        ((second,), _) = where.batch([(joint.second,) for joint in self.joints])
        return second.x + jnp.einsum("jab,jb->ja", second.R, jnp.stack([joint.point for joint in self.joints]))

    def _with_drives(self, where: NodesByName, efforts: Array, loads: Load, points: Array) -> JointValues:
        """Adds constraint forces along driven coordinates, and the power of forces along free ones."""
        powers = loads.power
        for k, c in enumerate(self.coordinates):
            if c.driven:
                own = where.pose(c.ends[1])
                force = loads.force[c.joint_number]
                torque = loads.moment[c.joint_number] + cross(points[c.joint_number] - own.x, force)
                unit = c.coordinate.wrenches(where.poses(c.ends), 1.0)[1]
                efforts = add_entries(efforts, load_strength((Wrench(own.R.T @ torque, force),), (unit,)), k)
        free = np.array([k for k, c in enumerate(self.coordinates) if not c.driven and c.joint_number >= 0], dtype=int)
        if len(free):
            rates = self._each(where, lambda c, poses, twists: c.rate(poses, twists))
            joints = np.array([self.coordinates[k].joint_number for k in free])
            powers = add_entries(powers, take(efforts, free) * take(rates, free), joints)
        return JointValues(efforts, loads.force, loads.moment, powers)
