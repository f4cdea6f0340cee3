"""Derivatives of elements and of internal constraints in the coordinates of the bodies, element by element."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.compiler.primitives.row_loop import map_rows
from polhode.linalg.blocks import Blocks, Indices, Matrix
from polhode.linalg.known_places import take
from polhode.multibody.formulations.base import AbstractFormulation, AbstractFrame
from polhode.multibody.mechanism.groups import (
    AbstractNodeGroup,
    BodyGroup,
    ForceGroup,
    JointGroup,
    Motion,
    Slot,
    members,
)
from polhode.multibody.mechanism.near_forces import AbstractNearForces
from polhode.multibody.mechanism.poses import AT_REST, ORIGIN, Pose, Poses, Twist, Twists
from polhode.spaces.base import Point, Vector

Bodies = Sequence[AbstractNodeGroup]
Points = tuple[Point, ...]
Velocities = tuple[Vector, ...]


def stiffness_blocks(bodies: Bodies, groups: Sequence[ForceGroup], t: Array, q: Points, v: Vector) -> list[Blocks]:
    """Minus the derivatives along θ of the generalised forces of elements, for loads at fixed places."""
    blocks: list[Blocks] = []
    for group in groups:
        # Where twists are the velocities themselves, they don't change with the position.
        _, frames = _body_slots(bodies, group)
        if group.elements.uses_poses or (group.elements.uses_twists and not all(f.twist_is_fixed for f in frames)):
            blocks.extend(load_blocks(bodies, group, t, q, v, along_velocities=False))
    return blocks


def damping_blocks(bodies: Bodies, groups: Sequence[ForceGroup], t: Array, q: Points, v: Vector) -> list[Blocks]:
    """Minus the derivatives along v of the generalised forces of elements."""
    of_velocities = [group for group in groups if group.elements.uses_twists]
    return [block for group in of_velocities for block in load_blocks(bodies, group, t, q, v, along_velocities=True)]


def load_blocks(
    bodies: Bodies, group: ForceGroup, t: Array, q: Points, v: Vector, along_velocities: bool
) -> list[Blocks]:
    """Minus the derivatives of the generalised forces of one group of elements, along θ or along v."""
    on_bodies, forms = _body_slots(bodies, group)
    points = tuple(members(q, group.slots[k]) for k in on_bodies)
    velocities = tuple(take(v, group.slots[k].columns.numbers) for k in on_bodies)

    def tangent(t: Array, element: Any, points: Points, velocities: Velocities) -> Any:
        ends = _Ends(len(group.slots), on_bodies, forms, points)
        blocks = ends.by_element(t, element, velocities, along_velocities)
        return ends.by_differentiation(t, element, velocities, along_velocities) if blocks is None else blocks

    values = map_rows(tangent, t, group.elements, points, velocities, loop=group.looped)
    columns = [group.slots[k].columns for k in on_bodies]
    return [Blocks(values[i][j], columns[i], columns[j]) for i in range(len(on_bodies)) for j in range(len(on_bodies))]


def near_blocks(
    bodies: Bodies, forces: Sequence[AbstractNearForces], q: Points, motion: Motion, along_velocities: bool
) -> list[Blocks]:
    """The part of `stiffness_blocks`, or of `damping_blocks`, of parts that come near each other."""
    blocks: list[Blocks] = []
    for each in forces:
        if along_velocities and each.conservative:
            continue
        values = each.tangents(motion, along_velocities)
        for part in each.parts:
            ends = [k for k, slot in enumerate(part.slots) if slot.group is not None]
            frames = [part.slots[k].frame(bodies) for k in ends]
            points = tuple(members(q, part.slots[k]) for k in ends)

            def pull(_: None, own: Array, points: Points, ends: Any = ends, frames: Any = frames) -> Any:
                J = [frame.body_jacobian(p) for frame, p in zip(frames, points, strict=True)]
                pairs = itertools.product(enumerate(ends), repeat=2)
                return tuple(_between(J[i], own[2 * a + b], J[j]) for (i, a), (j, b) in pairs)

            own = map_rows(pull, None, take(values, part.numbers.numbers), points)
            columns = itertools.product([part.slots[k].columns for k in ends], repeat=2)
            blocks += [Blocks(value, *places) for value, places in zip(own, columns, strict=True)]
    return blocks


class _Ends(NamedTuple):
    """Bodies of one element: the numbers of its slots with bodies, with their formulations and points."""

    slots: int
    on_bodies: Sequence[int]
    forms: Sequence[Any]
    points: Points

    def motion(self, points: Points, velocities: Velocities) -> tuple[Poses, Twists]:
        """Poses and twists of all slots."""
        poses: list[Pose] = [ORIGIN] * self.slots
        twists: list[Twist] = [AT_REST] * self.slots
        for k, form, p, u in zip(self.on_bodies, self.forms, points, velocities, strict=True):
            poses[k], twists[k] = form.pose(p), form.twist(p, u)
        return tuple(poses), tuple(twists)

    def by_element(self, t: Array, element: Any, velocities: Velocities, along_velocities: bool) -> Any:
        """From the `tangent` of the element, None if it has none; all in body frames, twist = J v."""
        tangent = element.tangent(t, *self.motion(self.points, velocities))
        if tangent is None:
            return None
        K, D = tangent
        J = [form.body_jacobian(p) for form, p in zip(self.forms, self.points, strict=True)]

        def block(i: int, j: int) -> Array:
            rows, cols = (slice(6 * self.on_bodies[k], 6 * self.on_bodies[k] + 6) for k in (i, j))
            if along_velocities:
                return _between(J[i], D[rows, cols], J[j])
            value = _between(J[i], K[rows, cols], J[j])
            form, p, u = self.forms[j], self.points[j], velocities[j]
            if D is None or J[j] is None:
                return value
            return value + _between(J[i], D[rows, cols], _twist_slope(form, p, u))

        return tuple(tuple(block(i, j) for j in range(len(self.on_bodies))) for i in range(len(self.on_bodies)))

    def by_differentiation(self, t: Array, element: Any, velocities: Velocities, along_velocities: bool) -> Any:
        """From derivatives of the loads."""

        def loads(points: Points, velocities: Velocities) -> tuple[Array, ...]:
            wrenches = element.wrenches(t, *self.motion(points, velocities))
            return tuple(jnp.concatenate(wrenches[k]) for k in self.on_bodies)

        def displaced_points(thetas: Velocities) -> Points:
            return tuple(form.move(p, theta) for form, p, theta in zip(self.forms, self.points, thetas, strict=True))

        if along_velocities:
            derivative = jax.jacfwd(lambda u: loads(self.points, u))(velocities)
        else:
            zeros = tuple(jnp.zeros(form.n) for form in self.forms)
            derivative = jax.jacfwd(lambda thetas: loads(displaced_points(thetas), velocities))(zeros)
        return tuple(
            tuple(-jax.vmap(lambda c, i=i: self.forms[i].pull_back(self.points[i], c))(column.T).T for column in row)
            for i, row in enumerate(derivative)
        )


def constraint_blocks(
    bodies: Bodies, groups: Sequence[JointGroup], t: Array, q: Points, motion: Motion
) -> list[Blocks]:
    """Derivatives of the constraints of joints along the velocities."""
    blocks: list[Blocks] = []
    for group in groups:
        slots = [slot for slot in group.slots if slot.group is not None]
        for slot, gradient in zip(slots, group.gradients(t, motion), strict=True):
            blocks.append(Blocks(_pull_rows(bodies, slot, q, gradient), group.rows, slot.columns))
    return blocks


def _pull_rows(
    bodies: Bodies, slot: Slot, q: Points, rows: Float[Array, "elements k 6"]
) -> Float[Array, "elements k n"]:
    """Rows on twists as rows on velocities: times J."""
    frame = slot.frame(bodies)
    points = members(q, slot)
    if frame.jacobian(jax.tree.map(lambda a: a[0], points)) is None:
        return rows
    pull = lambda form, p, R: R @ form.jacobian(p)  # noqa: E731
    return map_rows(pull, frame, points, rows, loop=bodies[slot.group or 0].looped)


def outline(
    groups: Sequence[ForceGroup], joints: Sequence[JointGroup], identity_kinematics: bool
) -> tuple[Matrix, Matrix]:
    """Sparsity patterns, as zero blocks, of the tangents of elements and of the Jacobian of joints.

    `identity_kinematics`: whether positions follow from velocities alone, so that stiffness counts.
    """
    resisting = [g for g in groups if g.elements.uses_twists or (identity_kinematics and g.elements.uses_poses)]
    pairs = [pair for g in resisting for pair in itertools.product(_columns(g.slots), repeat=2)]
    rows = [(g.rows, columns) for g in joints for columns in _columns(g.slots)]
    A, P = (tuple(Blocks.zeros(*place) for place in places) for places in (pairs, rows))
    return A, P


def _columns(slots: Sequence[Slot]) -> list[Indices]:
    """Velocities at the ends of elements that aren't the ground."""
    return [slot.columns for slot in slots if slot.group is not None]


def curvatures(
    bodies: Bodies, group: JointGroup, t: Array, q: Points, v: Vector
) -> Float[Array, "elements components"]:
    """Time derivatives of the rates of one group of joints when velocities are frozen."""
    on_bodies, forms = _body_slots(bodies, group)
    points = tuple(members(q, group.slots[k]) for k in on_bodies)
    velocities = tuple(take(v, group.slots[k].columns.numbers) for k in on_bodies)

    def second(t: Array, element: Any, points: Points, velocities: Velocities) -> Array:
        def poses(s: Array) -> Poses:
            rows: list[Pose] = [ORIGIN] * len(group.slots)
            for k, form, p, u in zip(on_bodies, forms, points, velocities, strict=True):
                rows[k] = form.pose(form.move(p, s * u))
            return tuple(rows)

        def rate(s: Array) -> Array:
            twists: list[Twist] = [AT_REST] * len(group.slots)
            for k, form, p, u in zip(on_bodies, forms, points, velocities, strict=True):
                twists[k] = form.twist(form.move(p, s * u), u)
            return group.rate(element, t + s, poses(s), tuple(twists))

        if group.nonholonomic:
            return _first(rate)
        return _second(lambda s: group.residual(element, t + s, poses(s)))

    return map_rows(second, t, group.elements, points, velocities, loop=group.looped)


def internal_gradients(group: BodyGroup, points: Point) -> Float[Array, "count internal n"]:
    """Derivatives of the constraints among the coordinates of single bodies."""
    return jax.vmap(lambda p: _internal_gradient(group.formulation, p))(points)


def internal_curvatures(group: BodyGroup, points: Point, velocities: Array) -> Float[Array, "count internal"]:
    """Second time derivatives of internal constraints when velocities are frozen."""
    form = group.formulation
    along = lambda p, u: _second(lambda s: form.constraint(form.space.move(p, s * u)))  # noqa: E731
    return jax.vmap(along)(points, velocities)


def internal_stiffness(group: BodyGroup, points: Point, multipliers: Array) -> Float[Array, "count n n"]:
    """Derivatives of the gradients of internal constraints times their multipliers (count, internal)."""
    form = group.formulation

    def stiffness(point: Point, multipliers: Float[Array, " internal"]) -> Float[Array, "n n"]:
        forces = lambda theta: _internal_gradient(form, form.space.move(point, theta)).T @ multipliers  # noqa: E731
        return jax.jacfwd(forces)(jnp.zeros(form.n))

    return jax.vmap(stiffness)(points, multipliers)


def _body_slots(bodies: Bodies, group: JointGroup | ForceGroup) -> tuple[list[int], list[AbstractFrame]]:
    """The slots with bodies, and their frames."""
    slots = [k for k, slot in enumerate(group.slots) if slot.group is not None]
    return slots, [group.slots[k].frame(bodies) for k in slots]


def _matrix(form: AbstractFrame, point: Point) -> Array:
    J = form.body_jacobian(point)
    return jnp.eye(form.n) if J is None else J


@jax.jit
def _twist_slope(form: AbstractFrame, point: Point, velocity: Vector) -> Float[Array, "6 n"]:
    """The derivative of the twist of constant velocities along the coordinates."""
    return jax.jacfwd(lambda theta: _matrix(form, form.move(point, theta)) @ velocity)(jnp.zeros(form.n))


def _between(left: Array | None, matrix: Array, right: Array | None) -> Array:
    """leftᵀ matrix right, None for the identity."""
    matrix = matrix if left is None else left.T @ matrix
    return matrix if right is None else matrix @ right


def _first(curve: Callable[[Array], Array]) -> Array:
    """The derivative of a curve at 0."""
    return jax.jvp(curve, (jnp.zeros(()),), (jnp.ones(()),))[1]


def _second(curve: Callable[[Array], Array]) -> Array:
    """The second derivative of a curve at 0."""
    zero, one = jnp.zeros(()), jnp.ones(())
    rate = lambda s: jax.jvp(curve, (s,), (one,))[1]  # noqa: E731
    return jax.jvp(rate, (zero,), (one,))[1]


def _internal_gradient(formulation: AbstractFormulation, point: Point) -> Float[Array, "internal n"]:
    zero = jnp.zeros(formulation.n)
    return jax.jacfwd(lambda theta: formulation.constraint(formulation.space.move(point, theta)))(zero)
