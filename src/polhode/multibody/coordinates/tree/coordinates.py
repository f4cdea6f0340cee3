"""Joint coordinates: bodies carried by the joints of a tree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.blocks import Matrix, dense_block
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.known_places import add_entries
from polhode.linalg.solver_choice import tree_solver
from polhode.linalg.tangent_operator import tangent_operator
from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.base import AbstractCoordinates
from polhode.multibody.coordinates.tree import articulated_bodies
from polhode.multibody.coordinates.tree.joint_forces import (
    AbstractJointCoordinateForce,
    CoordinateIndex,
    JointRotor,
    coordinate_values,
    map_forces,
    named_coordinates,
    onset_rate,
    potential,
    with_forces,
    with_slopes,
)
from polhode.multibody.coordinates.tree.link_loops import (
    LinkStates,
    composite_inertias,
    link_states,
    mass_of_velocities,
    project_loads,
)
from polhode.multibody.coordinates.tree.link_rows import WORTH_LOOPS, LinkRows, carriers, label, suit_loops
from polhode.multibody.coordinates.tree.links import Link, Vec, central, kinetic_energy
from polhode.multibody.coordinates.tree.local_motions import LocalMotions, local_motions
from polhode.multibody.coordinates.tree.mass import Shares, lump, mass_matrix
from polhode.multibody.coordinates.tree.matrices import Inertial, Sizes, inertial_tangent
from polhode.multibody.coordinates.tree.motions import AbstractJointMotion, FreeMotion, constant
from polhode.multibody.coordinates.tree.recursions import (
    NONE,
    LinkAcceleration,
    compose,
    frames_in_space,
    inertial_load,
    link_acceleration,
    link_twists,
    load_on_link,
    project_links,
    relative_poses,
    twist_of_body,
)
from polhode.multibody.coordinates.tree.row_order import RowOrder, row_order
from polhode.multibody.mechanism.batches import RaggedRows
from polhode.multibody.mechanism.groups import Motion
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.multibody.mechanism.poses import AT_REST, ORIGIN, Pose, Twist, Wrench
from polhode.spaces.base import AbstractSpace, Point, Vector, hat
from polhode.spaces.constants import Constants
from polhode.spaces.products import product
from polhode.systems.mechanical.tangent import (
    Tangent,
    Weights,
    largest_coordinate,
    largest_of,
    magnified_round_off,
)


class JointTree(AbstractCoordinates):
    r"""q is a tuple with the coordinates of one joint after the other, v one flat array.

    At its end q has the counted angles of joints that close loops, if any.

    M by composite bodies, f by recursion of velocities and forces along the tree (R. Featherstone, *Rigid Body
    Dynamics Algorithms*, §5.3 and §6.2; the recursion of J. Luh, M. Walker & R. Paul in frames of the links). Joints
    that close loops are constraints of the mechanism.

    - `links`: bodies, parents before children; of large trees labels, whose numbers `stack` has.
    - `stack`: numbers of the links in arrays, where recursions are loops over links; otherwise None.
    - `efforts`: forces along coordinates of the tree. - `rotors`: inertias along them.
    - `turns`: number of counted angles at the end of q.
    """

    links: tuple[Link, ...]
    efforts: tuple[AbstractJointCoordinateForce, ...] = ()
    rotors: tuple[JointRotor, ...] = ()
    turns: int = eqx.field(static=True, default=0)
    stack: LinkRows | None = None

    @classmethod
    def of(
        cls,
        links: tuple[Link, ...],
        efforts: tuple[AbstractJointCoordinateForce, ...] = (),
        rotors: tuple[JointRotor, ...] = (),
        turns: int = 0,
    ) -> JointTree:
        """The tree of these links, with loops over them or without, whichever is faster."""
        if not suit_loops(links):
            return cls(links, efforts, rotors, turns)
        return cls(tuple(map(label, links)), efforts, rotors, turns, LinkRows.of(links))

    @property
    def space(self) -> AbstractSpace:
        of_joints = (link.motion.space for link in self.links if link.motion.n)
        return product(*of_joints, *((Constants(self.turns),) if self.turns else ()))

    @property
    def n(self) -> int:
        return self.links[-1].last

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(link.name for link in self.links)

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(link.name for link in self.links if link.weight)

    @property
    def inert(self) -> bool:
        return all(link.energetic for link in self.links)

    @property
    def conservative(self) -> bool:
        return all(effort.conservative for effort in self.efforts)

    @property
    def has_strain_energy(self) -> bool:
        return bool(self.efforts)

    def strain_energy(self, q: Point) -> Float[Array, ""]:
        return potential(self.efforts, self._points(q), jnp.zeros(self.n)) if self.efforts else jnp.zeros(())

    @property
    def joint_tree(self) -> JointTree:
        return self

    @property
    def has_own_loads(self) -> bool:
        return bool(self.efforts)

    def without_loads(self) -> JointTree:
        return dataclasses.replace(self, efforts=())

    def in_loops(self) -> JointTree:
        if self.looped or len(self.links) < WORTH_LOOPS:
            return self
        return dataclasses.replace(self, links=tuple(map(label, self.links)), stack=LinkRows.of(self.links))

    def stiffest(self) -> JointTree:
        return dataclasses.replace(self, efforts=tuple(effort.stiffest() for effort in self.efforts))

    @property
    def has_costly_tangent(self) -> bool:
        return True

    @property
    def brief(self) -> bool:
        return any(effort.brief for effort in self.efforts)

    @property
    def has_onsets(self) -> bool:
        return any(effort.has_onset for effort in self.efforts)

    def onset_rate(self, q: Point, v: Vector, sense: Array) -> Float[Array, ""]:
        return onset_rate(self.efforts, self._points(q), v, sense)

    def power(self, t: Array, q: Point, v: Vector) -> Float[Array, ""]:
        points = self._points(q)
        energy_at = lambda s: self.strain_energy(self.space.move(q, s * v))  # noqa: E731
        storage_rate = jax.jvp(energy_at, (jnp.zeros(()),), (jnp.ones(()),))[1]
        return self._with_efforts(jnp.zeros(self.n), t, points, v) @ v + storage_rate

    # --- motion of the bodies -----------------------------------------------------------------------------------------

    def pose(self, q: Point, body: Body | str) -> Pose:
        """Position of the centre of mass and rotation matrix of one body."""
        number = self._find(body)
        poses = self.motion(q).poses
        return Pose(poses.x[number], poses.R[number])

    def twist(self, q: Point, v: Vector, body: Body | str) -> Twist:
        """Angular velocity (body frame) and velocity (inertial frame) of one body."""
        number = self._find(body)
        omega, u = self.motion(q, v).twists or Twist(v, v)
        return Twist(omega[number], u[number])

    def columns(self, body: Body | str) -> np.ndarray:
        link = self.links[self._find(body)]
        return np.arange(link.first, link.last)

    @property
    def carriers(self) -> Sequence[np.ndarray]:
        return carriers(self.links)

    @property
    def screws(self) -> np.ndarray:
        free = [np.arange(link.first, link.last) for link in self.links if isinstance(link.motion, FreeMotion)]
        return np.array(free, int).reshape(-1, 6)

    def motion(self, q: Point, v: Vector | None = None) -> Motion:
        """Poses and, with v, twists of all bodies and of the ground."""
        if self.looped:
            return self._motion(self._states(q, jnp.zeros(self.n) if v is None else v, True)[1], v is not None)
        relative = self._relative(q)
        frames = self._frames(relative)
        poses = [compose(frame, Pose(k.centre, k.attitude)) for frame, k in zip(frames, self.links, strict=True)]
        pose_rows = Pose(*_columns([*poses, ORIGIN]))
        if v is None:
            return Motion(pose_rows)
        twists = []
        link_twists = self._link_twists(v, self._points(q), relative)
        for twist, frame, link in zip(link_twists, frames, self.links, strict=True):
            twists.append(twist_of_body(twist, frame.R, link.centre, link.attitude))
        return Motion(pose_rows, Twist(*_columns([*twists, AT_REST])))

    def joint_coordinate(
        self, q: Point, joint: str | None, name: str, bodies: tuple[str, ...]
    ) -> Float[Array, ""] | None:
        for link in self.links:
            own = link.joint == joint or (joint is None and {link.name, self._below(link)} == {*bodies})
            if own and name in link.motion.names:
                return named_coordinates(self.of_joint(q, link.joint))[link.motion.names.index(name)]
        return None

    def _below(self, link: Link) -> str:
        """Name of the body that carries a link."""
        return self.links[link.parent].name if link.parent >= 0 else "ground"

    def values_at(self, q: Point, places: Sequence[CoordinateIndex]) -> Float[Array, " n"]:
        """Joint coordinates by their places."""
        return coordinate_values(self._points(q), places)

    def joint_coordinates(self, q: Point) -> dict[tuple[str, str], Float[Array, ""]]:
        """All relative coordinates among q, by joint and name."""
        return {
            (link.joint, name): named_coordinates(point)[i]
            for link, point in zip(self.links, self._points(q), strict=True)
            for i, name in enumerate(link.motion.names)
        }

    def joint_rates(self, v: Vector) -> dict[tuple[str, str], Float[Array, ""]]:
        """Their time derivatives."""
        return {(k.joint, name): v[k.first + i] for k in self.links for i, name in enumerate(k.motion.names)}

    def all_forces_along(self, t: Array, q: Point, v: Vector) -> dict[tuple[str, str], Float[Array, ""]]:
        """Sums of the forces along these coordinates, by joint and name."""
        forces = self._with_efforts(jnp.zeros(self.n), t, self._points(q), v)
        return {(k.joint, name): forces[k.first + i] for k in self.links for i, name in enumerate(k.motion.names)}

    def strengths(self, t: Array, q: Point, v: Vector) -> RaggedRows:
        """Forces of each of `efforts` along its own coordinates."""
        return map_forces(self.efforts, lambda one, s, rates: one.efforts(t, s, rates), self._points(q), v)

    def measures(self, t: Array, q: Point) -> RaggedRows:
        """Output values of each of `efforts` besides its strengths, turns of joints included."""
        none = jnp.zeros(self.n)
        return map_forces(self.efforts, lambda one, s, rates: one.deflection(t, s), self._points(q), none)

    def force_along(self, t: Array, q: Point, v: Vector, joint: str, name: str) -> Float[Array, ""] | None:
        for link in self.links:
            if link.joint == joint and name in link.motion.names:
                return self._with_efforts(jnp.zeros(self.n), t, self._points(q), v)[
                    link.first + link.motion.names.index(name)
                ]
        return None

    def of_joint(self, q: Point, joint: str) -> Point:
        """Coordinates of one joint, zero at the start; a body without joint has those of its free motion."""
        movable = [link for link in self.links if link.motion.n]
        for link, point in zip(movable, q[: len(movable)], strict=True):
            if joint in (link.joint, link.name):
                return point
        raise ValueError(f"No joint `{joint}` has coordinates; there are {', '.join(k.joint for k in movable)}.")

    # --- inertia and loads --------------------------------------------------------------------------------------------

    def kinetic_energy(self, q: Point, v: Vector) -> Float[Array, ""]:
        still = np.concatenate([np.full(link.motion.n, not link.energetic) for link in self.links])
        v = jnp.where(still, 0.0, v) if still.any() else v
        if self.looped:
            of_links = jnp.sum(jax.vmap(kinetic_energy)(self.rows.inertia, self._states(q, v, False)[1].twist))
        else:
            links, twists = lump(self._whole), self._link_twists(v, self._points(q), self._relative(q))
            of_links = sum(map(kinetic_energy, [link.inertia for link in links], twists), start=jnp.zeros(()))
        return of_links + 0.5 * sum((r.inertia * v[r.place] ** 2 for r in self.rotors), start=jnp.zeros(()))

    def weight(self, motion: Motion, gravity: Float[Array, "3"]) -> Float[Array, ""]:
        return -self.masses @ (motion.poses.x[:-1] @ gravity)

    @property
    def masses(self) -> Float[Array, " rows"]:
        return self.rows.inertia.mass * np.array([link.weight for link in self.links])

    @property
    def inertias(self) -> Float[Array, "rows 3 3"]:
        return jax.vmap(central)(self.rows.inertia, self.rows.centre, self.rows.attitude)

    @property
    def energetic(self) -> np.ndarray:
        return np.array([link.energetic for link in self.links])

    @property
    def connected_rows(self) -> tuple[tuple[int, int], ...]:
        has_joint = [link.parent >= 0 or isinstance(link.motion, AbstractJointMotion) for link in self.links]
        return tuple((link.parent, row) for row, link in enumerate(self.links) if has_joint[row])

    def mass(self, q: Point) -> Matrix:
        if self.looped:
            return dense_block(self._mass_in_loops(q) + jnp.diag(self.armature))
        own = [np.arange(link.motion.n) for link in self.links]
        shares = [Shares(places, link.first + places) for link, places in zip(self.links, own, strict=True)]
        return dense_block(self.mass_along(q, shares, self.n) + jnp.diag(self.armature))

    def mass_along(self, q: Point, shares: Sequence[Shares], n: int) -> Float[Array, "n n"]:
        """M of the links along n independent velocities; `shares`: what the velocities of each link are made of."""
        return mass_matrix(lump(self._whole), self._points(q), self._relative(q), shares, n)

    @property
    def armature(self) -> Float[Array, " n"]:
        """Inertias of rotors along the velocities."""
        if not self.rotors:
            return jnp.zeros(self.n)
        places = np.array([rotor.place for rotor in self.rotors])
        return add_entries(jnp.zeros(self.n), jnp.stack([rotor.inertia for rotor in self.rotors]), places)

    def momentum(self, q: Point, v: Vector) -> Vector:
        relative, points = self._relative(q), self._points(q)
        torques: list[Vec] = []
        forces: list[Vec] = []
        for link, (omega, u) in zip(lump(self._whole), self._link_twists(v, points, relative), strict=True):
            # The momenta of a body are what its inertia takes for accelerations of the size of its velocities.
            momenta = inertial_load(link.inertia, LinkAcceleration(NONE, omega, hat(omega), u), Wrench(NONE, NONE))
            torques.append(momenta.torque)
            forces.append(momenta.force)
        momentum = self._project_loads(points, relative, torques, forces)
        return momentum + self.armature * v if self.rotors else momentum

    def project(self, q: Point, loads: Wrench) -> Vector:
        """Generalised forces of loads on the bodies."""
        if self.looped:
            local, states = self._states(q, jnp.zeros(self.n), True)
            return self._project_in_loops(local, self._on_links(states, loads))
        relative = self._relative(q)
        own = self._carry(loads, relative)
        return self._project_loads(self._points(q), relative, [w.torque for w in own], [w.force for w in own])

    def jacobian(self, mechanism: Mechanism, t: Array, q: Point) -> Matrix | None:
        """The generalised forces of unit multipliers, O(n) each."""
        if len(mechanism.nonholonomic):
            return None
        motion, m = self.motion(q), sum(group.rows.numbers.size for group in mechanism.joints)
        torque, force = jnp.zeros((2, m, len(self.links), 3))
        for group in mechanism.joints:
            on_bodies = [slot for slot in group.slots if slot.group is not None]
            for slot, gradient in zip(on_bodies, group.gradients(t, motion), strict=True):
                at = group.rows.numbers, slot.nodes.numbers.reshape(-1, 1)
                torque, force = torque.at[at].add(gradient[..., :3]), force.at[at].add(gradient[..., 3:])
        return dense_block(jax.vmap(lambda loads: self.project(q, loads))(Wrench(torque, force)))

    def force(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Vector:
        return self._force_in_loops(mechanism, t, q, v) if self.looped else self._excess_force(mechanism, t, q, v, None)

    def balance(self, mechanism: Mechanism, t: Array, q: Point, v: Vector, acceleration: Vector) -> Vector:
        if self.looped:
            return super().balance(mechanism, t, q, v, acceleration)
        balance = -self._excess_force(mechanism, t, q, v, acceleration)
        return balance + self.armature * acceleration if self.rotors else balance

    def _excess_force(self, mechanism: Mechanism, t: Array, q: Point, v: Vector, acceleration: Vector | None) -> Vector:
        """Forces minus what the bodies, without rotors, need for an acceleration; None for zero."""
        relative, points = self._relative(q), self._points(q)
        loads = self._loads(mechanism, t, q, v, relative)
        states: list[LinkAcceleration] = []
        inertial: list[Wrench] = []
        for link, frame, point, load in zip(lump(self.links), relative, points, loads, strict=True):
            # Gravity as an acceleration of the ground.
            ground = LinkAcceleration(NONE, NONE, ORIGIN.R * 0, -link.weight * mechanism.gravity)
            below = states[link.parent] if link.parent >= 0 else ground
            own = slice(link.first, link.last)
            along = None if acceleration is None else acceleration[own]
            states.append(link_acceleration(link.motion, point, v[own], frame, below, along))
            inertial.append(inertial_load(link.inertia, states[-1], load))
        torques, forces = map(list, zip(*inertial, strict=True))
        total = -self._project_loads(points, relative, torques, forces)
        return self._with_efforts(total, t, points, v)

    def stiffness(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Matrix:
        """K of gravity, controllers and force elements; see `AbstractCoordinates.stiffness`.

        Without the part of the inertial forces, of order v²: in Newton's method it matters as little as the derivative
        of M v̇, which methods leave out as well.
        """
        inertial = self._inertial(mechanism.gravity, q, v, Weights(0.0, 0.0, 1.0)).matrix
        return dense_block(inertial + self._load_stiffness(mechanism, t, q, v))

    def damping(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Matrix:
        inertial = self._inertial(NONE, q, v, Weights(0.0, 1.0, 0.0)).matrix
        return dense_block(inertial + self._load_damping(mechanism, t, q, v))

    def tangent(
        self, mechanism: Mechanism, t: Array, q: Point, v: Vector, increment: Vector | None, weights: Weights
    ) -> Tangent:
        operators = self._tangent_operators(increment)
        inertial = self._inertial(mechanism.gravity, q, v, weights, operators)
        K, C = self._load_stiffness(mechanism, t, q, v), self._load_damping(mechanism, t, q, v)
        sizes = largest_coordinate(q), largest_of(v)
        of_loads = sum(
            magnified_round_off(dense_block(x), y, self.n, self.n) for x, y in zip((K, C), sizes, strict=True)
        )
        for link, T in zip(self.links, operators, strict=True):
            if T is not None:
                own = slice(link.first, link.last)
                K = K.at[:, own].set(K[:, own] @ T)
        matrix = inertial.matrix + weights.damping * C + weights.stiffness * K
        if self.rotors:
            matrix = matrix + weights.mass * jnp.diag(self.armature)
        return Tangent(dense_block(matrix), inertial.magnified + of_loads)

    def _inertial(
        self, gravity: Vec, q: Point, v: Vector, weights: Weights, operators: Sequence[Array | None] = ()
    ) -> Inertial:
        """The weighted sum of M without rotors, and of C and K without loads."""
        sizes = Sizes(largest_coordinate(q), largest_of(v))
        operators = operators or self._tangent_operators(None)
        links = lump(self._whole)
        return inertial_tangent(links, self._points(q), self._relative(q), v, gravity, weights, sizes, operators)

    def _tangent_operators(self, increment: Vector | None) -> list[Array | None]:
        """T of each joint; None for the identity."""
        if increment is None:
            return [None] * len(self.links)
        return [tangent_operator(link.motion.space, increment[link.first : link.last]) for link in self.links]

    def _load_stiffness(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Float[Array, "n n"]:
        K = with_slopes(jnp.zeros((self.n, self.n)), self.efforts, t, self._points(q), v, of_rates=False)
        if mechanism.forces:
            move = self.space.move
            K = K - jax.jacfwd(lambda theta: self._element_forces(mechanism, t, move(q, theta), v))(jnp.zeros(self.n))
        return K

    def _load_damping(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Float[Array, "n n"]:
        C = with_slopes(jnp.zeros((self.n, self.n)), self.efforts, t, self._points(q), v, of_rates=True)
        if any(group.elements.uses_twists for group in mechanism.forces):
            C = C - jax.jacfwd(lambda u: self._element_forces(mechanism, t, q, u))(v)
        return C

    def choose_solver(self, mechanism: Mechanism, m: int, compliant: bool) -> AbstractKKT:
        loops = self.constrained_velocities(mechanism, m)
        return tree_solver(self.n, self.coupled_velocities(mechanism), loops, compliant=compliant)

    def constrained_velocities(self, mechanism: Mechanism, m: int) -> list[np.ndarray]:
        """For each constraint the velocities that it acts on: those that carry one of two bodies, but not both."""
        carrying = [*carriers(self.links), np.zeros(0, int)]
        loops = [np.arange(self.n)] * m
        for group in mechanism.joints:
            ends = zip(*(slot.nodes.numbers.reshape(-1) for slot in group.slots), strict=True)
            for rows, nodes in zip(group.rows.numbers, ends, strict=True):
                numbers, counts = np.unique(np.concatenate([carrying[k] for k in nodes]), return_counts=True)
                between = numbers[counts < len(nodes)] if group.elements.relative else numbers
                for row in rows:
                    loops[row] = between
        return loops

    def coupled_velocities(self, mechanism: Mechanism) -> list[np.ndarray]:
        """Sets of velocities that M, C and K couple with each other: those that carry a link, and those of forces."""
        carrying = carriers(self.links)
        sets = list(carrying)
        sets += [np.array([place.velocity for place in effort.places]) for effort in self.efforts]
        for group in mechanism.forces:
            if group.elements.uses_twists or group.elements.uses_poses:
                ends = [slot.nodes.numbers.reshape(-1) for slot in group.slots if slot.group is not None]
                sets += [np.unique(np.concatenate([carrying[k] for k in nodes])) for nodes in zip(*ends, strict=True)]
        return sets

    # --- loops over links -------------------------------------------------------------------------------------------

    @property
    def looped(self) -> bool:
        """Whether recursions are loops over links."""
        return self.stack is not None

    @property
    def rows(self) -> LinkRows:
        """The numbers of the links in arrays."""
        return LinkRows.of(self.links) if self.stack is None else self.stack

    @property
    def _whole(self) -> tuple[Link, ...]:
        """The links with their numbers."""
        return self.links if self.stack is None else self.stack.fill(self.links)

    @property
    def _order(self) -> RowOrder:
        return row_order(tuple(link.parent for link in self.links), (1,) * len(self.links))

    def _states(self, q: Point, v: Vector, with_frames: bool, gravity: Vec = NONE) -> tuple[LocalMotions, LinkStates]:
        local = self._local_motions(q, v)
        ground = -jnp.array([link.weight for link in self.links])[:, None] * gravity
        return local, link_states(self._order, local, ground, with_frames)

    def _motion(self, states: LinkStates, moving: bool) -> Motion:
        assert states.frame is not None
        centres, attitudes = self.rows.centre, self.rows.attitude
        poses = jax.vmap(compose)(states.frame, Pose(centres, attitudes))
        with_ground = lambda rows, ground: jax.tree.map(lambda x, y: jnp.concatenate((x, y[None])), rows, ground)  # noqa: E731
        if not moving:
            return Motion(with_ground(poses, ORIGIN))
        twists = jax.vmap(twist_of_body)(states.twist, states.frame.R, centres, attitudes)
        return Motion(with_ground(poses, ORIGIN), with_ground(twists, AT_REST))

    def _force_in_loops(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Vector:
        local, states = self._states(q, v, bool(mechanism.forces), mechanism.gravity)
        loads = jax.tree.map(lambda x: jnp.zeros((len(self.links), 3)), Wrench(NONE, NONE))
        if mechanism.forces:
            loads = self._on_links(states, mechanism.loads(t, self._motion(states, True)))
        accelerations = LinkAcceleration(states.twist.omega, states.alpha, states.spin, states.a)
        total = -self._project_in_loops(local, jax.vmap(inertial_load)(self.rows.inertia, accelerations, loads))
        return self._with_efforts(total, t, self._points(q), v)

    def _on_links(self, states: LinkStates, loads: Wrench) -> Wrench:
        """Loads on the bodies about the origins of their links and in their frames."""
        assert states.frame is not None
        return jax.vmap(load_on_link)(loads, states.frame.R, self.rows.centre, self.rows.attitude)

    def _project_in_loops(self, local: LocalMotions, loads: Wrench) -> Vector:
        return project_loads(self._order, self._link_of_velocity, local, loads)

    @property
    def _link_of_velocity(self) -> np.ndarray:
        """Number of the link that each velocity moves."""
        return np.repeat(np.arange(len(self.links)), [link.motion.n for link in self.links])

    def _mass_in_loops(self, q: Point) -> Float[Array, "n n"]:
        """M without rotors, by a program whose length does not grow with the number of links."""
        local, states = self._states(q, jnp.zeros(self.n), True)
        assert states.frame is not None
        composites = composite_inertias(self._order, local, self.rows.inertia)
        sets = carriers(self.links)
        carry = np.array([np.isin(np.arange(self.n), sets[link]) for link in self._link_of_velocity])
        return mass_of_velocities(self._link_of_velocity, carry, local, states.frame, composites)

    def inverse_mass(self, q: Point) -> Callable[[Vector], Vector] | None:
        """The function M⁻¹ of a vector, where it takes less than a factorisation of M; otherwise None."""
        if not self.looped:
            return None
        links = tuple(link.parent for link in self.links), tuple(link.motion.n for link in self.links)
        order, local = row_order(*links), self._local_motions(q, jnp.zeros(self.n))
        rows = articulated_bodies.rows_of(order, self.rows.inertia, local, self.armature)
        factors = articulated_bodies.factor(order, rows)
        return lambda r: articulated_bodies.solve(order, factors, r)

    def _local_motions(self, q: Point, v: Vector) -> LocalMotions:
        velocities = [np.arange(link.first, link.last) for link in self.links]
        return local_motions(self.rows, velocities, self._points(q), v)

    # --- parts ------------------------------------------------------------------------------------------------------

    def _points(self, q: Point) -> list[Point]:
        """Coordinates of each joint; empty for welds."""
        parts = iter(q)
        return [next(parts) if link.motion.n else constant(np.zeros(0)) for link in self.links]

    def _relative(self, q: Point) -> list[Pose]:
        return relative_poses([link.motion for link in self._whole], self._points(q))

    def _frames(self, relative: Sequence[Pose]) -> list[Pose]:
        """Frames of the links in the inertial frame."""
        return frames_in_space(relative, tuple(link.parent for link in self.links))

    def _link_twists(self, v: Vector, points: Sequence[Point], relative: Sequence[Pose]) -> list[Twist]:
        """Angular velocity of each link and velocity of its origin, in its own frame."""
        places = tuple((link.parent, link.first, link.last) for link in self.links)
        return link_twists([link.motion for link in self._whole], points, relative, v, places)

    def _loads(self, mechanism: Mechanism, t: Array, q: Point, v: Vector, relative: Sequence[Pose]) -> list[Wrench]:
        """Loads of the force elements on each link, about its origin and in its frame."""
        count = len(self.links)
        if not mechanism.forces:
            return [Wrench(jnp.zeros(3), jnp.zeros(3))] * count
        return self._carry(mechanism.loads(t, self.motion(q, v)), relative)

    def _carry(self, loads: Wrench, relative: Sequence[Pose]) -> list[Wrench]:
        """Loads on the bodies about the origins of their links and in their frames."""
        torque, force = loads
        frames = self._frames(relative)
        return [
            load_on_link(Wrench(torque[i], force[i]), frames[i].R, link.centre, link.attitude)
            for i, link in enumerate(self._whole)
        ]

    def _with_efforts(self, forces: Vector, t: Array, points: Sequence[Point], v: Vector) -> Vector:
        return with_forces(forces, self.efforts, t, points, v)

    def _element_forces(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Vector:
        """Generalised forces of the force elements between bodies."""
        return self.project(q, mechanism.loads(t, self.motion(q, v)))

    def _project_loads(
        self, points: Sequence[Point], relative: Sequence[Pose], torques: list[Vec], forces: list[Vec]
    ) -> Vector:
        """Generalised forces of loads on the links."""
        parents = tuple(link.parent for link in self.links)
        return project_links([link.motion for link in self._whole], points, relative, torques, forces, parents)

    def _find(self, body: Body | str) -> int:
        name = body if isinstance(body, str) else body.name
        for number, link in enumerate(self.links):
            if link.name == name:
                return number
        raise ValueError(f"The system has no body `{name}`; it has {', '.join(k.name for k in self.links)}.")


def _columns(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    first, second = zip(*parts, strict=True)
    return jnp.stack(first), jnp.stack(second)
