"""Bodies, joints and forces as one mechanical system in absolute coordinates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode._scalar.rows import each
from polhode.linalg.blocks import Blocks, Matrix, Places, accumulate
from polhode.linalg.choose import kkt_solver
from polhode.linalg.kkt import AbstractKKT
from polhode.model.bodies import Body
from polhode.model.elements import Pose, Twist, Wrench
from polhode.model.formulations.base import AbstractFormulation
from polhode.model.groups import BodyGroup, ForceGroup, JointGroup, Motion, Slot, members
from polhode.model.observed import AbstractMultibody
from polhode.model.reactions import reaction_of
from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.spaces.powers import power
from polhode.spaces.products import product
from polhode.systems.mechanical import Multipliers


class MultibodySystem(AbstractMultibody):
    """What `Model.assemble` makes: bodies in the chosen coordinates, with joints and forces.

    q is a tuple with one stacked point for each group of bodies with the same coordinates, v one flat array.
    Constraints are numbered joint by joint in the order in which joints were added, then come constraints among the
    coordinates of single bodies.

    - `bodies`, `joints`, `forces`: groups of elements of one kind.
    - `gravity`: acceleration in the inertial frame.
    - `places`: body name → (group, member); `labels`: the joint behind each constraint.
    - `dropping`, `complete`: redundant components left out, by joint, and the system that still has them.
    - `solver`: what solves its saddle-point systems.
    """

    bodies: tuple[BodyGroup, ...]
    joints: tuple[JointGroup, ...]
    forces: tuple[ForceGroup, ...]
    gravity: Float[Array, "3"]
    internal: tuple[Places | None, ...] = eqx.field(static=True)
    places: tuple[tuple[str, int, int], ...] = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    dropping: tuple[tuple[str, tuple[int, ...]], ...] = eqx.field(static=True)
    complete: AbstractMultibody | None
    solver: AbstractKKT | None = None

    @property
    def configuration(self) -> AbstractSpace:
        return product(*(power(group.formulation.space, group.count) for group in self.bodies))

    @property
    def n(self) -> int:
        return sum(group.columns.numbers.size for group in self.bodies)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.places)

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(name for name, group, _ in self.places if self.bodies[group].formulation.n > 1)

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
        poses = [jax.vmap(g.formulation.pose)(points) for g, points in zip(self.bodies, q, strict=True)]
        still = Pose(jnp.zeros((1, 3)), jnp.eye(3)[None])
        if v is None:
            return Motion(_stack(*poses, still))
        parts = zip(self.bodies, q, strict=True)
        twists = [jax.vmap(g.formulation.twist)(points, g.velocities(v)) for g, points in parts]
        return Motion(_stack(*poses, still), _stack(*twists, Twist(jnp.zeros((1, 3)), jnp.zeros((1, 3)))))

    def pose(self, q: Point, body: Body | str) -> Pose:
        """Position of the centre of mass and rotation matrix of one body."""
        group, member = self._find(body)
        return self.bodies[group].formulation.pose(jax.tree.map(lambda a: a[member], q[group]))

    def twist(self, q: Point, v: Vector, body: Body | str) -> Twist:
        """Angular velocity (body frame) and velocity (inertial frame) of one body."""
        group, member = self._find(body)
        bodies = self.bodies[group]
        return bodies.formulation.twist(jax.tree.map(lambda a: a[member], q[group]), bodies.velocities(v)[member])

    def columns(self, body: Body | str) -> np.ndarray:
        group, member = self._find(body)
        return self.bodies[group].columns.numbers[member]

    def kinetic_energy(self, t: Array, q: Point, v: Vector) -> Float[Array, ""]:
        del t
        omega, u = self._twists((q, v))
        mass = jnp.concatenate([g.moving_mass for g in self.bodies])
        inertia = jnp.concatenate([g.inertia for g in self.bodies])
        return 0.5 * (mass @ jnp.sum(u[:-1] ** 2, axis=1) + jnp.einsum("ni,nij,nj->", omega[:-1], inertia, omega[:-1]))

    def potential_energy(self, t: Array, q: Point) -> Float[Array, ""]:
        """Gravity and everything that stores energy."""
        motion = self.motion(q)
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
        wrenches = self._wrenches(t, self.motion(q, v))
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
                gradients = jax.vmap(lambda p, f=group.formulation: _internal_gradient(f, p))(points)
                parts.append((rows, jnp.einsum("nrc,nc->nr", gradients, group.velocities(v))))
        return accumulate(self.m, parts)

    def curvature(self, t: Array, q: Point, v: Vector) -> Multipliers:
        if not self.holonomic_velocities:
            return super().curvature(t, q, v)
        parts = [(g.rows, self._curvatures(g, t, q, v)) for g in self.joints]
        for bodies, points, rows in zip(self.bodies, q, self.internal, strict=True):
            if rows is not None:
                form = bodies.formulation
                along = lambda p, u, f=form: _second(lambda s: f.constraint(f.space.move(p, s * u)))  # noqa: E731
                parts.append((rows, jax.vmap(along)(points, bodies.velocities(v))))
        return accumulate(self.m, parts)

    def _curvatures(self, group: JointGroup, t: Array, q: Point, v: Vector) -> Float[Array, "elements kept"]:
        """Second time derivatives of the residuals when velocities are frozen, element by element."""
        moving, forms = self._moving(group)
        points = tuple(members(q, group.slots[k]) for k in moving)
        velocities = tuple(v[group.slots[k].columns.numbers] for k in moving)

        def second(t: Array, element: Any, points: tuple[Point, ...], velocities: tuple[Vector, ...]) -> Array:
            def residual(s: Array) -> Array:
                poses: list[Pose] = [_STILL] * len(group.slots)
                for k, form, p, u in zip(moving, forms, points, velocities, strict=True):
                    poses[k] = form.pose(form.space.move(p, s * u))
                return group.residual(element, t + s, tuple(poses))

            return _second(residual)

        return each(second, t, group.elements, points, velocities, loop=group.looped)

    def jacobian(self, t: Array, q: Point) -> Matrix:
        motion = self.motion(q)
        found: list[Blocks] = []
        for group in self.joints:
            moving = [slot for slot in group.slots if slot.group is not None]
            for slot, gradient in zip(moving, group.gradients(t, motion), strict=True):
                found.append(Blocks(self._pull_rows(slot, q, gradient), group.rows, slot.columns))
        for bodies, points, rows in zip(self.bodies, q, self.internal, strict=True):
            if rows is not None:
                gradients = jax.vmap(lambda p, f=bodies.formulation: _internal_gradient(f, p))(points)
                found.append(Blocks(gradients, rows, bodies.columns))
        return tuple(found)

    def stiffness(self, t: Array, q: Point, v: Vector) -> Matrix:
        wrenches = self._wrenches(t, self.motion(q, v))
        found: list[Blocks] = []
        for g, points, w in zip(self.bodies, q, wrenches, strict=True):
            found.extend(g.blocks(g.each(g.formulation.stiffness, points, g.velocities(v), w)))
        for group in self.forces:
            uses_twists = group.elements.uses_twists and not self._twists_are_velocities(group)
            if group.elements.uses_poses or uses_twists:
                found.extend(self._force_blocks(group, t, q, v, along_velocities=False))
        return tuple(found)

    def damping(self, t: Array, q: Point, v: Vector) -> Matrix:
        wrenches = self._wrenches(t, self.motion(q, v))
        found: list[Blocks] = []
        for g, points, w in zip(self.bodies, q, wrenches, strict=True):
            found.extend(g.blocks(g.each(g.formulation.damping, points, g.velocities(v), w)))
        for group in self.forces:
            if group.elements.uses_twists:
                found.extend(self._force_blocks(group, t, q, v, along_velocities=True))
        return tuple(found)

    def geometric_stiffness(self, t: Array, q: Point, multipliers: Multipliers) -> Matrix:
        """A constraint force acts like that of a potential, -λ·Φ; so its tangent is formed like those of springs."""
        rest, motion = jnp.zeros(self.n), self.motion(q, jnp.zeros(self.n))
        reactions = [reaction_of(group, multipliers) for group in self.joints]
        found = [b for group in reactions for b in self._force_blocks(group, t, q, rest, along_velocities=False)]
        for g, points, w in zip(self.bodies, q, self._collected(reactions, t, motion), strict=True):
            found.extend(g.blocks(g.each(g.formulation.stiffness, points, g.velocities(rest), w)))
        for g, points, rows in zip(self.bodies, q, self.internal, strict=True):
            if rows is not None:
                curved = jax.vmap(lambda p, k, f=g.formulation: _internal_curvature(f, p, k))
                found.extend(g.blocks(curved(points, multipliers[rows.numbers])))
        return tuple(found)

    # --- parts ------------------------------------------------------------------------------------------------------

    def _wrenches(self, t: Array, motion: Motion) -> tuple[Wrench, ...]:
        """Total load on the bodies of each group: gravity and all force elements."""
        mass = jnp.concatenate([g.weight for g in self.bodies])
        return self._collected(self.forces, t, motion, mass[:, None] * self.gravity)

    def _collected(
        self, groups: Sequence[ForceGroup], t: Array, motion: Motion, force: Array | None = None
    ) -> tuple[Wrench, ...]:
        """Loads of elements on the bodies of each group, and forces on the bodies besides."""
        total = sum(group.count for group in self.bodies)
        torque, force = jnp.zeros((total, 3)), jnp.zeros((total, 3)) if force is None else force
        for group in groups:
            for slot, wrench in zip(group.slots, group.wrenches(t, motion), strict=True):
                if slot.group is not None:
                    torque = torque.at[slot.nodes.numbers].add(wrench.torque)
                    force = force.at[slot.nodes.numbers].add(wrench.force)
        ends = np.cumsum([0] + [group.count for group in self.bodies])
        return tuple(Wrench(torque[a:b], force[a:b]) for a, b in itertools.pairwise(ends))

    def _pull_rows(self, slot: Slot, q: Point, rows: Float[Array, "elements k 6"]) -> Float[Array, "elements k n"]:
        """Rows on twists as rows on velocities: times J."""
        formulation = self.bodies[slot.group or 0].formulation
        points = members(q, slot)
        if formulation.jacobian(jax.tree.map(lambda a: a[0], points)) is None:
            return rows
        pulled = lambda form, p, R: R @ form.jacobian(p)  # noqa: E731
        return each(pulled, formulation, points, rows, loop=self.bodies[slot.group or 0].looped)

    def _moving(self, group: JointGroup | ForceGroup) -> tuple[list[int], list[AbstractFormulation]]:
        """The slots with bodies, and the coordinates of these."""
        moving = [k for k, slot in enumerate(group.slots) if slot.group is not None]
        return moving, [self.bodies[group.slots[k].group or 0].formulation for k in moving]

    def _twists_are_velocities(self, group: ForceGroup) -> bool:
        """Whether twists do not depend on the configuration at fixed velocities."""
        moving = [slot.group for slot in group.slots if slot.group is not None]
        return all(self.bodies[g].formulation.twist_is_fixed for g in moving)

    def _force_blocks(self, group: ForceGroup, t: Array, q: Point, v: Vector, along_velocities: bool) -> list[Blocks]:
        """Minus the derivatives of the generalised forces of one group of elements."""
        moving, forms = self._moving(group)
        points = tuple(members(q, group.slots[k]) for k in moving)
        velocities = tuple(v[group.slots[k].columns.numbers] for k in moving)

        def loads(t: Array, element: Any, points: tuple[Point, ...], velocities: tuple[Vector, ...]) -> Any:
            poses: list[Pose] = [_STILL] * len(group.slots)
            twists: list[Twist] = [_RESTING] * len(group.slots)
            for k, form, p, u in zip(moving, forms, points, velocities, strict=True):
                poses[k], twists[k] = form.pose(p), form.twist(p, u)
            wrenches = element.wrenches(t, tuple(poses), tuple(twists))
            return tuple(jnp.concatenate(wrenches[k]) for k in moving)

        def tangent(t: Array, element: Any, points: tuple[Point, ...], velocities: tuple[Vector, ...]) -> Any:
            if along_velocities:
                derivative = jax.jacfwd(lambda u: loads(t, element, points, u))(velocities)
            else:
                zeros = tuple(jnp.zeros(form.n) for form in forms)
                moved = lambda thetas: tuple(  # noqa: E731
                    form.space.move(p, theta) for form, p, theta in zip(forms, points, thetas, strict=True)
                )
                derivative = jax.jacfwd(lambda thetas: loads(t, element, moved(thetas), velocities))(zeros)
            return tuple(
                tuple(-jax.vmap(lambda c, i=i: forms[i].pull_back(points[i], c))(column.T).T for column in row)
                for i, row in enumerate(derivative)
            )

        values = each(tangent, t, group.elements, points, velocities, loop=group.looped)
        columns = [group.slots[k].columns for k in moving]
        return [Blocks(values[i][j], columns[i], columns[j]) for i in range(len(moving)) for j in range(len(moving))]

    def choose_solver(self) -> AbstractKKT:
        """The solver that suits the places of the blocks; takes a moment, so `assemble` keeps it in `solver`."""
        q = self.configuration.origin()
        t, v = jnp.zeros(()), jnp.zeros(self.n)

        def matrices() -> tuple[Matrix, Matrix]:
            A = self.mass(t, q) + self.damping(t, q, v)
            return (A + self.stiffness(t, q, v) if self.holonomic_velocities else A), self.jacobian(t, q)

        A, P = jax.tree.map(lambda block: jnp.zeros(block.shape), jax.eval_shape(matrices))
        return kkt_solver(A, P, self.n, self.m)

    def _find(self, body: Body | str) -> tuple[int, int]:
        name = body if isinstance(body, str) else body.name
        for known, group, member in self.places:
            if known == name:
                return group, member
        raise ValueError(f"The system has no body `{name}`; it has {', '.join(p[0] for p in self.places)}.")


_STILL = Pose(jnp.zeros(3), jnp.eye(3))
_RESTING = Twist(jnp.zeros(3), jnp.zeros(3))


def _stack(*parts: Any) -> Any:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def _second(curve: Callable[[Array], Array]) -> Array:
    """The second derivative of a curve at 0."""
    zero, one = jnp.zeros(()), jnp.ones(())
    rate = lambda s: jax.jvp(curve, (s,), (one,))[1]  # noqa: E731
    return jax.jvp(rate, (zero,), (one,))[1]


def _internal_gradient(formulation: Any, point: Point) -> Float[Array, "internal n"]:
    zero = jnp.zeros(formulation.n)
    return jax.jacfwd(lambda theta: formulation.constraint(formulation.space.move(point, theta)))(zero)


def _internal_curvature(formulation: Any, point: Point, multipliers: Float[Array, " internal"]) -> Float[Array, "n n"]:
    """The derivative of the gradients of internal constraints times their multipliers."""
    move = formulation.space.move
    forces = lambda theta: _internal_gradient(formulation, move(point, theta)).T @ multipliers  # noqa: E731
    return jax.jacfwd(forces)(jnp.zeros(formulation.n))
