"""Gauss–Seidel sweeps over contacts that change the velocities of two bodies each, with momentum.

At a wedge of ten boxes, the residual falls to 1e-5 of the largest impulse in 130 sweeps, along conjugate directions in
510, without momentum not in 20,000.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.compiler.primitives.row_loop import scan_rows
from polhode.contact.contact_problem import discs
from polhode.contact.laws import Impulses, disc_factor, radii
from polhode.contact.sparse.body_elimination import whole
from polhode.contact.sparse.free_bodies import FreeBodies, Spatial
from polhode.contact.sparse.small_inverses import invert
from polhode.contact.sparse.sparse_problem import ScaledProblem

_INNER = 3
"""Iterations for a contact that slides or opens, where its normal and its other impulses need each other."""

_BLOCK = 10
"""Sweeps after which the residual is measured."""

_PATIENCE, _PROGRESS = 4, 0.7
"""Blocks from which to as many next ones the residual has to fall by this factor, for momentum to stay as it is."""


class SweepTable(NamedTuple):
    """Numbers of each contact for a sweep, in scaled units.

    - `rows`: of relative velocities, by the velocities of the first and of the second body.
    - `responses`: changes of these velocities by unit impulses. - `own`: responses of the contact to itself.
    - `inverse`: of these.
    """

    rows: tuple[Float[Array, "k rows 6"], Float[Array, "k rows 6"]]
    responses: tuple[Float[Array, "k rows 6"], Float[Array, "k rows 6"]]
    own: Float[Array, "k rows rows"]
    inverse: Float[Array, "k rows rows"]
    constant: Impulses
    step: Impulses
    least: Float[Array, " k"]

    @classmethod
    def of(cls, scaled: ScaledProblem) -> SweepTable:
        """The table of a problem."""
        problem = scaled.problem
        scale = scaled.scale[:, :, None]
        rows: Any = tuple(scale * part for part in whole(problem.rows))
        ends = zip((problem.rows.first, problem.rows.second), whole(problem.rows), strict=True)
        responses: Any = tuple(_respond(problem.bodies, body, scale * part) for body, part in ends)
        own = scaled.own + jnp.where(scaled.present, 0.0, 1.0)[:, :, None] * jnp.eye(scaled.own.shape[1])
        return cls(rows, responses, own, invert(own), scaled.constant, scaled.step, scaled.least)


class _Sweeps(NamedTuple):
    """Where the iteration is: impulses after the last sweep and the one before, and velocities of bodies by both.

    - `momentum`: factor of their differences with which the next one begins. - `theta`: its parameter.
    """

    z: Impulses
    before: Impulses
    response: Float[Array, "b 6"]
    response_before: Float[Array, "b 6"]
    momentum: Array
    theta: Array


class _Search(NamedTuple):
    """Sweeps so far.

    - `best`: impulses with the lowest residual of all measured ones.
    - `bold`: whether sweeps have momentum.
    - `lowest`, `before`: residuals of the last blocks, and of those before them; `since`: how many the last ones are.
    """

    sweeps: _Sweeps
    best: Impulses
    residual: Array
    bold: Bool[Array, ""]
    lowest: Array
    before: Array
    since: Int[Array, ""]
    number: Int[Array, ""]


def gauss_seidel(
    scaled: ScaledProblem, table: SweepTable, z: Impulses, limit: Array, goal: Callable[[Array], Array]
) -> tuple[Impulses, Array, Int[Array, ""]]:
    """Impulses with the lowest residual within `limit` sweeps, this residual, and how many sweeps these were.

    One contact after the other, with the others as they are. Sweeps begin ahead of the last impulses, by Nesterov's
    momentum, which ends where it leads back. As it may go round in circles where sweeps without it converge, these take
    over where residuals fall no more, and the other way about. The cost of a sweep is linear in the contacts. They
    end at a residual of `goal` of their number. `table`: of the same contacts, whatever they aim at.
    """
    table, problem = table._replace(constant=scaled.constant, least=scaled.least), scaled.problem
    first, second = problem.rows.first, problem.rows.second
    count = jnp.max(jnp.where(jnp.any(scaled.present, axis=1), jnp.arange(len(z)) + 1, 0), initial=0)

    def cut(x: Array, i: Array) -> Array:
        return jax.lax.dynamic_slice(x, (i, *(0,) * (x.ndim - 1)), (1, *x.shape[1:]))

    def ends(i: Array, V: Array) -> tuple[Array, ...]:
        return tuple(jax.lax.dynamic_slice(V, (bodies[i], 0), (1, 6)) for bodies in (first, second))

    # All that is done for each contact is in loops over those that there are, which are fewer than there is room for.
    def visit(momentum: Array, loop: tuple[Array, ...]) -> tuple[Array, ...]:
        i, V, z, before, turns = loop
        here, earlier = cut(z, i), cut(before, i)
        contact = jax.tree.map(lambda x: cut(x, i), table)
        new, Va, Vb, turn = _rows(_renew, contact, here, earlier, momentum[None], *ends(i, V))
        # One update of both rows, which machine code makes in place.
        V = V.at[jnp.stack((first[i], second[i]))].set(jnp.concatenate((Va, Vb)), mode="promise_in_bounds")
        z = jax.lax.dynamic_update_slice(z, new, (i, 0))
        return i + 1, V, z, jax.lax.dynamic_update_slice(before, here, (i, 0)), turns + turn[0]

    def sweep(last: _Sweeps, bold: Array) -> _Sweeps:
        ahead = last.response + last.momentum * (last.response - last.response_before)
        start = jnp.zeros((), count.dtype), ahead, last.z, last.before, jnp.zeros(())
        step = lambda loop: visit(last.momentum, loop)  # noqa: E731
        _, response, z, before, turns = jax.lax.while_loop(lambda x: x[0] < count, step, start)
        theta = jnp.where(turns < 0, 1.0, last.theta)
        following = 0.5 * (1 + jnp.sqrt(1 + 4 * theta**2))
        momentum = jnp.where(bold, (theta - 1) / following, 0.0)
        return _Sweeps(z, before, response, last.response, momentum, following)

    def measure(z: Impulses, V: Array) -> Array:
        """The largest residual of the laws."""

        def look(loop: tuple[Array, Array]) -> tuple[Array, Array]:
            i, most = loop
            left = _rows(_defect, jax.tree.map(lambda x: cut(x, i), table), cut(z, i), *ends(i, V))
            return i + 1, jnp.maximum(most, left[0])

        start = jnp.zeros((), count.dtype), jnp.zeros(())
        return jax.lax.while_loop(lambda x: x[0] < count, look, start)[1]

    def advance(at: _Search) -> _Search:
        begin = jnp.zeros((), int), at.sweeps
        _, last = jax.lax.while_loop(lambda x: x[0] < _BLOCK, lambda x: (x[0] + 1, sweep(x[1], at.bold)), begin)
        left = measure(last.z, last.response)
        better, lowest = left < at.residual, jnp.minimum(left, at.lowest)
        ends = at.since == _PATIENCE - 1
        turns = ends & (lowest > _PROGRESS * at.before)
        last = last._replace(theta=jnp.where(turns, 1.0, last.theta), momentum=jnp.where(turns, 0.0, last.momentum))
        return _Search(
            sweeps=last, best=jnp.where(better, last.z, at.best), residual=jnp.where(better, left, at.residual),
            bold=at.bold ^ turns, lowest=jnp.where(ends, jnp.inf, lowest),
            before=jnp.where(turns, jnp.inf, jnp.where(ends, lowest, at.before)),
            since=jnp.where(ends, 0, at.since + 1), number=at.number + _BLOCK,
        )  # fmt: skip

    response: Spatial = scaled.response(z)
    V = jnp.concatenate((response.angular, response.linear), axis=1)
    left = measure(z, V)
    none, far = jnp.zeros((), int), jnp.asarray(jnp.inf)
    start = _Search(_Sweeps(z, z, V, V, jnp.zeros(()), jnp.ones(())), z, left, jnp.asarray(True), far, far, none, none)
    last = jax.lax.while_loop(lambda at: (at.number < limit) & (at.residual > goal(at.number)), advance, start)
    return last.best, last.residual, last.number


def _renew(
    contact: SweepTable, z: Array, before: Array, momentum: Array, first: Array, second: Array
) -> tuple[Array, Array, Array, Array]:
    """New impulses of a contact, velocities of its bodies with them, and how far momentum has led ahead of them.

    The latter is negative where it leads back.
    """
    by_first, by_second = contact.responses
    ahead = z + momentum * (z - before)
    w = _velocity(contact, first, second)
    held = ahead - contact.inverse @ w
    sticks = held[0] >= contact.least
    for disc in discs(len(z)):
        sticks = sticks & (jnp.sum(held[disc] ** 2) <= jnp.maximum(held[0], 0.0) ** 2)
    moved = ahead
    for _ in range(_INNER):
        moved, w = _project(contact, moved, w)
    new = jnp.where(contact.step > 0, jnp.where(sticks, held, moved), 0.0)
    d = new - ahead
    return new, first + d @ by_first, second + d @ by_second, jnp.sum(d * (new - z))


def _defect(contact: SweepTable, z: Array, first: Array, second: Array) -> Array:
    """The largest residual of the laws of a contact."""
    a = z - contact.step * _velocity(contact, first, second)
    normal = jnp.maximum(a[0], contact.least)
    left, radius = jnp.abs(z[0] - normal), radii(normal, None)
    for disc in discs(len(z)):
        factor = disc_factor(jnp.sqrt(jnp.sum(a[disc] ** 2)), radius, contact.step[disc.start], None)
        left = jnp.maximum(left, jnp.max(jnp.abs(z[disc] - factor * a[disc])))
    return jnp.where(contact.step[0] > 0, left, 0.0)


def _velocity(contact: SweepTable, first: Array, second: Array) -> Array:
    """Relative velocities at a contact, in scaled units."""
    of_first, of_second = contact.rows
    return of_first @ first + of_second @ second + contact.constant


def _project(contact: SweepTable, z: Array, w: Array) -> tuple[Array, Array]:
    """Impulses of a contact after its normal one and then the others were renewed, and velocities with them."""
    normal = jnp.maximum(z[0] - w[0] / contact.own[0, 0], contact.least)
    w = w + contact.own[:, 0] * (normal - z[0])
    parts = [normal[None]]
    for disc in discs(len(z)):
        a = z[disc] - contact.step[disc] * w[disc]
        square, radius = jnp.sum(a * a), radii(normal, None)
        slides = square > radius**2
        part = jnp.where(slides, radius / jnp.sqrt(jnp.where(slides, square, 1.0)), 1.0) * a
        w = w + contact.own[:, disc] @ (part - z[disc])
        parts.append(part)
    return jnp.concatenate(parts), w


def _respond(bodies: FreeBodies, body: Array, rows: Float[Array, "k rows 6"]) -> Float[Array, "k rows 6"]:
    """Changes of the velocities of bodies by unit impulses."""
    turned = jnp.sum(bodies.inertia[body][:, None] * rows[:, :, None, :3], axis=3)
    return jnp.concatenate((turned, bodies.mass[body][:, None, None] * rows[:, :, 3:]), axis=2)


def _rows(function, *arrays):
    """One row of a loop, written out on single numbers."""
    return scan_rows(lambda _, carry, row: (carry, function(*row)), None, (), arrays)[1]
