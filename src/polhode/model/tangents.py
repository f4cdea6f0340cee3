"""Derivatives of elements and of internal constraints in the coordinates of the bodies, element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.execution.rows import each
from polhode.linalg.blocks import Blocks
from polhode.model.formulations.base import AbstractFormulation
from polhode.model.groups import BodyGroup, ForceGroup, JointGroup, members
from polhode.model.poses import ORIGIN, RESTING, Pose, Poses, Twist
from polhode.spaces.base import Point, Vector

Bodies = Sequence[BodyGroup]
Points = tuple[Point, ...]
Velocities = tuple[Vector, ...]


def load_blocks(
    bodies: Bodies, group: ForceGroup, t: Array, q: Points, v: Vector, along_velocities: bool
) -> list[Blocks]:
    """Minus the derivatives of the generalised forces of one group of elements, along θ or along v."""
    moving, forms = _moving(bodies, group)
    points = tuple(members(q, group.slots[k]) for k in moving)
    velocities = tuple(v[group.slots[k].columns.numbers] for k in moving)

    def loads(t: Array, element: Any, points: Points, velocities: Velocities) -> tuple[Array, ...]:
        poses: list[Pose] = [ORIGIN] * len(group.slots)
        twists: list[Twist] = [RESTING] * len(group.slots)
        for k, form, p, u in zip(moving, forms, points, velocities, strict=True):
            poses[k], twists[k] = form.pose(p), form.twist(p, u)
        wrenches = element.wrenches(t, tuple(poses), tuple(twists))
        return tuple(jnp.concatenate(wrenches[k]) for k in moving)

    def given(t: Array, element: Any, points: Points, velocities: Velocities) -> Any:
        """From the tangent that the element knows, if it does; all in body frames, twist = J v."""
        poses: list[Pose] = [ORIGIN] * len(group.slots)
        twists: list[Twist] = [RESTING] * len(group.slots)
        for k, form, p, u in zip(moving, forms, points, velocities, strict=True):
            poses[k], twists[k] = form.pose(p), form.twist(p, u)
        known = element.tangent(t, tuple(poses), tuple(twists))
        if known is None:
            return None
        K, D = known
        J = [form.body_jacobian(p) for form, p in zip(forms, points, strict=True)]

        def block(i: int, j: int) -> Array:
            rows, cols = slice(6 * moving[i], 6 * moving[i] + 6), slice(6 * moving[j], 6 * moving[j] + 6)
            if along_velocities:
                return _between(J[i], D[rows, cols], J[j])
            value = _between(J[i], K[rows, cols], J[j])
            form, p, u = forms[j], points[j], velocities[j]
            if D is None or J[j] is None:
                return value
            turned = lambda theta: _matrix(form, form.space.move(p, theta)) @ u  # noqa: E731
            return value + _between(J[i], D[rows, cols], jax.jacfwd(turned)(jnp.zeros(form.n)))

        return tuple(tuple(block(i, j) for j in range(len(moving))) for i in range(len(moving)))

    def tangent(t: Array, element: Any, points: Points, velocities: Velocities) -> Any:
        known = given(t, element, points, velocities)
        if known is not None:
            return known
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


def curvatures(bodies: Bodies, group: JointGroup, t: Array, q: Points, v: Vector) -> Float[Array, "elements kept"]:
    """Time derivatives of the rates of one group of joints when velocities are frozen."""
    moving, forms = _moving(bodies, group)
    points = tuple(members(q, group.slots[k]) for k in moving)
    velocities = tuple(v[group.slots[k].columns.numbers] for k in moving)

    def second(t: Array, element: Any, points: Points, velocities: Velocities) -> Array:
        def poses(s: Array) -> Poses:
            found: list[Pose] = [ORIGIN] * len(group.slots)
            for k, form, p, u in zip(moving, forms, points, velocities, strict=True):
                found[k] = form.pose(form.space.move(p, s * u))
            return tuple(found)

        def rate(s: Array) -> Array:
            twists: list[Twist] = [RESTING] * len(group.slots)
            for k, form, p, u in zip(moving, forms, points, velocities, strict=True):
                twists[k] = form.twist(form.space.move(p, s * u), u)
            return group.rate(element, t + s, poses(s), tuple(twists))

        if group.nonholonomic:
            return _first(rate)
        return _second(lambda s: group.residual(element, t + s, poses(s)))

    return each(second, t, group.elements, points, velocities, loop=group.looped)


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


def _moving(bodies: Bodies, group: JointGroup | ForceGroup) -> tuple[list[int], list[AbstractFormulation]]:
    """The slots with bodies, and the coordinates of these."""
    moving = [k for k, slot in enumerate(group.slots) if slot.group is not None]
    return moving, [bodies[group.slots[k].group or 0].formulation for k in moving]


def _matrix(form: AbstractFormulation, point: Point) -> Array:
    J = form.body_jacobian(point)
    return jnp.eye(form.n) if J is None else J


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
