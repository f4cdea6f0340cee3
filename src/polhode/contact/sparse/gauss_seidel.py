"""Gauss–Seidel sweeps over contacts that change the velocities of two bodies each."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.compiler.primitives.row_loop import scan_rows
from polhode.contact.contact_problem import discs
from polhode.contact.laws import Impulses, radii
from polhode.contact.sparse.body_elimination import whole
from polhode.contact.sparse.free_bodies import FreeBodies, Spatial
from polhode.contact.sparse.sparse_problem import ScaledProblem

_SETTLED = 0.1
"""Largest change of a sweep, in parts of the goal, at which sweeps end."""


DIVERGED = 1e3
"""The same, in parts of the impulses that stop each contact alone, from which friction of known direction jams them."""


class _Table(NamedTuple):
    """Numbers of each contact for a sweep, in scaled units.

    - `rows`: of relative velocities, by the velocities of the first and of the second body.
    - `responses`: changes of these velocities by unit impulses. - `own`: responses of the contact to itself.
    """

    rows: tuple[Float[Array, "k rows 6"], Float[Array, "k rows 6"]]
    responses: tuple[Float[Array, "k rows 6"], Float[Array, "k rows 6"]]
    own: Float[Array, "k rows rows"]
    constant: Impulses
    step: Impulses
    least: Float[Array, " k"]

    @classmethod
    def of(cls, scaled: ScaledProblem) -> _Table:
        problem = scaled.problem
        scale = scaled.scale[:, :, None]
        rows = tuple(scale * part for part in whole(problem.rows))
        ends = zip((problem.rows.first, problem.rows.second), whole(problem.columns), strict=True)
        responses = tuple(_respond(problem.bodies, body, scale * part) for body, part in ends)
        return cls(rows, responses, scaled.own, scaled.constant, scaled.step, scaled.least)  # type: ignore[arg-type]


def gauss_seidel(scaled: ScaledProblem, z: Impulses, limit: Array, goal: Array, size: Array) -> tuple[Impulses, Array]:
    """Impulses after at most `limit` sweeps, forward and backward in turn, and whether they grow without bound.

    One contact after the other, its normal impulse before the others; the cost of a sweep is linear in the contacts.
    Sweeps end at a change far below the goal.
    """
    table, problem = _Table.of(scaled), scaled.problem
    first, second = problem.rows.first, problem.rows.second
    count = jnp.max(jnp.where(jnp.any(scaled.present, axis=1), jnp.arange(len(z)) + 1, 0), initial=0)

    def visit(loop: tuple[Array, ...], forward: Array) -> tuple[Array, ...]:
        place, V, z, largest = loop
        i = jnp.where(forward, place, count - 1 - place)
        cut = lambda x: jax.lax.dynamic_slice(x, (i, *(0,) * (x.ndim - 1)), (1, *x.shape[1:]))  # noqa: E731
        a, b = first[i], second[i]
        here = tuple(jax.lax.dynamic_slice(V, (body, 0), (1, 6)) for body in (a, b))
        own = cut(z)
        new, Va, Vb, change = _rows(_renew, jax.tree.map(cut, table), own, *here)
        # One update of both rows, which machine code makes in place.
        V = V.at[jnp.stack((a, b))].set(jnp.concatenate((Va, Vb)), mode="promise_in_bounds")
        z = jax.lax.dynamic_update_slice(z, new, (i, 0))
        return place + 1, V, z, jnp.maximum(largest, change[0])

    def sweep(loop: tuple[Array, ...]) -> tuple[Array, ...]:
        number, V, z, _ = loop
        forward = number % 2 == 0
        start = jnp.zeros((), count.dtype), V, z, jnp.zeros(())
        _, V, z, largest = jax.lax.while_loop(lambda x: x[0] < count, lambda x: visit(x, forward), start)
        return number + 1, V, z, largest

    def more(loop: tuple[Array, ...]) -> Array:
        first = loop[0] == 0
        return (loop[0] < limit) & (first | ((loop[3] > _SETTLED * goal) & (loop[3] < DIVERGED * size)))

    response: Spatial = scaled.response(z)
    V = jnp.concatenate((response.angular, response.linear), axis=1)
    _, _, z, largest = jax.lax.while_loop(more, sweep, (jnp.zeros_like(limit), V, z, jnp.zeros(())))
    return z, largest >= DIVERGED * size


def _renew(contact: _Table, z: Array, first: Array, second: Array) -> tuple[Array, Array, Array, Array]:
    """New impulses of a contact, velocities of its bodies with them, and the largest change."""
    (of_first, of_second), (by_first, by_second) = contact.rows, contact.responses
    w = of_first @ first + of_second @ second + contact.constant
    normal = jnp.maximum(z[0] - contact.step[0] * w[0], contact.least)
    w = w + contact.own[:, 0] * (normal - z[0])
    parts = [normal[None]]
    for disc in discs(len(z)):
        a = z[disc] - contact.step[disc] * w[disc]
        square, radius = jnp.sum(a * a), radii(normal, None)
        slides = square > radius**2
        part = jnp.where(slides, radius / jnp.sqrt(jnp.where(slides, square, 1.0)), 1.0) * a
        w = w + contact.own[:, disc] @ (part - z[disc])
        parts.append(part)
    new = jnp.where(contact.step > 0, jnp.concatenate(parts), 0.0)
    d = new - z
    return new, first + d @ by_first, second + d @ by_second, jnp.max(jnp.abs(d))


def _respond(bodies: FreeBodies, body: Array, columns: Float[Array, "k rows 6"]) -> Float[Array, "k rows 6"]:
    """Changes of the velocities of bodies by unit impulses."""
    turned = jnp.sum(bodies.inertia[body][:, None] * columns[:, :, None, :3], axis=3)
    return jnp.concatenate((turned, bodies.mass[body][:, None, None] * columns[:, :, 3:]), axis=2)


def _rows(function, *arrays):  # type: ignore[no-untyped-def]
    """One row of a loop, written out on single numbers."""
    return scan_rows(lambda _, carry, row: (carry, function(*row)), None, (), arrays)[1]
