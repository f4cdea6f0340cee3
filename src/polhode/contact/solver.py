from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from polhode.linalg.dense import lu_factor, lu_solve


class ContactSolution(NamedTuple):
    impulses: Any
    residual: Any
    iterations: Any
    solved: Any
    mode: Any


def solve(p, guess, tolerance=1e-10):
    k, rows = guess.shape
    G = p.delassus
    act = p.active
    d3 = jnp.diagonal(G).reshape(k, rows)[:, :3].sum(1)
    r = jnp.where(act, 3 / jnp.where(d3 > 0, d3, 1.0), 1.0)[:, None]

    def F(P):
        u = (G @ P.reshape(-1) + p.velocity).reshape(k, rows)
        aN = P[:, 0] - r[:, 0] * u[:, 0]
        N = jnp.maximum(aN, 0.0)
        aT = P[:, 1:3] - r * u[:, 1:3]
        L = jnp.sqrt(jnp.sum(aT**2, 1) + 1e-300)
        lim = p.friction[:, 0] * N
        s = jnp.where(lim < L, lim / L, 1.0)
        out = jnp.concatenate(((P[:, 0] - N)[:, None], P[:, 1:3] - s[:, None] * aT), axis=1)
        return jnp.where(act[:, None], out, P)

    size = jnp.max(jnp.abs(jnp.where(act[:, None], r * p.velocity.reshape(k, rows), 0.0))) + 1e-300

    def body(loop):
        P, _, n = loop
        J = jax.jacfwd(F)(P).reshape(k * rows, k * rows)
        J = J + 1e-11 * jnp.eye(k * rows)
        f = F(P)
        lu = lu_factor(J)
        d = lu_solve(lu, f.reshape(-1))
        d = d + lu_solve(lu, f.reshape(-1) - (J @ d))
        P = P - d.reshape(k, rows)
        return P, jnp.max(jnp.abs(F(P))), n + 1

    first = jnp.where(act[:, None], guess, 0.0)
    P, res, n = jax.lax.while_loop(
        lambda l: (l[1] > 1e-13 * size) & (l[2] < 40), body, (first, jnp.max(jnp.abs(F(first))) + 1e-300, 0)
    )
    P = jnp.where(act[:, None], P, 0.0)
    return ContactSolution(P, res / size, n, res <= tolerance * size, n)
