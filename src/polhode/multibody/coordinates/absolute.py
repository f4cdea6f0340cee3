"""Absolute coordinates: each body has some of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.checks import is_concrete
from polhode.linalg.blocks import Blocks, Indices, Matrix
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.solver_choice import kkt_solver
from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.base import AbstractCoordinates
from polhode.multibody.formulations.base import AbstractTwistVelocities
from polhode.multibody.formulations.lie_groups import SemidirectProduct
from polhode.multibody.mechanism import tangents
from polhode.multibody.mechanism.groups import BodyGroup, ForceGroup, Motion
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.multibody.mechanism.poses import Pose, Twist, Wrench
from polhode.multibody.mechanism.reactions import at_stress, reaction_of, stress_of, stressed_groups
from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.spaces.constants import Constants
from polhode.spaces.powers import power
from polhode.spaces.products import product
from polhode.systems.base import State


class AbsoluteCoordinates(AbstractCoordinates):
    """Bodies in coordinates of their own choice.

    q is a tuple with one stacked point for each group of bodies with the same coordinates, then the counted
    angles, if any; v is one flat array. Constraints among the coordinates of single bodies are
    numbered after those of the joints.

    - `bodies`: groups of bodies with the same coordinates.
    - `internal`: rows of the constraints among the coordinates of each body, by group; None without any.
    - `places`: name, group, member and node of bodies and of nodes of flexible ones, in the order of `Motion`.
    - `turns`: number of counted angles.
    """

    bodies: tuple[BodyGroup, ...]
    internal: tuple[Indices | None, ...] = eqx.field(static=True)
    places: tuple[tuple[str, int, int, int], ...] = eqx.field(static=True)
    turns: int = eqx.field(static=True, default=0)

    @property
    def space(self) -> AbstractSpace:
        of_bodies = (power(group.formulation.space, group.count) for group in self.bodies)
        return product(*of_bodies, *((Constants(self.turns),) if self.turns else ()))

    def points(self, q: Point) -> Point:
        """The coordinates of the bodies, by group."""
        return q[: len(self.bodies)]

    @property
    def n(self) -> int:
        return sum(group.columns.numbers.size for group in self.bodies)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, *_ in self.places)

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(name for name, group, *_ in self.places if self.bodies[group].formulation.n > 1)

    @property
    def inert(self) -> bool:
        return all(group.energetic for group in self.bodies)

    @property
    def identity_kinematics(self) -> bool:
        return all(group.formulation.identity_kinematics for group in self.bodies)

    @property
    def local(self) -> bool:
        return True

    @property
    def screws(self) -> np.ndarray:
        groups = (g.columns.numbers for g in self.bodies if isinstance(g.formulation, SemidirectProduct))
        return np.concatenate((super().screws, *groups))

    def kinematics(self, q: Point, v: Vector) -> Vector:
        if self.identity_kinematics:
            return v
        parts = zip(self.bodies, self.points(q), strict=True)
        return jnp.concatenate(
            [jax.vmap(g.formulation.kinematics)(points, g.velocities(v)).reshape(-1) for g, points in parts]
        )

    # --- motion of the bodies ---------------------------------------------------------------------------------------

    def motion(self, q: Point, v: Vector | None = None) -> Motion:
        """Poses and twists of all bodies and of the ground."""
        poses = [g.poses(points) for g, points in zip(self.bodies, self.points(q), strict=True)]
        still = Pose(jnp.zeros((1, 3)), jnp.eye(3)[None])
        if v is None:
            return Motion(_stack(*poses, still))
        parts = zip(self.bodies, self.points(q), strict=True)
        twists = [g.twists(points, v) for g, points in parts]
        return Motion(_stack(*poses, still), _stack(*twists, Twist(jnp.zeros((1, 3)), jnp.zeros((1, 3)))))

    def state_of(self, motion: Motion) -> State:
        """The state with given poses and twists of all bodies, without counted angles."""
        assert motion.twists is not None
        points, velocities, at = [], [], 0
        for group in self.bodies:
            poses, twists = jax.tree.map(lambda a, k=at, n=group.count: a[k : k + n], (motion.poses, motion.twists))
            at += group.count
            q = jax.vmap(group.formulation.from_pose)(poses)
            points.append(q)
            velocities.append(jax.vmap(group.formulation.from_twist)(q, twists).reshape(-1))
        return tuple(points), jnp.concatenate(velocities)

    def velocities(self, q: Point, omega: Float[Array, "rows 3"], u: Float[Array, "rows 3"]) -> Vector:
        """v with given angular velocities (body) and velocities (inertial) of all bodies."""
        parts, at = [], 0
        for group, points in zip(self.bodies, self.points(q), strict=True):
            twists = Twist(omega[at : at + group.count], u[at : at + group.count])
            at += group.count
            parts.append(jax.vmap(group.formulation.from_twist)(points, twists).reshape(-1))
        return jnp.concatenate(parts)

    def pose(self, q: Point, body: Body | str) -> Pose:
        """Position of the centre of mass and rotation matrix of one body, or those of a node."""
        group, member, node = self._find(body)
        return self.bodies[group].formulation.at(node).pose(jax.tree.map(lambda a: a[member], q[group]))

    def twist(self, q: Point, v: Vector, body: Body | str) -> Twist:
        """Angular velocity (body frame) and velocity (inertial frame) of one body."""
        group, member, node = self._find(body)
        frame, speeds = self.bodies[group].formulation.at(node), self.bodies[group].velocities(v)
        return frame.twist(jax.tree.map(lambda a: a[member], q[group]), speeds[member])

    def columns(self, body: Body | str) -> np.ndarray:
        group, member, _ = self._find(body)
        return self.bodies[group].columns.numbers[member]

    # --- inertia and loads ------------------------------------------------------------------------------------------

    def kinetic_energy(self, q: Point, v: Vector) -> Float[Array, ""]:
        twists = self.motion(q, v).twists
        assert twists is not None
        omega, u = twists
        mass = jnp.concatenate([g.moving_mass for g in self.bodies])
        inertia = jnp.concatenate([g.rigid_inertia for g in self.bodies])
        rigid = 0.5 * (mass @ jnp.sum(u[:-1] ** 2, axis=1) + jnp.einsum("ni,nij,nj->", omega[:-1], inertia, omega[:-1]))
        return sum((g.relative_energy(points, v) for g, points in self._deformable_groups(q)), start=rigid)

    def weight(self, motion: Motion, gravity: Float[Array, "3"]) -> Float[Array, ""]:
        mass = jnp.concatenate([g.weight for g in self.bodies])
        return -mass @ (motion.poses.x[:-1] @ gravity)

    @property
    def conservative(self) -> bool:
        return not any(group.formulation.dissipative for group in self.bodies)

    @property
    def has_deformable_bodies(self) -> bool:
        return any(group.formulation.deforms for group in self.bodies)

    @property
    def has_strain_energy(self) -> bool:
        return self.has_deformable_bodies

    def strain_energy(self, q: Point) -> Float[Array, ""]:
        return sum((g.strain_energy(points) for g, points in self._deformable_groups(q)), start=jnp.zeros(()))

    def _deformable_groups(self, q: Point) -> list[tuple[BodyGroup, Point]]:
        """Bodies that deform, with their coordinates."""
        return [(g, points) for g, points in zip(self.bodies, self.points(q), strict=True) if g.formulation.deforms]

    @property
    def masses(self) -> Float[Array, " rows"]:
        return jnp.concatenate([g.weight for g in self.bodies])

    @property
    def inertias(self) -> Float[Array, "rows 3 3"]:
        return jnp.concatenate([g.rigid_inertia for g in self.bodies])

    @property
    def energetic(self) -> np.ndarray:
        return np.concatenate([np.full(g.rows, g.energetic) for g in self.bodies])

    @property
    def connected_rows(self) -> tuple[tuple[int, int], ...]:
        first = {(group, member): row for row, (_, group, member, node) in enumerate(self.places) if node == 0}
        return tuple((first[group, member], row) for row, (_, group, member, node) in enumerate(self.places) if node)

    @property
    def has_momenta(self) -> bool:
        return all(group.formulation.n > 1 for group in self.bodies)

    @property
    def constant_momenta(self) -> tuple[str, ...]:
        """The linear one of velocities in the inertial frame; the angular one if moments of inertia are all equal."""
        if not all(isinstance(group.formulation, AbstractTwistVelocities) for group in self.bodies):
            return ()
        if not is_concrete(self.inertias):
            return ("linear_momentum",)
        J = np.asarray(self.inertias)
        spheres = np.array_equal(J, J[:, :1, :1] * np.eye(3))
        return ("linear_momentum", *(("angular_momentum",) if spheres else ()))

    def momenta(self, q: Point, v: Vector) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        poses, twists = self.motion(q, v).poses, self.motion(q, v).twists
        assert twists is not None
        mass = jnp.concatenate([group.moving_mass for group in self.bodies])
        inertia = jnp.concatenate([group.rigid_inertia for group in self.bodies])
        momenta = mass[:, None] * twists.u[:-1]
        spins = jnp.einsum("nij,njk,nk->ni", poses.R[:-1], inertia, twists.omega[:-1])
        rigid = jnp.sum(spins + jnp.cross(poses.x[:-1], momenta), axis=0)
        spin = self.spin_of_deforming(q, v)
        return jnp.sum(momenta, axis=0), rigid if spin is None else rigid + spin

    def spin_of_deforming(self, q: Point, v: Vector) -> Float[Array, "3"] | None:
        spins = [g.spin(points, v) for g, points in self._deformable_groups(q)]
        return sum(spins, start=jnp.zeros(3)) if spins else None

    def mass(self, q: Point) -> Matrix:
        return tuple(
            block
            for group, points in zip(self.bodies, self.points(q), strict=True)
            for block in group.blocks(group.each(group.formulation.mass, points))
        )

    def force(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Vector:
        return self.force_under(self._loads(mechanism, t, self.motion(q, v)), q, v)

    def force_under(self, loads: Wrench, q: Point, v: Vector) -> Vector:
        """f under given loads on all nodes, gravity included."""
        parts = zip(self.bodies, self.points(q), self._by_group(loads), strict=True)
        return jnp.concatenate(
            [g.each(g.formulation.force, points, g.velocities(v), w).reshape(-1) for g, points, w in parts]
        )

    def wrenches(self, mechanism: Mechanism, t: Array, motion: Motion) -> tuple[Wrench, ...]:
        """Total load on the bodies of each group: gravity and all force elements."""
        return self._by_group(self._loads(mechanism, t, motion))

    def _loads(self, mechanism: Mechanism, t: Array, motion: Motion) -> Wrench:
        return mechanism.loads(t, motion, force=self.masses[:, None] * mechanism.gravity)

    def _by_group(self, loads: Wrench) -> tuple[Wrench, ...]:
        ends = itertools.pairwise(np.cumsum([0] + [group.rows for group in self.bodies]))
        parts = zip(self.bodies, ends, strict=True)
        return tuple(g.loads(Wrench(loads.torque[a:b], loads.force[a:b])) for g, (a, b) in parts)

    # --- constraints among the coordinates of single bodies ---------------------------------------------------------

    def internal_residuals(self, q: Point) -> list[tuple[Indices, Array]]:
        return [
            (rows, jax.vmap(group.formulation.constraint)(points))
            for group, points, rows in zip(self.bodies, self.points(q), self.internal, strict=True)
            if rows is not None
        ]

    def internal_rates(self, q: Point, v: Vector) -> list[tuple[Indices, Array]]:
        return [
            (rows, jnp.einsum("nrc,nc->nr", tangents.internal_gradients(group, points), group.velocities(v)))
            for group, points, rows in zip(self.bodies, self.points(q), self.internal, strict=True)
            if rows is not None
        ]

    # --- derivatives ------------------------------------------------------------------------------------------------

    def curvature(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> list[tuple[Indices, Array]] | None:
        if not all(g.formulation.moves_with_twist for g in self.bodies):
            return None
        parts = [(g.rows, tangents.curvatures(self.bodies, g, t, q, v)) for g in mechanism.joints]
        for bodies, points, rows in zip(self.bodies, self.points(q), self.internal, strict=True):
            if rows is not None:
                parts.append((rows, tangents.internal_curvatures(bodies, points, bodies.velocities(v))))
        return parts

    def jacobian(self, mechanism: Mechanism, t: Array, q: Point) -> Matrix:
        of_joints = tangents.constraint_blocks(self.bodies, mechanism.joints, t, self.points(q), self.motion(q))
        return (*of_joints, *self.internal_jacobian(q))

    def internal_jacobian(self, q: Point) -> Matrix:
        """The part of the constraints among the coordinates of single bodies."""
        return tuple(
            Blocks(tangents.internal_gradients(bodies, points), rows, bodies.columns)
            for bodies, points, rows in zip(self.bodies, self.points(q), self.internal, strict=True)
            if rows is not None
        )

    def stiffness(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Matrix:
        of_bodies = self.stiffness_under(self._loads(mechanism, t, self.motion(q, v)), q, v)
        near = tangents.near_blocks(self.bodies, mechanism.near_forces, self.points(q), self.motion(q, v), False)
        return (*of_bodies, *near, *tangents.stiffness_blocks(self.bodies, mechanism.forces, t, self.points(q), v))

    def stiffness_under(self, loads: Wrench, q: Point, v: Vector) -> Matrix:
        """The part of the bodies under fixed loads on all nodes."""
        parts = zip(self.bodies, self.points(q), self._by_group(loads), strict=True)
        return tuple(
            block for g, p, w in parts for block in g.blocks(g.each(g.formulation.stiffness, p, g.velocities(v), w))
        )

    def damping(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Matrix:
        of_bodies = self.damping_under(self._loads(mechanism, t, self.motion(q, v)), q, v)
        near = tangents.near_blocks(self.bodies, mechanism.near_forces, self.points(q), self.motion(q, v), True)
        return (*of_bodies, *near, *tangents.damping_blocks(self.bodies, mechanism.forces, t, self.points(q), v))

    def damping_under(self, loads: Wrench, q: Point, v: Vector) -> Matrix:
        """The part of the bodies under fixed loads on all nodes."""
        parts = zip(self.bodies, self.points(q), self._by_group(loads), strict=True)
        return tuple(
            block for g, p, w in parts for block in g.blocks(g.each(g.formulation.damping, p, g.velocities(v), w))
        )

    def geometric_stiffness(self, mechanism: Mechanism, t: Array, q: Point, multipliers: Array) -> Matrix:
        """Constraint forces are those of a potential, -λ·Φ, so their tangents are formed like those of springs."""
        reactions = [reaction_of(group, multipliers) for group in mechanism.joints]
        return (*self._fixed_loads(mechanism, reactions, t, q), *self.internal_stiffness(q, multipliers))

    def internal_stiffness(self, q: Point, multipliers: Array) -> Matrix:
        """The part of the constraints among the coordinates of single bodies."""
        parts = zip(self.bodies, self.points(q), self.internal, strict=True)
        return tuple(
            block
            for g, points, rows in parts
            if rows is not None
            for block in g.blocks(tangents.internal_stiffness(g, points, multipliers[rows.numbers]))
        )

    def stresses(self, mechanism: Mechanism, t: Array, q: Point) -> tuple[Array, ...]:
        motion = self.motion(q, jnp.zeros(self.n))
        return tuple(stress_of(group, t, motion) for group in stressed_groups(mechanism.forces))

    def stress_stiffness(self, mechanism: Mechanism, t: Array, q: Point, stresses: tuple[Array, ...]) -> Matrix:
        groups = [
            at_stress(group, stress) for group, stress in zip(stressed_groups(mechanism.forces), stresses, strict=True)
        ]
        return self._fixed_loads(mechanism, groups, t, q)

    def _fixed_loads(self, mechanism: Mechanism, groups: Sequence[ForceGroup], t: Array, q: Point) -> Matrix:
        """K at rest of loads alone, without gravity and inertia."""
        rest, motion = jnp.zeros(self.n), self.motion(q, jnp.zeros(self.n))
        of_elements = [
            block
            for group in groups
            for block in tangents.load_blocks(self.bodies, group, t, self.points(q), rest, along_velocities=False)
        ]
        return (*of_elements, *self.load_stiffness(mechanism.loads(t, motion, groups), q))

    def load_stiffness(self, loads: Wrench, q: Point) -> Matrix:
        """K at rest of fixed loads on all nodes."""
        parts = zip(self.bodies, self.points(q), self._by_group(loads), strict=True)
        return tuple(
            block for g, points, w in parts for block in g.blocks(g.each(g.formulation.load_stiffness, points, w))
        )

    def load_blocks(self, group: ForceGroup, t: Array, q: Point, v: Vector, along_velocities: bool) -> Matrix | None:
        return tuple(tangents.load_blocks(self.bodies, group, t, self.points(q), v, along_velocities=along_velocities))

    def inner_tangents(self) -> Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for bodies in self.bodies:
            inner = bodies.formulation.inner_tangents()
            if inner is not None:
                stiffness, damping = map(np.asarray, inner)
                for columns in bodies.columns.numbers:
                    yield columns, stiffness, damping

    def choose_solver(self, mechanism: Mechanism, m: int, compliant: bool) -> AbstractKKT:
        return kkt_solver(*self.outline(mechanism), self.n, m, compliant=compliant)

    def outline(self, mechanism: Mechanism) -> tuple[Matrix, Matrix]:
        """Sparsity patterns, as zero blocks, of the iteration matrix and of the Jacobian of the constraints."""
        A, P = tangents.outline(mechanism.forces, mechanism.joints, self.identity_kinematics)
        own_A, own_P = self.inner_outline()
        return (*own_A, *A), (*P, *own_P)

    def inner_outline(self) -> tuple[Matrix, Matrix]:
        """The same of the bodies alone."""
        rows = [(own, g.columns) for g, own in zip(self.bodies, self.internal, strict=True) if own is not None]
        return (
            tuple(Blocks.zeros(g.columns, g.columns) for g in self.bodies),
            tuple(Blocks.zeros(*place) for place in rows),
        )

    def _find(self, body: Body | str) -> tuple[int, int, int]:
        name = body if isinstance(body, str) else body.name
        for place, group, member, node in self.places:
            if place == name:
                return group, member, node
        raise ValueError(f"The system has no body `{name}`; it has {', '.join(p[0] for p in self.places)}.")


def _stack(*parts: Any) -> Any:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
