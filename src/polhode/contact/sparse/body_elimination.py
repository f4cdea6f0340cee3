"""Incomplete elimination of the velocities of bodies that contacts couple like springs.

The matrix is $K = M + W^T H W$ with a block H for each contact. Bodies are eliminated in a given order, only
diagonal blocks change: $D_j = K_{jj} - \\sum_{i<j} K_{ji} D_i^{-1} K_{ij}$. Without fill, as in rows, towers and trees
of bodies that are numbered from their leaves, this is the exact factorisation.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from polhode.compiler.primitives.row_loop import scan_rows
from polhode.contact.sparse.free_bodies import ContactRows, FreeBodies, Spatial
from polhode.contact.sparse.small_inverses import invert, matmul, multiply


class Edges(NamedTuple):
    """Pairs of bodies in touch, in the order in which their first one is eliminated.

    - `of_contact`: the edge of each contact, one more than there are for contacts with the ground and open ones.
    - `low`, `high`: bodies, the first one eliminated sooner; the ground in unused places. - `count`: how many.
    - `swapped`: contacts whose first body is eliminated later. - `fills`: whether elimination leaves something out.
    """

    of_contact: Int[Array, " k"]
    low: Int[Array, " e"]
    high: Int[Array, " e"]
    count: Int[Array, ""]
    swapped: Array
    fills: Array

    @classmethod
    def of(cls, rows: ContactRows, active: Array, order: Int[Array, " b"]) -> Edges:
        """The edges of the contacts that are active; `order`: places of the bodies, the ground's last."""
        k, bodies = len(rows.first), len(order)
        ground = bodies - 1
        swapped = order[rows.first] > order[rows.second]
        low = jnp.where(swapped, rows.second, rows.first)
        high = jnp.where(swapped, rows.first, rows.second)
        joined = active & (low != ground) & (high != ground)
        key = jnp.where(joined, order[low] * bodies + order[high], bodies * bodies).astype(jnp.int64)
        sequence = jnp.argsort(key)
        ranked = key[sequence]

        def number(_: None, carry: tuple[Array, Array], key: Array) -> tuple[tuple[Array, Array], Array]:
            last, count = carry
            count = count + jnp.where(key != last, 1, 0)
            return (key, count), count

        start = jnp.asarray(-1, jnp.int64), jnp.asarray(-1, jnp.int64)
        numbers = scan_rows(number, None, start, ranked)[1]
        inside = ranked < bodies * bodies
        count = jnp.max(jnp.where(inside, numbers + 1, 0))
        place = jnp.where(inside, numbers, k)
        of_contact = jnp.full(k, k, jnp.int64).at[sequence].set(place)
        none = jnp.full(k + 1, ground, low.dtype)
        lows, highs = (none.at[place].set(end[sequence])[:k] for end in (low, high))
        lows, highs = (jnp.where(jnp.arange(k) < count, end, ground) for end in (lows, highs))
        later = jnp.zeros(bodies, jnp.int64).at[lows].add(jnp.where(lows != ground, 1, 0))
        return cls(of_contact, lows, highs, count, swapped, jnp.max(later) > 1)


class Elimination(NamedTuple):
    """The factorisation: inverses of diagonal blocks, and coupling blocks of edges in both directions."""

    edges: Edges
    inverse: Float[Array, "b 6 6"]
    lower: Float[Array, "e 6 6"]
    upper: Float[Array, "e 6 6"]

    @classmethod
    def of(
        cls,
        bodies: FreeBodies,
        rows: ContactRows,
        stiffness: Float[Array, "k rows rows"],
        edges: Edges,
    ) -> Elimination:
        """Of M + Wᵀ H W, H given by contacts."""
        sides, b = whole(rows), len(bodies.mass)
        blocks = []
        for side in sides:
            moved = matmul(jnp.swapaxes(side, 1, 2), stiffness)
            blocks.append([matmul(moved, row) for row in sides])
        k = len(rows.first)
        diagonal = _masses(bodies).at[rows.first].add(blocks[0][0]).at[rows.second].add(blocks[1][1])
        swapped = edges.swapped[:, None, None]
        lower, upper = (
            jnp.zeros((k + 1, 6, 6)).at[edges.of_contact].add(jnp.where(swapped, one, other))[:k]
            for one, other in ((blocks[0][1], blocks[1][0]), (blocks[1][0], blocks[0][1]))
        )
        diagonal = diagonal.at[b - 1].set(jnp.eye(6))

        def visit(loop: tuple[Array, Array]) -> tuple[Array, Array]:
            e, diagonal = loop
            low, high = edges.low[e], edges.high[e]
            own = jax.lax.dynamic_slice(diagonal, (low, 0, 0), (1, 6, 6))
            there = jax.lax.dynamic_slice(diagonal, (high, 0, 0), (1, 6, 6))
            parts = [jax.lax.dynamic_slice(x, (e, 0, 0), (1, 6, 6)) for x in (lower, upper)]
            new = _rows(lambda own, there, a, c: there - _matmul(a, _matmul(_invert(own), c)), own, there, *parts)
            return e + 1, jax.lax.dynamic_update_slice(diagonal, new, (high, 0, 0))

        _, diagonal = jax.lax.while_loop(
            lambda loop: loop[0] < edges.count, visit, (jnp.zeros((), edges.count.dtype), diagonal)
        )
        return cls(edges, invert(diagonal).at[b - 1].set(jnp.zeros((6, 6))), lower, upper)

    def solve(self, impulses: Spatial) -> Spatial:
        """About K⁻¹ times something; zero for the ground."""
        x = jnp.concatenate((impulses.angular, impulses.linear), axis=1)

        def forward(loop: tuple[Array, Array]) -> tuple[Array, Array]:
            e, x = loop
            low, high = self.edges.low[e], self.edges.high[e]
            mine, there = (jax.lax.dynamic_slice(x, (at, 0), (1, 6)) for at in (low, high))
            block = jax.lax.dynamic_slice(self.inverse, (low, 0, 0), (1, 6, 6))
            coupling = jax.lax.dynamic_slice(self.lower, (e, 0, 0), (1, 6, 6))
            new = _rows(lambda x, y, D, L: y - _multiply(L, _multiply(D, x)), mine, there, block, coupling)
            return e + 1, jax.lax.dynamic_update_slice(x, new, (high, 0))

        def backward(loop: tuple[Array, Array]) -> tuple[Array, Array]:
            e, x = loop
            low, high = self.edges.low[e], self.edges.high[e]
            mine, there = (jax.lax.dynamic_slice(x, (at, 0), (1, 6)) for at in (low, high))
            block = jax.lax.dynamic_slice(self.inverse, (low, 0, 0), (1, 6, 6))
            coupling = jax.lax.dynamic_slice(self.upper, (e, 0, 0), (1, 6, 6))
            new = _rows(lambda x, y, D, U: x - _multiply(D, _multiply(U, y)), mine, there, block, coupling)
            return e - 1, jax.lax.dynamic_update_slice(x, new, (low, 0))

        zero = jnp.zeros((), self.edges.count.dtype)
        _, x = jax.lax.while_loop(lambda loop: loop[0] < self.edges.count, forward, (zero, x))
        x = multiply(self.inverse, x)
        _, x = jax.lax.while_loop(lambda loop: loop[0] >= 0, backward, (self.edges.count - 1, x))
        return Spatial(x[:, :3], x[:, 3:])


def whole(rows: ContactRows) -> tuple[Float[Array, "k rows 6"], Float[Array, "k rows 6"]]:
    """Rows by the velocities of the first and of the second body."""
    first = jnp.concatenate((-rows.of_first, -rows.linear), axis=2)
    return first, jnp.concatenate((rows.of_second, rows.linear), axis=2)


def _masses(bodies: FreeBodies) -> Float[Array, "b 6 6"]:
    """Mass matrices of all bodies, ones for the ground."""
    is_ground = bodies.mass == 0
    mass = 1 / jnp.where(is_ground, 1.0, bodies.mass)
    inertia = invert(jnp.where(is_ground[:, None, None], jnp.eye(3), bodies.inertia))
    zero = jnp.zeros_like(inertia)
    upper = jnp.concatenate((inertia, zero), axis=2)
    lower = jnp.concatenate((zero, mass[:, None, None] * jnp.eye(3)), axis=2)
    return jnp.concatenate((upper, lower), axis=1)


def _rows(function, *arrays):
    """One row of a loop, written out on single numbers."""
    return scan_rows(lambda _, carry, row: (carry, function(*row)), None, (), arrays)[1]


def _matmul(a: Array, b: Array) -> Array:
    return a @ b


def _multiply(a: Array, x: Array) -> Array:
    return a @ x


def _invert(a: Array) -> Array:
    return invert(a[None])[0]
