"""Trees in joint coordinates beside bodies in coordinates of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.blocks import Blocks, Indices, Matrix, to_dense
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.solver_choice import condensed_solver
from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.absolute import AbsoluteCoordinates
from polhode.multibody.coordinates.base import AbstractCoordinates
from polhode.multibody.coordinates.link_frames import LinkNodes
from polhode.multibody.coordinates.tree.coordinates import JointTree
from polhode.multibody.coordinates.tree.dependent_coordinates import ReducedTree
from polhode.multibody.mechanism import tangents
from polhode.multibody.mechanism.groups import AbstractNodeGroup, ForceGroup, Motion, Slot
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.multibody.mechanism.poses import Pose, Twist, Wrench
from polhode.multibody.mechanism.reactions import FixedLoad, at_stress, reaction_of, stress_of, stressed_groups
from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.spaces.constants import Constants
from polhode.spaces.products import product


def moving_velocities(tree: JointTree | ReducedTree) -> tuple[Indices, ...]:
    """For each link the velocities of the tree that move it."""
    moving = [tree.columns(name) for name in tree.names]
    for parent, row in tree.connected_rows:
        if parent >= 0:
            moving[row] = np.union1d(moving[parent], moving[row])
    return tuple(Indices(numbers[None]) for numbers in moving)


def coupled_parts(tree: JointTree | ReducedTree) -> tuple[Indices, ...]:
    """Velocities that the matrices of a tree couple, a set for each of its independent parts."""
    parts: list[np.ndarray] = []
    for coupled in tree.coupled_velocities(Mechanism((), (), jnp.zeros(3))):
        near = [part for part in parts if np.intersect1d(part, coupled).size]
        parts = [part for part in parts if not np.intersect1d(part, coupled).size]
        parts.append(np.unique(np.concatenate((coupled, *near))))
    return tuple(Indices(numbers[None]) for numbers in parts if numbers.size)


class MixedCoordinates(AbstractCoordinates):
    """Trees in joint coordinates beside bodies in coordinates of their own, such as nodes of rods.

    q is (coordinates of the other bodies, those of the tree, counted angles if any); rows of `motion`, and v, begin
    with the other bodies too. An element between both has blocks of the velocities that move its links, so that
    matrices stay as sparse as in absolute coordinates.

    - `others`: the other bodies. - `tree`: the tree, without counted angles.
    - `moving`: for each link the velocities of the tree that move it.
    - `parts`: velocities of the tree that its matrices couple, a set for each part of the tree.
    - `turns`: number of counted angles.
    """

    others: AbsoluteCoordinates
    tree: JointTree | ReducedTree
    moving: tuple[Indices, ...] = eqx.field(static=True)
    parts: tuple[Indices, ...] = eqx.field(static=True)
    turns: int = eqx.field(static=True, default=0)

    @property
    def space(self) -> AbstractSpace:
        return product(self.others.space, self.tree.space, *((Constants(self.turns),) if self.turns else ()))

    @property
    def n(self) -> int:
        return self.others.n + self.tree.n

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.others.names, *self.tree.names)

    @property
    def shown(self) -> tuple[str, ...]:
        return (*self.others.shown, *self.tree.shown)

    @property
    def inert(self) -> bool:
        return self.others.inert and self.tree.inert

    @property
    def local(self) -> bool:
        return True

    @property
    def identity_kinematics(self) -> bool:
        return self.others.identity_kinematics

    @property
    def screws(self) -> np.ndarray:
        return np.concatenate((self.others.screws, self.others.n + self.tree.screws))

    def kinematics(self, q: Point, v: Vector) -> Vector:
        of_others, of_tree = self._split(v)
        return jnp.concatenate((self.others.kinematics(q[0], of_others), of_tree))

    # --- loads along the coordinates of the tree --------------------------------------------------------------------

    @property
    def conservative(self) -> bool:
        return self.others.conservative and self.tree.conservative

    @property
    def has_own_loads(self) -> bool:
        return self.tree.has_own_loads

    def without_loads(self) -> MixedCoordinates:
        return dataclasses.replace(self, tree=self.tree.without_loads())

    def stiffest(self) -> MixedCoordinates:
        return dataclasses.replace(self, others=self.others.stiffest(), tree=self.tree.stiffest())

    @property
    def has_dependent_coordinates(self) -> bool:
        return self.tree.has_dependent_coordinates

    @property
    def has_costly_tangent(self) -> bool:
        return self.tree.has_costly_tangent

    @property
    def tree_bodies(self) -> tuple[str, ...]:
        return self.tree.names

    @property
    def brief(self) -> bool:
        return self.tree.brief

    @property
    def has_onsets(self) -> bool:
        return self.tree.has_onsets

    def onset_rate(self, q: Point, v: Vector, sense: Array) -> Float[Array, ""]:
        return self.tree.onset_rate(q[1], self._split(v)[1], sense)

    def power(self, t: Array, q: Point, v: Vector) -> Float[Array, ""]:
        return self.tree.power(t, q[1], self._split(v)[1])

    def joint_coordinate(
        self, q: Point, joint: str | None, name: str, bodies: tuple[str, ...]
    ) -> Float[Array, ""] | None:
        return self.tree.joint_coordinate(q[1], joint, name, bodies)

    def joint_coordinates(self, q: Point) -> dict[tuple[str, str], Float[Array, ""]]:
        return self.tree.joint_coordinates(q[1])

    def joint_rates(self, v: Vector) -> dict[tuple[str, str], Float[Array, ""]]:
        return self.tree.joint_rates(self._split(v)[1])

    def force_along(self, t: Array, q: Point, v: Vector, joint: str, name: str) -> Float[Array, ""] | None:
        return self.tree.force_along(t, q[1], self._split(v)[1], joint, name)

    @property
    def joint_tree(self) -> AbstractCoordinates | None:
        return self.tree.joint_tree

    def in_joint_tree(self, q: Point, v: Vector) -> tuple[Point, Vector]:
        return self.tree.in_joint_tree(q[1], self._split(v)[1])

    # --- motion of the bodies ---------------------------------------------------------------------------------------

    def motion(self, q: Point, v: Vector | None = None) -> Motion:
        of_others, of_tree = (None, None) if v is None else self._split(v)
        motions = self.others.motion(q[0], of_others), self.tree.motion(q[1], of_tree)
        # Both end with the ground.
        return jax.tree.map(lambda first, second: jnp.concatenate((first[:-1], second)), *motions)

    def pose(self, q: Point, body: Body | str) -> Pose:
        k = self._side(body)
        return (self.others, self.tree)[k].pose(q[k], body)

    def twist(self, q: Point, v: Vector, body: Body | str) -> Twist:
        k = self._side(body)
        return (self.others, self.tree)[k].twist(q[k], self._split(v)[k], body)

    def columns(self, body: Body | str) -> np.ndarray:
        if not self._side(body):
            return self.others.columns(body)
        return self.others.n + self.tree.columns(body)

    # --- inertia and loads ------------------------------------------------------------------------------------------

    def kinetic_energy(self, q: Point, v: Vector) -> Float[Array, ""]:
        of_others, of_tree = self._split(v)
        return self.others.kinetic_energy(q[0], of_others) + self.tree.kinetic_energy(q[1], of_tree)

    def weight(self, motion: Motion, gravity: Float[Array, "3"]) -> Float[Array, ""]:
        return -self.masses @ (motion.poses.x[:-1] @ gravity)

    @property
    def masses(self) -> Float[Array, " rows"]:
        return jnp.concatenate((self.others.masses, self.tree.masses))

    @property
    def inertias(self) -> Float[Array, "rows 3 3"]:
        return jnp.concatenate((self.others.inertias, self.tree.inertias))

    @property
    def energetic(self) -> np.ndarray:
        return np.concatenate((self.others.energetic, self.tree.energetic))

    @property
    def connected_rows(self) -> tuple[tuple[int, int], ...]:
        first = len(self.others.names)
        in_tree = ((first + a if a >= 0 else -1, first + b) for a, b in self.tree.connected_rows)
        return (*self.others.connected_rows, *in_tree)

    @property
    def has_deformable_bodies(self) -> bool:
        return self.others.has_deformable_bodies

    def spin_of_deforming(self, q: Point, v: Vector) -> Float[Array, "3"] | None:
        return self.others.spin_of_deforming(q[0], self._split(v)[0])

    @property
    def has_strain_energy(self) -> bool:
        return self.others.has_strain_energy or self.tree.has_strain_energy

    def strain_energy(self, q: Point) -> Float[Array, ""]:
        return self.others.strain_energy(q[0]) + self.tree.strain_energy(q[1])

    def mass(self, q: Point) -> Matrix:
        return (*self.others.mass(q[0]), *self._of_tree(self.tree.mass(q[1])))

    def force(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Vector:
        of_others, of_tree = self._split(v)
        loads = mechanism.loads(t, self.motion(q, v))
        on_tree = self._on_tree(mechanism.forces, loads, mechanism.gravity)
        return jnp.concatenate(
            (
                self.others.force_under(self._on_others(loads, mechanism.gravity), q[0], of_others),
                self.tree.force(on_tree, t, q[1], of_tree),
            )
        )

    # --- constraints among the coordinates of single bodies ---------------------------------------------------------

    def internal_residuals(self, q: Point) -> list[tuple[Indices, Array]]:
        return self.others.internal_residuals(q[0])

    def internal_rates(self, q: Point, v: Vector) -> list[tuple[Indices, Array]]:
        return self.others.internal_rates(q[0], self._split(v)[0])

    # --- derivatives ------------------------------------------------------------------------------------------------

    def jacobian(self, mechanism: Mechanism, t: Array, q: Point) -> Matrix:
        of_joints = tangents.constraint_blocks(self._ends, mechanism.joints, t, self._end_points(q), self.motion(q))
        return (*of_joints, *self.others.internal_jacobian(q[0]))

    def stiffness(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Matrix:
        of_others, of_tree = self._split(v)
        loads = mechanism.loads(t, self.motion(q, v))
        on_tree = self._on_tree(mechanism.forces, loads, mechanism.gravity)
        return (
            *self.others.stiffness_under(self._on_others(loads, mechanism.gravity), q[0], of_others),
            *self._of_tree(self.tree.stiffness(on_tree, t, q[1], of_tree)),
            *tangents.near_blocks(self._ends, mechanism.near_forces, self._end_points(q), self.motion(q, v), False),
            *tangents.stiffness_blocks(self._ends, mechanism.forces, t, self._end_points(q), v),
        )

    def damping(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Matrix:
        of_others, of_tree = self._split(v)
        loads = self._on_others(mechanism.loads(t, self.motion(q, v)), mechanism.gravity)
        unloaded = Mechanism((), (), mechanism.gravity)
        return (
            *self.others.damping_under(loads, q[0], of_others),
            *self._of_tree(self.tree.damping(unloaded, t, q[1], of_tree)),
            *tangents.near_blocks(self._ends, mechanism.near_forces, self._end_points(q), self.motion(q, v), True),
            *tangents.damping_blocks(self._ends, mechanism.forces, t, self._end_points(q), v),
        )

    def geometric_stiffness(self, mechanism: Mechanism, t: Array, q: Point, multipliers: Array) -> Matrix:
        reactions = [reaction_of(group, multipliers) for group in mechanism.joints]
        return (
            *self._stiffness_of_loads(mechanism, reactions, t, q),
            *self.others.internal_stiffness(q[0], multipliers),
        )

    def stresses(self, mechanism: Mechanism, t: Array, q: Point) -> tuple[Array, ...]:
        motion = self.motion(q, jnp.zeros(self.n))
        return tuple(stress_of(group, t, motion) for group in stressed_groups(mechanism.forces))

    def stress_stiffness(self, mechanism: Mechanism, t: Array, q: Point, stresses: tuple[Array, ...]) -> Matrix:
        parts = zip(stressed_groups(mechanism.forces), stresses, strict=True)
        return self._stiffness_of_loads(mechanism, [at_stress(group, stress) for group, stress in parts], t, q)

    def load_blocks(self, group: ForceGroup, t: Array, q: Point, v: Vector, along_velocities: bool) -> Matrix | None:
        points = self._end_points(q)
        return tuple(tangents.load_blocks(self._ends, group, t, points, v, along_velocities=along_velocities))

    def inner_tangents(self) -> Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        return self.others.inner_tangents()

    def _stiffness_of_loads(self, mechanism: Mechanism, groups: Sequence[ForceGroup], t: Array, q: Point) -> Matrix:
        """K at rest of loads alone, without gravity, inertia and loads along the coordinates of the tree."""
        rest, points = jnp.zeros(self.n), self._end_points(q)
        loads = mechanism.loads(t, self.motion(q, rest), groups)
        of_elements = [
            block
            for group in groups
            for block in tangents.load_blocks(self._ends, group, t, points, rest, along_velocities=False)
        ]
        with_loads, without = (
            self.tree.stiffness(self._on_tree(which, loads, jnp.zeros(3)), t, q[1], rest[self.others.n :])
            for which in (groups, ())
        )
        shape = self.tree.n, self.tree.n
        of_tree = to_dense(with_loads, shape) - to_dense(without, shape)
        return (*of_elements, *self.others.load_stiffness(loads, q[0]), *self._tree_blocks(of_tree))

    # --- linear algebra ---------------------------------------------------------------------------------------------

    def choose_solver(self, mechanism: Mechanism, m: int, compliant: bool) -> AbstractKKT:
        return condensed_solver(*self.outline(mechanism), self.others.n, self.n, m, compliant=compliant)

    def outline(self, mechanism: Mechanism) -> tuple[Matrix, Matrix]:
        """Sparsity patterns, as zero blocks, of the iteration matrix and of the Jacobian of the constraints."""
        A, P = tangents.outline(mechanism.forces, mechanism.joints, self.identity_kinematics)
        of_others, internal = self.others.inner_outline()
        of_tree = tuple(Blocks.zeros(numbers, numbers) for numbers in self._part_columns)
        return (*of_others, *of_tree, *A), (*P, *internal)

    # --- both sides -------------------------------------------------------------------------------------------------

    def _split(self, v: Vector) -> tuple[Vector, Vector]:
        """Velocities of the other bodies and of the tree."""
        return v[: self.others.n], v[self.others.n :]

    def _side(self, body: Body | str) -> int:
        """0 for one of the other bodies, 1 for a link."""
        name = body if isinstance(body, str) else body.name
        if name not in self.names:
            raise ValueError(f"The system has no body `{name}`; it has {', '.join(self.names)}.")
        return int(name in self.tree.names)

    @property
    def _ends(self) -> tuple[AbstractNodeGroup, ...]:
        """Groups of nodes by their number in slots: those of the other bodies, then the links."""
        return (*self.others.bodies, LinkNodes(self.tree, self.moving))

    def _end_points(self, q: Point) -> tuple[Point, ...]:
        tree: Any = jax.tree.map(lambda a: a[None], q[1])
        return (*self.others.points(q[0]), tree)

    def _on_others(self, loads: Wrench, gravity: Float[Array, "3"]) -> Wrench:
        """Loads on the other bodies, gravity included."""
        mass = self.others.masses
        return Wrench(loads.torque[: mass.size], loads.force[: mass.size] + mass[:, None] * gravity)

    def _on_tree(self, groups: Sequence[ForceGroup], loads: Wrench, gravity: Float[Array, "3"]) -> Mechanism:
        """A mechanism with gravity and the loads of some groups of elements on the links, as fixed ones."""
        first, number = len(self.others.names), len(self.others.bodies)
        ends = [slot.nodes.numbers.reshape(-1) for g in groups for slot in g.slots if slot.group == number]
        if not ends:
            return Mechanism((), (), gravity)
        rows = np.unique(np.concatenate(ends))
        at = Indices(rows - first)
        slot = Slot(0, at, at, Indices(np.zeros((rows.size, 0), int)))
        load = FixedLoad(Wrench(loads.torque[rows], loads.force[rows]))
        return Mechanism((), (ForceGroup(load, (slot,)),), gravity)

    @property
    def _part_columns(self) -> tuple[Indices, ...]:
        return tuple(Indices(self.others.n + part.numbers) for part in self.parts)

    def _of_tree(self, matrix: Matrix) -> Matrix:
        return self._tree_blocks(to_dense(matrix, (self.tree.n, self.tree.n)))

    def _tree_blocks(self, values: Float[Array, "n n"]) -> Matrix:
        """A matrix of the tree, part by part."""
        return tuple(
            Blocks(values[np.ix_(*(part.numbers.reshape(-1),) * 2)][None], columns, columns)
            for part, columns in zip(self.parts, self._part_columns, strict=True)
        )
