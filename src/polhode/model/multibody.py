"""Bodies, joints and forces as one mechanical system in absolute coordinates."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.execution.once import shapes
from polhode.execution.rows import each
from polhode.linalg.blocks import Blocks, Matrix, Places, accumulate
from polhode.linalg.choose import kkt_solver
from polhode.linalg.kkt import AbstractKKT
from polhode.model import tangents
from polhode.model.bodies import Body
from polhode.model.conversions.cotangent import ToHamiltonian
from polhode.model.conversions.directors import ToDirectors
from polhode.model.conversions.quaternions import ToLivens, ToSeparable
from polhode.model.elements import Pose, Twist, Wrench
from polhode.model.groups import BodyGroup, ForceGroup, JointGroup, Motion, Slot, members
from polhode.model.observed import AbstractMultibody
from polhode.model.outlines import OutlinedForce, OutlinedJoint
from polhode.model.reactions import at_stress, reaction_of, stress_of, stressed
from polhode.model.waves import stiffest
from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.spaces.powers import power
from polhode.spaces.products import product
from polhode.systems.base import State
from polhode.systems.conversion import AbstractConversion
from polhode.systems.mechanical import Multipliers


class MultibodySystem(AbstractMultibody):
    """Bodies in absolute coordinates of their choice, with joints and forces.

    q is a tuple with one stacked point for each group of bodies with the same coordinates, v one flat array.
    Constraints are numbered joint by joint in the order in which joints were added, then come constraints among the
    coordinates of single bodies.

    - `bodies`, `joints`, `forces`: groups of elements of one kind.
    - `gravity`: acceleration in the inertial frame.
    - `places`: name, group, member and node of bodies and of nodes of flexible ones, as rows of a motion stand.
    - `labels`: the joint behind each constraint.
    - `dropping`, `complete`: redundant components left out, by joint, and the system that still has them.
    - `loops`: whether bodies and joints form loops. - `solver`: what solves its saddle-point systems.
    """

    bodies: tuple[BodyGroup, ...]
    joints: tuple[JointGroup, ...]
    forces: tuple[ForceGroup, ...]
    gravity: Float[Array, "3"]
    internal: tuple[Places | None, ...] = eqx.field(static=True)
    places: tuple[tuple[str, int, int, int], ...] = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    dropping: tuple[tuple[str, tuple[int, ...]], ...] = eqx.field(static=True)
    complete: AbstractMultibody | None
    loops: bool = eqx.field(static=True)
    solver: AbstractKKT | None = None

    @property
    def configuration(self) -> AbstractSpace:
        return product(*(power(group.formulation.space, group.count) for group in self.bodies))

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
    def holonomic_velocities(self) -> bool:
        return all(group.formulation.holonomic_velocities for group in self.bodies)

    @property
    def kkt(self) -> AbstractKKT:
        return self.solver if self.solver is not None else self.choose_solver()

    def kinematics(self, q: Point, v: Vector) -> Vector:
        if self.holonomic_velocities:
            return v
        parts = zip(self.bodies, q, strict=True)
        return jnp.concatenate(
            [jax.vmap(g.formulation.kinematics)(points, g.velocities(v)).reshape(-1) for g, points in parts]
        )

    # --- motion of the bodies ---------------------------------------------------------------------------------------

    def motion(self, q: Point, v: Vector | None = None) -> Motion:
        """Poses and twists of all bodies and of the ground."""
        poses = [g.poses(points) for g, points in zip(self.bodies, q, strict=True)]
        still = Pose(jnp.zeros((1, 3)), jnp.eye(3)[None])
        if v is None:
            return Motion(_stack(*poses, still))
        parts = zip(self.bodies, q, strict=True)
        twists = [g.twists(points, v) for g, points in parts]
        return Motion(_stack(*poses, still), _stack(*twists, Twist(jnp.zeros((1, 3)), jnp.zeros((1, 3)))))

    def coordinates_of(self, motion: Motion) -> State:
        """The state with given poses and twists of all bodies."""
        assert motion.twists is not None
        points, velocities, at = [], [], 0
        for group in self.bodies:
            poses, twists = jax.tree.map(lambda a, k=at, n=group.count: a[k : k + n], (motion.poses, motion.twists))
            at += group.count
            q = jax.vmap(group.formulation.from_pose)(poses)
            points.append(q)
            velocities.append(jax.vmap(group.formulation.from_twist)(q, twists).reshape(-1))
        return tuple(points), jnp.concatenate(velocities)

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

    def kinetic_energy(self, t: Array, q: Point, v: Vector) -> Float[Array, ""]:
        del t
        omega, u = self._twists((q, v))
        mass = jnp.concatenate([g.moving_mass for g in self.bodies])
        inertia = jnp.concatenate([g.rigid_inertia for g in self.bodies])
        rigid = 0.5 * (mass @ jnp.sum(u[:-1] ** 2, axis=1) + jnp.einsum("ni,nij,nj->", omega[:-1], inertia, omega[:-1]))
        return sum((g.relative_energy(points, v) for g, points in self._deforming(q)), start=rigid)

    def potential_energy(self, t: Array, q: Point) -> Float[Array, ""]:
        """Gravity and everything that stores energy."""
        of_places = self.potential(t, self.motion(q))
        return sum((g.strain_energy(points) for g, points in self._deforming(q)), start=of_places)

    @property
    def conservative(self) -> bool:
        return super().conservative and not any(g.formulation.dissipative for g in self.bodies)

    def _deforming(self, q: Point) -> list[tuple[BodyGroup, Point]]:
        """Bodies that deform, with their coordinates."""
        return [(g, points) for g, points in zip(self.bodies, q, strict=True) if g.formulation.deforms]

    def potential(self, t: Array, motion: Motion) -> Float[Array, ""]:
        """The same of a motion, but for what deformations of bodies store."""
        mass = jnp.concatenate([g.weight for g in self.bodies])
        weight = -mass @ (motion.poses.x[:-1] @ self.gravity)
        return weight + sum((g.potential(t, motion) for g in self.forces), start=jnp.zeros(()))

    # --- equations of motion ----------------------------------------------------------------------------------------

    def mass(self, t: Array, q: Point) -> Matrix:
        del t
        return tuple(
            block
            for group, points in zip(self.bodies, q, strict=True)
            for block in group.blocks(group.each(group.formulation.mass, points))
        )

    def force(self, t: Array, q: Point, v: Vector) -> Vector:
        wrenches = self.wrenches(t, self.motion(q, v))
        parts = zip(self.bodies, q, wrenches, strict=True)
        return jnp.concatenate(
            [g.each(g.formulation.force, points, g.velocities(v), w).reshape(-1) for g, points, w in parts]
        )

    def constraint(self, t: Array, q: Point) -> Multipliers:
        motion = self.motion(q)
        parts = [(g.rows, g.residuals(t, motion)) for g in self.joints]
        for group, points, rows in zip(self.bodies, q, self.internal, strict=True):
            if rows is not None:
                parts.append((rows, jax.vmap(group.formulation.constraint)(points)))
        return accumulate(self.m, parts)

    def constraint_rate(self, t: Array, q: Point, v: Vector) -> Multipliers:
        motion = self.motion(q, v)
        parts = [(g.rows, g.rates(t, motion)) for g in self.joints]
        for group, points, rows in zip(self.bodies, q, self.internal, strict=True):
            if rows is not None:
                gradients = tangents.internal_gradients(group, points)
                parts.append((rows, jnp.einsum("nrc,nc->nr", gradients, group.velocities(v))))
        return accumulate(self.m, parts)

    def curvature(self, t: Array, q: Point, v: Vector) -> Multipliers:
        if not all(g.formulation.moves_with_twist for g in self.bodies):
            return super().curvature(t, q, v)
        parts = [(g.rows, tangents.curvatures(self.bodies, g, t, q, v)) for g in self.joints]
        for bodies, points, rows in zip(self.bodies, q, self.internal, strict=True):
            if rows is not None:
                parts.append((rows, tangents.internal_curvatures(bodies, points, bodies.velocities(v))))
        return accumulate(self.m, parts)

    def jacobian(self, t: Array, q: Point) -> Matrix:
        motion = self.motion(q)
        found: list[Blocks] = []
        for group in self.joints:
            moving = [slot for slot in group.slots if slot.group is not None]
            for slot, gradient in zip(moving, group.gradients(t, motion), strict=True):
                found.append(Blocks(self._pull_rows(slot, q, gradient), group.rows, slot.columns))
        for bodies, points, rows in zip(self.bodies, q, self.internal, strict=True):
            if rows is not None:
                found.append(Blocks(tangents.internal_gradients(bodies, points), rows, bodies.columns))
        return tuple(found)

    def stiffness(self, t: Array, q: Point, v: Vector) -> Matrix:
        wrenches = self.wrenches(t, self.motion(q, v))
        found: list[Blocks] = []
        for g, points, w in zip(self.bodies, q, wrenches, strict=True):
            found.extend(g.blocks(g.each(g.formulation.stiffness, points, g.velocities(v), w)))
        for group in self.forces:
            uses_twists = group.elements.uses_twists and not self._twists_are_velocities(group)
            if group.elements.uses_poses or uses_twists:
                found.extend(tangents.load_blocks(self.bodies, group, t, q, v, along_velocities=False))
        return tuple(found)

    def damping(self, t: Array, q: Point, v: Vector) -> Matrix:
        wrenches = self.wrenches(t, self.motion(q, v))
        found: list[Blocks] = []
        for g, points, w in zip(self.bodies, q, wrenches, strict=True):
            found.extend(g.blocks(g.each(g.formulation.damping, points, g.velocities(v), w)))
        for group in self.forces:
            if group.elements.uses_twists:
                found.extend(tangents.load_blocks(self.bodies, group, t, q, v, along_velocities=True))
        return tuple(found)

    def geometric_stiffness(self, t: Array, q: Point, multipliers: Multipliers) -> Matrix:
        """A constraint force acts like that of a potential, -λ·Φ; so its tangent is formed like those of springs."""
        found = self._fixed_loads([reaction_of(group, multipliers) for group in self.joints], t, q)
        for g, points, rows in zip(self.bodies, q, self.internal, strict=True):
            if rows is not None:
                found.extend(g.blocks(tangents.internal_stiffness(g, points, multipliers[rows.numbers])))
        return tuple(found)

    def stresses(self, t: Array, q: Point) -> tuple[Array, ...]:
        motion = self.motion(q, jnp.zeros(self.n))
        return tuple(stress_of(group, t, motion) for group in stressed(self.forces))

    def stress_stiffness(self, t: Array, q: Point, stresses: tuple[Array, ...]) -> Matrix:
        groups = [at_stress(group, stress) for group, stress in zip(stressed(self.forces), stresses, strict=True)]
        return tuple(self._fixed_loads(groups, t, q))

    def _fixed_loads(self, groups: Sequence[ForceGroup], t: Array, q: Point) -> list[Blocks]:
        """K at rest of loads alone, without gravity and inertia."""
        rest, motion = jnp.zeros(self.n), self.motion(q, jnp.zeros(self.n))
        found: list[Blocks] = []
        for group in groups:
            found.extend(tangents.load_blocks(self.bodies, group, t, q, rest, along_velocities=False))
        for g, points, w in zip(self.bodies, q, self._collected(groups, t, motion), strict=True):
            found.extend(g.blocks(g.each(g.formulation.load_stiffness, points, w)))
        return found

    # --- parts ------------------------------------------------------------------------------------------------------

    def wrenches(self, t: Array, motion: Motion) -> tuple[Wrench, ...]:
        """Total load on the bodies of each group: gravity and all force elements."""
        mass = jnp.concatenate([g.weight for g in self.bodies])
        return self._collected(self.forces, t, motion, mass[:, None] * self.gravity)

    def _collected(
        self, groups: Sequence[ForceGroup], t: Array, motion: Motion, force: Array | None = None
    ) -> tuple[Wrench, ...]:
        """Loads of elements on the bodies of each group, and forces on the bodies besides."""
        total = sum(group.rows for group in self.bodies)
        torque, force = jnp.zeros((total, 3)), jnp.zeros((total, 3)) if force is None else force
        for group in groups:
            for slot, wrench in zip(group.slots, group.wrenches(t, motion), strict=True):
                if slot.group is not None:
                    torque = torque.at[slot.nodes.numbers].add(wrench.torque)
                    force = force.at[slot.nodes.numbers].add(wrench.force)
        ends = itertools.pairwise(np.cumsum([0] + [group.rows for group in self.bodies]))
        return tuple(g.loads(Wrench(torque[a:b], force[a:b])) for g, (a, b) in zip(self.bodies, ends, strict=True))

    def _pull_rows(self, slot: Slot, q: Point, rows: Float[Array, "elements k 6"]) -> Float[Array, "elements k n"]:
        """Rows on twists as rows on velocities: times J."""
        frame = slot.frame(self.bodies)
        points = members(q, slot)
        if frame.jacobian(jax.tree.map(lambda a: a[0], points)) is None:
            return rows
        pulled = lambda form, p, R: R @ form.jacobian(p)  # noqa: E731
        return each(pulled, frame, points, rows, loop=self.bodies[slot.group or 0].looped)

    def _twists_are_velocities(self, group: ForceGroup) -> bool:
        """Whether twists do not depend on the configuration at fixed velocities."""
        return all(slot.frame(self.bodies).twist_is_fixed for slot in group.slots if slot.group is not None)

    @property
    def has_waves(self) -> bool:
        return any(g.elements.waves for g in self.forces) or any(g.formulation.deforms for g in self.bodies)

    def explicit_limit(self, t: float, state: State, h: float, share: float = 1.0) -> str:
        found = stiffest(self, t, state)
        if not h > share * found.step:
            return ""
        between = " and ".join(f"`{name}`" for name in found.bodies)
        decay = f" and decays at up to {found.rate:.3g} per time" if found.rate else ""
        return (
            f"The stiffest element at the start, on {between}, oscillates at up to {found.frequency:.3g} rad per time"
            f"{decay}: explicit methods of order 3 to 5 need steps of about {found.step:.2g} or less, lower orders "
            f"much smaller ones, and the step was {h:.2g}. Take such a step, error control, or `generalized-alpha`, or "
            "constrain stiff strains away."
        )

    def conversions(self) -> tuple[AbstractConversion, ...]:
        kinds = ToHamiltonian(self), ToLivens(self), ToDirectors(self), ToSeparable(self)
        return (*super().conversions(), *kinds)

    def choose_solver(self) -> AbstractKKT:
        """The solver that suits the places of the blocks; takes a moment, so `assemble` keeps it in `solver`."""
        q = self.configuration.origin()
        t, v = jnp.zeros(()), jnp.zeros(self.n)
        A, P = jax.tree.map(lambda block: np.zeros(block.shape), shapes(_matrices, self.outlined(), t, q, v))
        return kkt_solver(A, P, self.n, self.m, compliant=self.loops)

    def outlined(self) -> MultibodySystem:
        """The system with elements that compute nothing: its matrices have the same blocks."""
        return dataclasses.replace(
            self,
            bodies=tuple(dataclasses.replace(g, looped=False) for g in self.bodies),
            joints=tuple(dataclasses.replace(g, elements=OutlinedJoint(g.elements), looped=False) for g in self.joints),
            forces=tuple(
                dataclasses.replace(g, elements=OutlinedForce(g.elements, len(g.slots)), looped=False)
                for g in self.forces
            ),
        )

    def _find(self, body: Body | str) -> tuple[int, int, int]:
        name = body if isinstance(body, str) else body.name
        for known, group, member, node in self.places:
            if known == name:
                return group, member, node
        raise ValueError(f"The system has no body `{name}`; it has {', '.join(p[0] for p in self.places)}.")


def _stack(*parts: Any) -> Any:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def _matrices(system: MultibodySystem, t: Array, q: Point, v: Vector) -> tuple[Matrix, Matrix]:
    """The matrix of changes of velocities, and the Jacobian of the constraints."""
    A = system.mass(t, q) + system.damping(t, q, v)
    return (A + system.stiffness(t, q, v) if system.holonomic_velocities else A), system.jacobian(t, q)
